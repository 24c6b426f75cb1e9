use serde::{Deserialize, Serialize};

use crate::event::HookPoint;

/// A plugin that runs, and what it wants to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSpec {
    pub name: String,
    pub hooks: Vec<HookPoint>,
    /// How long one answer may take, in milliseconds.
    pub timeout: u64,
}
