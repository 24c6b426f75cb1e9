//! The names by which executors know sessions and runs of calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use leftfold_events::SessionId;
use serde::{Deserialize, Serialize};

/// The right by which a node runs calls of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionOwner {
    /// The identity of the store.
    pub store: String,
    pub family: SessionId,
    /// Counts the owners of the family.
    pub epoch: u64,
    pub session: SessionId,
    /// Another text each time that the session's log is opened.
    pub opening: String,
}

impl SessionOwner {
    /// A text for [`SessionOwner::opening`] that no other opening of a log has.
    pub fn new_opening() -> String {
        static OPENINGS: AtomicU64 = AtomicU64::new(0);
        let number = OPENINGS.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        format!("{now}-{}-{number}", std::process::id())
    }
}

/// Names one run of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunKey {
    pub owner: SessionOwner,
    /// The seq of the intent that started it. Each attempt has an intent of its own.
    pub seq: u64,
}
