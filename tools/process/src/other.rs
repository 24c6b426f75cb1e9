//! Other systems than Linux: only process groups can be ended.

use std::io;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgrp, getsid, kill_process_group, setrlimit,
};

use super::mark::{CALL, TERM_GRACE};

/// Does nothing: only Linux lets a process adopt orphans.
pub fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Finds nothing: the environments of other processes cannot be read.
pub fn end_strays(_store: &str) -> usize {
    0
}

/// Finds nothing: the environments of other processes cannot be read.
pub fn end_earlier(_family: &str, _epoch: u64) -> usize {
    0
}

/// Finds nothing: the environments of other processes cannot be read.
pub fn end_orphans() -> usize {
    0
}

/// Forbids core dumps of this process and its children. Memory cannot be hidden here.
pub fn hide_memory() {
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        tracing::warn!("commands can dump core: {error}");
    }
}

/// Returns the number of a child. Nobody could read a limit.
pub(crate) fn mark_children() -> u64 {
    0
}

/// Does nothing: only Linux limits another process.
pub(crate) fn confine(_child: Pid) {}

/// Every process passes for a person's, so there is nothing to remember.
#[derive(Debug)]
pub(crate) struct Trusted;

impl Trusted {
    pub(crate) fn child(_pid: Pid) -> Self {
        Self
    }
}

/// Nothing identifies a process but its PID.
pub(crate) fn start_of(_pid: i32) -> Option<u64> {
    Some(0)
}

/// A process that cannot see its parents' environments knows only its own mark, and nothing of
/// other processes.
pub(crate) fn belongs_to_call(pid: i32) -> bool {
    let own = u32::try_from(pid).is_ok_and(|pid| pid == std::process::id());
    own && std::env::var_os(CALL).is_some()
}

pub(crate) fn this_process() -> String {
    format!("0:{}:0", std::process::id())
}

/// Finds nothing: orphans are not adopted.
pub fn end_descendants() -> usize {
    0
}

pub(crate) fn end_call(leader: Pid, _call_env: &str) {
    if kill_process_group(leader, Signal::TERM).is_ok() {
        std::thread::sleep(TERM_GRACE);
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

/// Finds nothing: the environments of other processes cannot be read.
pub(crate) fn end_marked(_call_env: &str) {}

/// Session and group of this process.
pub(crate) fn session_and_group() -> (i32, i32) {
    let raw = |pid: Pid| pid.as_raw_nonzero().get();
    (getsid(None).map_or(0, raw), raw(getpgrp()))
}
