//! The channel between a node and the helper: lines of JSON over a pair of sockets, whose other end
//! is the helper's standard input. The command never holds an end of it.
//!
//! | direction | line |
//! | --- | --- |
//! | to the helper | the [`Profile`], once, first, with the command's standard input as a descriptor if it has one |
//! | to the helper | `"term"`: sends SIGTERM to the command's process group |
//! | from the helper | [`Message::Failed`], alone or after `Ready`: nothing has run |
//! | from the helper | [`Message::Ready`], just before the command starts |
//! | from the helper | [`Message::Report`], when the command has ended |
//!
//! If the node's end closes, the helper and, in a PID namespace of its own, every process of the command end.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::profile::{Backend, Profile};
use crate::{HELPER, IN_SANDBOX};

/// Bytes of one line. A profile of this size fits into the buffer of the sockets.
const LINE: usize = 128 * 1_024;

pub(crate) const TERM: &str = "\"term\"";

/// A message of the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    Ready(Ready),
    Failed(Failure),
    Report(Report),
}

/// The confinement in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    pub backend: Backend,
    /// Whether all user ids are mapped, as for root, or only the user's own.
    pub all_ids: bool,
    /// The version of Landlock's interface in force. 0: the kernel has no Landlock.
    pub landlock: u8,
}

/// The end of the command, as the kernel reports it. The command cannot forge it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Exit code, if the command exited.
    pub code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Packets that had no route out of the command's own network: `OutNoRoutes` of IPv4 and IPv6.
    /// 0 if it shares the network of the machine.
    pub no_route: u64,
    /// UDP packets to ports of the own loopback interface that nobody reads, such as those of a
    /// local resolver.
    pub no_ports: u64,
    /// Processes of the whole machine that the kernel killed meanwhile because memory ran out.
    pub oom_kills: u64,
}

impl Message {
    /// Reads one line of the helper.
    ///
    /// # Errors
    /// The line is not a message.
    pub fn parse(line: &str) -> io::Result<Self> {
        Ok(serde_json::from_str(line)?)
    }
}

/// A command for `program` with its `arguments`, confined by `profile`, and the channel to its
/// helper. `helper` is the path of a program that calls [`become_helper`](crate::become_helper)
/// first in `main`: [`own_program`](crate::own_program), or another build of it.
///
/// Set the variables, the folder, standard output and standard error; leave standard input alone,
/// which is `/dev/null` for `program`. Drop the command after its start: it holds the other end of
/// the channel.
///
/// # Errors
/// This system has no sandbox, no socket could be made, or the profile has more than 128 KiB.
pub fn command(
    helper: &Path,
    profile: &Profile,
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item: AsRef<OsStr>>,
) -> io::Result<(Command, Channel)> {
    command_with(helper, profile, None, program.as_ref(), arguments)
}

/// Like [`command`], but `program` gets a copy of `input` as its standard input: the helper's own is the channel.
///
/// # Errors
/// As for [`command`].
pub fn command_with_input(
    helper: &Path,
    profile: &Profile,
    input: BorrowedFd<'_>,
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item: AsRef<OsStr>>,
) -> io::Result<(Command, Channel)> {
    command_with(helper, profile, Some(input), program.as_ref(), arguments)
}

fn command_with(
    helper: &Path,
    profile: &Profile,
    input: Option<BorrowedFd<'_>>,
    program: &OsStr,
    arguments: impl IntoIterator<Item: AsRef<OsStr>>,
) -> io::Result<(Command, Channel)> {
    if !cfg!(any(target_os = "linux", target_os = "macos")) {
        return Err(io::Error::new(ErrorKind::Unsupported, "the sandbox needs Linux or macOS"));
    }
    if helper == crate::own_program() && !crate::can_help() {
        let why = "this program does not call `become_helper` first in `main`";
        return Err(io::Error::new(ErrorKind::Unsupported, why));
    }
    let line = profile.to_line().map_err(io::Error::other)?;
    if line.len() > LINE {
        return Err(io::Error::other("the profile of the sandbox has more than 128 KiB"));
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut channel = Channel { lines: Lines::new(ours) };
    channel.lines.stream.set_nonblocking(true)?;
    channel.lines.send_with(&line, input.as_slice())?;
    channel.lines.stream.set_nonblocking(false)?;
    let mut command = Command::new(helper);
    command.arg(IN_SANDBOX).arg(HELPER).arg(program).args(arguments);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    Ok((command, channel))
}

/// The node's end of the channel. Dropping it ends the command.
#[derive(Debug)]
pub struct Channel {
    lines: Lines,
}

impl Channel {
    /// Waits for the next message. `None` once the helper has ended.
    ///
    /// # Errors
    /// Errors of reading, and a line that is not a message.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        self.lines.receive()?.map(|line| Message::parse(&line)).transpose()
    }

    /// Sends SIGTERM to the command's process group. Does nothing once the command has ended.
    ///
    /// # Errors
    /// The helper has ended.
    pub fn term(&mut self) -> io::Result<()> {
        self.lines.send(TERM)
    }

    /// Makes [`receive`](Self::receive) fail if no message comes within `limit`.
    ///
    /// # Errors
    /// The limit is zero.
    pub fn set_patience(&self, limit: Duration) -> io::Result<()> {
        self.lines.stream.set_read_timeout(Some(limit))
    }

    /// The socket, for callers that read lines and parse them with [`Message::parse`]. Call it
    /// before [`receive`](Self::receive), which reads ahead.
    pub fn into_stream(self) -> UnixStream {
        self.lines.stream
    }
}

/// Lines over a socket.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) stream: UnixStream,
    read: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self::with_rest(stream, Vec::new())
    }

    /// Lines of which `read` has been read already.
    pub(crate) fn with_rest(stream: UnixStream, read: Vec<u8>) -> Self {
        Self { stream, read }
    }

    /// The next line without its end. `None` at the end of the stream.
    pub(crate) fn receive(&mut self) -> io::Result<Option<String>> {
        self.receive_by(|mut stream, part| stream.read(part))
    }

    fn receive_by(
        &mut self,
        mut read: impl FnMut(&UnixStream, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=end).collect();
                line.pop();
                return String::from_utf8(line).map(Some).map_err(io::Error::other);
            }
            if self.read.len() > LINE {
                return Err(io::Error::other("a line has more than 128 KiB"));
            }
            let mut part = [0; 4_096];
            match read(&self.stream, &mut part) {
                Ok(0) => return Ok(None),
                Ok(size) => self.read.extend_from_slice(part.get(..size).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // the other end has closed with unread lines
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn send(&mut self, line: &str) -> io::Result<()> {
        self.send_with(line, &[])
    }

    /// Sends a line, and copies of at most three descriptors with it. [`receive_with`](Self::receive_with) takes them.
    pub(crate) fn send_with(
        &mut self,
        line: &str,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let line = format!("{line}\n");
        let sent = match descriptors {
            [] => 0,
            some => descriptors::send(&self.stream, line.as_bytes(), some)?,
        };
        self.stream.write_all(line.as_bytes().get(sent..).unwrap_or_default())
    }
}

/// For the helper and init.
impl Lines {
    /// The channel of this process, if it is the helper or init.
    pub(crate) fn of_standard_input() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self::new(UnixStream::from(input)))
    }

    /// The next line, and the descriptors that came with it.
    pub(crate) fn receive_with(&mut self) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
        let mut descriptors = Vec::new();
        let line = self.receive_by(|stream, part| {
            let (size, received) = descriptors::receive(stream, part)?;
            descriptors.extend(received);
            Ok(size)
        })?;
        Ok(line.map(|line| (line, descriptors)))
    }

    pub(crate) fn send_message(&mut self, message: &Message) -> io::Result<()> {
        let line = serde_json::to_string(message)?;
        self.send(&line)
    }

    /// Takes the bytes that were read and belong to no line yet.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.read)
    }
}

/// Descriptors that travel with bytes over a socket.
mod descriptors {
    use std::io::{self, IoSlice, IoSliceMut};
    use std::mem::MaybeUninit;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    };

    const SPACE: usize = rustix::cmsg_space!(ScmRights(3));

    /// Sends the descriptors and a part of the bytes. Returns the size of the part.
    pub(super) fn send(
        stream: &UnixStream,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("there is no space for the descriptors"));
        }
        // Rust programs ignore SIGPIPE
        Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?)
    }

    /// Reads bytes, and the descriptors that came with them.
    pub(super) fn receive(
        stream: &UnixStream,
        part: &mut [u8],
    ) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::empty();
        let size = recvmsg(stream, &mut [IoSliceMut::new(part)], &mut control, flags)?.bytes;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        for descriptor in &descriptors {
            // macOS cannot receive them that way
            fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
        }
        Ok((size, descriptors))
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_128_kib_fits_and_a_larger_one_is_refused() {
        let mut profile = Profile::new(Backend::Landlock);
        let start = |profile: &Profile| command(Path::new("helper"), profile, "true", [""; 0]);
        let own = profile.to_line().unwrap().len();
        profile.hidden = vec!["/".repeat(LINE - own - 2).into()];
        assert_eq!(profile.to_line().unwrap().len(), LINE);
        let (command, mut channel) = start(&profile).unwrap();
        drop(command);
        assert_eq!(channel.receive().unwrap(), None);
        profile.hidden.push("/".into());
        assert!(start(&profile).unwrap_err().to_string().contains("128 KiB"));
    }
}
