//! Checks this machine: programs, disk space for data, and how commands are confined.

use std::fs;
use std::path::Path;

use leftfold_config::Settings;
use leftfold_events::sandbox::Backend;
use leftfold_programs::LeftOut;

use super::{Findings, Level};
use leftfold_runtime::session_paths;

/// Free bytes below which a session may run out of space.
const LITTLE: u64 = 200 * 1024 * 1024;
/// Free bytes below which a session will run out of space.
const TOO_LITTLE: u64 = 5 * 1024 * 1024;

pub(super) fn programs(found: &mut Findings) {
    found.area("programs");
    match (leftfold_programs::find("bash"), leftfold_programs::find("sh")) {
        (Ok(path), _) => found.fine(format!("bash for commands: {}", path.display())),
        (Err(_), Ok(path)) => found.warning(
            format!("bash is not in PATH: commands run in {}", path.display()),
            "install bash: models write commands for bash",
        ),
        (Err(_), Err(_)) => found.error(
            "neither bash nor sh is in PATH: commands cannot run",
            "install bash, or correct PATH",
        ),
    }
    match leftfold_programs::find("git") {
        Ok(path) => found.fine(format!("git for file snapshots: {}", path.display())),
        Err(_) => found.warning(
            "git is not in PATH: there are no file snapshots, so `leftfold revert` restores no files",
            "install git, or set `\"snapshot\": false`",
        ),
    }
    for LeftOut { folder, reason } in leftfold_programs::left_out() {
        found.note(format!(
            "PATH: no programs of Leftfold or of your settings start from {folder:?}: {reason}"
        ));
    }
    found.fine("file search is built in");
}

/// The holes of each kind of sandbox.
const OPEN_IN_NAMESPACES: &str =
    "commands read the files of the system and of your home folder, except those with keys";
const OPEN_IN_BWRAP: &str =
    "bwrap lays nothing over caches such as ~/.npm, so commands cannot change them";
const OPEN_IN_LANDLOCK: &str = "commands reach sockets of other programs, list hidden folders, change modes and times of \
    your files, and read `.env` files and write hooks of the project";

const OPEN_IN_SEATBELT: &str = "commands reach the machine's 127.0.0.1, and processes that leave their process group \
    outlive them; Leftfold's makers have not run this on a Mac";

/// The sandbox in force, and why it is no stronger one.
pub(super) fn confinement(found: &mut Findings, settings: Option<&Settings>) {
    found.area("sandbox");
    let Some(settings) = settings else {
        return found
            .note("the settings cannot be read, so what they say about the sandbox is unknown");
    };
    let sandbox = leftfold_runtime::sandbox::options(settings);
    let probe = leftfold_tools::probe();
    match sandbox.backend {
        Backend::Namespaces | Backend::Bwrap => {
            let (kind, proc) = match probe.ready.map(|ready| ready.backend) {
                Some(leftfold_sandbox::Backend::NamespacesSharedProc) => {
                    ("namespaces", ", with the /proc of the machine")
                }
                Some(leftfold_sandbox::Backend::Bwrap) => ("namespaces of bwrap", ""),
                _ => ("namespaces", ""),
            };
            let milliseconds = probe.took.as_millis();
            found.fine(format!(
                "commands and MCP servers run in {kind}, Landlock and seccomp{proc}; a start takes {milliseconds} ms"
            ));
            found.note(OPEN_IN_NAMESPACES);
            if sandbox.backend == Backend::Bwrap {
                found.note(OPEN_IN_BWRAP);
            }
        }
        Backend::Landlock => {
            found.fine("commands and MCP servers run under Landlock and seccomp alone");
            found.note(OPEN_IN_LANDLOCK);
        }
        Backend::Seatbelt => {
            found.fine("commands run in the sandbox of macOS (`sandbox-exec`)");
            found.note(OPEN_IN_SEATBELT);
        }
        Backend::External => {
            found.note("the container around Leftfold is the sandbox, as `sandbox` in settings says");
        }
        Backend::Off => found.warning(
            "no sandbox, as `sandbox` in settings says: a command that the rules allow can do everything that you can do",
            "remove the setting, or run Leftfold in a container",
        ),
        Backend::None => found.error(
            "no sandbox works here: every command asks, and is denied if nobody can be asked",
            "set `\"sandbox\": \"off\"` in your own settings to run commands without one, or \"external\" in a container",
        ),
    }
    sockets(found, settings);
    if sandbox.backend != Backend::Off && sandbox.backend != Backend::External {
        for rejected in &probe.rejected {
            let help = rejected.why.help().unwrap_or("see docs/security.md");
            let name = match rejected.backend {
                leftfold_sandbox::Backend::Namespaces => "namespaces do",
                leftfold_sandbox::Backend::NamespacesSharedProc => {
                    "namespaces with the machine's /proc do"
                }
                leftfold_sandbox::Backend::Bwrap => "bwrap does",
                leftfold_sandbox::Backend::Landlock => "Landlock does",
                leftfold_sandbox::Backend::Seatbelt => "sandbox-exec does",
            };
            found.warning(format!("{name} not work: {}", rejected.why), help);
        }
    }
    found.fine("file tools stay in the project; for paths outside they ask (`external_directory`)");
}

/// Sockets that are listed, at most.
const MAX_LISTED: usize = 10;

/// The sockets of other programs that the sandbox leaves open.
fn sockets(found: &mut Findings, settings: &Settings) {
    let sockets = leftfold_runtime::sandbox::reachable_sockets(settings);
    if sockets.is_empty() {
        return;
    }
    let listed = sockets.iter().take(MAX_LISTED).map(|path| path.display().to_string());
    let mut listed: Vec<String> = listed.collect();
    if sockets.len() > MAX_LISTED {
        listed.push(format!("{} more", sockets.len() - MAX_LISTED));
    }
    let count = leftfold_view::words::counted(sockets.len(), "socket");
    let what = format!("commands can connect to {count} of other programs: {}", listed.join(", "));
    let advice = "with namespaces, `sandbox.hide` hides the folder of a socket";
    found.add(Level::Note, what, Some(advice.to_owned()));
}

pub(super) fn data(found: &mut Findings) {
    found.area("data");
    let home = match session_paths::data_dir() {
        Ok(home) => home,
        Err(error) => return found.error(format!("{error:#}"), "set HOME or LEFTFOLD_HOME"),
    };
    // A folder that does not exist yet is created in its nearest existing parent.
    let there = home.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    if let Err(error) = writable(there) {
        found.error(
            format!("{} is not writable: {error}", there.display()),
            "make it writable, or set LEFTFOLD_HOME to another folder",
        );
        return;
    }
    if there == home {
        let sessions = session_paths::roots().map_or(0, |roots| roots.len());
        let sessions = leftfold_view::words::counted(sessions, "session");
        let size = megabytes(size(&home));
        found.fine(format!("{}: {sessions}, {size}", home.display()));
    } else {
        found.note(format!("{} does not exist yet and can be created", home.display()));
    }
    room(found, there);
}

fn writable(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Err(std::io::Error::other("it is not a folder"));
    }
    tempfile::tempfile_in(folder).map(drop)
}

fn room(found: &mut Findings, folder: &Path) {
    let Ok(of) = rustix::fs::statvfs(folder) else { return };
    let free = of.f_bavail.saturating_mul(of.f_frsize);
    let what = format!("{} free", megabytes(free));
    let advice = "free space with `leftfold sessions prune --older-than 30`";
    match free {
        ..TOO_LITTLE => found.error(what, advice),
        TOO_LITTLE..LITTLE => found.warning(what, advice),
        _ => found.fine(what),
    }
}

/// The size of all files in a folder, in bytes; links are not followed.
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
