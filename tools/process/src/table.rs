//! The kernel's process table.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, kill_process, pidfd_open, pidfd_send_signal,
};

use super::mark::{CALL, NODE, SERVER};

/// A process as `/proc/PID/stat` describes it. PID and start time together identify a process for
/// ever; a PID alone may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks since boot.
    pub(crate) start: u64,
    /// The process has ended and its parent has not collected its status.
    pub(crate) ended: bool,
}

/// The ancestor of the kernel's own threads, which have no environment.
const KERNEL_THREADS: i32 = 2;
/// How often an environment that seems empty is read again.
const EXECUTING: u32 = 3;

/// The kind of [`CALL`] that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    None,
    Call,
    Server,
    Unreadable,
}

/// The marks in a process's environment.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) call: String,
    /// Session and group of the node.
    pub(crate) node: Option<(i32, i32)>,
}

impl Process {
    pub(crate) fn from_pid(pid: i32) -> Option<Self> {
        parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether this very process still runs, not another with its PID.
    pub(crate) fn runs(&self) -> bool {
        Self::from_pid(self.pid).is_some_and(|now| now.start == self.start && !now.ended)
    }

    /// `None` if [`CALL`] is not set or the environment cannot be read.
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

    /// The kind of mark in its environment.
    pub(crate) fn mark_kind(&self) -> MarkKind {
        let Some(environment) = self.environment() else { return MarkKind::Unreadable };
        let mark = environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(CALL.as_bytes())?.strip_prefix(b"="));
        let is_server = |mark: &[u8]| {
            mark.strip_prefix(SERVER.as_bytes()).is_some_and(|rest| rest.starts_with(b":"))
        };
        match mark {
            None => MarkKind::None,
            Some(mark) if is_server(mark) => MarkKind::Server,
            Some(_) => MarkKind::Call,
        }
    }

    /// The environment. Empty if the process has none. During `exec` a process also seems to have
    /// none, so the read is repeated a few times.
    fn environment(&self) -> Option<Vec<u8>> {
        if u32::try_from(self.pid).is_ok_and(|pid| pid == std::process::id()) {
            // its own file is closed to a process with hidden memory
            let variables = std::env::vars_os().map(|(name, value)| {
                [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat()
            });
            return Some(variables.collect::<Vec<_>>().concat());
        }
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

    /// Sends a signal, unless the process has ended. Opens a descriptor of the process and then
    /// checks its identity, so that no other process with its PID can be hit.
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
        .filter_map(|(pid, _)| Process::from_pid(pid))
        .collect()
}

fn pid(name: &OsStr) -> Option<i32> {
    name.to_str()?.parse().ok()
}

/// Parses a line of `/proc/PID/stat`. The program's name is in parentheses and may contain any
/// character, so the fields are counted from the last parenthesis.
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
