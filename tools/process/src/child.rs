//! Starts and ends programs that serve many calls, such as MCP servers and plugins. Keeps the last
//! lines of their standard error.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use leftfold_framing::clip;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::isolation::spawn_isolated;
use crate::running::{CallProcesses, marks, server_mark};
use crate::system::Trusted;
use crate::{environment, system};

/// Limits of the kept standard error, which says why a program failed: lines, and bytes of one
/// line.
const LINES: usize = 4;
const LINE: usize = 300;
const PART: u64 = 64 * 1_024;

/// How long to wait for the rest of standard error after a program has closed its connection.
const STDERR_WAIT: Duration = Duration::from_secs(1);

/// A program to speak to through its standard input and output.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its name in logs.
    pub name: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    pub directory: &'a Path,
    /// Variables that it gets in addition to the usual ones ([`environment`]).
    pub passed: &'a [String],
    pub variables: &'a [(String, String)],
    /// Its processes may use this node's socket as a person may. `false` for programs that the
    /// model controls.
    pub acts_for_user: bool,
}

/// Hides the command and the variables: they may contain secrets.
impl std::fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A running program.
#[derive(Debug)]
pub struct Started {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub process: ServerProcess,
    pub stderr_tail: StderrTail,
}

impl Program<'_> {
    /// Starts the program in a session of its own, without a terminal. Its processes end when
    /// [`Started::process`] is dropped at the latest. The first start in a process also ends
    /// servers that dead nodes have left running.
    ///
    /// # Errors
    /// The reason why it cannot start, in words for people.
    pub async fn start(&self) -> Result<Started, String> {
        end_orphans_once().await;
        let (program, arguments) = self.command.split_first().ok_or("its command is empty")?;
        let mark = server_mark();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.directory)
            .env_clear()
            .envs(environment(self.passed))
            .env("PWD", self.directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(marks(&mark))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, running) = spawn_isolated(command, &mark).map_err(|error| {
            format!("cannot start `{program}` in {}: {error}", self.directory.display())
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("its pipes are gone".to_owned());
        };
        let stderr_tail = StderrTail::of(self.name, stderr);
        let trusted = self.acts_for_user.then(|| Trusted::child(running.leader()));
        let process = ServerProcess { child, running: Some(running), _trusted: trusted };
        Ok(Started { stdin, stdout, process, stderr_tail })
    }
}

/// A program's process, with all processes it has started. Dropping the value ends them.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    running: Option<CallProcesses>,
    _trusted: Option<Trusted>,
}

impl ServerProcess {
    /// Waits at most `limit` for the program to exit. Returns its status if it did.
    pub async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        tokio::time::timeout(limit, self.child.wait()).await.ok()?.ok()
    }

    /// Ends all of its processes with SIGTERM, then SIGKILL. Returns when they are gone.
    pub async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
        // the process has ended: this only collects its status
        let _ = self.wait(STDERR_WAIT).await;
    }
}

/// Ends servers of dead nodes, once per process.
async fn end_orphans_once() {
    static ENDED: Once = Once::new();
    if ENDED.is_completed() {
        return;
    }
    let end = || {
        ENDED.call_once(|| {
            let ended = system::end_orphans();
            tracing::debug!("{ended} processes of servers of dead nodes were ended");
        });
    };
    // the task fails only by panicking, and servers start without it
    let _ = tokio::task::spawn_blocking(end).await;
}

/// The last lines that a program has written to standard error. A task reads them as long as the
/// program writes.
#[derive(Debug)]
pub struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    reading: tokio::task::JoinHandle<()>,
}

impl StderrTail {
    /// Starts to read `stderr`. `name` is the program's name in logs.
    fn of(name: &str, stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, name) = (Arc::clone(&lines), name.to_owned());
        let reading = tokio::spawn(async move {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            // a line without an end is read in parts
            while (&mut stderr).take(PART).read_until(b'\n', &mut line).await.is_ok_and(|n| n > 0) {
                let said = clip(String::from_utf8_lossy(&line).trim().to_owned(), LINE);
                line.clear();
                tracing::debug!(program = %name, "{said}");
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(said);
                if kept.len() > LINES {
                    kept.pop_front();
                }
            }
        });
        Self { lines, reading }
    }

    /// Appends the last lines to the reason `why` the program failed.
    pub async fn append_to(self, why: &str) -> String {
        // a process that the program has left running may hold the pipe open
        let _ = tokio::time::timeout(STDERR_WAIT, self.reading).await;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
        match said.as_slice() {
            [] => why.to_owned(),
            said => format!("{why}; it said: {}", said.join(" | ")),
        }
    }
}
