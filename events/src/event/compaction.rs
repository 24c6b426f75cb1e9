use serde::{Deserialize, Serialize};

use crate::id::Seq;

/// Making room in the model's context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// Everything up to and with `through` is to be replaced by a summary.
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
    /// Somebody wants a summary now: in the turn under way, or in one of its own.
    Asked {
        by: String,
    },
}
