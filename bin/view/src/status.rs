//! The status of a session for clients: whether it works, and whether it waits for another attempt.
//! Everything that it says follows from events; it is no event itself.

use leftfold_events::Time;
use serde::Serialize;

use crate::session::{Retry, SessionView};

/// Whether a session works, waits for a retry or rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy { since: Time },
    /// A turn is running, and its failed model request is made again.
    Retry {
        since: Time,
        /// The number of the next attempt, at least 2.
        attempt: u32,
        /// Why the last attempt failed.
        message: String,
        /// When the next attempt begins.
        next: Time,
    },
}

impl SessionView {
    /// The status after the last event applied.
    pub fn status(&self) -> Status {
        match (self.turn.as_ref().map(|turn| turn.at), &self.retry) {
            (None, _) => Status::Idle,
            (Some(since), None) => Status::Busy { since },
            (Some(since), Some(Retry { attempt, until, error })) => {
                Status::Retry { since, attempt: *attempt, message: error.clone(), next: *until }
            }
        }
    }
}

/// The delay from `at` to `until`, in whole seconds: ` in 4 s`. Empty if there is none.
pub fn wait(until: Option<Time>, at: Time) -> String {
    let seconds = until.map(|until| until.since(at).div_ceil(1000)).filter(|seconds| *seconds > 0);
    seconds.map(|seconds| format!(" in {seconds} s")).unwrap_or_default()
}
