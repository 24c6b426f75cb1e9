//! Programs that serve many calls, such as MCP servers and plugins: their start with pipes, their last
//! words and their end.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use leftfold_framing::clip;
use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::running::{Running, marks, server_mark};
use crate::{environment, system};

/// Lines of a program's standard error that are kept, and bytes of one, to say why it failed.
const LINES: usize = 4;
const LINE: usize = 300;
const PART: u64 = 64 * 1_024;

/// How long the last words of a program are waited for that has hung up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program that is spoken to through its standard input and output.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// What logs call it.
    pub name: &'a str,
    /// The program, and its arguments.
    pub command: &'a [String],
    pub directory: &'a Path,
    /// Names of variables that are passed on besides the usual ones ([`environment`]).
    pub passed: &'a [String],
    pub variables: &'a [(String, String)],
}

/// Shows no command and no variables: there may be secrets in them.
impl std::fmt::Debug for Program<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub process: ServerProcess,
    pub last_words: LastWords,
}

impl Program<'_> {
    /// Starts the program in a process group of its own. Its processes end when [`Started::process`] is
    /// dropped at the latest. The first start in a process ends the leftovers of dead nodes before.
    ///
    /// # Errors
    /// Why it can not be started, in words for people.
    pub async fn start(&self) -> Result<Started, String> {
        end_orphans_once().await;
        let (program, arguments) = self.command.split_first().ok_or("its command is empty")?;
        let mark = server_mark();
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.directory)
            .env_clear()
            .envs(environment(self.passed))
            .env("PWD", self.directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(marks(&mark))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                format!("`{program}` can not be started in {}: {error}", self.directory.display())
            })?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let running = leader.map(|leader| Running::new(leader, &mark));
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("its pipes are gone".to_owned());
        };
        let last_words = LastWords::of(self.name, stderr);
        Ok(Started { stdin, stdout, process: ServerProcess { child, running }, last_words })
    }
}

/// The process of a program, and all that it has started. They end with this value at the latest.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    running: Option<Running>,
}

impl ServerProcess {
    /// Waits at most `limit` until the program has ended by itself; how it has, if so.
    pub async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        tokio::time::timeout(limit, self.child.wait()).await.ok()?.ok()
    }

    /// Ends all of its processes, SIGTERM before SIGKILL, and answers when they are gone.
    pub async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
        // it is dead by now; only its status is fetched
        let _ = self.wait(LAST_WORDS).await;
    }
}

/// Ends the leftovers of servers whose nodes have died: once in this process.
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
    // it can fail only by panicking, and the servers start all the same
    let _ = tokio::task::spawn_blocking(end).await;
}

/// The last lines that a program has written to standard error. They are read as long as it writes.
#[derive(Debug)]
pub struct LastWords {
    lines: Arc<Mutex<VecDeque<String>>>,
    reading: tokio::task::JoinHandle<()>,
}

impl LastWords {
    /// Reads `stderr` from now on; `name` is what logs call the program.
    fn of(name: &str, stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let (kept, name) = (Arc::clone(&lines), name.to_owned());
        let reading = tokio::spawn(async move {
            let mut stderr = BufReader::new(stderr);
            let mut line = Vec::new();
            // a line without an end is taken in parts
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

    /// Puts the last lines behind `why` the program has failed.
    pub async fn after(self, why: &str) -> String {
        // a process that it has left behind may hold the pipe open
        let _ = tokio::time::timeout(LAST_WORDS, self.reading).await;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
        match said.as_slice() {
            [] => why.to_owned(),
            said => format!("{why}; it said: {}", said.join(" | ")),
        }
    }
}
