use serde::{Deserialize, Serialize};

use crate::rules::{Action, Rule};

/// Whether a call may run. `call` is the model's call id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The verdict on the whole call: the strictest verdict on its accesses, with the deciding
    /// rule.
    Ruled { call: String, action: Action, rule: Option<Rule> },
    /// Ask a person about one access.
    Asked { call: String, permission: String, patterns: Vec<String>, always: Vec<String> },
    Answered {
        reply: Answer,
        feedback: Option<String>,
        /// The client that answered, and its machine.
        by: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Once,
    Always,
    Reject,
}
