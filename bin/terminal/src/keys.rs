//! Reads single keys while no line is read, and manages the terminal's mode.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::sync::mpsc as blocking;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc;

use super::screen;
use leftfold_view::clean::Cleaner;
use leftfold_view::{CTRL_D, CTRL_U, ESCAPE};

/// Keys that keep their meaning while other control characters are removed.
const CONTROLS: [char; 5] = [CTRL_D, CTRL_U, '\u{8}', '\u{7f}', CTRL_C];
/// The character that Ctrl-C sends if it is not a signal.
pub(super) const CTRL_C: char = '\u{3}';
/// After ESC alone, the rest of a sequence arrives within this time.
const SEQUENCE: Duration = Duration::from_millis(50);
/// A terminal that marks pastes sends these before and after the text.
const PASTE_STARTS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// The terminal's original mode, which is restored at the end, also after a panic.
pub(super) struct Mode {
    found: Option<Termios>,
}

impl Mode {
    pub(super) fn found() -> Self {
        Self { found: termios::tcgetattr(io::stdin()).ok() }
    }

    /// Sets the mode for a running turn: no echo, keys come one by one, pastes are marked, and Ctrl-C
    /// stays a signal. Keys typed ahead are in the next line that is read.
    pub(super) fn watch(&self) {
        let Some(mut mode) = self.found.clone() else { return };
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.local_modes.insert(LocalModes::ISIG);
        set(&mode);
        screen::mark_pastes(true);
    }

    /// As [`Self::watch`], and Ctrl-C is a key: it would end the program before the mode is restored.
    pub(super) fn take_all_keys(&self) {
        let Some(mut mode) = self.found.clone() else { return };
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        set(&mode);
        screen::mark_pastes(true);
    }

    pub(super) fn restore(&self) {
        if let Some(found) = &self.found {
            screen::mark_pastes(false);
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

/// Keys that were read at once, pressed at `at` at the earliest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pressed {
    pub(super) keys: String,
    pub(super) at: Instant,
    /// Whether the terminal has marked any of them as pasted.
    pub(super) pasted: bool,
}

/// Reads keys until it is stopped.
#[derive(Debug)]
pub(super) struct Keys {
    /// Closes on drop, which ends the reading.
    hold: PipeWriter,
    pressed: mpsc::UnboundedReceiver<Pressed>,
    /// Requests the next keys.
    more: blocking::Sender<()>,
    /// Whether keys are being read.
    reading: bool,
    thread: JoinHandle<()>,
}

impl Keys {
    /// Starts reading. Keys that were pressed before are read too, as pressed now: the gate takes
    /// them for a draft, so that they are neither an answer nor lost.
    pub(super) fn start() -> io::Result<Self> {
        let (held, hold) = io::pipe()?;
        let (sender, pressed) = mpsc::unbounded_channel();
        let (more, wanted) = blocking::channel();
        let start = Instant::now();
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut reader = Reader::new(start);
            while wanted.recv().is_ok()
                && let Some(pressed) = reader.next(Some(&held))
            {
                if sender.send(pressed).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { hold, pressed, more, reading: false, thread })
    }

    /// The keys typed at once: one, or more if they come faster than they are read. `None`: the
    /// terminal has ended. Nothing is read ahead, so that later keys are left to the next reader.
    pub(super) async fn next(&mut self) -> Option<Pressed> {
        if !std::mem::replace(&mut self.reading, true) {
            // A reader that has ended has dropped its end of `pressed` too.
            let _ = self.more.send(());
        }
        let pressed = self.pressed.recv().await;
        self.reading = false;
        pressed
    }

    /// Stops reading. Answers the keys that were read and not taken.
    pub(super) fn stop(self) -> Option<Pressed> {
        let Self { hold, mut pressed, more, thread, .. } = self;
        drop((hold, more));
        // The thread only waits for the pipe that was just closed.
        let _ = thread.join();
        pressed.try_recv().ok()
    }
}

/// Reads keys from standard input.
pub(super) struct Reader {
    cleaner: Cleaner,
    /// The start of a character whose end was not read yet.
    begun: Vec<u8>,
    /// No key that is read from here on was pressed before this instant.
    idle: Instant,
    paste: Paste,
}

/// Finds the marks of pastes, which may span several reads.
#[derive(Default)]
struct Paste {
    /// Whether a paste has started and not ended.
    open: bool,
    /// The last bytes, as many as a mark has at most.
    last: Vec<u8>,
}

impl Paste {
    /// Whether any of these bytes is pasted.
    fn has(&mut self, bytes: &[u8]) -> bool {
        let mut any = self.open;
        for byte in bytes {
            if self.last.len() == PASTE_STARTS.len() {
                self.last.remove(0);
            }
            self.last.push(*byte);
            if self.last == PASTE_STARTS {
                self.open = true;
            } else if self.last == PASTE_ENDS {
                self.open = false;
            }
            any |= self.open;
        }
        any
    }
}

impl Reader {
    pub(super) fn new(idle: Instant) -> Self {
        Self { cleaner: Cleaner::default(), begun: Vec::new(), idle, paste: Paste::default() }
    }

    /// The next keys; `None` when the writing end of `held` is closed, or the terminal has ended.
    fn next(&mut self, held: Option<&io::PipeReader>) -> Option<Pressed> {
        self.next_within(held, None).ok()?
    }

    /// As [`Self::next`]. `Ok(None)`: nothing was pressed in this time.
    ///
    /// # Errors
    /// The terminal has ended, or the writing end of `held` is closed.
    pub(super) fn next_within(
        &mut self,
        held: Option<&io::PipeReader>,
        patience: Option<Duration>,
    ) -> io::Result<Option<Pressed>> {
        // a key that is there already was pressed at any time since the last one was read
        let mut at = self.idle;
        if !is_ready(held, Some(Duration::ZERO))? {
            let until = patience.map(|patience| Instant::now() + patience);
            if !is_ready(held, patience)? {
                self.idle = until.unwrap_or(self.idle);
                return Ok(None);
            }
            at = Instant::now();
        }
        let mut bytes = read()?;
        while bytes.last() == Some(&0x1b) && is_ready(held, Some(SEQUENCE))? {
            bytes.extend(read()?);
        }
        self.idle = Instant::now();
        let pasted = self.paste.has(&bytes);
        Ok(Some(Pressed { keys: self.keys(&bytes), at, pasted }))
    }

    /// The typed text with line ends as `\n`, and without the sequences of cursor keys.
    fn keys(&mut self, bytes: &[u8]) -> String {
        if bytes == [0x1b] {
            self.cleaner = Cleaner::default();
            return ESCAPE.to_string();
        }
        self.begun.extend_from_slice(bytes);
        let mut text = String::new();
        while !self.begun.is_empty() {
            let (end, skipped) = match std::str::from_utf8(&self.begun) {
                Ok(whole) => (whole.len(), 0),
                Err(error) => (error.valid_up_to(), error.error_len().unwrap_or(0)),
            };
            text += &String::from_utf8_lossy(&self.begun[..end]);
            self.begun.drain(..end + skipped);
            if skipped == 0 {
                break;
            }
        }
        let mut keys = String::new();
        for piece in text.replace('\r', "\n").split_inclusive(CONTROLS) {
            let bare = piece.trim_end_matches(CONTROLS);
            keys += &self.cleaner.clean(bare);
            keys += &piece[bare.len()..];
        }
        keys
    }
}

/// Whether there is something to read within this time; without `patience`, it waits.
///
/// # Errors
/// The writing end of `held` is closed.
fn is_ready(held: Option<&io::PipeReader>, patience: Option<Duration>) -> io::Result<bool> {
    let stdin = io::stdin();
    let until = patience.map(|patience| Instant::now() + patience);
    loop {
        let mut fds = vec![PollFd::new(&stdin, PollFlags::IN)];
        fds.extend(held.map(|held| PollFd::from_borrowed_fd(held.as_fd(), PollFlags::IN)));
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        if fds.get(1).is_some_and(|held| !held.revents().is_empty()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        return Ok(!fds[0].revents().is_empty());
    }
}

fn read() -> io::Result<Vec<u8>> {
    let mut bytes = [0; 64];
    match rustix::io::read(io::stdin(), &mut bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => Ok(bytes[..read].to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = Reader::new(Instant::now());
        pieces.iter().map(|bytes| reader.keys(bytes)).collect()
    }

    #[test]
    fn sequences_are_no_keys_and_characters_are_whole() {
        for (pieces, expected) in [
            (&[&b"o"[..]][..], &["o"][..]),
            // The sequence of a cursor key ends in a letter.
            (&[b"\x1b[A"], &[""]),
            (&[b"\x1b[Ab"], &["b"]),
            (&[b"\x1b[", b"A"], &["", ""]),
            (&[b"\x1b", b"o"], &["\u{1b}", "o"]),
            (&[b"\xff"], &[""]),
            (&[b"a\xffb"], &["ab"]),
            (&[b"f\xc3", b"\xbcr"], &["f", "ür"]),
            (&[b"two\r"], &["two\n"]),
            (&[b"\x041\n"], &["\x041\n"]),
            (&[b"a\x1b[C\x07b"], &["ab"]),
            (&[b"ab\x7f\x15c"], &["ab\x7f\x15c"]),
            (&["für".as_bytes()], &["für"]),
        ] {
            assert_eq!(typed(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn pastes_are_told_apart_from_keys() {
        for (pieces, expected) in [
            (&[&b"o"[..]][..], &[false][..]),
            (&[b"\x1b[200~o\x1b[201~"], &[true]),
            (&[b"\x1b[200~o\x1b[201~", b"o"], &[true, false]),
            (&[b"\x1b[200~", b"o", b"\x1b[201~", b"o"], &[true, true, true, false]),
            (&[b"\x1b[20", b"0~o", b"\x1b[201", b"~o", b"o"], &[false, true, true, true, false]),
            (&[b"x\x1b[200~\x1b[201~y"], &[true]),
            (&[b"\x1b[201~o"], &[false]),
            (&[b"\x1b[A"], &[false]),
        ] {
            let mut paste = Paste::default();
            let found: Vec<bool> = pieces.iter().map(|bytes| paste.has(bytes)).collect();
            assert_eq!(found, expected, "{pieces:?}");
        }
        assert_eq!(typed(&[b"\x1b[200~o\x1b[201~"]), ["o"]);
    }
}
