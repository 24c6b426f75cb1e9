//! Reads keys, pastes and changes of the focus on a thread of its own, which never waits for the program: so the time
//! of a key is known.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leftfold_config::{Key, KeyName};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::key_parser::{Input, KeyParser};

/// Everything that was read at once, pressed at `at` at the earliest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) inputs: Vec<Input>,
    pub(super) at: Instant,
}

/// Reads until it is dropped.
#[derive(Debug)]
pub(super) struct Keys {
    /// Closes on drop, which ends the reading.
    hold: Option<PipeWriter>,
    batches: mpsc::UnboundedReceiver<Batch>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        let (held, hold) = io::pipe()?;
        let (sender, batches) = mpsc::unbounded_channel();
        let mut reader = KeyReader::new(Instant::now());
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            loop {
                let Ok(batch) = reader.next(Some(&held), None) else { return };
                if batch.is_some_and(|batch| sender.send(batch).is_err()) {
                    return;
                }
            }
        })?;
        Ok(Self { hold: Some(hold), batches, thread: Some(thread) })
    }

    /// The next keys. `None`: the terminal has ended.
    pub(super) async fn next(&mut self) -> Option<Batch> {
        self.batches.recv().await
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        drop(self.hold.take());
        // the thread only waits for the pipe that was just closed
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads the keys of standard input.
#[derive(Debug)]
pub(super) struct KeyReader {
    parser: KeyParser,
    /// No key that is read from here on was pressed before this instant.
    idle: Instant,
}

impl KeyReader {
    pub(super) fn new(idle: Instant) -> Self {
        Self { parser: KeyParser::default(), idle }
    }

    /// The next keys. `None`: nothing was typed in this time, or nothing that means something.
    ///
    /// # Errors
    /// The terminal has ended, or the writing end of `held` is closed.
    pub(super) fn next(
        &mut self,
        held: Option<&io::PipeReader>,
        patience: Option<Duration>,
    ) -> io::Result<Option<Batch>> {
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
        let mut inputs = Vec::new();
        loop {
            self.parser.push(&read()?);
            inputs.extend(self.parser.inputs(false));
            let patience = self.parser.patience().unwrap_or_default();
            if !is_ready(held, Some(patience))? {
                break;
            }
        }
        inputs.extend(self.parser.inputs(true));
        self.idle = Instant::now();
        Ok((!inputs.is_empty()).then_some(Batch { inputs, at }))
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

/// # Errors
/// The terminal has ended.
fn read() -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    match rustix::io::read(io::stdin(), &mut bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.truncate(read);
            Ok(bytes)
        }
    }
}

/// The character that a key types, as `AnswerGate` takes it: Enter, Backspace, Esc, Ctrl-D and Ctrl-U are the
/// characters that they send.
pub(super) fn typed(key: KeyEvent) -> Option<char> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    match key.code {
        _ if alt => None,
        KeyCode::Enter => Some('\n'),
        KeyCode::Char('j') if control => Some('\n'),
        KeyCode::Backspace => Some('\u{7f}'),
        KeyCode::Char('h') if control => Some('\u{7f}'),
        KeyCode::Esc => Some(leftfold_view::ESCAPE),
        KeyCode::Char('d') if control => Some(leftfold_view::CTRL_D),
        KeyCode::Char('u') if control => Some(leftfold_view::CTRL_U),
        KeyCode::Char(c) if !control => Some(c),
        _ => None,
    }
}

/// The key as settings name it; `None`: settings have no name for it.
pub(super) fn named(key: KeyEvent) -> Option<Key> {
    let has = |modifier| key.modifiers.contains(modifier);
    let mut shift = has(KeyModifiers::SHIFT);
    let code = match key.code {
        KeyCode::Char(c) => {
            shift = false;
            KeyName::Char(c.to_lowercase().next().unwrap_or(c))
        }
        KeyCode::BackTab => {
            shift = true;
            KeyName::Tab
        }
        KeyCode::F(n) => KeyName::Function(n),
        KeyCode::Enter => KeyName::Enter,
        KeyCode::Tab => KeyName::Tab,
        KeyCode::Esc => KeyName::Esc,
        KeyCode::Backspace => KeyName::Backspace,
        KeyCode::Delete => KeyName::Delete,
        KeyCode::Insert => KeyName::Insert,
        KeyCode::Up => KeyName::Up,
        KeyCode::Down => KeyName::Down,
        KeyCode::Left => KeyName::Left,
        KeyCode::Right => KeyName::Right,
        KeyCode::Home => KeyName::Home,
        KeyCode::End => KeyName::End,
        KeyCode::PageUp => KeyName::PageUp,
        KeyCode::PageDown => KeyName::PageDown,
        _ => return None,
    };
    let (control, alt) = (has(KeyModifiers::CONTROL), has(KeyModifiers::ALT));
    Some(Key { code, control, alt, shift })
}

/// Whether it is Ctrl with this letter.
pub(super) fn is_control(key: KeyEvent, letter: char) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(letter)
}
