//! How the processes of a call are known: by marks in their environment, and by the leaders of the groups
//! that run right now.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;

/// Names the call that a process belongs to: `STORE:SESSION:SEQ:ATTEMPT`. One that serves many
/// calls belongs to its node instead: see [`server_mark`](crate::server_mark).
pub const CALL: &str = "LEFTFOLD_CALL";

/// Names session and group of the node that started the call, `SID:PGID`: they are the user's, and
/// a process that is still in them does not make them the call's.
pub const NODE: &str = "LEFTFOLD_NODE";

/// How the marks of servers begin. No store has such a name.
pub(crate) const SERVER: &str = "server";

/// How long a process has for an orderly end after SIGTERM.
pub(crate) const MERCY: Duration = Duration::from_millis(200);

/// Leaders of groups that run for a call right now, or are being ended. Their exit status is waited
/// for elsewhere.
static LIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

pub(crate) fn live<T>(look: impl FnOnce(&mut Vec<Pid>) -> T) -> T {
    look(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}
