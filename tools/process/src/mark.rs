//! The marks by which the processes of a call are found: variables in their environment, and the
//! leaders of the process groups that run now.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

/// Names the call that a process belongs to: `STORE:SESSION:SEQ:ATTEMPT`. A server belongs to its
/// node instead and has a [`server_mark`](crate::server_mark).
pub const CALL: &str = "LEFTFOLD_CALL";

/// Names session and group of the node that started the call, `SID:PGID`. They are the user's:
/// membership in them does not make a process part of the call.
pub const NODE: &str = "LEFTFOLD_NODE";

/// First part of the marks of servers. No store has this name.
pub(crate) const SERVER: &str = "server";

/// Time between SIGTERM and SIGKILL.
pub(crate) const TERM_GRACE: Duration = Duration::from_millis(200);

/// Leaders of groups that run for a call now, or are being ended. Another task collects their exit
/// status.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

pub(crate) fn with_live_leaders<T>(look: impl FnOnce(&mut Vec<Pid>) -> T) -> T {
    look(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}
