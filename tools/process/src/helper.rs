//! The node's end of the channel to the helper of a sandbox, for tasks that must not block.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use leftfold_sandbox::{Channel, Message, Report};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// The channel to the helper of a program in a sandbox. The program ends when nobody holds this end.
#[derive(Debug)]
pub struct HelperChannel {
    stream: UnixStream,
    read: Vec<u8>,
}

impl HelperChannel {
    /// # Errors
    /// The process has no descriptors left.
    pub fn new(channel: Channel) -> io::Result<Self> {
        let stream = channel.into_stream();
        stream.set_nonblocking(true)?;
        Ok(Self { stream: UnixStream::from_std(stream)?, read: Vec::new() })
    }

    /// Another descriptor of the channel, for [`CallProcesses::hold`](crate::CallProcesses::hold): a cancelled program
    /// then has time to end itself.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.stream.as_fd().try_clone_to_owned()
    }

    /// Waits for the next message. `None` once the helper has ended. A wait that is dropped loses nothing.
    ///
    /// # Errors
    /// Errors of reading, and a line that is not a message.
    pub async fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Message::parse(&String::from_utf8_lossy(&line)).map(Some);
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// The status of the program whose end the report describes, as `wait(2)` gives it.
pub fn exit_status(report: &Report) -> ExitStatus {
    ExitStatus::from_raw(report.signal.unwrap_or(report.code.unwrap_or_default() << 8))
}
