//! Linux: limits of this process and of the processes that it starts. One of them also tells whose a
//! process is.

use std::fs;
use std::sync::{Mutex, PoisonError};

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getrlimit, getuid, prlimit, set_dumpable_behavior,
    setrlimit,
};

/// Bytes of POSIX message queues that children of a node may use, at most: one less than the kernel's default. A
/// process cannot raise this limit again, hands it on to its children, and everybody can read it, so the limit still
/// tells whose a process is when its environment is empty and its parents have ended. Root can raise it. The node
/// takes the limit itself before it starts anything, because a child could fork before it gets one. It lowers the
/// limit by one for each child, so that the limit also tells which child a process comes from.
const CHILD_QUEUES: u64 = 819_199;

/// Bytes of one file that a command may write.
const FILE_SIZE: u64 = 16 << 30;

/// Processes and threads that the user may have while a command starts another. Root has no such limit.
const PROCESSES: u64 = 16_384;

/// Added to a command's badness when memory runs out, of 1,000: the kernel ends commands before the node.
const OOM_SCORE: &str = "500";

/// Keeps other processes of this user from reading the memory and the environment of this process, where the keys of
/// providers are, and from tracing it. Children are not affected once they execute a program. Also forbids core dumps
/// of this process and its children.
pub fn hide_memory() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("other processes of this user can read this one's memory: {error}");
    }
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        tracing::warn!("commands can dump core: {error}");
    }
}

/// Lowers the limit of this process by one and returns it. Processes that are started until the next call have it.
pub(crate) fn next() -> u64 {
    static LAST: Mutex<Option<u64>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Msgqueue);
    let number = match *last {
        Some(last) => last.saturating_sub(1),
        None => limit.maximum.map_or(CHILD_QUEUES, |own| own.saturating_sub(1).min(CHILD_QUEUES)),
    };
    let current = Some(limit.current.map_or(number, |own| own.min(number)));
    if let Err(error) = setrlimit(Resource::Msgqueue, Rlimit { current, maximum: Some(number) }) {
        tracing::warn!("commands that clear their environment cannot be recognised: {error}");
    }
    *last = Some(number);
    number
}

/// The limit of a process. `None` if it cannot be read: the process has another user, or has ended.
pub(crate) fn for_process(pid: i32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let of_queues = limits.lines().find_map(|line| line.strip_prefix("Max msgqueue size"))?;
    of_queues.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process has the limit of a node's child or a lower one.
pub(crate) fn has_one(pid: i32) -> bool {
    for_process(pid).is_some_and(|limit| limit <= CHILD_QUEUES)
}

/// Limits what a command that has just started can use of the machine.
pub(crate) fn confine(child: Pid) {
    let limit = |resource, most: u64| {
        let set = |own: Option<u64>| Some(own.map_or(most, |own| own.min(most)));
        let own = getrlimit(resource);
        // a command that has ended needs no limit
        let _ = prlimit(
            Some(child),
            resource,
            Rlimit { current: set(own.current), maximum: set(own.maximum) },
        );
    };
    limit(Resource::Fsize, FILE_SIZE);
    if !getuid().is_root() {
        limit(Resource::Nproc, PROCESSES);
    }
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.as_raw_nonzero()), OOM_SCORE);
}
