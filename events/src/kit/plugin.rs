use serde::{Deserialize, Serialize};

use crate::event::Hook;

/// A plugin that runs, and what it wants to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSpec {
    pub name: String,
    pub hooks: Vec<Hook>,
    /// How long one answer may take, in milliseconds.
    pub timeout: u64,
}
