//! The kernel's table of processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal,
};

use super::mark::{CALL, NODE};

/// A process as `/proc/PID/stat` has it. Pid and start time together name it for ever; the pid alone
/// may come to name another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks since boot.
    pub(crate) start: u64,
    /// Has ended, and waits for its parent to take note.
    pub(crate) ended: bool,
}

/// The ancestor of the kernel's own threads, which have no environment.
const KERNEL_THREADS: i32 = 2;
/// How often an environment that seems to be empty is looked at again.
const EXECUTING: u32 = 3;

/// What its environment says of a process.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) call: String,
    /// Session and group of the node.
    pub(crate) node: Option<(i32, i32)>,
}

impl Process {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it still runs, and is no other process by now.
    pub(crate) fn runs(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start == self.start && !now.ended)
    }

    /// `None` without [`CALL`], or where the environment may not be read.
    pub(crate) fn marks(&self) -> Option<Marks> {
        let environment = self.environment()?;
        let value = |name: &str| {
            environment.split(|byte| *byte == 0).find_map(|variable| {
                let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                String::from_utf8(value.to_vec()).ok()
            })
        };
        let node = || {
            let node = value(NODE)?;
            let (session, group) = node.split_once(':')?;
            Some((session.parse().ok()?, group.parse().ok()?))
        };
        Some(Marks { call: value(CALL)?, node: node() })
    }

    /// Empty for a process that has none. One that is just turning into another program seems to
    /// have none either, so it is given a moment.
    fn environment(&self) -> Option<Vec<u8>> {
        let read = || fs::read(format!("/proc/{}/environ", self.pid)).ok();
        let of_kernel = self.pid == KERNEL_THREADS || self.parent == KERNEL_THREADS;
        for _ in 0..EXECUTING {
            let environment = read()?;
            if !environment.is_empty() || self.ended || of_kernel {
                return Some(environment);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        read()
    }

    /// Sends a signal, unless the process has ended meanwhile. A descriptor of the process is taken
    /// first and its identity checked then, so that no other process with its pid can be hit.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let descriptor = pidfd_open(pid, PidfdFlags::empty());
        if !self.runs() {
            return;
        }
        // a process that has just ended needs no signal
        let _ = match descriptor {
            Ok(descriptor) => pidfd_send_signal(&descriptor, signal),
            Err(Errno::SRCH) => Ok(()),
            Err(_) => kill_process(pid, signal),
        };
    }
}

/// All processes of this user.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let user = geteuid().as_raw();
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((pid(&entry.file_name())?, entry)))
        .filter(|(_, entry)| entry.metadata().is_ok_and(|found| found.uid() == user))
        .filter_map(|(pid, _)| Process::of(pid))
        .collect()
}

fn pid(name: &OsStr) -> Option<i32> {
    name.to_str()?.parse().ok()
}

/// The name of the program is in parentheses and may contain anything, so fields are counted from
/// the last one.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(Process {
        pid,
        ended: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_an_odd_name() {
        let line = "42 (a) b (c)) S 1 40 39 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 0 0\n";
        let process = parse(42, line).unwrap();
        assert_eq!(
            process,
            Process { pid: 42, parent: 1, group: 40, session: 39, start: 9876, ended: false }
        );
        assert_eq!(parse(1, "1 (init"), None);
        assert_eq!(parse(1, "1 (init) S 1 2"), None);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let found = all().into_iter().find(|process| process.pid == me).unwrap();
        assert!(found.runs());
        assert!(!Process { start: found.start + 1, ..found }.runs());
    }
}
