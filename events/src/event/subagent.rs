use serde::{Deserialize, Serialize};

use super::model::{Cost, Usage};
use super::turn::EndReason;
use crate::id::SessionId;

events! {
    /// Sessions that a call starts.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Subagent {
        intent Spawned {
            call: String,
            session: SessionId,
            agent: String,
            /// US dollars that its turn may cost, its own children included; `None`: there is no limit.
            #[serde(default)]
            max_cost: Option<Cost>,
        },
        /// The form of `Ended` in logs that were written before it contained usage and cost. Its public
        /// name is that of `Ended`, and reading that name gives an `Ended`.
        #[serde(rename(serialize = "ended", deserialize = "ended_uncounted"))]
        fact EndedUncounted { session: SessionId, answer: String, reason: EndReason } texts [answer],
        fact Ended {
            session: SessionId,
            answer: String,
            reason: EndReason,
            /// Of the spawned turn, and of all sessions that its own calls have spawned.
            #[serde(default)]
            usage: Usage,
            #[serde(default)]
            cost: Cost,
        } texts [answer],
    }
}
