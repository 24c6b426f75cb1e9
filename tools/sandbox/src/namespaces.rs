//! Linux namespaces: makes them, maps the ids, performs the steps of a layout, and starts the
//! loopback interface.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, StatxAttributes, StatxFlags,
    chmod, fstat, mkdirat, openat, openat2, renameat_with, statx,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount, mount_bind, mount_change, mount_remount, move_mount, open_tree, unmount,
};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::failure::{Failure, step, step_on};
use crate::layout::{DEVICES, Step};
use crate::profile::Profile;

/// The namespaces that init gets, without those for users and processes.
fn flags(profile: &Profile) -> CloneFlags {
    let mut flags = CloneFlags::CLONE_NEWNS;
    flags.set(CloneFlags::CLONE_NEWIPC, !profile.shares_processes);
    flags.set(CloneFlags::CLONE_NEWNET, !profile.network);
    flags
}

/// Makes all namespaces, the one for processes for the next child. This process sees its user alone and everybody else
/// as `nobody`.
pub(crate) fn enter_as_user(profile: &Profile) -> Result<(), Failure> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = flags(profile) | CloneFlags::CLONE_NEWUSER;
    flags.set(CloneFlags::CLONE_NEWPID, profile.has_own_processes());
    step("unshare", || unshare(flags))?;
    step_on("write", "/proc/self/setgroups", |file| fs::write(file, "deny"))?;
    step_on("write", "/proc/self/uid_map", |map| fs::write(map, format!("{user} {user} 1")))?;
    step_on("write", "/proc/self/gid_map", |map| fs::write(map, format!("{group} {group} 1")))
}

/// Makes a PID namespace for the next child, as real root. The child makes the others with
/// [`enter_as_root`] and [`leave_root`].
pub(crate) fn enter_pid_namespace() -> Result<(), Failure> {
    step("unshare(CLONE_NEWPID)", || unshare(CloneFlags::CLONE_NEWPID))
}

/// Makes the other namespaces, except the one for users: mounts that real root makes belong to the
/// initial user namespace, so the command cannot change them.
pub(crate) fn enter_as_root(profile: &Profile) -> Result<(), Failure> {
    step("unshare", || unshare(flags(profile)))
}

/// Makes a user namespace for this process. It has no ids until its parent calls [`map_all_ids`].
pub(crate) fn leave_root() -> Result<(), Failure> {
    step("unshare(CLONE_NEWUSER)", || unshare(CloneFlags::CLONE_NEWUSER))
}

/// Maps all ids of this process's user namespace to themselves in that of the child `pid`.
pub(crate) fn map_all_ids(pid: u32) -> Result<(), Failure> {
    for name in ["uid_map", "gid_map"] {
        let own =
            step_on("read", Path::new("/proc/self").join(name), |file| fs::read_to_string(file))?;
        let lines = own.lines().filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (first, count) = (fields.next()?, fields.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        });
        let map: String = lines.collect();
        step_on("write", format!("/proc/{pid}/{name}"), |file| fs::write(file, &map))?;
    }
    Ok(())
}

/// Performs the steps in the mount namespace of this process. `temp` is the private folder.
pub(crate) fn perform(steps: &[Step], temp: Option<&Path>) -> Result<Mounts, Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    step_on("mount private", "/", |root| mount_change(root, private))?;
    let mut mounts = Mounts::default();
    for step in steps {
        mounts.perform(step, temp)?;
    }
    Ok(mounts)
}

/// The mounts that the steps have made.
///
/// Other commands run meanwhile, and may rename, remove and replace all that they can change. So a path is walked from the
/// open file of the nearest mount above it, without following links: a mount that a step has made stays the same one,
/// wherever its mount point is moved. A path that has vanished, or that is a link by now, is skipped like one that did not
/// exist when the facts were read. So is a path in a mount whose mount point was removed: the kernel has taken that mount
/// away, and nothing that it held is reached by the path any more.
#[derive(Default)]
pub(crate) struct Mounts {
    kept: BTreeMap<PathBuf, OwnedFd>,
    made: BTreeMap<PathBuf, Made>,
    /// The cover of a folder that was hidden, for the next ones: a new file system each takes much longer.
    empty: Option<OwnedFd>,
}

/// A mount that a step has made.
struct Made {
    mount: OwnedFd,
    /// Whether mount points are made in it: it is private to this command or to the commands of the session.
    holds: bool,
}

/// How often a step begins again because another command has changed its path meanwhile.
const MAX_TRIES: usize = 100;

impl Mounts {
    /// Opens a path in the nearest mount above it. Follows no link.
    pub(crate) fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        match self.above(path) {
            Some((made, rest)) => open_in(&made.mount, rest),
            None => open(path),
        }
    }

    /// The nearest mount above a path or at it, and the rest of the path.
    fn above<'a>(&self, path: &'a Path) -> Option<(&Made, &'a Path)> {
        path.ancestors()
            .find_map(|above| Some((self.made.get(above)?, path.strip_prefix(above).ok()?)))
    }

    /// Whether the nearest mount above a path, or at it, is gone.
    fn is_detached(&self, path: &Path) -> bool {
        self.above(path).is_some_and(|(made, _)| !is_attached(&made.mount))
    }

    fn perform(&mut self, step: &Step, temp: Option<&Path>) -> Result<(), Failure> {
        match step {
            Step::Keep(path) => {
                let file = step_on("open", path, |path| unless_gone(self.open(path)))?;
                self.kept.extend(file.map(|file| (path.clone(), file)));
                Ok(())
            }
            Step::Dev => {
                small_dev()?;
                let mount = step_on("open", "/dev", open)?;
                self.made.insert("/dev".into(), Made { mount, holds: true });
                Ok(())
            }
            Step::Proc => step_on("mount proc", "/proc", |at| {
                mount("proc", at, "proc", PLAIN | MountFlags::NOEXEC, None)
            }),
            Step::Bind(path) => {
                step_on("bind", path, |path| self.mount(path, false, None, |at| copy(at, true)))
            }
            Step::Temp(path) => step_on("bind", path, |path| {
                let from = self.kept.get(temp.unwrap_or(path)).ok_or(Errno::NOENT)?;
                let tree = copy(from, false)?;
                self.mount(path, true, None, |_| dup(&tree))
            }),
            Step::HideFolder { path, holds } => {
                step_on("mount tmpfs", path, |path| self.hide_folder(path, *holds))
            }
            Step::HideFile(path) => {
                step_on("bind", path, |path| self.mount(path, false, None, |at| cover(at, false)))
            }
            Step::Show { path, is_folder } => step_on("bind", path, |path| {
                let Some(from) = self.kept.get(path) else { return Ok(()) };
                let tree = copy(from, true)?;
                self.mount(path, false, Some(*is_folder), |_| dup(&tree))
            }),
            // without it, the folder stays read-only
            Step::Overlay(path) => {
                step_on("mount overlay", path, |path| self.mount(path, true, None, overlay))
                    .or(Ok(()))
            }
            Step::ReadOnly { path, options } => step_on("mount read-only", path, |path| {
                let Some(at) = unless_gone(self.open(path))? else { return Ok(()) };
                let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(options);
                match mount_remount(by_descriptor(&at), flags, c"") {
                    Err(_) if !is_mount(&at) || !is_attached(&at) => Ok(()),
                    done => done,
                }
            }),
        }
    }

    fn hide_folder(&mut self, path: &Path, holds: bool) -> rustix::io::Result<()> {
        let empty = self.empty.as_ref().filter(|_| !holds).map(dup).transpose()?;
        self.mount(path, holds, None, |at| match &empty {
            // the folder may be a file by now, and the first empty one may be gone with its mount point
            Some(empty) if is_folder(at)? => copy(empty, false).or_else(|_| cover(at, holds)),
            _ => cover(at, holds),
        })?;
        if let Some(made) = self.made.get(path).filter(|made| !made.holds)
            && is_folder(&made.mount)?
        {
            self.empty = Some(dup(&made.mount)?);
        }
        Ok(())
    }

    /// Mounts what `tree` returns for the mount point. `made_as` says whether a missing mount point is made as a folder.
    fn mount(
        &mut self,
        path: &Path,
        holds: bool,
        made_as: Option<bool>,
        tree: impl Fn(&OwnedFd) -> rustix::io::Result<OwnedFd>,
    ) -> rustix::io::Result<()> {
        for _ in 0..MAX_TRIES {
            let point = match (self.above(path), made_as) {
                (Some((made, rest)), Some(is_folder)) if made.holds => {
                    make_mount_point(&made.mount, rest, is_folder).map(Some)
                }
                _ => unless_gone(self.open(path)),
            };
            let mounted = match point {
                Ok(None) => return Ok(()),
                Ok(Some(point)) => tree(&point).and_then(|tree| {
                    // a file cannot cover a folder, nor a folder a file
                    if is_folder(&tree)? != is_folder(&point)? {
                        return Err(Errno::NOENT);
                    }
                    attach(&tree, &point).map(|()| tree)
                }),
                Err(error) => Err(error),
            };
            match mounted {
                Err(Errno::NOENT | Errno::INVAL) if self.is_detached(path) => return Ok(()),
                // the mount point was removed or replaced just now
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
                Ok(mount) => {
                    self.made.insert(path.to_owned(), Made { mount, holds });
                    return Ok(());
                }
            }
        }
        Err(Errno::AGAIN)
    }
}

/// `None` if the path leads nowhere any more, or out of reach of this user and so of the command.
pub(crate) fn unless_gone(
    opened: rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<Option<OwnedFd>> {
    match opened {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        opened => opened.map(Some),
    }
}

/// A mount of the same file or folder, with the mounts below it if `is_recursive`.
fn copy(from: &OwnedFd, is_recursive: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    flags.set(OpenTreeFlags::AT_RECURSIVE, is_recursive);
    open_tree(from, c"", flags)
}

/// Mounts `tree` at `point`.
fn attach(tree: &OwnedFd, point: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", point, c"", flags)
}

/// A new file system.
fn file_system(
    kind: &CStr,
    options: &[(&str, &str)],
    flags: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let system = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        match *value {
            "" => fsconfig_set_flag(&system, *name)?,
            value => fsconfig_set_string(&system, *name, value)?,
        }
    }
    fsconfig_create(&system)?;
    fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// Flags of every file system that is made here.
const NO_RIGHTS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// An empty folder or a dead socket, which covers a path. `holds` says whether mount points are made in the folder.
fn cover(at: &OwnedFd, holds: bool) -> rustix::io::Result<OwnedFd> {
    let flags = NO_RIGHTS | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    if !is_folder(at)? {
        let cover = if Path::new(DEAD_SOCKET).exists() { DEAD_SOCKET } else { "/dev/null" };
        copy(&open(Path::new(cover))?, false)
    } else if holds {
        file_system(c"tmpfs", &[("mode", "0755"), ("nr_inodes", "4096")], flags)
    } else {
        let flags = flags | MountAttrFlags::MOUNT_ATTR_RDONLY;
        file_system(c"tmpfs", &[("mode", "0555"), ("nr_inodes", "2")], flags)
    }
}

/// A writable file system over the folder `lower`. Its changes are in memory, which nobody else reaches.
fn overlay(lower: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let memory = file_system(c"tmpfs", &[("mode", "0755"), ("size", "2g")], NO_RIGHTS)?;
    // a file system that is mounted nowhere could not be used
    attach(&memory, lower)?;
    let laid = lay_over(lower, &memory);
    // the memory would hide what is in the folder
    let _ = unmount(by_descriptor(&memory), UnmountFlags::DETACH);
    laid
}

fn lay_over(lower: &OwnedFd, memory: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let folder = |name| make_mount_point(memory, Path::new(name), true);
    let (upper, work) = (folder("upper")?, folder("work")?);
    let place = |file: &OwnedFd| by_descriptor(file).display().to_string();
    let (lower, upper, work) = (place(lower), place(&upper), place(&work));
    let options =
        [("userxattr", ""), ("lowerdir", &*lower), ("upperdir", &*upper), ("workdir", &*work)];
    file_system(c"overlay", &options, NO_RIGHTS)
}

/// Flags of every mount made here.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Opens a path without following any link. A command that runs meanwhile in the same folder cannot
/// exchange a folder for a link.
pub(crate) fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    // with `NOFOLLOW`, the last link would be opened itself
    openat2(CWD, path, PATH_ONLY, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens what lies in a folder, or the folder itself if `rest` is empty. Follows no link.
fn open_in(folder: &OwnedFd, rest: &Path) -> rustix::io::Result<OwnedFd> {
    if rest.as_os_str().is_empty() {
        return dup(folder);
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    openat2(folder, rest, PATH_ONLY, Mode::empty(), resolve)
}

fn dup(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    fcntl_dupfd_cloexec(file, 0)
}

/// The path of an open file for system calls that take no descriptor.
fn by_descriptor(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn is_folder(file: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode).is_dir())
}

/// Opens the mount point `rest` in the folder `base`, and makes it and the folders above it if they are missing. Other
/// commands that share the folder may do the same at this moment, or change anything in it. Follows no link.
pub(crate) fn make_mount_point(
    base: &OwnedFd,
    rest: &Path,
    is_folder: bool,
) -> rustix::io::Result<OwnedFd> {
    let walk = || {
        let mut at = dup(base)?;
        let mut names = rest.iter().peekable();
        while let Some(name) = names.next() {
            at = make_entry(&at, name, is_folder || names.peek().is_some())?;
        }
        Ok(at)
    };
    for _ in 0..MAX_TRIES {
        match walk() {
            // a folder was removed just now
            Err(Errno::NOENT) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the file or folder `name`, and makes it if it is missing. Renames what is of another kind.
fn make_entry(parent: &OwnedFd, name: &OsStr, wants_folder: bool) -> rustix::io::Result<OwnedFd> {
    for _ in 0..MAX_TRIES {
        let done = match open_in(parent, Path::new(name)) {
            Ok(found) if is_folder(&found)? == wants_folder => return Ok(found),
            Ok(_) | Err(Errno::LOOP) => move_aside(parent, name),
            Err(Errno::NOENT) if wants_folder => mkdirat(parent, name, Mode::from_raw_mode(0o755)),
            Err(Errno::NOENT) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Err(error) => Err(error),
        };
        match done {
            // another command was faster
            Ok(()) | Err(Errno::EXIST) => {}
            // a command has closed the folder to its own user
            Err(Errno::ACCESS) => chmod(by_descriptor(parent), Mode::RWXU)?,
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}

/// Renames what is in the way of a mount point. It stays in its folder.
fn move_aside(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let mut aside = name.to_owned();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    aside.push(format!(".moved-{}", now.as_nanos()));
    match renameat_with(parent, name, parent, aside, RenameFlags::NOREPLACE) {
        Err(Errno::NOENT) => Ok(()),
        moved => moved,
    }
}

/// Whether an open file is the root of a mount.
fn is_mount(file: &OwnedFd) -> bool {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether the mount of an open file is part of this namespace. It is if that cannot be found out.
fn is_attached(file: &OwnedFd) -> bool {
    let read = |name: String| fs::read_to_string(Path::new("/proc/thread-self").join(name));
    let Ok(info) = read(format!("fdinfo/{}", file.as_raw_fd())) else { return true };
    let Some(id) = info.lines().find_map(|line| line.strip_prefix("mnt_id:")) else { return true };
    let Ok(mounts) = read("mountinfo".to_owned()) else { return true };
    mounts.lines().any(|line| line.split(' ').next() == Some(id.trim()))
}

/// The flags that the kernel does not let a user namespace drop.
fn kept_flags(options: &str) -> MountFlags {
    let flag = |option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.split(',').map(flag).collect()
}

/// A socket that nobody listens to, in the small `/dev`.
const DEAD_SOCKET: &str = "/dev/hidden";

/// A `/dev` without disks and other hardware. The devices are those of the machine: a user
/// namespace may not make new ones.
fn small_dev() -> Result<(), Failure> {
    let at = Path::new("/dev");
    let mut devices: Vec<(&str, OwnedFd)> = Vec::new();
    for name in DEVICES {
        match open(&at.join(name)) {
            Err(Errno::NOENT) => {}
            opened => devices.push((name, step_on("open", at.join(name), |_| opened)?)),
        }
    }
    let no_exec = MountFlags::NOSUID | MountFlags::NOEXEC;
    let mount_at = |kind: &CStr, at: &Path, flags, data: Option<&CStr>| {
        step_on("mount", at, |at| mount(kind, at, kind, flags, data))
    };
    mount_at(c"tmpfs", at, no_exec, Some(c"mode=0755"))?;
    for (name, device) in devices {
        step_on("bind", at.join(name), |point| {
            fs::write(point, "")?;
            mount_bind(by_descriptor(&device), point).map_err(io::Error::from)
        })?;
    }
    for name in ["shm", "pts", "mqueue"] {
        step_on("mkdir", at.join(name), |folder| fs::create_dir(folder))?;
    }
    mount_at(c"tmpfs", &at.join("shm"), PLAIN, Some(c"mode=1777"))?;
    let own_terminals = c"newinstance,ptmxmode=0666,mode=620";
    mount_at(c"devpts", &at.join("pts"), no_exec, Some(own_terminals))?;
    match mount_at(c"mqueue", &at.join("mqueue"), PLAIN | no_exec, None) {
        // a kernel without message queues
        Err(failure) if failure.errno == Some(Errno::NODEV.raw_os_error()) => {}
        done => done?,
    }
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        step_on("symlink", at.join(name), |link| symlink(target, link))?;
    }
    step_on("bind socket", DEAD_SOCKET, |path| UnixListener::bind(path).map(drop))?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | no_exec;
    step_on("mount read-only", at, |at| mount_remount(at, read_only, c""))
}

/// Starts the loopback interface of an own network namespace. The kernel then gives it 127.0.0.1
/// and ::1 itself.
pub(crate) fn start_loopback() -> Result<(), Failure> {
    step("RTM_NEWLINK lo", || {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        sendto(&socket, &up_request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0; 256];
        let (size, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        // `struct nlmsgerr`: a header of 16 bytes, then 0 or a negative errno
        let code = answer.get(..size).and_then(|answer| answer.get(16..20)?.try_into().ok());
        match code.map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
            None => Err(io::Error::other("the kernel's answer is too short")),
        }
    })
}

/// `struct nlmsghdr` and `struct ifinfomsg`: interface 1 gets the flag `IFF_UP`.
fn up_request() -> Vec<u8> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const LO: i32 = 1;
    const IFF_UP: u32 = 1;
    let mut request = Vec::with_capacity(32);
    request.extend(32u32.to_ne_bytes());
    request.extend(RTM_NEWLINK.to_ne_bytes());
    request.extend(REQUEST_AND_ACK.to_ne_bytes());
    // sequence number and sender
    request.extend([0; 8]);
    // family and type
    request.extend([0; 4]);
    request.extend(LO.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    // flags to change
    request.extend(IFF_UP.to_ne_bytes());
    request
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::create_dir(folder.join("real")).unwrap();
        symlink(folder.join("real"), folder.join("link")).unwrap();
        assert!(open(&folder.join("real")).is_ok());
        for path in ["link", "link/x"] {
            let path = folder.join(path);
            assert_eq!(open(&path).unwrap_err(), Errno::LOOP, "{}", path.display());
        }
    }

    /// Another command removes a mount point, which takes its mount away: the steps that follow skip its path.
    #[test]
    fn steps_skip_a_mount_that_another_command_takes_away() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (file, folder) = (root.join("file"), root.join("folder"));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&folder).unwrap();
        fs::create_dir(root.join("shown")).unwrap();
        let (mounted, removed) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let steps = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNS).unwrap();
                let shown = folder.join("shown");
                let before = [
                    Step::Bind(file.clone()),
                    Step::HideFolder { path: folder.clone(), holds: true },
                ];
                let mut mounts = perform(&before, None).unwrap();
                mounts.kept.insert(shown.clone(), open(&root.join("shown")).unwrap());
                mounted.wait();
                removed.wait();
                let read_only = Step::ReadOnly { path: file.clone(), options: String::new() };
                mounts.perform(&read_only, None).unwrap();
                mounts.perform(&Step::Show { path: shown, is_folder: true }, None).unwrap();
            });
            mounted.wait();
            fs::remove_file(&file).unwrap();
            fs::remove_dir(&folder).unwrap();
            removed.wait();
            steps.join().unwrap();
        });
    }

    /// Another command replaces a folder that is to be hidden by a file, between two folders: all three are covered.
    #[test]
    fn a_folder_that_has_become_a_file_is_hidden() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [first, file, last] = ["first", "file", "last"].map(|name| root.join(name));
        for folder in [&first, &last] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("key"), "PRIVATE").unwrap();
        }
        fs::write(&file, "PRIVATE").unwrap();
        let hidden = |path: &PathBuf| Step::HideFolder { path: path.clone(), holds: false };
        for order in [[&first, &file, &last], [&file, &first, &last]] {
            std::thread::scope(|scope| {
                let steps = scope.spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNS).unwrap();
                    let _mounts = perform(&order.map(hidden), None).unwrap();
                    assert!(!first.join("key").exists() && !last.join("key").exists());
                    assert_ne!(fs::read(&file).unwrap_or_default(), b"PRIVATE");
                });
                steps.join().unwrap();
            });
        }
    }

    /// Whatever commands have left at a mount point and above it, it is made, and nothing of theirs is lost.
    #[test]
    fn a_mount_point_is_made_whatever_is_in_its_way() {
        let leave = |kind: &str, path: &Path| match kind {
            "a file" => fs::write(path, "x").unwrap(),
            "a folder with a file" => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("file"), "x").unwrap();
            }
            "a closed folder" => {
                fs::create_dir(path).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            }
            "a link to itself" => symlink(path, path).unwrap(),
            "a link to a folder" => symlink("/etc", path).unwrap(),
            _ => {}
        };
        let kinds = [
            "nothing", "a file", "a folder with a file", "a closed folder", "a link to itself",
            "a link to a folder",
        ];
        let below = |folder: &Path| fs::read_dir(folder).unwrap().count();
        for kind in kinds {
            for (at, is_folder) in [("a", true), ("a/b", true), ("a/b", false)] {
                let dir = tempfile::tempdir().unwrap();
                let root = dir.path().canonicalize().unwrap();
                let in_the_way = root.join(at);
                fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
                leave(kind, &in_the_way);
                let base = open(&root).unwrap();
                let made = make_mount_point(&base, Path::new("a/b"), is_folder);
                assert!(made.is_ok(), "{kind} at {at}: {made:?}");
                let point = root.join("a/b").symlink_metadata().unwrap();
                assert!(point.is_dir() == is_folder && !point.is_symlink(), "{kind} at {at}");
                let folders = below(&root) + below(&root.join("a"));
                assert!(kind == "nothing" || (2..=3).contains(&folders), "{kind} at {at}");
            }
        }
    }

    #[test]
    fn flags_of_a_mount_are_kept() {
        let kept = kept_flags("rw,nosuid,relatime,idmapped");
        assert_eq!(kept, MountFlags::NOSUID | MountFlags::RELATIME);
    }
}
