use serde::{Deserialize, Serialize};

use super::model::{Cost, Usage};
use super::turn::EndReason;
use crate::id::SessionId;

/// Sessions that a call starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subagent {
    Spawned {
        call: String,
        session: SessionId,
        agent: String,
        /// US dollars that its turn may cost, its own children included; `None`: there is no limit.
        #[serde(default)]
        max_cost: Option<Cost>,
    },
    /// `Ended` as logs have it that were written before it told of usage and cost. Its public name
    /// is the same, and what reads that name reads an `Ended`.
    #[serde(rename(serialize = "ended", deserialize = "ended_uncounted"))]
    EndedUncounted { session: SessionId, answer: String, reason: EndReason },
    Ended {
        session: SessionId,
        answer: String,
        reason: EndReason,
        /// Of the turn that was spawned, and of all that its own calls have spawned.
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        cost: Cost,
    },
}
