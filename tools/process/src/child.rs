//! Starts and ends programs that serve many calls, such as MCP servers and plugins. Keeps the last
//! lines of their standard error.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use leftfold_framing::clip;
use leftfold_sandbox::{Failure, Message, Profile, own_program};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::helper::{HelperChannel, exit_status};
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
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// Says how a program gets rid of its sandbox, after words about the sandbox.
pub const OPT_OUT: &str = "which `\"sandbox\": \"off\"` in its settings turns off";

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
    /// Whether it is the user's own program, which nothing of a project may replace: it is found outside of projects, and
    /// no variable leads it into one. Variables that settings set are the user's own choice.
    pub is_guarded: bool,
    /// Its processes may use this node's socket as a person may. `false` for programs that the
    /// model controls.
    pub acts_for_user: bool,
    /// The sandbox in which it runs; `None`: none.
    pub profile: Option<&'a Profile>,
}

// Hides the command and the variables: they may contain secrets.
leftfold_events::debug_fields!(Program<'_> { name });

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
        let failed = |error: io::Error| self.not_started(program, &error);
        let (program, usual) = self.found(program).map_err(failed)?;
        let program = &program;
        let Prepared { mut command, input, helper } =
            self.prepare(program, arguments).map_err(failed)?;
        command
            .current_dir(self.directory)
            .env_clear()
            .envs(usual)
            .env("PWD", self.directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(marks(&mark))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // with the command, the other ends of the pipe and the channel are closed here
        let (mut child, mut running) =
            spawn_isolated(Command::from(command), &mark).map_err(failed)?;
        let pipes =
            (input.or_else(|| child.stdin.take()), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("its pipes are gone".to_owned());
        };
        if let Some(helper) = &helper {
            running.hold(helper.descriptor().map_err(failed)?);
        }
        let stderr_tail = StderrTail::of(self.name, stderr);
        let trusted = self.acts_for_user.then(|| Trusted::child(running.leader()));
        let place = format!("`{program}` in {}", self.directory.display());
        let leads_to = leads_out_of(self.directory, program);
        let mut process = ServerProcess {
            child,
            running: Some(running),
            helper,
            place,
            leads_to,
            _trusted: trusted,
        };
        match process.confined().await {
            Ok(()) => Ok(Started { stdin, stdout, process, stderr_tail }),
            Err(why) => {
                process.end().await;
                Err(why)
            }
        }
    }

    /// The program to start, and the environment that it gets without settings.
    fn found(&self, program: &str) -> io::Result<(String, Vec<(OsString, OsString)>)> {
        let usual = environment(self.passed);
        if !self.is_guarded {
            return Ok((program.to_owned(), usual));
        }
        let named = self.variables.iter().find(|(name, _)| name == "PATH");
        let found = match named.filter(|_| !program.contains('/')) {
            Some((_, path)) => leftfold_programs::find_in(std::env::split_paths(path), program)
                .ok_or(io::ErrorKind::NotFound)?,
            None => leftfold_programs::find(program)?,
        };
        let found = found.into_os_string().into_string();
        let found = found.map_err(|_| io::Error::other("its path is not UTF-8"))?;
        Ok((found, leftfold_programs::guarded(usual)))
    }

    fn not_started(&self, program: &str, error: &io::Error) -> String {
        format!("cannot start `{program}` in {}: {error}", self.directory.display())
    }

    /// The command without its environment, and the ends of what belongs to its sandbox.
    fn prepare(&self, program: &str, arguments: &[String]) -> io::Result<Prepared> {
        let Some(profile) = self.profile else {
            let mut command = process::Command::new(program);
            command.args(arguments).stdin(Stdio::piped());
            return Ok(Prepared { command, input: None, helper: None });
        };
        let (reader, writer) = io::pipe()?;
        let (command, channel) = leftfold_sandbox::command_with_input(
            own_program(),
            profile,
            reader.as_fd(),
            program,
            arguments,
        )?;
        let input = ChildStdin::from_std(process::ChildStdin::from(OwnedFd::from(writer)))?;
        Ok(Prepared { command, input: Some(input), helper: Some(HelperChannel::new(channel)?) })
    }
}

/// The folder of the file of `program`, if `program` stands below `directory` and links lead out of it.
fn leads_out_of(directory: &Path, program: &str) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    let program = Path::new(program).strip_prefix(&directory).ok()?;
    let file = directory.join(program).canonicalize().ok()?;
    let folder = file.parent().filter(|folder| !folder.starts_with(&directory));
    folder.map(Path::to_owned)
}

/// A command that can be started.
struct Prepared {
    command: process::Command,
    /// The node's end of the standard input, unless the command makes it.
    input: Option<ChildStdin>,
    helper: Option<HelperChannel>,
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Exited(ExitStatus),
    /// It never ran. The reason, in words for people.
    NotStarted(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "it ended at once ({status})"),
            Self::NotStarted(why) => f.write_str(why),
        }
    }
}

/// A program's process, with all processes it has started. Dropping the value ends them.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    running: Option<CallProcesses>,
    helper: Option<HelperChannel>,
    /// The program and its folder, for errors.
    place: String,
    /// The folder of the program's file, if links lead to it out of the folder in which it starts.
    leads_to: Option<PathBuf>,
    _trusted: Option<Trusted>,
}

impl ServerProcess {
    /// Whether the program runs in a sandbox.
    pub fn is_confined(&self) -> bool {
        self.helper.is_some()
    }

    /// Waits until the program is confined and about to start.
    async fn confined(&mut self) -> Result<(), String> {
        let Some(helper) = &mut self.helper else { return Ok(()) };
        match helper.receive().await {
            Ok(Some(Message::Ready(_))) => Ok(()),
            Ok(Some(Message::Failed(failure))) => Err(self.not_confined(&failure)),
            Ok(Some(Message::Report(_)) | None) => {
                let why = "the helper ended without a report";
                Err(self.not_confined(&Failure::new("start helper", why)))
            }
            Err(error) => Err(self.not_confined(&Failure::of_system("read report", None, &error))),
        }
    }

    fn not_confined(&self, failure: &Failure) -> String {
        match failure.step.as_str() {
            "start" => {
                let why = format!("cannot start {}: {}", self.place, failure.why);
                let Some(folder) = &self.leads_to else { return why };
                format!(
                    "{why}. Links lead to {}: if the sandbox hides that folder, name it in `sandbox.show`",
                    folder.display()
                )
            }
            _ => format!(
                "it does not start: its sandbox, {OPT_OUT}, could not be set up ({failure})"
            ),
        }
    }

    /// Waits at most `limit` for the program to end.
    pub async fn wait(&mut self, limit: Duration) -> Option<End> {
        tokio::time::timeout(limit, self.ended()).await.ok()?
    }

    async fn ended(&mut self) -> Option<End> {
        while let Some(helper) = &mut self.helper {
            match helper.receive().await {
                Ok(Some(Message::Ready(_))) => {}
                Ok(Some(Message::Failed(failure))) => {
                    return Some(End::NotStarted(self.not_confined(&failure)));
                }
                // other processes of the program may still run
                Ok(Some(Message::Report(report))) => {
                    return Some(End::Exited(exit_status(&report)));
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.child.wait().await.ok().map(End::Exited)
    }

    /// Ends all of its processes with SIGTERM, then SIGKILL. Returns when they are gone.
    pub async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
        // the process has ended: this only collects its status
        let _ = tokio::time::timeout(STDERR_TIMEOUT, self.child.wait()).await;
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

/// The last lines that a program has written to standard error, and the first one that names an error: a trace may follow
/// it. A task reads them as long as the program writes.
#[derive(Debug)]
pub struct StderrTail {
    lines: Arc<Mutex<Lines>>,
    reading: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Lines {
    first_error: Option<String>,
    last: VecDeque<String>,
}

impl Lines {
    fn add(&mut self, line: String) {
        if self.first_error.is_none() && line.to_ascii_lowercase().contains("error") {
            self.first_error = Some(line.clone());
        }
        self.last.push_back(line);
        if self.last.len() > LINES {
            self.last.pop_front();
        }
    }

    /// All lines in their order.
    fn text(&self) -> String {
        let last = self.last.iter().filter(|line| !line.is_empty());
        let error = self.first_error.as_ref().filter(|error| !self.last.contains(error));
        let gap = error.map(|_| "…");
        let all = error.map(String::as_str).into_iter().chain(gap);
        all.chain(last.map(String::as_str)).collect::<Vec<_>>().join(" | ")
    }
}

impl StderrTail {
    /// Starts to read `stderr`. `name` is the program's name in logs.
    fn of(name: &str, stderr: ChildStderr) -> Self {
        let lines = Arc::new(Mutex::new(Lines::default()));
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
                kept.add(said);
            }
        });
        Self { lines, reading }
    }

    /// Appends the last lines to the reason `why` the program failed.
    pub async fn append_to(self, why: &str) -> String {
        // a process that the program has left running may hold the pipe open
        let _ = tokio::time::timeout(STDERR_TIMEOUT, self.reading).await;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.text().as_str() {
            "" => why.to_owned(),
            said => format!("{why}; it said: {said}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_said_also_if_a_trace_follows_it() {
        let said = |all: &[&str]| {
            let mut lines = Lines::default();
            all.iter().for_each(|line| lines.add((*line).to_owned()));
            lines.text()
        };
        assert_eq!(said(&[]), "");
        assert_eq!(said(&["a", "", "Error: b"]), "a | Error: b");
        let traced = ["info", "error: unknown binary", "0: a", "1: b", "2: c", "3: error", "4: e"];
        assert_eq!(said(&traced), "error: unknown binary | … | 1: b | 2: c | 3: error | 4: e");
    }
}
