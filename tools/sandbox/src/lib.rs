//! The sandbox of commands: confines one command by a [`Profile`].
//!
//! [`command`] returns a command that starts this program again as the **helper**. The helper makes
//! namespaces and starts **init** in them, which sets up the mounts, confines itself with Landlock
//! and seccomp, starts the command and reaps its processes. With [`Backend::Bwrap`] the program
//! `bwrap` makes namespaces and mounts between the two. With [`Backend::Landlock`] the helper does
//! the work of init itself.
//!
//! ```text
//! node ─ Channel ─► helper ─ the same lines ─► init (PID 1) ─► command
//! ```
//!
//! | module | what it holds |
//! | --- | --- |
//! | `profile` | What a command may write, read and reach: absolute paths |
//! | `layout` | Pure: a profile and facts of the file system become steps of mounts and Landlock's rules |
//! | `json_path` | Paths in the lines of the channel |
//! | `channel`, `failure` | The lines between node and helper; a step that failed |
//! | `supervise` | Runs the confined command and reports its end |
//! | `init` | Linux: the first process in the sandbox; `confine` confines it and the command |
//! | `helper`, `namespaces`, `bwrap`, `landlock`, `filter` | Linux: the process that starts init, and what both set up |
//! | `probe` | Which backend works on this machine |
//! | `seatbelt` | macOS: the text of a profile for `sandbox-exec`, and the helper |
//!
//! This crate knows no log, no rules and no settings: it never decides what a command may do. It
//! never runs a command in a weaker way than the profile says.

mod channel;
mod facts;
mod failure;
mod json_path;
pub mod layout;
mod profile;
pub mod seatbelt;
mod supervise;

#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod namespaces;
mod probe;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub use channel::{Channel, Message, Ready, Report, command, command_with_input};
pub use failure::Failure;
pub use probe::{Probe, Rejected, probe};
pub use profile::{Backend, Limits, Profile};

/// The hidden subcommand of the program that becomes the helper.
pub const IN_SANDBOX: &str = "in-sandbox";

/// The running program: on Linux also if its file has been replaced.
pub fn own_program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        // an empty path cannot be started
        false => std::env::current_exe().unwrap_or_default(),
    });
    &PROGRAM
}

/// The roles, in the argument after [`IN_SANDBOX`].
pub(crate) const HELPER: &str = "helper";

/// Exit code of the helper and of init if the command could not be confined.
pub(crate) const NOT_CONFINED: u8 = 125;

/// Whether this program can become the helper. Starting any other program as one would run it again.
static HELPS: AtomicBool = AtomicBool::new(false);

/// Whether this program has called [`become_helper`], so that it can have a sandbox.
pub fn can_help() -> bool {
    HELPS.load(Ordering::Relaxed)
}

/// Becomes the helper or its init if the arguments of this process say so, and returns the exit
/// code: that of the command, 128 and the number of the signal that ended it, or 125 if it could
/// not be confined. `None` for every other process.
///
/// Call it first in `main`. A process with several threads cannot make namespaces, and every
/// command pays for what comes before.
pub fn become_helper() -> Option<ExitCode> {
    HELPS.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != IN_SANDBOX {
        return None;
    }
    let role = arguments.next().unwrap_or_default();
    let command: Vec<OsString> = arguments.collect();
    Some(run(&role.to_string_lossy(), &command))
}

#[cfg(target_os = "linux")]
fn run(role: &str, command: &[OsString]) -> ExitCode {
    match init::Ids::of_role(role) {
        Some(ids) => init::run(ids, command),
        None => helper::run(command),
    }
}

#[cfg(not(target_os = "linux"))]
fn run(_: &str, command: &[OsString]) -> ExitCode {
    seatbelt::run(command)
}
