use serde::{Deserialize, Serialize};

use crate::id::Seq;

/// Making room in the model's context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// A summary is to replace everything up to and including `through`.
    Started {
        through: Seq,
        auto: bool,
    },
    Finished {
        summary: String,
    },
    Failed {
        message: String,
    },
    /// The output of these calls (seqs of `tool.called`) is no longer sent.
    Pruned {
        calls: Vec<Seq>,
    },
    /// A person wants a summary now: within the current turn, or in a turn of its own.
    Asked {
        by: String,
    },
}
