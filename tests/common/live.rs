//! A running program whose output is read line by line.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::STEP_TIMEOUT;

pub struct Live {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    /// The output read so far.
    pub seen: String,
}

impl Live {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
                let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, lines, stderr: Some(stderr), seen: String::new() }
    }

    /// Runs the program to its end, with a text as its input.
    pub fn piped(mut command: Command, text: &str) -> Ran {
        command.stdin(Stdio::piped());
        let mut live = Self::start(command);
        // a program that refuses its arguments does not read its input
        let _ = live.input().write_all(text.as_bytes());
        live.wait()
    }

    /// The program's standard input, if it was piped.
    pub fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The next line of standard output, with its end. `None` after the last.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(STEP_TIMEOUT) {
            Ok(line) => {
                self.seen.push_str(&line);
                Some(line)
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                self.signal(Signal::KILL);
                panic!("nothing more came after:\n{}", self.seen);
            }
        }
    }

    /// Reads until an event of this type is printed.
    pub fn until(&mut self, kind: &str) -> Value {
        self.until_event(|event| event["type"] == kind)
    }

    pub fn until_event(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        while let Some(line) = self.line() {
            let event: Value = serde_json::from_str(&line).unwrap();
            if wanted(&event) {
                return event;
            }
        }
        panic!("it never came:\n{}", self.seen);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads to the end, and waits for the exit.
    pub fn wait(mut self) -> Ran {
        while self.line().is_some() {}
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < STEP_TIMEOUT, "it does not exit: {}", self.seen);
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        Ran {
            code: status.code().unwrap_or(-1),
            stdout: std::mem::take(&mut self.seen),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // the process may have exited
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a program: its exit code (-1 after a signal) and its output.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Checks that it exited with `code`.
    pub fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    pub fn ok(self) -> Self {
        self.with(0)
    }

    /// Checks that standard error contains each of `parts`.
    pub fn saying(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }

    /// Each line of standard output as JSON, without the contents behind hashes.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line.get("payload").is_none()).collect()
    }
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shorten = |line: &str| line.chars().take(600).chain(['\n']).collect::<String>();
        let short = |text: &str| text.lines().map(shorten).collect::<String>();
        let (stdout, stderr) = (short(&self.stdout), short(&self.stderr));
        write!(f, "exit {}\n--- stdout\n{stdout}--- stderr\n{stderr}", self.code)
    }
}
