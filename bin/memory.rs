//! A node that has many sessions gives their memory back when they rest.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Blocks of this many bytes go back to the system when they are freed. Left alone, glibc keeps to
/// itself all sizes that were ever freed, and every open store has tables of megabytes that are
/// empty but for a page or two: used a second time they are cleared, and so really take them up.
const THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Starts this program again, in this very process, with that setting, which is read only at a
/// start. Where it can not, the program goes on without.
pub(crate) fn give_back() {
    let (name, value) = THRESHOLD;
    if !cfg!(target_env = "gnu") || std::env::var_os(name).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let arguments = std::env::args_os().skip(1);
    let error = Command::new(program).args(arguments).env(name, value).exec();
    tracing::debug!("memory may stay where it was once needed: {error}");
}
