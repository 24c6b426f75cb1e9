use serde::{Deserialize, Serialize};

use super::turn::EndReason;
use crate::SessionId;

/// Sessions that a call starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subagent {
    Spawned { call: String, session: SessionId, agent: String },
    Ended { session: SessionId, answer: String, reason: EndReason },
}
