//! Linux: the evidence for [`Origin`](crate::Origin). A node that has started something, and everything that it has
//! started, has a resource limit that no other process has. Its children also have a mark in their environment.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::Pid;

use crate::limits;
use crate::table::{MarkKind, Process};

/// Whether this process belonged to a call before it took the limit.
static OF_CALL: OnceLock<bool> = OnceLock::new();

/// Gives this process, and everything that it starts from now on, a limit by which others recognise it. Returns the
/// limit.
pub(crate) fn mark_children() -> u64 {
    OF_CALL.get_or_init(|| belongs_to_call(own()));
    limits::next()
}

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Ancestors at most. A longer chain is doubtful.
const DEPTH: usize = 512;

/// How often the chain is read until two reads agree. Parents may end in between.
const READS: u32 = 8;

/// Programs that act for the user: processes that this node has started.
static TRUSTED: Mutex<Vec<Process>> = Mutex::new(Vec::new());

fn with_trusted<T>(look: impl FnOnce(&mut Vec<Process>) -> T) -> T {
    look(&mut TRUSTED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A child of this node, and its descendants, act for the user as long as this value lives.
#[derive(Debug)]
pub(crate) struct Trusted(Option<Process>);

impl Trusted {
    pub(crate) fn child(pid: Pid) -> Self {
        let process = Process::from_pid(pid.as_raw_nonzero().get());
        with_trusted(|trusted| trusted.extend(process));
        Self(process)
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        with_trusted(|trusted| trusted.retain(|other| Some(*other) != self.0));
    }
}

fn is_trusted(process: &Process) -> bool {
    with_trusted(|trusted| {
        trusted.iter().any(|known| known.pid == process.pid && known.start == process.start)
    })
}

/// Start time of a process, if it exists.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    Process::from_pid(pid).filter(|process| !process.ended).map(|process| process.start)
}

/// Whether the process `pid` belongs to a call. True if that cannot be told.
pub(crate) fn belongs_to_call(pid: i32) -> bool {
    if pid <= 0 {
        return true;
    }
    if let Some(of_call) = OF_CALL.get().filter(|_| pid == own()) {
        return *of_call;
    }
    let Some(mut chain) = ancestors(pid) else { return true };
    for _ in 0..READS {
        if is_of_call(&chain) {
            return true;
        }
        // a parent may have ended while the chain was read
        let Some(again) = ancestors(pid) else { return true };
        let key = |process: &Process| (process.pid, process.start);
        if chain.iter().map(key).eq(again.iter().map(key)) {
            return false;
        }
        chain = again;
    }
    true
}

/// The process and its ancestors. `None` if it does not exist, or the chain has no end.
fn ancestors(pid: i32) -> Option<Vec<Process>> {
    let mut chain = vec![Process::from_pid(pid)?];
    while let Some(parent) = chain.last().map(|process| process.parent).filter(|pid| *pid > 0) {
        // processes of other users may be hidden; calls run as this user
        let Some(parent) = Process::from_pid(parent) else { break };
        chain.push(parent);
        if chain.len() > DEPTH {
            return None;
        }
    }
    Some(chain)
}

/// Whether any member of the chain belongs to a call.
fn is_of_call(chain: &[Process]) -> bool {
    // the environment of a process whose first thread has ended is gone
    if chain.iter().any(|process| process.ended) {
        return true;
    }
    let own = own();
    let is_marked = |process: &Process| match process.mark_kind() {
        // the environment of a node, or of the user's SSH server, is read by root alone
        MarkKind::None | MarkKind::Unreadable if process.pid == own => {
            OF_CALL.get().is_some_and(|of_call| *of_call)
        }
        MarkKind::None | MarkKind::Unreadable => limits::has_one(process.pid),
        MarkKind::Call | MarkKind::Server => true,
    };
    let node = chain.iter().position(|process| process.pid == own).unwrap_or_default();
    if let Some((program, rest)) = chain.get(..node).and_then(<[Process]>::split_last)
        && is_trusted(program)
    {
        // the program's own mark is that of a server; this node may be part of a call
        let marks = rest.iter().chain([program]).map(Process::mark_kind);
        let above = chain.get(node..).unwrap_or_default();
        return marks.into_iter().any(|mark| mark == MarkKind::Call) || above.iter().any(is_marked);
    }
    let Some((process, parents)) = chain.split_first() else { return true };
    is_marked(process)
        || parents.iter().any(|it| is_marked(it) || it.pid == own)
        || leaders(chain).iter().any(is_marked)
}

/// Leaders of the chain's groups and sessions, which may have lost their place in it.
fn leaders(chain: &[Process]) -> Vec<Process> {
    let known: HashSet<i32> = chain.iter().map(|process| process.pid).collect();
    let leaders = chain.iter().flat_map(|process| [process.group, process.session]);
    let leaders: HashSet<i32> = leaders.filter(|leader| !known.contains(leader)).collect();
    leaders.into_iter().filter_map(Process::from_pid).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Signal, kill_process};

    use super::*;
    use crate::{CALL, Origin, PeerProcess};

    /// Ends with its test, as the process does that is judged.
    struct Running(Child, i32);

    impl Drop for Running {
        fn drop(&mut self) {
            let judged = Pid::from_raw(self.1).unwrap();
            // the child itself is there until it is waited for
            let _ = kill_process(judged, Signal::KILL);
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Starts a shell, which prints the PID to judge.
    fn start(script: &str, mark: Option<&str>) -> (Running, i32) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env_remove(CALL).envs(mark.map(|mark| (CALL, mark)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        (Running(child, pid), pid)
    }

    /// Judges by marks alone: every process that a test starts has this process as its parent.
    fn marked(pid: i32) -> bool {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut chain = ancestors(pid).unwrap();
        let at = chain.iter().position(|process| process.pid == own);
        chain.truncate(at.unwrap_or(chain.len()));
        is_of_call(&chain)
    }

    #[test]
    fn a_mark_counts_wherever_it_is_in_the_chain() {
        for (script, mark, expected) in [
            ("echo $$; exec sleep 100", None, false),
            ("echo $$; exec sleep 100", Some("s:S:1:1"), true),
            ("echo $$; exec sleep 100", Some(""), true),
            ("env -i sleep 100 & echo $!; wait", Some("s:S:1:1"), true),
            ("env -u LEFTFOLD_CALL setsid sleep 100 & echo $!; wait", Some("s:S:1:1"), true),
            ("bash -c 'ulimit -q 819199; env -i setsid sleep 100 & echo $!; wait'", None, true),
            ("bash -c 'ulimit -q 0; echo $$; exec env -i sleep 100'", None, true),
        ] {
            let (_running, pid) = start(script, mark);
            std::thread::sleep(std::time::Duration::from_millis(50));
            // another test may have limited this process
            let expected = expected || limits::has_one(own());
            assert_eq!(marked(pid), expected, "{script} {mark:?}");
        }
    }

    #[test]
    fn children_of_this_process_and_unknown_processes_are_calls() {
        let (running, pid) = start("echo $$; exec sleep 100", None);
        assert_eq!(Origin::for_process(pid), Origin::Call);
        let peer = PeerProcess::now(Some(pid));
        drop(running);
        assert_eq!(peer.origin(), Origin::Call);
        for pid in [0, -1, i32::MAX] {
            assert_eq!(Origin::for_process(pid), Origin::Call, "{pid}");
        }
        assert_eq!(PeerProcess::now(None).origin(), Origin::Call);
    }

    #[test]
    fn a_program_that_acts_for_the_user_is_no_call_as_long_as_it_is_known() {
        let script = "sleep 100 & echo $!; wait";
        let (running, grandchild) = start(script, Some("server:1:2:3:4"));
        assert_eq!(Origin::for_process(grandchild), Origin::Call);
        let trusted = Trusted::child(Pid::from_child(&running.0));
        // this process may be part of a call itself
        assert_eq!(Origin::for_process(grandchild), Origin::of_this_process());
        drop(trusted);
        assert_eq!(Origin::for_process(grandchild), Origin::Call);
        let (running, grandchild) = start(script, Some("store:S:1:1"));
        let _trusted = Trusted::child(Pid::from_child(&running.0));
        assert_eq!(Origin::for_process(grandchild), Origin::Call);
    }
}
