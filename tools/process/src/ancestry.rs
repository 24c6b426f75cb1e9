//! Linux: the evidence for [`Origin`]. A node is recognised by a file in memory that it holds open
//! as long as it runs; no child inherits it, and no other process can take it away.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::origin::Origin;
use crate::table::Process;

/// Name of the file that a node holds open.
const NODE_FILE: &str = "leftfold-node";

/// Ancestors at most. A longer chain is doubtful.
const DEPTH: usize = 512;

/// How often the chain is read until two reads agree. Parents may end in between.
const READS: u32 = 8;

/// Makes this process recognisable as a node to other processes, until it ends.
pub(crate) fn mark_as_node() {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    FILE.get_or_init(|| match memfd_create(NODE_FILE, MemfdFlags::CLOEXEC) {
        Ok(file) => Some(file),
        Err(error) => {
            tracing::warn!("commands of this process may pass for a person's: {error}");
            None
        }
    });
}

/// Start time of a process, if it exists.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    Process::of(pid).filter(|process| !process.ended).map(|process| process.start)
}

/// The origin of the process `pid`.
pub(crate) fn origin(pid: i32) -> Origin {
    if pid <= 0 {
        return Origin::Call;
    }
    let Some(mut chain) = ancestors(pid) else { return Origin::Call };
    for _ in 0..READS {
        if is_of_call(&chain) {
            return Origin::Call;
        }
        // a parent may have ended while the chain was read
        let Some(again) = ancestors(pid) else { return Origin::Call };
        let key = |process: &Process| (process.pid, process.start);
        if chain.iter().map(key).eq(again.iter().map(key)) {
            return Origin::Person;
        }
        chain = again;
    }
    Origin::Call
}

/// The process and its ancestors. `None` if it does not exist, or the chain has no end.
fn ancestors(pid: i32) -> Option<Vec<Process>> {
    let mut chain = vec![Process::of(pid)?];
    while let Some(parent) = chain.last().map(|process| process.parent).filter(|pid| *pid > 0) {
        // processes of other users may be hidden; calls run as this user
        let Some(parent) = Process::of(parent) else { break };
        chain.push(parent);
        if chain.len() > DEPTH {
            return None;
        }
    }
    Some(chain)
}

/// Whether any member of the chain belongs to a call, or a parent is a node.
fn is_of_call(chain: &[Process]) -> bool {
    let Some((process, parents)) = chain.split_first() else { return true };
    // the environment of a process whose first thread has ended is gone
    if chain.iter().any(|process| process.ended) || process.is_marked() != Some(false) {
        return true;
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let belongs = |parent: &Process| {
        parent.is_marked() == Some(true) || parent.pid == own || is_node(parent.pid)
    };
    parents.iter().any(belongs) || leaders(chain).iter().any(|leader| leader.is_marked() == Some(true))
}

/// Leaders of the chain's groups and sessions, which may have lost their place in it.
fn leaders(chain: &[Process]) -> Vec<Process> {
    let known: HashSet<i32> = chain.iter().map(|process| process.pid).collect();
    let leaders = chain.iter().flat_map(|process| [process.group, process.session]);
    let leaders: HashSet<i32> = leaders.filter(|leader| !known.contains(leader)).collect();
    leaders.into_iter().filter_map(Process::of).collect()
}

/// Whether the process holds the file of a node open.
fn is_node(pid: i32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let file = format!("/memfd:{NODE_FILE} (deleted)");
    files.filter_map(Result::ok).any(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(&file))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::{CALL, PeerProcess};

    /// Ends with its test.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
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
        (Running(child), line.trim().parse().unwrap())
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
        ] {
            let (_running, pid) = start(script, mark);
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(marked(pid), expected, "{script} {mark:?}");
        }
    }

    #[test]
    fn children_of_this_process_and_unknown_processes_are_calls() {
        let (running, pid) = start("echo $$; exec sleep 100", None);
        assert_eq!(Origin::of(pid), Origin::Call);
        let peer = PeerProcess::now(Some(pid));
        drop(running);
        assert_eq!(peer.origin(), Origin::Call);
        for pid in [0, -1, i32::MAX] {
            assert_eq!(Origin::of(pid), Origin::Call, "{pid}");
        }
        assert_eq!(PeerProcess::now(None).origin(), Origin::Call);
    }

    #[test]
    fn a_node_is_recognised_from_outside() {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        mark_as_node();
        assert!(is_node(own));
        let (_running, pid) = start("echo $$; exec sleep 100", None);
        assert!(!is_node(pid));
    }
}
