//! The allocator of static programs, and how a node with glibc returns the memory of resting sessions to the system.

use std::os::unix::process::CommandExt;
use std::process::Command;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// glibc returns blocks of at least this many bytes to the system when they are freed. By default
/// glibc keeps freed blocks of every size that it has seen. Each open store has tables of several
/// megabytes that are almost empty; from kept blocks they would be cleared, and so take up real
/// memory.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Restarts this program in this process, under its name, with that variable set, because glibc reads
/// it only at the start. If that fails, the program continues without it. A program that was started
/// with sockets (`LISTEN_FDS`) is not restarted: they are closed when another program begins.
pub(crate) fn give_back() {
    let (name, value) = THRESHOLD;
    if !cfg!(target_env = "gnu") || std::env::var_os(name).is_some() {
        return;
    }
    if std::env::var_os("LISTEN_FDS").is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_else(|| program.clone().into());
    let error = Command::new(program).arg0(called).args(arguments).env(name, value).exec();
    tracing::debug!(
        "the node keeps memory that it could return: restart with {name} failed: {error}"
    );
}
