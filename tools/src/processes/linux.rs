//! With `/proc`: whatever a call has started, wherever it went.

use std::io;

use rustix::process::{Pid, getpid, set_child_subreaper};

use super::hunt::Hunt;
use super::table::Process;

/// Makes this process the parent of orphans among its descendants, so that what a command leaves
/// behind stays in reach of [`end_descendants`].
///
/// # Errors
/// Those of `prctl(2)`; sandboxes may forbid it.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends every process of this user that belongs to a call of the store named `store`, the first part
/// of [`CALL`](super::CALL): those with the variable, what descends from them, and what shares a
/// process group or session with them that the call made. Never this process. Answers how many there
/// were, when all are gone. Blocks the thread, at worst for some seconds.
pub fn end_strays(store: &str) -> usize {
    if store.is_empty() {
        return 0;
    }
    let prefix = format!("{store}:");
    Hunt::of_calls(move |call| call.starts_with(&prefix)).end()
}

/// Ends everything that descends from this process; for its own end. Blocks the thread.
pub fn end_descendants() -> usize {
    Hunt::of_children().end()
}

/// Ends the call `call_env`, whose group `leader` leads. A call without a name has its group alone.
pub(super) fn end_call(leader: Pid, call_env: &str) {
    let call = call_env.to_owned();
    Hunt::of_calls(move |other| !call.is_empty() && other == call).and_group(leader).end();
}

/// Of this process; zeros if it belongs to none in this container.
pub(super) fn session_and_group() -> (i32, i32) {
    let own = Process::of(getpid().as_raw_nonzero().get());
    own.map_or((0, 0), |own| (own.session, own.group))
}
