//! A plugin that receives every event of the observed sessions.

use std::sync::Arc;

use super::link::Link;

/// A plugin with the hook `event`.
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

    /// Sends it an event as a line of JSON. Waits while its queue is full. Returns false if it no
    /// longer reads.
    pub async fn send(&self, event: &str) -> bool {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"event","params":{event}}}"#);
        self.link.send(&line).await
    }

    /// The reason why it no longer receives events.
    pub fn why(&self) -> String {
        self.link.why()
    }
}
