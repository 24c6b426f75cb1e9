//! Linux namespaces: makes them, maps the ids, performs the steps of a layout, and starts the
//! loopback interface.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, mkdirat, openat,
    openat2, statx,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
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
pub(crate) fn perform(steps: &[Step], temp: Option<&Path>) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    step_on("mount private", "/", |root| mount_change(root, private))?;
    let mut kept = BTreeMap::new();
    for step in steps {
        perform_one(step, temp, &mut kept)?;
    }
    Ok(())
}

type Kept = BTreeMap<PathBuf, OwnedFd>;

fn perform_one(step: &Step, temp: Option<&Path>, kept: &mut Kept) -> Result<(), Failure> {
    let kept_at = |path: &Path| kept.get(path).ok_or(Errno::NOENT);
    match step {
        Step::Keep(path) => {
            kept.insert(path.clone(), step_on("open", path, open)?);
            Ok(())
        }
        Step::Dev => small_dev(),
        Step::Proc => step_on("mount proc", "/proc", |at| {
            mount("proc", at, "proc", PLAIN | MountFlags::NOEXEC, None)
        }),
        Step::Bind(path) => step_on("bind", path, |path| {
            let at = open(path)?;
            mount_bind_recursive(by_descriptor(&at), by_descriptor(&at))
        }),
        Step::Temp(path) => step_on("bind", path, |path| {
            let from = kept_at(temp.unwrap_or(path))?;
            mount_bind(by_descriptor(from), by_descriptor(&open(path)?))
        }),
        Step::HideFolder { path, holds } => step_on("mount tmpfs", path, |path| {
            let (data, flags) = if *holds {
                (c"mode=0755,nr_inodes=4096", PLAIN | MountFlags::NOEXEC)
            } else {
                let flags = PLAIN | MountFlags::NOEXEC | MountFlags::RDONLY;
                (c"mode=0555,nr_inodes=2", flags)
            };
            mount("tmpfs", by_descriptor(&open(path)?), "tmpfs", flags, Some(data))
        }),
        Step::HideFile(path) => step_on("bind", path, |path| {
            let cover = if Path::new(DEAD_SOCKET).exists() { DEAD_SOCKET } else { "/dev/null" };
            mount_bind(cover, by_descriptor(&open(path)?))
        }),
        Step::Show { path, is_folder } => step_on("bind", path, |path| {
            let from = kept_at(path)?;
            let at = make_mount_point(path, *is_folder)?;
            mount_bind_recursive(by_descriptor(from), by_descriptor(&at))
        }),
        Step::Overlay(path) => {
            // without it, the folder stays read-only
            overlay(path).or(Ok(()))
        }
        Step::ReadOnly { path, options } => {
            let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(options);
            step_on("mount read-only", path, |path| match mount_remount(path, flags, c"") {
                Err(_) if !is_mount_point(path) => Ok(()),
                done => done,
            })
        }
    }
}

/// Lays a writable file system over the folder `path`. Its changes are in memory, which nobody else reaches.
fn overlay(path: &Path) -> Result<(), Failure> {
    let lower = step_on("open", path, open)?;
    step_on("mount tmpfs", path, |at| {
        mount("tmpfs", by_descriptor(&lower), "tmpfs", PLAIN, Some(c"mode=0755,size=2g"))?;
        let folder = |name: &str| make_mount_point(&at.join(name), true);
        let (upper, work) = (folder("upper")?, folder("work")?);
        let place = |file| by_descriptor(file).display().to_string();
        let options = format!(
            "userxattr,lowerdir={},upperdir={},workdir={}",
            place(&lower),
            place(&upper),
            place(&work)
        );
        let options = CString::new(options).map_err(|_| Errno::INVAL)?;
        let laid = mount("overlay", at, "overlay", PLAIN, Some(options.as_c_str()));
        // without it, the memory would hide what is in the folder
        laid.inspect_err(|_| {
            let _ = unmount(at, UnmountFlags::DETACH);
        })
    })
}

/// Flags of every mount made here.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Opens a path without following any link. A command that runs meanwhile in the same folder cannot
/// exchange a folder for a link.
pub(crate) fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    // with `NOFOLLOW`, the last link would be opened itself
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// The path of an open file for system calls that take no descriptor.
fn by_descriptor(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes the missing folders above `path` and the mount point itself, and opens it. Follows no
/// link.
fn make_mount_point(path: &Path, is_folder: bool) -> rustix::io::Result<OwnedFd> {
    match open(path) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::NOENT);
    };
    let parent = make_mount_point(parent, true)?;
    if is_folder {
        mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    }
    open(path)
}

/// Whether a mount is visible at `path`. A mount point may be covered by a later mount above it, or
/// out of reach for this user and so for the command.
fn is_mount_point(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::TYPE);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
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
            assert_eq!(make_mount_point(&path, true).unwrap_err(), Errno::LOOP);
        }
        assert!(make_mount_point(&folder.join("real/a/b/file"), false).is_ok());
        assert!(folder.join("real/a/b/file").is_file());
        assert!(make_mount_point(&folder.join("real/a/c"), true).is_ok());
        assert!(folder.join("real/a/c").is_dir());
        assert_eq!(fs::read_dir(folder.join("real")).unwrap().count(), 1);
    }

    #[test]
    fn flags_of_a_mount_are_kept() {
        let kept = kept_flags("rw,nosuid,relatime,idmapped");
        assert_eq!(kept, MountFlags::NOSUID | MountFlags::RELATIME);
    }
}
