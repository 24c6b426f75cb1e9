//! The program `bwrap` (bubblewrap): turns the steps of a layout into its arguments. It makes the
//! namespaces and mounts, and starts init in them.
//!
//! Every source of a mount is a descriptor that the helper has opened without following a link, and
//! `bwrap` compares the mount with it: a command that runs meanwhile in the same folder cannot
//! exchange it. Versions without `--bind-fd` are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::failure::{Failure, step, step_on};
use crate::layout::{Facts, Step, steps};
use crate::namespaces::{make_mount_point, unless_gone};
use crate::own_program;
use crate::profile::Profile;

/// The name of the steps that `bwrap` does.
pub(crate) const BWRAP: &str = "bwrap";

/// The places of the program. One in `PATH` could be anybody's.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];

/// The program, if root owns it and nobody else can change it.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    let mut why = "it is not installed in /usr/bin, /usr/local/bin or /bin".to_owned();
    for place in PLACES {
        let Ok(program) = Path::new(place).canonicalize() else { continue };
        let folder = program.parent().unwrap_or(Path::new("/"));
        let is_safe = |path: &Path, others| path.metadata().is_ok_and(|it| is_of_root(&it, others));
        // on Debian, the group `staff` may write in /usr/local/bin
        if is_safe(&program, 0o022) && is_safe(folder, 0o002) {
            return Ok(program);
        }
        why = format!("others than root can change {}", program.display());
    }
    Err(Failure::new(BWRAP, why))
}

/// Whether root owns a file, and the bits `others` let nobody else write.
fn is_of_root(file: &Metadata, others: u32) -> bool {
    file.uid() == 0 && file.mode() & others == 0
}

/// The arguments of `bwrap`, and the open files that they name.
pub(crate) struct Start {
    pub(crate) arguments: Vec<OsString>,
    /// Must be open until `bwrap` has started.
    _files: Vec<OwnedFd>,
}

impl Start {
    /// The arguments that start this program with `arguments` in the sandbox of `profile`, in the
    /// current folder.
    pub(crate) fn new(
        profile: &Profile,
        facts: &Facts,
        own_arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, Failure> {
        let mut files = Vec::new();
        let mut keep = |file: OwnedFd| {
            let number = file.as_raw_fd();
            files.push(file);
            number.to_string()
        };
        let folder = step("getcwd", std::env::current_dir)?;
        let mut arguments: Vec<OsString> = vec!["--die-with-parent".into()];
        if profile.has_own_processes() {
            arguments.extend(["--unshare-pid", "--unshare-ipc", "--as-pid-1"].map(OsString::from));
        }
        if !profile.network {
            arguments.push("--unshare-net".into());
        }
        if rustix::process::geteuid().is_root() {
            // init drops more; only root may name capabilities
            let kept = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"];
            arguments.extend(["--cap-drop", "ALL"].map(OsString::from));
            for name in kept.into_iter().chain(["SETPCAP"]) {
                arguments.extend(["--cap-add".into(), format!("CAP_{name}").into()]);
            }
        }
        let temp = profile.temp.as_ref().and_then(|temp| facts.found.get(temp));
        let temp = temp.map(|temp| temp.path.as_path());
        let steps = steps(profile, facts);
        if let Some(temp) = temp {
            make_mount_points(&steps, temp)?;
        }
        let mounts = mounts(&steps, profile, temp, |path| {
            let opened = step_on("open", path, |path| unless_gone(open(path)))?;
            Ok(opened.map(&mut keep))
        })?;
        arguments.extend(mounts);
        // its path may be hidden, or lead to another build by now
        let program = step_on("open", own_program(), |path| {
            rustix::fs::open(path, OFlags::PATH, Mode::empty())
        })?;
        arguments.extend(["--chdir".into(), folder.into_os_string(), "--".into()]);
        arguments.push(format!("/proc/self/fd/{}", keep(program)).into());
        arguments.extend(own_arguments);
        Ok(Self { arguments, _files: files })
    }
}

/// Opens a path without following any link, for `bwrap` to inherit.
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Makes the mount points in the folder `temp`, which commands of the session share as `/tmp`. `bwrap` would follow a link
/// that one of them has left there, and fail if a file is in the way.
fn make_mount_points(steps: &[Step], temp: &Path) -> Result<(), Failure> {
    let base = step_on("open", temp, open)?;
    // whether the mount at a path is the folder `temp`
    let mut is_temp = BTreeMap::new();
    for step in steps {
        match step {
            Step::Temp(path) => is_temp.insert(path.as_path(), true),
            Step::Bind(path) | Step::HideFolder { path, .. } => is_temp.insert(path, false),
            Step::Show { path, is_folder } => {
                let above = path.ancestors().find(|above| is_temp.contains_key(above));
                let in_temp = above.filter(|above| is_temp.get(above) == Some(&true));
                if let Some(Ok(rest)) = in_temp.map(|above| path.strip_prefix(above)) {
                    step_on("make mount point", path, |_| {
                        make_mount_point(&base, rest, *is_folder)
                    })?;
                }
                is_temp.insert(path, false)
            }
            Step::Keep(_)
            | Step::Dev
            | Step::Proc
            | Step::HideFile(_)
            | Step::Overlay(_)
            | Step::ReadOnly { .. } => None,
        };
    }
    Ok(())
}

/// The arguments for the mounts. `open` returns the number of an open file, or `None` if the path has vanished.
///
/// The first one shows the whole machine, and all mounts below it read-only, unless the profile
/// lets `/` be written. So of the steps that make a mount read-only, only those matter whose mount
/// an earlier step has made.
fn mounts(
    steps: &[Step],
    profile: &Profile,
    temp: Option<&Path>,
    mut open: impl FnMut(&Path) -> Result<Option<String>, Failure>,
) -> Result<Vec<OsString>, Failure> {
    let sealed = steps.iter().filter_map(|step| match step {
        Step::ReadOnly { path, .. } => Some(path.as_path()),
        Step::Keep(_)
        | Step::Dev
        | Step::Proc
        | Step::Bind(_)
        | Step::Temp(_)
        | Step::HideFolder { .. }
        | Step::HideFile(_)
        | Step::Show { .. }
        | Step::Overlay(_) => None,
    });
    let sealed: BTreeSet<&Path> = sealed.collect();
    let mut covers = BTreeSet::new();
    let mut arguments = Vec::new();
    let mut add = |words: &[&str], path: &Path| {
        arguments.extend(words.iter().map(OsString::from));
        arguments.push(path.into());
    };
    let root = Path::new("/");
    let names_root = |paths: &[PathBuf]| paths.iter().any(|path| path == root);
    let is_writable =
        (profile.everything || names_root(&profile.write)) && !names_root(&profile.read_only);
    let bind = |is_read_only| if is_read_only { "--ro-bind-fd" } else { "--bind-fd" };
    let machine = open(root)?.ok_or_else(|| Failure::new(BWRAP, "`/` cannot be opened"))?;
    add(&[bind(!is_writable), &machine], root);
    if profile.shares_processes {
        // other binds have no devices
        add(&["--dev-bind", "/dev"], Path::new("/dev"));
    }
    for step in steps {
        match step {
            // the sources are those of the machine anyway
            Step::Keep(_) => {}
            Step::Dev => {
                let at = Path::new("/dev");
                add(&["--dev"], at);
                add(&["--perms", "1777", "--tmpfs"], &at.join("shm"));
                add(&["--mqueue"], &at.join("mqueue"));
                add(&["--remount-ro"], at);
            }
            Step::Proc => add(&["--proc"], Path::new("/proc")),
            // with the mounts below it
            Step::Bind(path) | Step::Show { path, .. } => {
                if let Some(number) = open(path)? {
                    add(&[bind(sealed.contains(path.as_path())), &number], path);
                }
            }
            Step::Temp(path) => {
                if let Some(number) = open(temp.unwrap_or(path))? {
                    add(&[bind(false), &number], path);
                }
            }
            Step::HideFolder { path, holds: true } => {
                covers.insert(path);
                add(&["--perms", "0755", "--tmpfs"], path);
            }
            Step::HideFolder { path, holds: false } => {
                add(&["--perms", "0555", "--tmpfs"], path);
                add(&["--remount-ro"], path);
            }
            // on a mount without devices, every open fails with `EACCES`; an empty file would mislead
            Step::HideFile(path) => add(&["--ro-bind", "/dev/null"], path),
            // no profile of this backend has any
            Step::Overlay(_) => {}
            Step::ReadOnly { path, .. } if covers.contains(path) => add(&["--remount-ro"], path),
            Step::ReadOnly { .. } => {}
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FoundPath, Mount};
    use crate::profile::Backend;

    /// The arguments, one option a line, with paths as the numbers of open files.
    fn lines(profile: &Profile, folders: &[&str], files: &[&str]) -> String {
        let mut facts = Facts::default();
        let kinds = [(folders, true), (files, false)];
        for (path, is_folder) in
            kinds.iter().flat_map(|(paths, is)| paths.iter().map(|it| (it, *is)))
        {
            let path = PathBuf::from(path);
            facts.found.insert(path.clone(), FoundPath { path, is_folder });
        }
        let mount = |point: &str| Mount { point: point.into(), options: "rw,nosuid".to_owned() };
        facts.mounts = ["/", "/home", "/sys"].map(mount).into();
        let open = |path: &Path| Ok(Some(format!("<{}>", path.display())));
        let temp = profile.temp.as_deref();
        let words = mounts(&steps(profile, &facts), profile, temp, open).unwrap();
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ").replace(" --", "\n--")
    }

    const DEV: &str = "\
        --dev /dev\n\
        --perms 1777\n\
        --tmpfs /dev/shm\n\
        --mqueue /dev/mqueue\n\
        --remount-ro /dev\n\
        --proc /proc\n";

    #[test]
    fn parents_come_first_and_read_only_folders_with_all_mounts_below() {
        let mut profile = Profile::new(Backend::Bwrap);
        profile.write = vec!["/home/u/w".into(), "/home/u/.leftfold/cache".into()];
        profile.read_only = vec!["/home/u/w/.git/hooks".into()];
        profile.hidden =
            ["/home/u/w/.env", "/home/u/.ssh", "/home/u/.leftfold"].map(PathBuf::from).into();
        profile.discarded = vec!["/home/u/.cache".into()];
        profile.temp = Some("/t".into());
        let folders = [
            "/dev", "/proc", "/proc/sys", "/tmp", "/t", "/home/u/w", "/home/u/w/.git/hooks",
            "/home/u/.ssh", "/home/u/.leftfold", "/home/u/.leftfold/cache", "/home/u/.cache",
        ];
        let expected = format!(
            "--ro-bind-fd </> /\n{DEV}\
             --ro-bind-fd </proc/sys> /proc/sys\n\
             --perms 0755\n\
             --tmpfs /home/u/.leftfold\n\
             --bind-fd </home/u/.leftfold/cache> /home/u/.leftfold/cache\n\
             --perms 0555\n\
             --tmpfs /home/u/.ssh\n\
             --remount-ro /home/u/.ssh\n\
             --bind-fd </home/u/w> /home/u/w\n\
             --ro-bind /dev/null /home/u/w/.env\n\
             --ro-bind-fd </home/u/w/.git/hooks> /home/u/w/.git/hooks\n\
             --bind-fd </t> /tmp\n\
             --remount-ro /home/u/.leftfold"
        );
        assert_eq!(lines(&profile, &folders, &["/home/u/w/.env"]), expected);
    }

    #[test]
    fn the_whole_machine_can_be_writable_but_for_sys() {
        let mut profile = Profile::new(Backend::Bwrap);
        profile.write = vec!["/".into()];
        let expected = format!("--bind-fd </> /\n{DEV}--ro-bind-fd </sys> /sys");
        assert_eq!(lines(&profile, &["/", "/dev", "/proc", "/sys"], &[]), expected);
        profile.read_only = vec!["/".into()];
        assert!(
            lines(&profile, &["/", "/dev", "/proc", "/sys"], &[])
                .starts_with("--ro-bind-fd </> /\n")
        );
    }

    #[test]
    fn only_root_may_own_or_change_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bwrap");
        std::fs::write(&file, "").unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
            is_of_root(&file.metadata().unwrap(), 0o022)
        };
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!([0o755, 0o4755, 0o775, 0o757].map(with_mode), [is_root, is_root, false, false]);
    }
}
