//! Reads single keys while no line is read, and manages the terminal's mode.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};
use tokio::sync::mpsc;

use leftfold_view::clean::Cleaner;

/// The character that Ctrl-D sends while keys are read.
pub(super) const CTRL_D: char = '\u{4}';

/// The terminal's original mode, which is restored at the end, also after a panic.
pub(super) struct Mode {
    found: Option<Termios>,
}

impl Mode {
    pub(super) fn found() -> Self {
        Self { found: termios::tcgetattr(io::stdin()).ok() }
    }

    /// Sets the mode for a running turn: no echo, keys come one by one, and Ctrl-C stays a signal.
    /// Keys typed ahead are in the next line that is read.
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

/// Reads keys as long as this value lives.
#[derive(Debug)]
pub(super) struct Keys {
    /// Closes on drop, which ends the reading.
    _hold: PipeWriter,
    pressed: mpsc::UnboundedReceiver<String>,
    /// Requests the next keys.
    more: blocking::Sender<()>,
    /// Whether keys are being read.
    reading: bool,
}

impl Keys {
    /// Starts reading. Earlier keys are dropped, because keys typed before the question was shown
    /// do not answer it.
    pub(super) fn start() -> io::Result<Self> {
        let (held, hold) = io::pipe()?;
        let (sender, pressed) = mpsc::unbounded_channel();
        let (more, wanted) = blocking::channel();
        let _ = termios::tcflush(io::stdin(), QueueSelector::IFlush);
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut cleaner = Cleaner::default();
            while wanted.recv().is_ok()
                && let Some(bytes) = next(&held)
            {
                if sender.send(keys(&mut cleaner, &bytes)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { _hold: hold, pressed, more, reading: false })
    }

    /// The keys typed at once: one, or more if they come faster than they are read. `None`: the
    /// terminal has ended. Nothing is read ahead, so that later keys are left to the next reader.
    pub(super) async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.reading, true) {
            // A reader that has ended has dropped its end of `pressed` too.
            let _ = self.more.send(());
        }
        let pressed = self.pressed.recv().await;
        self.reading = false;
        pressed
    }
}

/// The bytes typed next; `None` when this value is dropped.
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

/// The typed text with line ends as `\n`, and without the sequences of cursor keys.
fn keys(cleaner: &mut Cleaner, bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return String::new() };
    let mut keys = String::new();
    for piece in text.replace('\r', "\n").split_inclusive(CTRL_D) {
        let bare = piece.trim_end_matches(CTRL_D);
        keys += &cleaner.clean(bare);
        keys += &piece[bare.len()..];
    }
    keys
}

/// The key, if it is a single one and therefore not pasted.
pub(super) fn single(keys: &str) -> Option<char> {
    let mut chars = keys.chars();
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
            // The sequence of a cursor key ends in a letter.
            (b"\x1b[A", None),
            (b"\x1b[Ab", Some('b')),
            (b"once", None),
            (b"\xff", None),
            (b"\r", None),
            (b"\x04", None),
        ] {
            let keys = keys(&mut Cleaner::default(), bytes);
            assert_eq!(single(&keys), expected, "{bytes:?}");
        }
        let mut cleaner = Cleaner::default();
        assert_eq!([&*keys(&mut cleaner, b"\x1b["), &*keys(&mut cleaner, b"A")], ["", ""]);
    }

    #[test]
    fn what_is_typed_at_once_stays_together() {
        for (bytes, expected) in [
            (&b"two\r"[..], "two\n"),
            (b"\x041\n", "\x041\n"),
            (b"a\x1b[C\x07b", "ab"),
            ("für".as_bytes(), "für"),
        ] {
            assert_eq!(keys(&mut Cleaner::default(), bytes), expected, "{bytes:?}");
        }
    }
}
