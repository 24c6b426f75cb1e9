//! A step of the set-up that failed: its name in the kernel's words, its path and its error.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::json_path;

/// The step that finds a link where the caller has seen none.
pub(crate) const RESOLVE: &str = "resolve";

/// Holds 1 where AppArmor restricts user namespaces (Ubuntu 23.10 and newer).
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// A step that failed. The command has not been started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The system call or the object that it acts on, for example `mount proc`.
    pub step: String,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_path::option")]
    pub path: Option<PathBuf>,
    /// The error, in words.
    pub why: String,
    /// The number of the error, if the system returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

impl Failure {
    pub fn new(step: &str, why: impl fmt::Display) -> Self {
        Self { step: step.to_owned(), path: None, why: why.to_string(), errno: None }
    }

    pub fn of_system(step: &str, path: Option<&Path>, error: &io::Error) -> Self {
        let mut failure = Self::new(step, error);
        failure.path = path.map(Path::to_owned);
        failure.errno = error.raw_os_error();
        failure
    }

    /// Whether a path of the profile has changed since the caller resolved it, so that it may look again and try once more.
    pub fn is_change(&self) -> bool {
        self.step == RESOLVE
    }

    /// Advice for the user, if there is any.
    pub fn help(&self) -> Option<&'static str> {
        let restricts = std::fs::read_to_string(APPARMOR).is_ok_and(|it| it.trim() == "1");
        self.advice(restricts)
    }

    /// `restricts` says whether AppArmor lets only programs with a profile use user namespaces.
    fn advice(&self, restricts: bool) -> Option<&'static str> {
        let step = self.step.as_str();
        let file = self.path.as_deref().and_then(Path::file_name).and_then(OsStr::to_str);
        let is_map = matches!(file, Some("uid_map" | "gid_map" | "setgroups"));
        let makes_namespaces = step.starts_with("unshare") || step == "write" && is_map;
        let refusals = [Errno::ACCESS, Errno::PERM].map(|it| Some(it.raw_os_error()));
        // Ubuntu makes the namespace, but takes all rights in it away
        let is_refused = makes_namespaces || step.starts_with("mount") || step == "bwrap";
        if restricts && is_refused && (step == "bwrap" || refusals.contains(&self.errno)) {
            Some(
                "Ubuntu's AppArmor lets only programs with a profile make namespaces: run `sudo apt install bubblewrap`, \
                 and on Ubuntu 24.04 load the profile `bwrap-userns-restrict` of the package `apparmor-profiles`.",
            )
        } else if makes_namespaces {
            Some(
                "Allow user namespaces: the sysctls `user.max_user_namespaces`, \
                 `kernel.unprivileged_userns_clone` and \
                 `kernel.apparmor_restrict_unprivileged_userns`, or the container's seccomp \
                 profile, refuse them.",
            )
        } else if step == "bwrap" {
            Some(
                "Install bubblewrap as root, with `--bind-fd` (0.10, or with the patches of your system), and let it \
                 make user namespaces: Ubuntu's AppArmor needs its profile `bwrap-userns-restrict`.",
            )
        } else if step == "mount proc" {
            Some("Run the container without masked paths over /proc, or share its /proc.")
        } else if step.starts_with("landlock") {
            Some("Use Linux 6.2 or newer, with `landlock` in the boot parameter `lsm`.")
        } else if self.is_change() {
            Some(
                "Another command changed the path meanwhile, or it has to be named without the link.",
            )
        } else if step == "chdir" {
            Some(
                "The folder is hidden, or the private folder for /tmp covers it: make it writable.",
            )
        } else if step.starts_with("mount") || step.starts_with("bind") {
            Some("Check that the path exists, is no link and does not change meanwhile.")
        } else {
            None
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step)?;
        if let Some(path) = &self.path {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for Failure {}

/// Performs one step that has no path.
pub(crate) fn step<T, E: Into<io::Error>>(
    name: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, Failure> {
    crash_point();
    work().map_err(|error| Failure::of_system(name, None, &error.into()))
}

/// Performs one step on `path`.
pub(crate) fn step_on<T, E: Into<io::Error>>(
    name: &str,
    path: impl AsRef<Path>,
    work: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, Failure> {
    crash_point();
    let path = path.as_ref();
    work(path).map_err(|error| Failure::of_system(name, Some(path), &error.into()))
}

/// In debug builds the variable `LEFTFOLD_SANDBOX_CRASH`, for example `init:7`, kills the process
/// of that name before its seventh step.
#[cfg(debug_assertions)]
fn crash_point() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static STEPS: AtomicUsize = AtomicUsize::new(1);
    let at = STEPS.fetch_add(1, Ordering::Relaxed);
    let wanted = std::env::var("LEFTFOLD_SANDBOX_CRASH").unwrap_or_default();
    let is_init = std::env::args().nth(2).is_some_and(|role| role != crate::HELPER);
    let own = format!("{}:{at}", if is_init { "init" } else { "helper" });
    if wanted == own {
        use rustix::process::{Signal, getpid, kill_process};
        // the kernel refuses to kill the init of a namespace from inside
        let _ = kill_process(getpid(), Signal::KILL);
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
fn crash_point() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_apparmor_where_it_restricts_namespaces() {
        const INSTALL: &str = "sudo apt install bubblewrap";
        const ALLOW: &str = "user.max_user_namespaces";
        for (step, path, errno, restricts, named) in [
            ("write", "/proc/self/uid_map", Some(Errno::PERM), true, INSTALL),
            ("write", "/proc/self/setgroups", Some(Errno::ACCESS), true, INSTALL),
            ("mount private", "/", Some(Errno::ACCESS), true, INSTALL),
            ("unshare", "", Some(Errno::PERM), true, INSTALL),
            ("bwrap", "", None, true, INSTALL),
            ("unshare", "", Some(Errno::NOSPC), true, ALLOW),
            ("write", "/proc/self/uid_map", Some(Errno::PERM), false, ALLOW),
            ("bwrap", "", None, false, "--bind-fd"),
            ("mount proc", "/proc", Some(Errno::PERM), false, "masked paths"),
        ] {
            let (path, errno) = (Some(path.into()), errno.map(Errno::raw_os_error));
            let failure = Failure { path, errno, ..Failure::new(step, "refused") };
            let advice = failure.advice(restricts).unwrap();
            assert!(advice.contains(named), "{failure:?} {restricts}: {advice}");
        }
    }
}
