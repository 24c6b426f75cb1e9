use serde::{Deserialize, Serialize};

use crate::event::HookPoint;

/// A running plugin and its hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginSpec {
    pub name: String,
    pub hooks: Vec<HookPoint>,
    /// How long one answer may take, in milliseconds.
    pub timeout: u64,
}
