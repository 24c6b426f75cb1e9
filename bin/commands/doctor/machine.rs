//! What Leftfold finds on this machine: programs, room for data, and how commands are held in.

use std::fs;
use std::path::{Path, PathBuf};

use super::Findings;
use leftfold_runtime::session_paths;

/// Bytes below which a session may run out of room.
const LITTLE: u64 = 200 * 1024 * 1024;
/// Bytes below which it will.
const TOO_LITTLE: u64 = 5 * 1024 * 1024;

pub(super) fn programs(found: &mut Findings) {
    found.area("programs");
    match (program("bash"), program("sh")) {
        (Some(path), _) => found.fine(format!("bash for commands: {}", path.display())),
        (None, Some(path)) => found.warning(
            format!("there is no bash: commands are run by {}", path.display()),
            "install bash: models write commands for it",
        ),
        (None, None) => found.error(
            "there is neither bash nor sh in PATH: no command can be run",
            "install bash, or correct PATH",
        ),
    }
    match program("git").filter(|_| leftfold_snapshots::is_possible()) {
        Some(path) => found.fine(format!("git for snapshots of files: {}", path.display())),
        None => found.warning(
            "there is no git: files are not snapshotted, so `leftfold revert` brings back none",
            "install git, or say `\"snapshot\": false`",
        ),
    }
    found.fine("searching files needs no other program");
}

/// Where a program is in PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.into_iter().find(|place| place.is_file())
}

pub(super) fn confinement(found: &mut Findings) {
    found.area("sandbox");
    if rustix::process::geteuid().is_root() {
        found.warning(
            "there is none, and you are root: a command that the rules allow may do anything",
            "work as another user, or in a container",
        );
    } else {
        found.note("there is none: a command that the rules allow may do whatever you may");
    }
    found.fine("file tools stay in the project: outside of it they ask (`external_directory`)");
}

pub(super) fn data(found: &mut Findings) {
    found.area("data");
    let home = match session_paths::data_dir() {
        Ok(home) => home,
        Err(error) => return found.error(format!("{error:#}"), "set HOME, or LEFTFOLD_HOME"),
    };
    // what is not there yet is made where its parent allows
    let there = home.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    if let Err(error) = writable(there) {
        found.error(
            format!("{} can not be written to: {error}", there.display()),
            "make it writable for you, or set LEFTFOLD_HOME to another folder",
        );
        return;
    }
    if there == home {
        let sessions = session_paths::stores().map_or(0, |stores| stores.len());
        let size = megabytes(size(&home));
        found.fine(format!("{}: {sessions} sessions, {size}", home.display()));
    } else {
        found.note(format!("{} is not there yet, and can be made", home.display()));
    }
    room(found, there);
}

fn writable(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Err(std::io::Error::other("it is no folder"));
    }
    tempfile::tempfile_in(folder).map(drop)
}

fn room(found: &mut Findings, folder: &Path) {
    let Ok(of) = rustix::fs::statvfs(folder) else { return };
    let free = of.f_bavail.saturating_mul(of.f_frsize);
    let what = format!("{} free there", megabytes(free));
    let advice = "`leftfold sessions prune --older-than 30` makes room";
    match free {
        ..TOO_LITTLE => found.error(what, advice),
        TOO_LITTLE..LITTLE => found.warning(what, advice),
        _ => found.fine(what),
    }
}

/// Bytes of all files in a folder; links are not followed.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn megabytes(bytes: u64) -> String {
    const MEGABYTE: u64 = 1024 * 1024;
    match bytes {
        ..MEGABYTE => format!("{} KB", bytes.div_ceil(1024)),
        _ => format!("{} MB", bytes / MEGABYTE),
    }
}
