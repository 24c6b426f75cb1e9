//! The helper: reads the profile, makes the namespaces, starts init and passes lines between it and
//! the node. It stays outside the sandbox, and starts nothing else.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, set_child_subreaper,
};
use rustix::stdio::{stderr, stdout};

use crate::bwrap::{self, BWRAP};
use crate::channel::{Lines, Message};
use crate::facts::Facts;
use crate::failure::{Failure, step, step_on};
use crate::init::{self, Ids, MAP, MAPPED};
use crate::profile::{Backend, Profile};
use crate::{IN_SANDBOX, NOT_CONFINED, namespaces, own_program, supervise};

/// Does the helper's work. `command` is the program and its arguments.
pub(crate) fn run(command: &[OsString]) -> ExitCode {
    let Ok(mut node) = Lines::of_standard_input() else { return ExitCode::from(NOT_CONFINED) };
    let Ok(Some((line, mut files))) = node.receive_with() else {
        return ExitCode::from(NOT_CONFINED);
    };
    let input = files.pop();
    let result = match Profile::parse(&line) {
        Ok(profile) if profile.backend == Backend::Bwrap => {
            start_init_in_bwrap(&mut node, &profile, input, command)
        }
        Ok(profile) if profile.has_own_processes() => {
            start_init(&mut node, &profile, (&line, input), command)
        }
        Ok(profile) => match enter(&profile) {
            Ok(ids) => return init::confine_and_run(ids, node, &profile, (command, input)),
            Err(failure) => Err(failure),
        },
        Err(error) => Err(Failure::new("profile", error)),
    };
    result.unwrap_or_else(|failure| {
        // without the node nobody wants to know
        let _ = node.send_message(&Message::Failed(failure));
        ExitCode::from(NOT_CONFINED)
    })
}

/// Makes the namespaces of a command that has no PID namespace, for this process.
fn enter(profile: &Profile) -> Result<Ids, Failure> {
    if !profile.backend.has_namespaces() {
        return Ok(Ids::Unmapped);
    }
    let is_root = rustix::process::geteuid().is_root();
    // root without `CAP_SYS_ADMIN` gets the namespaces of any other user
    if is_root && namespaces::enter_as_root(profile).is_ok() {
        return Ok(Ids::Unmapped);
    }
    namespaces::enter_as_user(profile)?;
    Ok(Ids::Own)
}

/// Starts init in new namespaces and waits for its end.
fn start_init(
    node: &mut Lines,
    profile: &Profile,
    (line, input): (&str, Option<OwnedFd>),
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let is_root = rustix::process::geteuid().is_root();
    // root without `CAP_SYS_ADMIN` gets the namespaces of any other user
    let ids = if is_root && namespaces::enter_pid_namespace().is_ok() {
        Ids::All
    } else {
        namespaces::enter_as_user(profile)?;
        init::keep_capabilities()?;
        Ids::Own
    };
    let (ours, theirs) = step("socketpair", UnixStream::pair)?;
    let mut init = Lines::new(ours);
    let mut child = step("start init", || {
        Command::new(own_program())
            .arg0("leftfold")
            .arg(IN_SANDBOX)
            .arg(ids.role())
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
    })?;
    supervise::ignore_term(true);
    // only the command holds the output open
    let _ = supervise::close_output();
    step("send profile", || init.send_with(line, input.as_ref().map(AsFd::as_fd).as_slice()))?;
    // only the command holds the input open
    drop(input);
    if ids == Ids::All {
        map_ids(node, &mut init, &child)?;
    }
    relay(node, init, &mut child).map(|ended| ended.code)
}

/// Starts init through `bwrap` and waits for its end.
fn start_init_in_bwrap(
    node: &mut Lines,
    profile: &Profile,
    input: Option<OwnedFd>,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let program = bwrap::find()?;
    let facts = Facts::read(profile)?;
    let own = [IN_SANDBOX, Ids::LeftByBwrap.role()].map(OsString::from);
    let start = bwrap::Start::new(profile, &facts, own.into_iter().chain(command.iter().cloned()))?;
    let (ours, theirs) = step("socketpair", UnixStream::pair)?;
    let mut init = Lines::new(ours);
    let (errors, writer) = step("pipe", io::pipe)?;
    // init sees links neither in a hidden folder nor in one that the private /tmp covers
    let resolved = facts.resolve(profile);
    let line = resolved.to_line().map_err(|error| Failure::new("profile", error))?;
    // `bwrap` would hold the output open after the command's end, and its own errors are no output
    let mut files = vec![stdout(), stderr()];
    files.extend(input.as_ref().map(AsFd::as_fd));
    step("send profile", || init.send_with(&line, &files))?;
    drop(input);
    // `bwrap` lives as long as the command, too
    supervise::ignore_term(true);
    let has_own_processes = profile.has_own_processes();
    if has_own_processes {
        // what a killed `bwrap` leaves behind becomes a child of this process
        step("PR_SET_CHILD_SUBREAPER", || set_child_subreaper(Some(getpid())))?;
    }
    let mut child = step_on("start", &program, |program| {
        Command::new(program)
            .args(&start.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
    })?;
    drop(start);
    // only the command holds the output open
    let _ = supervise::close_output();
    let ended = relay(node, init, &mut child)?;
    if has_own_processes {
        end_children();
    }
    if ended.is_confined {
        return Ok(ended.code);
    }
    let mut text = [0; 4_096];
    // a process that dies may still hold the other end
    let is_ready = fcntl_setfl(&errors, OFlags::NONBLOCK).is_ok();
    let size = if is_ready { rustix::io::read(&errors, &mut text).unwrap_or(0) } else { 0 };
    let why = String::from_utf8_lossy(text.get(..size).unwrap_or_default());
    let why = why.trim().trim_start_matches("bwrap: ");
    Err(Failure::new(BWRAP, if why.is_empty() { "it ended before the command" } else { why }))
}

/// Kills the children of this process: a child of `bwrap` waits for ever if `bwrap` is killed just
/// after its start.
fn end_children() {
    let own = getpid();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        if let Some(child) = child.parse().ok().and_then(Pid::from_raw) {
            // an error means that it has ended
            let _ = kill_process(child, Signal::KILL);
        }
    }
}

/// The end of init.
struct Ended {
    code: ExitCode,
    /// Whether init has sent anything.
    is_confined: bool,
}

/// Maps the ids when init asks for it.
fn map_ids(node: &mut Lines, init: &mut Lines, child: &Child) -> Result<(), Failure> {
    match step("wait for init", || init.receive())? {
        Some(line) if line == MAP => {
            namespaces::map_all_ids(child.id())?;
            // it fails if init has ended meanwhile, which the relay notices
            let _ = init.send(MAPPED);
            Ok(())
        }
        // init has failed before; it says so itself
        Some(line) => step("pass on", || node.send(&line)),
        None => Ok(()),
    }
}

/// Passes bytes in both directions until init or `child` has ended: `child` is init or the `bwrap`
/// around it. Returns at once if the node has ended: init sees the end of its channel, exits, and
/// the kernel kills every process of its namespace.
fn relay(node: &mut Lines, mut init: Lines, child: &mut Child) -> Result<Ended, Failure> {
    step("pass on", || init.stream.write_all(&node.take_rest()))?;
    step("pass on", || node.stream.write_all(&init.take_rest()))?;
    let (node, init) = (&mut node.stream, &mut init.stream);
    // a `bwrap` that is killed early leaves init behind
    let end = step("pidfd_open", || pidfd_open(Pid::from_child(child), PidfdFlags::empty()))?;
    let (mut is_over, mut is_confined) = (false, false);
    while !is_over {
        let mut files = [
            PollFd::new(&*node, PollFlags::IN),
            PollFd::new(&*init, PollFlags::IN),
            PollFd::new(&end, PollFlags::IN),
        ];
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::of_system("poll", None, &error.into())),
        }
        let [from_node, from_init, has_ended] = files.map(|file| !file.revents().is_empty());
        // an error means that the reader has gone
        is_over = from_init && !pass(init, node).unwrap_or(false)
            || !from_init && (has_ended || from_node && !pass(node, init).unwrap_or(false));
        is_confined |= from_init && !is_over;
    }
    // whoever has gone, init ends now: it may have ended already
    let _ = init.shutdown(Shutdown::Both);
    let status = step("wait for init", || child.wait())?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_CONFINED);
    Ok(Ended { code: ExitCode::from(code), is_confined })
}

/// Passes what can be read. `false` at the end of `from`.
fn pass(from: &mut UnixStream, to: &mut UnixStream) -> io::Result<bool> {
    let mut part = [0; 4_096];
    let size = from.read(&mut part)?;
    to.write_all(part.get(..size).unwrap_or_default())?;
    Ok(size > 0)
}
