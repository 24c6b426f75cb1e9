use serde::{Deserialize, Serialize};

use crate::id::Seq;

events! {
    /// Making room in the model's context.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Compaction {
        /// A summary is to replace everything up to and including `through`.
        intent Started { through: Seq, auto: bool },
        fact Finished { summary: String } texts [summary],
        fact Failed { message: String } texts [message],
        /// The output of these calls (seqs of `tool.called`) is no longer sent.
        intent Pruned { calls: Vec<Seq> },
        /// A person wants a summary now: within the current turn, or in a turn of its own.
        fact Asked { by: String },
        /// A person wants a summary now, and gives instructions for it. In JSON this event has the name of `Asked`, and the
        /// field `instructions` besides.
        #[serde(rename(serialize = "asked", deserialize = "asked_with"))]
        fact AskedWith { by: String, instructions: String } texts [instructions],
    }
}

impl Compaction {
    /// The wish of `by` for a summary. Blank instructions count as none.
    pub fn asked(by: &str, instructions: Option<&str>) -> Self {
        let by = by.to_owned();
        match instructions.map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => Self::AskedWith { by, instructions: text.to_owned() },
            None => Self::Asked { by },
        }
    }
}
