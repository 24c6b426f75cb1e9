//! Single keys while no line is read, and the terminal's mode with them.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};
use tokio::sync::mpsc;

use super::clean::Cleaner;

/// The terminal's mode as it was found. It is put back in the end, however that comes.
pub(super) struct Mode {
    found: Option<Termios>,
}

impl Mode {
    pub(super) fn found() -> Self {
        Self { found: termios::tcgetattr(io::stdin()).ok() }
    }

    /// While a turn runs: keys make no echo between the lines, come one by one, and Ctrl-C stays a
    /// signal. What is typed ahead is there when the next line is read.
    pub(super) fn watch(&self) {
        let Some(mut mode) = self.found.clone() else { return };
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.local_modes.insert(LocalModes::ISIG);
        set(&mode);
    }

    pub(super) fn restore(&self) {
        if let Some(found) = &self.found {
            set(found);
        }
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        self.restore();
    }
}

fn set(mode: &Termios) {
    if let Err(error) = termios::tcsetattr(io::stdin(), OptionalActions::Now, mode) {
        tracing::debug!("the terminal's mode can not be set: {error}");
    }
}

/// Reads keys as long as this is held.
#[derive(Debug)]
pub(super) struct Keys {
    /// Closes when this is dropped, which ends the reading.
    _hold: PipeWriter,
}

impl Keys {
    /// Keys pressed from now on go to `pressed`: what was typed before the question was seen is no
    /// answer to it.
    pub(super) fn start(pressed: mpsc::UnboundedSender<char>) -> io::Result<Self> {
        let (held, hold) = io::pipe()?;
        let _ = termios::tcflush(io::stdin(), QueueSelector::IFlush);
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut cleaner = Cleaner::default();
            while let Some(bytes) = next(&held) {
                let key = key(&mut cleaner, &bytes);
                if key.is_some_and(|key| pressed.send(key).is_err()) {
                    return;
                }
            }
        })?;
        Ok(Self { _hold: hold })
    }
}

/// What is typed next; `None` when nobody wants to know any more.
fn next(held: &io::PipeReader) -> Option<Vec<u8>> {
    let stdin = io::stdin();
    loop {
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        if !fds[1].revents().is_empty() {
            return None;
        }
        let mut bytes = [0; 64];
        return match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(read) => Some(bytes[..read].to_vec()),
        };
    }
}

/// One key alone: neither a cursor key's sequence nor something pasted.
fn key(cleaner: &mut Cleaner, bytes: &[u8]) -> Option<char> {
    let text = cleaner.clean(std::str::from_utf8(bytes).ok()?);
    let mut chars = text.chars();
    let key = chars.next()?;
    (chars.next().is_none() && !key.is_control()).then(|| key.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_key_is_a_key() {
        for (bytes, expected) in [
            (&b"o"[..], Some('o')),
            (b"A", Some('a')),
            // the sequence of a cursor key ends in a letter
            (b"\x1b[A", None),
            (b"\x1b[Ab", Some('b')),
            (b"once", None),
            (b"\xff", None),
            (b"\r", None),
        ] {
            assert_eq!(key(&mut Cleaner::default(), bytes), expected, "{bytes:?}");
        }
        let mut cleaner = Cleaner::default();
        assert_eq!([key(&mut cleaner, b"\x1b["), key(&mut cleaner, b"A")], [None, None]);
    }
}
