//! Runs one command line: starts its processes, captures its output and ends it. [`become_shell`]
//! does the first part in a process that another program, such as an editor's terminal, has
//! started.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use leftfold_process::{self as processes, CallProcesses, environment};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::Context;
use crate::capture::{Capture, Captured};

/// How long to read output after the shell has ended. A background process may hold the pipe open
/// for ever.
const GRACE: Duration = Duration::from_millis(100);

/// Least time between two progress reports. For long commands it is a tenth of the time run so far.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// Time of the first progress report: early, because people are watching.
const FIRST_REPORT: Duration = Duration::from_millis(50);

/// Bytes of one progress report.
pub(crate) const REPORT: usize = 1_024;

/// Bytes of the last report before the deadline, and how long before the deadline it is sent at
/// most.
const LAST_REPORT: usize = 16 * 1_024;
const LAST_BEFORE: Duration = Duration::from_millis(100);

/// Bytes of all progress reports of one call.
const REPORTS: usize = 64 * 1_024;

/// The shell: bash if it is installed.
static SHELL: LazyLock<&str> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join("bash").is_file());
    if found { "bash" } else { "sh" }
});

/// The program that runs command lines: `bash`, or `sh` where there is none.
pub fn shell() -> &'static str {
    &SHELL
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    /// `None` if the command was cancelled.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: Captured,
}

/// Runs `line` in `folder` until it ends or the call is cancelled. Ends every process that the
/// command has started. Standard output and standard error are one stream, in the order of writing.
///
/// # Errors
/// The shell could not be started.
pub(crate) async fn run(line: &str, folder: &Path, cx: &Context) -> io::Result<CommandResult> {
    let (mut child, running, mut pipe) = start(line, folder, cx)?;
    let mut capture = Capture::new(&cx.workspace, &cx.call);
    let status = follow(&mut child, &mut pipe, &mut capture, cx).await?;
    // dropping `running` ends the processes in the background, so the caller learns of a
    // cancellation at once
    if status.is_some() {
        running.end().await;
    }
    Ok(CommandResult { status, output: capture.finish() })
}

/// The shell command for `line`, with only the allowed part of this process's environment.
fn shell_for(line: &str, folder: &Path, added: &[String], call_env: &str) -> process::Command {
    let mut shell = process::Command::new(*SHELL);
    shell
        .arg("-c")
        .arg(line)
        .current_dir(folder)
        .env_clear()
        .envs(environment(added))
        .env("PWD", folder)
        .envs(processes::marks(call_env))
        .stdin(Stdio::null());
    shell
}

/// Turns this process into the shell that runs `line` in the current folder, for the call that the
/// variable `LEFTFOLD_CALL` names, in a process group of its own. Used in a terminal that another
/// program has opened. Returns only if that fails.
pub fn become_shell(line: &str, added: &[String]) -> io::Error {
    let folder = match std::env::current_dir() {
        Ok(folder) => folder,
        Err(error) => return error,
    };
    let call_env = std::env::var(processes::CALL).unwrap_or_default();
    let mut shell = shell_for(line, &folder, added, &call_env);
    // what the command leaves behind stays a descendant of the shell as long as the shell runs; a
    // sandbox may forbid it
    let _ = processes::become_subreaper();
    // must follow the marks, which name the terminal's own group; a session leader leads its group
    // already
    let _ = rustix::process::setpgid(None, None);
    // the output is for a model, so colours are useless
    shell.env("TERM", "dumb").exec()
}

fn start(line: &str, folder: &Path, cx: &Context) -> io::Result<(Child, CallProcesses, Receiver)> {
    let (reader, writer) = io::pipe()?;
    let mut shell = shell_for(line, folder, &cx.workspace.environment, &cx.call_env);
    // variables that plugins add cannot override the marks
    let added = cx.variables.iter().map(|(name, value)| (name, value));
    shell.envs(added).envs(processes::marks(&cx.call_env));
    shell.stdout(writer.try_clone()?).stderr(writer);
    let (child, running) = processes::spawn_isolated(Command::from(shell), &cx.call_env)?;
    Ok((child, running, Receiver::from_owned_fd(OwnedFd::from(reader))?))
}

/// Captures the output until the command ends. `None` if it was cancelled.
async fn follow(
    child: &mut Child,
    pipe: &mut Receiver,
    capture: &mut Capture,
    cx: &Context,
) -> io::Result<Option<ExitStatus>> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut open, mut status) = (true, None);
    let mut progress = Reports::new(cx.deadline.map(Instant::from_std));
    let grace = tokio::time::sleep(Duration::MAX);
    tokio::pin!(grace);
    while open || status.is_none() {
        // in this order, so that a flood of output does not delay the rest
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {
                drain(pipe, capture);
                return Ok(None);
            }
            () = &mut grace, if status.is_some() => break,
            ended = child.wait(), if status.is_none() => {
                status = Some(ended?);
                grace.as_mut().reset(Instant::now() + GRACE);
            }
            () = tokio::time::sleep_until(progress.next) => progress.report(capture, cx),
            read = pipe.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(read) => capture.push(&buffer[..read]),
            },
        }
    }
    Ok(status)
}

/// Reads the output that waits in the pipe, at most what a pipe holds. It reads the pipe directly,
/// because tokio may not know yet that there is something to read.
fn drain(pipe: &Receiver, capture: &mut Capture) {
    let mut buffer = vec![0; 64 * 1024];
    if let Ok(read) = rustix::io::read(pipe, &mut buffer) {
        capture.push(&buffer[..read]);
    }
}

/// Schedules progress reports and counts their bytes.
pub(crate) struct Reports {
    start: Instant,
    next: Instant,
    /// Time of the last report, shortly before the deadline. If the command runs out of time, the
    /// model sees the output of this report.
    last: Option<Instant>,
    seen: u64,
    left: usize,
}

impl Reports {
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        let start = Instant::now();
        let last = deadline.map(|deadline| {
            let whole = deadline.saturating_duration_since(start);
            start + whole.saturating_sub(LAST_BEFORE.min(whole / 4))
        });
        let mut reports = Self { start, next: start, last, seen: 0, left: REPORTS };
        reports.schedule(FIRST_REPORT);
        reports
    }

    fn schedule(&mut self, after: Duration) {
        let next = Instant::now() + after;
        self.next =
            self.last.filter(|last| *last > Instant::now()).map_or(next, |last| next.min(last));
    }

    /// Time of the next report.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    fn report(&mut self, capture: &Capture, cx: &Context) {
        self.report_tail(capture.bytes(), |size| capture.last(size), cx);
    }

    /// Reports the `tail` of the output, `bytes` long in all, if a report is due and there is new
    /// output.
    pub(crate) fn report_tail(
        &mut self,
        bytes: u64,
        tail: impl FnOnce(usize) -> String,
        cx: &Context,
    ) {
        let is_last = self.last.is_some_and(|last| last <= Instant::now());
        if is_last {
            self.last = None;
        }
        self.schedule(REPORT_EVERY.max(self.start.elapsed() / 10));
        let size = if is_last { LAST_REPORT } else { REPORT };
        if bytes == self.seen && !is_last {
            return;
        }
        let tail = tail(size);
        if !tail.is_empty() && (is_last || tail.len() <= self.left) {
            self.seen = bytes;
            self.left = self.left.saturating_sub(tail.len());
            (cx.progress)(tail);
        }
    }
}
