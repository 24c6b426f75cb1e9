//! The marks by which the processes of a call are found: variables in their environment, and the
//! processes that run now.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

/// Names the call that a process belongs to: `STORE:SESSION:SEQ:ATTEMPT`, and in a store of many nodes
/// `STORE:FAMILY:EPOCH:SESSION:SEQ:ATTEMPT`. A server belongs to its
/// node instead and has a [`server_mark`](crate::server_mark).
pub const CALL: &str = "LEFTFOLD_CALL";

/// Names session and group of the node that started the call, `SID:PGID`. They are the user's:
/// membership in them does not make a process part of the call.
pub const NODE: &str = "LEFTFOLD_NODE";

/// First part of the marks of servers. No store has this name.
pub(crate) const SERVER: &str = "server";

/// Time between SIGTERM and SIGKILL.
pub(crate) const TERM_GRACE: Duration = Duration::from_millis(200);

/// A process that this one has started for a call or as a server. Another task collects its exit status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) leader: Pid,
    /// The number by which the processes that it leaves behind are recognised. 0: it has none of its own.
    pub(crate) number: u64,
}

/// The processes that run now, or are being ended.
static LIVE: Mutex<Vec<Live>> = Mutex::new(Vec::new());

pub(crate) fn with_live<T>(look: impl FnOnce(&mut Vec<Live>) -> T) -> T {
    look(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}
