//! A process beside a conversation that outlives it. If the conversation is killed, nobody else can give the terminal
//! back: the cursor may be hidden, and keys and changes of the focus are reported as codes.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, TryLockError};

use rustix::termios::{
    self, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios,
};

/// The only argument of the process.
const ARGUMENT: &str = "restore-terminal";
/// The bytes by which the conversation says that it takes the terminal, and that it gives it back.
const TAKEN: u8 = b'1';
const GIVEN_BACK: u8 = b'0';

/// Ends what a conversation asks of a terminal, wraps long lines, and shows the cursor.
pub(crate) const OFF: &str = "\x1b[?2026l\x1b[?7h\x1b[?1004l\x1b[<u\x1b[?2004l\x1b[?25h";

/// The process, once it runs.
static RESTORER: Mutex<Option<Child>> = Mutex::new(None);

/// Starts the process, for a terminal that is taken now.
pub(crate) fn start() {
    let spawned = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        leftfold_process::spawn_companion(
            command.arg(ARGUMENT).stdin(Stdio::piped()).stderr(Stdio::null()),
        )
    });
    match spawned {
        Ok(child) => {
            if let Ok(mut restorer) = RESTORER.lock() {
                *restorer = Some(child);
            }
            say(true);
        }
        // the next start repairs what it can
        Err(error) => tracing::debug!("nobody restores the terminal after a crash: {error}"),
    }
}

/// Says whether the conversation has the terminal.
pub(crate) fn say(is_taken: bool) {
    let mut restorer = match RESTORER.try_lock() {
        Ok(restorer) => restorer,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // a panic in another thread gives the terminal back at this moment
        Err(TryLockError::WouldBlock) => return,
    };
    let pipe = restorer.as_mut().and_then(|child| child.stdin.as_mut());
    if let Some(pipe) = pipe {
        // without the process nothing is restored
        let _ = pipe.write_all(&[if is_taken { TAKEN } else { GIVEN_BACK }]);
    }
}

/// Becomes such a process, if the program was started as one: call it early in `main`, before any thread starts.
/// `None`: it was not.
pub fn become_restorer() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_restorer = arguments.next()? == ARGUMENT && arguments.next().is_none();
    is_restorer.then(|| {
        // keys and the end of the terminal are signals for the conversation
        let _ = rustix::process::setsid();
        restore_after(io::stdin().lock());
        ExitCode::SUCCESS
    })
}

/// Reads until the conversation has ended.
fn restore_after(mut conversation: impl Read) {
    let mut last = None;
    let mut byte = [0];
    while let Ok(1) = conversation.read(&mut byte) {
        last = Some(byte[0]);
    }
    if last != Some(TAKEN) {
        return;
    }
    // a terminal that is gone needs nothing
    let mut terminal = io::stdout();
    let _ = terminal.write_all(OFF.as_bytes()).and_then(|()| terminal.flush());
    // most shells have done it already, and may be reading keys again
    if let Ok(mode) = termios::tcgetattr(&terminal)
        && is_raw(&mode)
    {
        let _ = termios::tcsetattr(&terminal, OptionalActions::Now, &make_usual(mode));
    }
}

/// Whether it is the mode of a conversation. Shells that read keys one by one leave signals and line ends on.
fn is_raw(mode: &Termios) -> bool {
    !mode.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
        && !mode.output_modes.contains(OutputModes::OPOST)
}

/// The mode with what people expect of a terminal.
pub(crate) fn make_usual(mut mode: Termios) -> Termios {
    mode.local_modes |= LocalModes::ICANON
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK
        | LocalModes::ISIG
        | LocalModes::IEXTEN;
    mode.input_modes |= InputModes::ICRNL | InputModes::IXON;
    mode.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    mode.special_codes[SpecialCodeIndex::VMIN] = 1;
    mode
}
