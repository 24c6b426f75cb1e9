//! Starts processes without a way to the person's terminal: in a session of their own, which has no
//! controlling terminal, and with no descriptors but the three that the caller sets.

use std::any::Any;
use std::io;

use process_wrap::tokio::{CommandWrap, ProcessSession};
use rustix::process::Pid;
use tokio::process::{Child, Command};

use crate::mark::{Live, with_live};
use crate::running::CallProcesses;
use crate::system;

/// Starts `command` as the leader of a session and a process group of its own. It cannot open
/// `/dev/tty`, and a hangup or an interrupt of this process's terminal does not reach it. Set all
/// three standard streams, because an inherited one may be the terminal, and the
/// [`marks`](crate::marks) of `call_env`. Dropping the [`CallProcesses`] ends the process with
/// everything that it has started.
///
/// # Errors
/// The program could not be started.
pub fn spawn_isolated(command: Command, call_env: &str) -> io::Result<(Child, CallProcesses)> {
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessSession);
    // no other process may start in between: it would have the same number
    let (child, leader) = with_live(|live| {
        let number = system::mark_children();
        let child: Box<dyn Any> = command.spawn()?.into_inner();
        let child = child
            .downcast::<Child>()
            .map_err(|_| io::Error::other("the started process has an unknown kind"))?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the started process has no PID"))?;
        live.push(Live { leader, number });
        io::Result::Ok((*child, leader))
    })?;
    system::confine(leader);
    Ok((child, CallProcesses::new(leader, call_env)))
}

/// Starts `command` as the leader of a session of its own, whose terminal is `terminal`: a terminal of
/// the person, not a call's. Set the [`marks`](crate::marks) of `call_env`, as for
/// [`spawn_isolated`]. Dropping the [`CallProcesses`] ends the process with everything that it has
/// started.
///
/// # Errors
/// The program could not be started.
pub fn spawn_on_terminal(
    command: pty_process::Command,
    terminal: pty_process::Pts,
    call_env: &str,
) -> io::Result<(Child, CallProcesses)> {
    with_live(|live| {
        let number = system::mark_children();
        let child = command.spawn(terminal).map_err(io::Error::other)?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(|| io::Error::other("the started process has no PID"))?;
        live.push(Live { leader, number });
        Ok((child, CallProcesses::new(leader, call_env)))
    })
}

/// Starts a program that stays beside this process and belongs to no call, so that no end of a call ends it. It may lead
/// a session of its own.
///
/// # Errors
/// The program could not be started.
pub fn spawn_companion(command: &mut std::process::Command) -> io::Result<std::process::Child> {
    with_live(|live| {
        // it takes no mark: that would make this process a node, and what it then sends a call's
        let child = command.spawn()?;
        let leader = child.id().try_into().ok().and_then(Pid::from_raw);
        live.extend(leader.map(|leader| Live { leader, number: 0 }));
        Ok(child)
    })
}

/// Marks every descriptor that this process has inherited, except the three standard streams, as
/// close-on-exec. Call it first in `main`: Rust opens all later descriptors that way.
pub fn close_descriptors_on_exec() {
    close_fds::set_fds_cloexec(3, &[]);
}
