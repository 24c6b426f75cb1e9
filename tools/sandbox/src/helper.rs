//! The helper: reads the profile, makes the namespaces, starts init and passes lines between it and
//! the node. It stays outside the sandbox, and starts nothing else.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};

use crate::channel::{Lines, Message};
use crate::failure::{Failure, step};
use crate::init::{self, Ids, MAP, MAPPED};
use crate::profile::Profile;
use crate::{IN_SANDBOX, NOT_CONFINED, OWN_PROGRAM, namespaces};

/// Does the helper's work. `command` is the program and its arguments.
pub(crate) fn run(command: &[OsString]) -> ExitCode {
    let Ok(mut node) = Lines::of_standard_input() else { return ExitCode::from(NOT_CONFINED) };
    let Ok(Some((line, input))) = node.receive_with() else { return ExitCode::from(NOT_CONFINED) };
    let result = match Profile::parse(&line) {
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
        Command::new(OWN_PROGRAM)
            .arg0("leftfold")
            .arg(IN_SANDBOX)
            .arg(ids.role())
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
    })?;
    init::ignore_term(true);
    // only the command holds the output open
    let _ = init::close_output();
    step("send profile", || init.send_with(line, input.as_ref().map(AsFd::as_fd)))?;
    // only the command holds the input open
    drop(input);
    if ids == Ids::All {
        map_ids(node, &mut init, &child)?;
    }
    relay(node, init, &mut child)
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

/// Passes bytes in both directions until init has ended. Returns at once if the node has ended:
/// init sees the end of its channel, exits, and the kernel kills every process of its namespace.
fn relay(node: &mut Lines, mut init: Lines, child: &mut Child) -> Result<ExitCode, Failure> {
    step("pass on", || init.stream.write_all(&node.take_rest()))?;
    step("pass on", || node.stream.write_all(&init.take_rest()))?;
    let (node, init) = (&mut node.stream, &mut init.stream);
    let mut is_over = false;
    while !is_over {
        let mut files = [PollFd::new(&*node, PollFlags::IN), PollFd::new(&*init, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::of_system("poll", None, &error.into())),
        }
        let [from_node, from_init] = files.map(|file| !file.revents().is_empty());
        // an error means that the reader has gone
        is_over = from_init && !pass(init, node).unwrap_or(false)
            || !from_init && from_node && !pass(node, init).unwrap_or(false);
    }
    // whoever has gone, init ends now: it may have ended already
    let _ = init.shutdown(Shutdown::Both);
    let status = step("wait for init", || child.wait())?;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_CONFINED)))
}

/// Passes what can be read. `false` at the end of `from`.
fn pass(from: &mut UnixStream, to: &mut UnixStream) -> io::Result<bool> {
    let mut part = [0; 4_096];
    let size = from.read(&mut part)?;
    to.write_all(part.get(..size).unwrap_or_default())?;
    Ok(size > 0)
}
