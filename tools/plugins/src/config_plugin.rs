//! A plugin with the hook `config`, which adds to the settings while they are read.

use std::fmt;
use std::sync::Arc;

use leftfold_process::wait_for;
use serde_json::Value;

use super::plugin::Running;

/// A plugin with the hook `config`.
#[derive(Clone)]
pub struct ConfigPlugin {
    pub(super) place: String,
    pub(super) running: Arc<Running>,
}

impl fmt::Debug for ConfigPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigPlugin({})", self.name())
    }
}

impl ConfigPlugin {
    /// The plugin's own name, unique in its project.
    pub fn name(&self) -> &str {
        &self.running.handshake.name
    }

    /// The place in the settings that names the plugin, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Asks the plugin which settings it adds to `settings`. A plugin is asked once per start; its
    /// answer is kept until it starts again. Waits for the answer, at most as long as the plugin's
    /// limit in the settings. Needs a multi-threaded runtime.
    ///
    /// # Errors
    /// The reason why there is no answer, in words for people.
    pub fn ask(&self, settings: Value) -> Result<Value, String> {
        let asked = wait_for(self.running.configure(settings));
        asked.unwrap_or_else(|| {
            Err("it cannot be asked outside a multi-threaded runtime".to_owned())
        })
    }
}
