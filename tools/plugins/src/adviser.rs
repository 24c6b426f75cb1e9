//! A plugin that adds to settings, on behalf of whoever reads these.

use std::fmt;
use std::sync::Arc;

use leftfold_process::wait_for;
use serde_json::Value;

use super::plugin::Running;

/// A plugin with the hook `config`.
#[derive(Clone)]
pub struct Adviser {
    pub(super) place: String,
    pub(super) running: Arc<Running>,
}

impl fmt::Debug for Adviser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Adviser({})", self.name())
    }
}

impl Adviser {
    /// What it calls itself: no other in its project has that name.
    pub fn name(&self) -> &str {
        &self.running.handshake.name
    }

    /// Where settings name it, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What it adds to `settings`, in the form of settings. It is asked once for each time that it is
    /// started, and what it has said then stands; it has as long as settings say. Waits for that, which
    /// needs a runtime of several threads.
    ///
    /// # Errors
    /// Why there is no answer, in words for people.
    pub fn ask(&self, settings: Value) -> Result<Value, String> {
        let asked = wait_for(self.running.configure(settings));
        asked.unwrap_or_else(|| Err("it can not be asked from here".to_owned()))
    }
}
