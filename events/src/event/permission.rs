use serde::{Deserialize, Serialize};

use crate::id::Seq;
use crate::rules::{Action, Rule};

events! {
    /// Whether a call may run. `call` is the model's call id.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Permission {
        /// The verdict on the whole call: the strictest verdict on its accesses, with the deciding
        /// rule.
        intent Ruled { call: String, action: Action, rule: Option<Rule> } texts [rule],
        /// Ask a person about one access.
        intent Asked {
            call: String,
            permission: String,
            patterns: Vec<String>,
            always: Vec<String>,
        } texts [patterns, always],
        fact Answered {
            reply: Answer,
            feedback: Option<String>,
            /// The client that answered, and its machine.
            by: String,
        } texts [feedback],
        /// Close the question `of`, because a person rejected another call of the reply with words. Its
        /// public name is that of `Answered`; its field `with` tells the two apart.
        #[serde(rename(serialize = "answered", deserialize = "rejected_with"))]
        intent RejectedWith {
            reply: Answer,
            feedback: Option<String>,
            by: String,
            /// The seq of the `permission.answered` that rejected the other call.
            with: Seq,
        } texts [feedback],
        /// An "always" for other patterns than the question offers. Its public name is that of `Answered`; its
        /// field `always` tells the two apart.
        #[serde(rename(serialize = "answered", deserialize = "answered_for"))]
        fact AnsweredFor {
            reply: Answer,
            feedback: Option<String>,
            by: String,
            /// The patterns that are allowed from now on.
            always: Vec<String>,
        } texts [feedback, always],
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Once,
    Always,
    Reject,
}
