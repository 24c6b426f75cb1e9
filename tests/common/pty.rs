//! Runs the program on a pseudo-terminal and records the screen.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pty_process::blocking::{self, Pty};
use rustix::process::{Pid, Signal};
use rustix::termios::{Termios, tcgetattr};

use super::STEP_TIMEOUT;

/// Rows of every terminal here.
const ROWS: u16 = 60;

pub struct Terminal {
    child: Child,
    /// `None` after it is closed.
    pty: Option<Pty>,
    bytes: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    /// The mode before the program's start.
    mode: Termios,
    /// Whether the program's questions to its terminal are answered.
    answers: bool,
    /// Every byte of output.
    pub raw: String,
}

/// Questions that a program asks its terminal, and the answers: the place of the cursor, and the kind
/// of the terminal.
const QUERIES: [(&[u8], &[u8]); 2] = [(b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62;c")];

impl Terminal {
    pub fn start(mut command: Command, columns: u16) -> Self {
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let (pty, pts) = blocking::open().unwrap();
        pty.resize(pty_process::Size::new(ROWS, columns)).unwrap();
        let mode = tcgetattr(&pty).unwrap();
        let child = blocking::Command::from(command).spawn(pts).unwrap();
        let mut reader = std::fs::File::from(rustix::io::fcntl_dupfd_cloexec(&pty, 0).unwrap());
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // when the program ends, reading its terminal gives an error
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = |n| std::num::NonZero::new(n).unwrap();
        let parser = vt100::Parser::new(size(ROWS), size(columns), 0);
        Self { child, pty: Some(pty), bytes, parser, mode, answers: false, raw: String::new() }
    }

    /// Answers the questions that the program asks its terminal.
    pub fn answering(mut self) -> Self {
        self.answers = true;
        self
    }

    /// The text on the screen.
    pub fn shown(&self) -> String {
        self.parser.screen().contents()
    }

    /// Waits until the screen satisfies the condition.
    pub fn until_so(&mut self, what: &str, so: impl Fn(&vt100::Screen) -> bool) -> &mut Self {
        let start = Instant::now();
        while !so(self.parser.screen()) {
            assert!(start.elapsed() < STEP_TIMEOUT, "still not {what}:\n{}", self.shown());
            assert!(self.read(), "it has ended without {what}:\n{}", self.shown());
        }
        self
    }

    /// Waits for a text on the screen.
    pub fn until(&mut self, text: &str) -> &mut Self {
        self.until_so(text, |screen| screen.contents().contains(text))
    }

    /// Waits until a prompt can be typed.
    pub fn until_prompt(&mut self) -> &mut Self {
        self.until_so("a prompt", |screen| {
            let (row, column) = screen.cursor_position();
            let line = screen.contents_between(row, 0, row, u16::MAX);
            column == 2 && ["›", "› Describe a task, or ask a question"].contains(&line.trim_end())
        })
    }

    pub fn press(&mut self, keys: &str) -> &mut Self {
        self.pty.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Gives the terminal another width.
    pub fn resize(&mut self, columns: u16) -> &mut Self {
        self.pty.as_ref().unwrap().resize(pty_process::Size::new(ROWS, columns)).unwrap();
        let size = |n| std::num::NonZero::new(n).unwrap();
        self.parser.screen_mut().set_size(size(ROWS), size(columns));
        self
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads what comes within this time.
    pub fn read_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(bytes) = self.bytes.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.take(&bytes);
        }
    }

    /// Whether the terminal has the mode that it had before the program's start, and shows its cursor.
    pub fn is_usual(&self) -> bool {
        let mode = tcgetattr(self.pty.as_ref().unwrap()).unwrap();
        mode.local_modes == self.mode.local_modes
            && mode.input_modes == self.mode.input_modes
            && mode.output_modes == self.mode.output_modes
            && !self.parser.screen().hide_cursor()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Reads to the end. Returns the exit code, or the negative number of the signal.
    pub fn wait(&mut self) -> i32 {
        while self.read() {}
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }

    fn take(&mut self, bytes: &[u8]) {
        let asked = |query: &[u8]| bytes.windows(query.len()).any(|found| found == query);
        let queries = QUERIES.iter().filter(|(query, _)| self.answers && asked(query));
        for (_, answer) in queries {
            // the program may have ended
            let _ = self.pty.as_mut().map(|pty| pty.write_all(answer));
        }
        self.parser.process(bytes);
        self.raw.push_str(&String::from_utf8_lossy(bytes));
    }

    /// Whether there was more output.
    fn read(&mut self) -> bool {
        match self.bytes.recv_timeout(STEP_TIMEOUT) {
            Ok(bytes) => {
                self.take(&bytes);
                true
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => false,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("nothing more came after:\n{}", self.shown());
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // the process may have exited
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
