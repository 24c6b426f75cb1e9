//! With `/proc`: whatever a call has started, wherever it went.

use std::io;

use rustix::process::{Pid, getpid, set_child_subreaper};

use super::hunt::Hunt;
use super::mark::SERVER;
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

/// Ends every server (and all it has started) whose node has ended without ending it. Answers how many
/// processes there were, when all are gone. Blocks the thread.
pub fn end_orphans() -> usize {
    let here = namespace();
    Hunt::of_calls(move |mark| is_orphan(mark, &here)).end()
}

fn is_orphan(mark: &str, here: &str) -> bool {
    let parts: Vec<&str> = mark.split(':').collect();
    let [SERVER, namespace, pid, start, _] = parts[..] else { return false };
    // elsewhere the number means another process
    let (true, Ok(pid), Ok(start)) = (namespace == here, pid.parse::<i32>(), start.parse::<u64>())
    else {
        return false;
    };
    !Process::of(pid).is_some_and(|node| node.start == start && !node.ended)
}

/// `NAMESPACE:PID:START`.
pub(crate) fn this_process() -> String {
    let pid = getpid().as_raw_nonzero().get();
    let start = Process::of(pid).map_or(0, |own| own.start);
    format!("{}:{pid}:{start}", namespace())
}

/// The number of the namespace in which processes are counted.
fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// Ends everything that descends from this process; for its own end. Blocks the thread.
pub fn end_descendants() -> usize {
    Hunt::of_children().end()
}

/// Ends the call `call_env`, whose group `leader` leads. A call without a name has its group alone.
pub(crate) fn end_call(leader: Pid, call_env: &str) {
    let call = call_env.to_owned();
    Hunt::of_calls(move |other| !call.is_empty() && other == call).and_group(leader).end();
}

/// Ends the call `call_env`, none of which this process has started. A call without a name has nothing
/// that it could be known by.
pub(crate) fn end_marked(call_env: &str) {
    let call = call_env.to_owned();
    Hunt::of_calls(move |other| !call.is_empty() && other == call).end();
}

/// Of this process; zeros if it belongs to none in this container.
pub(crate) fn session_and_group() -> (i32, i32) {
    let own = Process::of(getpid().as_raw_nonzero().get());
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
