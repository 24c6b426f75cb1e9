//! A plugin that is told of every event, on behalf of whoever observes sessions.

use std::sync::Arc;

use super::link::Link;

/// A plugin that is told of events.
#[derive(Clone)]
pub struct Watcher {
    pub(super) name: String,
    pub(super) link: Arc<Link>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({})", self.name)
    }
}

impl Watcher {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells it of an event, given as its line. Waits while the plugin has much to read; false if it
    /// does not read any more.
    pub async fn tell(&self, event: &str) -> bool {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"event","params":{event}}}"#);
        self.link.send(line).await
    }

    /// Why it is not told anything any more.
    pub fn why(&self) -> String {
        self.link.why()
    }
}
