//! Linux: finds every process that a call has started through `/proc`.

use std::io;

use rustix::process::{Pid, getpid, set_child_subreaper};

pub(crate) use super::ancestry::{Trusted, belongs_to_call, mark_children, start_of};
pub(crate) use super::limits::confine;
pub use super::limits::hide_memory;
use super::mark::SERVER;
use super::process_search::ProcessSearch;
use super::table::Process;

/// Makes this process the parent of orphans among its descendants, so that [`end_descendants`] also
/// finds processes that a command has left running.
///
/// # Errors
/// Errors of `prctl(2)`; a sandbox may forbid it.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends every process of this user that belongs to a call of the store named `store` (the first
/// part of [`CALL`](super::CALL)): processes with the variable, their descendants, and processes in
/// groups and sessions that the call has made. Never ends this process. Returns how many processes
/// there were when all are gone. Blocks the thread, at worst for some seconds.
pub fn end_strays(store: &str) -> usize {
    if store.is_empty() {
        return 0;
    }
    let prefix = format!("{store}:");
    ProcessSearch::of_calls(move |call| call.starts_with(&prefix)).end()
}

/// Ends every process of this user that belongs to a call of an earlier owner of a family of sessions: those whose mark
/// is `FAMILY:EPOCH:…` with a lower epoch. Never ends this process. Returns how many there were when all are gone.
/// Blocks the thread.
pub fn end_earlier(family: &str, epoch: u64) -> usize {
    let prefix = format!("{family}:");
    let is_earlier = move |call: &str| {
        let rest = call.strip_prefix(&prefix).and_then(|rest| rest.split_once(':'));
        rest.is_some_and(|(of, _)| of.parse::<u64>().is_ok_and(|of| of < epoch))
    };
    ProcessSearch::of_calls(is_earlier).end()
}

/// Ends every server, with all processes it has started, whose node ended without ending it.
/// Returns how many processes there were when all are gone. Blocks the thread.
pub fn end_orphans() -> usize {
    let here = namespace();
    ProcessSearch::of_calls(move |mark| is_orphan(mark, &here)).end()
}

fn is_orphan(mark: &str, here: &str) -> bool {
    let parts: Vec<&str> = mark.split(':').collect();
    let [SERVER, namespace, pid, start, _] = parts[..] else { return false };
    // in another namespace the number means another process
    let (true, Ok(pid), Ok(start)) = (namespace == here, pid.parse::<i32>(), start.parse::<u64>())
    else {
        return false;
    };
    !Process::from_pid(pid).is_some_and(|node| node.start == start && !node.ended)
}

/// `NAMESPACE:PID:START`.
pub(crate) fn this_process() -> String {
    let pid = getpid().as_raw_nonzero().get();
    let start = Process::from_pid(pid).map_or(0, |own| own.start);
    format!("{}:{pid}:{start}", namespace())
}

/// The number of this process's PID namespace.
fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// Ends all descendants of this process, before it exits itself. Blocks the thread.
pub fn end_descendants() -> usize {
    ProcessSearch::of_children().end()
}

/// Ends the call `call_env`, whose group `leader` leads. For a call without a name only the group
/// is ended.
pub(crate) fn end_call(leader: Pid, call_env: &str) {
    let call = call_env.to_owned();
    ProcessSearch::of_calls(move |other| !call.is_empty() && other == call).and_group(leader).end();
}

/// Ends the call `call_env`, of which this process has started no process. A call without a name
/// cannot be found, so nothing happens.
pub(crate) fn end_marked(call_env: &str) {
    let call = call_env.to_owned();
    ProcessSearch::of_calls(move |other| !call.is_empty() && other == call).end();
}

/// Session and group of this process. Zeros if they belong to no process in this container.
pub(crate) fn session_and_group() -> (i32, i32) {
    let own = Process::from_pid(getpid().as_raw_nonzero().get());
    own.map_or((0, 0), |own| (own.session, own.group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_mark;

    #[test]
    fn a_server_is_an_orphan_when_its_own_node_has_ended() {
        let (here, own) = (namespace(), this_process());
        assert!(!is_orphan(&server_mark(), &here));
        assert_ne!(server_mark(), server_mark());
        let pid = own.split(':').nth(1).unwrap();
        for (mark, expected) in [
            // the number is another process by now
            (format!("{SERVER}:{here}:{pid}:1:0"), true),
            (format!("{SERVER}:{here}:{}:1:0", i32::MAX), true),
            (format!("{SERVER}:{here}1:{pid}:1:0"), false),
            (format!("{SERVER}:{here}:{pid}:1"), false),
            (format!("01ARZ3:{here}:{pid}:1:0"), false),
            (format!("{SERVER}:{here}:x:1:0"), false),
        ] {
            assert_eq!(is_orphan(&mark, &here), expected, "{mark}");
        }
    }
}
