use serde::{Deserialize, Serialize};

use crate::rules::{Action, Rule};

/// Whether a call may run. `call` is the model's call id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The verdict over the whole call: the worst of its accesses, with the rule that decided.
    Ruled { call: String, action: Action, rule: Option<Rule> },
    /// A person is asked about one access.
    Asked { call: String, permission: String, patterns: Vec<String>, always: Vec<String> },
    Answered {
        reply: Answer,
        feedback: Option<String>,
        /// Who answered, and where.
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
