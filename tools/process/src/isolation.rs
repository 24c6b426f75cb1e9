//! Starts processes without a way to the person's terminal: in a session of their own, which has no
//! controlling terminal, and with no descriptors but the three that the caller sets.

use std::any::Any;
use std::io;

use process_wrap::tokio::{CommandWrap, ProcessSession};
use tokio::process::{Child, Command};

use crate::system;

/// Starts `command` as the leader of a session and a process group of its own. It cannot open
/// `/dev/tty`, and a hangup or an interrupt of this process's terminal does not reach it. Set all
/// three standard streams: an inherited one may be the terminal.
///
/// # Errors
/// The program could not be started.
pub fn spawn_isolated(command: Command) -> io::Result<Child> {
    system::mark_as_node();
    system::limit_children();
    let mut command = CommandWrap::from(command);
    let child = command.wrap(ProcessSession).spawn()?;
    let child: Box<dyn Any> = child.into_inner();
    match child.downcast::<Child>() {
        Ok(child) => Ok(*child),
        Err(_) => Err(io::Error::other("the started process has an unknown kind")),
    }
}

/// Marks every descriptor that this process has inherited, except the three standard streams, as
/// close-on-exec. Call it first in `main`: Rust opens all later descriptors that way.
pub fn close_descriptors_on_exec() {
    close_fds::set_fds_cloexec(3, &[]);
}
