//! Runs one command line: starts its processes, captures its output and ends it. [`become_shell`]
//! does the first part in a process that another program, such as an editor's terminal, has
//! started.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leftfold_process::{self as processes, CallProcesses, HelperChannel, environment};
use leftfold_sandbox::{Failure, Message, Report};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::capture::{Capture, Captured};
use crate::sandbox::{Confinement, ConfinementFile, Denied, Traces};
use crate::{Context, Error};

/// How long to read output after the shell has ended. A background process may hold the pipe open
/// for ever.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(100);

/// Least time between two progress reports. For long commands it is a tenth of the time run so far.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// Time of the first progress report: early, because people are watching.
const FIRST_REPORT_DELAY: Duration = Duration::from_millis(50);

/// Bytes of one progress report.
pub(crate) const REPORT: usize = 1_024;

/// Bytes of the last report before the deadline, and how long before the deadline it is sent at
/// most.
const LAST_REPORT: usize = 16 * 1_024;
const LAST_BEFORE: Duration = Duration::from_millis(100);

/// Bytes of all progress reports of one call.
const REPORTS: usize = 64 * 1_024;

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    /// `None` if the command was cancelled.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: Captured,
    /// Accesses that the sandbox denied to it.
    pub(crate) denied: Vec<Denied>,
    /// Files that decide what later runs do, and that it made or changed in its sandbox.
    pub(crate) traces: Traces,
}

/// Runs `line` in `folder` until it ends or the call is cancelled. Ends every process that the
/// command has started. Standard output and standard error are one stream, in the order of writing.
///
/// # Errors
/// The shell could not be started. [`Error::Sandbox`]: its sandbox could not be set up, and nothing has run.
pub(crate) async fn run(line: &str, folder: &Path, cx: &Context) -> Result<CommandResult, Error> {
    run_program(cx.workspace.shell(), &["-c", line], folder, cx).await
}

/// Runs a program as [`run`] runs a line.
///
/// # Errors
/// As for [`run`].
pub(crate) async fn run_program(
    program: &str,
    arguments: &[&str],
    folder: &Path,
    cx: &Context,
) -> Result<CommandResult, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_to_run(program, arguments, folder, cx).await? {
            Ok(result) => return Ok(result),
            // another command has made a link just now, and the sandbox must know where it leads
            Err(failure) if failure.is_change() && tries < MAX_TRIES => {}
            Err(failure) => return Err(not_confined(&failure)),
        }
    }
}

/// How often a sandbox is set up for a command, with new facts each time.
const MAX_TRIES: usize = 5;

/// Runs a program, or returns the reason why its sandbox could not be set up: nothing has run then.
async fn try_to_run(
    program: &str,
    arguments: &[&str],
    folder: &Path,
    cx: &Context,
) -> Result<Result<CommandResult, Failure>, Error> {
    let confinement = confinement(cx).await?;
    let failed = |error| Error::Process(format!("{program} could not be started: {error}."));
    let started = start(program, arguments, folder, cx, confinement.as_ref()).map_err(failed)?;
    let (mut shell, running, mut pipe) = started;
    let mut capture = Capture::new(&cx.workspace, &cx.call);
    let end = follow(&mut shell, &mut pipe, &mut capture, cx).await.map_err(failed)?;
    // dropping `running` ends the processes in the background, so the caller learns of a
    // cancellation at once
    if end.is_some() {
        running.end().await;
    }
    let output = capture.finish();
    let report = match end {
        None => None,
        Some(End::NotConfined(failure)) => return Ok(Err(failure)),
        Some(End::Exited(status, report)) => Some((status, report)),
    };
    let denied = |report| Some(confinement.as_ref()?.denied(report?, &output.text, folder));
    let denied = report.and_then(|(_, report)| denied(report)).unwrap_or_default();
    let traces = traces(confinement, cx).await;
    Ok(Ok(CommandResult { status: report.map(|(status, _)| status), output, denied, traces }))
}

/// The files that a command has made or changed although they decide what later runs do.
pub(crate) async fn traces(confinement: Option<Confinement>, cx: &Context) -> Traces {
    let Some(confinement) = confinement else { return Traces::default() };
    let workspace = Arc::clone(&cx.workspace);
    let found = tokio::task::spawn_blocking(move || confinement.traces(&workspace.worktree)).await;
    // it fails only while the program ends
    found.unwrap_or_default()
}

/// The sandbox of the call, with the facts of this machine.
pub(crate) async fn confinement(cx: &Context) -> Result<Option<Confinement>, Error> {
    let Some(sandbox) = cx.sandbox.clone() else { return Ok(None) };
    let workspace = Arc::clone(&cx.workspace);
    let facts = tokio::task::spawn_blocking(move || sandbox.confinement(&workspace)).await;
    facts.map_err(|error| not_set_up(&error))?.map_err(|error| not_set_up(&error))
}

pub(crate) fn not_set_up(why: &dyn Display) -> Error {
    Error::Sandbox(format!("The sandbox could not be set up: {why}. The command was not run."))
}

pub(crate) fn not_confined(failure: &Failure) -> Error {
    let help = failure.help().map(|help| format!(" {help}")).unwrap_or_default();
    Error::Sandbox(format!(
        "The sandbox could not be set up: {failure}. The command was not run.{help}"
    ))
}

/// The path of a program that runs lines. The line itself finds programs as the user does.
fn found(program: &str) -> io::Result<String> {
    let path = leftfold_programs::find(program)?.into_os_string();
    path.into_string().map_err(|_| io::Error::other("its path is not UTF-8"))
}

/// The command of `program`, with only the allowed part of this process's environment.
fn command_of(
    program: &str,
    arguments: &[&str],
    folder: &Path,
    added: &[String],
    call_env: &str,
) -> process::Command {
    let mut shell = process::Command::new(program);
    shell.args(arguments).stdin(Stdio::null());
    surround(&mut shell, folder, added, call_env);
    shell
}

fn surround(shell: &mut process::Command, folder: &Path, added: &[String], call_env: &str) {
    shell
        .current_dir(folder)
        .env_clear()
        .envs(environment(added))
        .env("PWD", folder)
        .envs(processes::marks(call_env));
}

/// Turns this process into the shell that runs `line` in the current folder, for the call that the
/// variable `LEFTFOLD_CALL` names, in a process group of its own. Used in a terminal that another
/// program has opened. `program` is the shell; by default [`shell`]. With `sandbox`, a [`ConfinementFile`], it runs the shell in a sandbox and returns its
/// exit code. Else it returns only if it fails.
///
/// # Errors
/// The shell could not be started.
pub fn become_shell(
    program: Option<&str>,
    line: &str,
    added: &[String],
    sandbox: Option<&Path>,
) -> io::Result<ExitCode> {
    let program = &found(program.unwrap_or(crate::shell()))?;
    let folder = std::env::current_dir()?;
    let call_env = std::env::var(processes::CALL).unwrap_or_default();
    // what the command leaves behind stays a descendant of the shell as long as the shell runs; a
    // sandbox may forbid it
    let _ = processes::become_subreaper();
    let mut shell = command_of(program, &["-c", line], &folder, added, &call_env);
    // must follow the marks, which name the terminal's own group; a session leader leads its group
    // already
    let _ = rustix::process::setpgid(None, None);
    // the output is for a model, so colours are useless
    let Some(file) = sandbox else { return Err(shell.env("TERM", "dumb").exec()) };
    let file = ConfinementFile::open(file);
    let confinement = file.confinement()?;
    let (mut shell, mut channel) = confinement.command(program, &["-c", line])?;
    surround(&mut shell, &folder, added, &call_env);
    shell.envs(confinement.variables()).env("TERM", "dumb");
    let child = shell.spawn();
    // it holds the other end of the channel
    drop(shell);
    child?;
    while let Some(message) = channel.receive()? {
        match &message {
            Message::Ready(_) => continue,
            Message::Failed(_) | Message::Report(_) => {}
        }
        file.write(&message)?;
        let code = match message {
            Message::Report(report) => report.code.or_else(|| Some(128 + report.signal?)),
            Message::Failed(_) | Message::Ready(_) => None,
        };
        return Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(125)));
    }
    Err(io::Error::other("the sandbox ended without a report"))
}

/// A shell that runs.
struct Shell {
    child: Child,
    helper: Option<HelperChannel>,
}

/// The end of a shell.
enum End {
    /// The report comes from the sandbox.
    Exited(ExitStatus, Option<Report>),
    /// The sandbox could not be set up, and nothing has run.
    NotConfined(Failure),
}

impl Shell {
    /// Waits for the end. A wait that is dropped loses nothing.
    async fn wait(&mut self) -> io::Result<End> {
        while let Some(helper) = &mut self.helper {
            match helper.receive().await? {
                Some(Message::Ready(_)) => {}
                Some(Message::Failed(failure)) => return Ok(End::NotConfined(failure)),
                // the helper lives on as long as the command's background processes do
                Some(Message::Report(report)) => {
                    return Ok(End::Exited(processes::exit_status(&report), Some(report)));
                }
                None => break,
            }
        }
        Ok(End::Exited(self.child.wait().await?, None))
    }
}

/// Runs a command unless the clock is past `$1`, in hundredths of a second since the machine has started.
const GATE: &str = "if read -r up _ </proc/uptime && [ \"${up%.*}${up#*.}\" -ge \"$1\" ]; then \
    echo 'The command was not run: this node does not own the session any more.'; exit 125; fi; \
    shift; exec \"$@\"";

/// The command behind a gate that is shut from `by` on. The command itself looks at the clock, because this process may
/// stand still at any moment before it has started it.
pub(crate) fn gate(
    by: std::time::Instant,
    program: &str,
    arguments: &[&str],
) -> io::Result<Vec<String>> {
    let left = by.saturating_duration_since(std::time::Instant::now());
    if left.is_zero() {
        return Err(io::Error::other("this node does not own the session any more"));
    }
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime = uptime.split(' ').next().and_then(|text| text.replace('.', "").parse().ok());
    // without that clock the gate stays open
    let shut = uptime.map_or(i64::MAX, |uptime: i64| {
        uptime.saturating_add(i64::try_from(left.as_millis() / 10).unwrap_or(i64::MAX))
    });
    let gate = ["/bin/sh", "-c", GATE, "leftfold", &shut.to_string(), program].map(str::to_owned);
    Ok(gate.into_iter().chain(arguments.iter().map(|text| (*text).to_owned())).collect())
}

fn start(
    program: &str,
    arguments: &[&str],
    folder: &Path,
    cx: &Context,
    confinement: Option<&Confinement>,
) -> io::Result<(Shell, CallProcesses, Receiver)> {
    let (reader, writer) = io::pipe()?;
    let added = &cx.workspace.environment;
    let program = found(program)?;
    let gated = cx.begin_by.map(|by| gate(by, &program, arguments)).transpose()?;
    let gated = gated.as_ref().map(|gated| gated.iter().map(String::as_str).collect::<Vec<_>>());
    let (program, arguments) = match gated.as_deref() {
        Some([shell, gated @ ..]) => (*shell, gated),
        Some([]) | None => (program.as_str(), arguments),
    };
    let (mut shell, channel) = match confinement {
        None => (command_of(program, arguments, folder, added, &cx.call_env), None),
        Some(confinement) => {
            let (mut shell, channel) = confinement.command(program, arguments)?;
            surround(&mut shell, folder, added, &cx.call_env);
            shell.envs(confinement.variables());
            (shell, Some(channel))
        }
    };
    // variables that plugins add cannot override the marks
    let added = cx.variables.iter().map(|(name, value)| (name, value));
    shell.envs(added).envs(processes::marks(&cx.call_env));
    shell.stdout(writer.try_clone()?).stderr(writer);
    let (child, mut running) = processes::spawn_isolated(Command::from(shell), &cx.call_env)?;
    let helper = match channel {
        None => None,
        Some(channel) => {
            let channel = HelperChannel::new(channel)?;
            running.hold(channel.descriptor()?);
            Some(channel)
        }
    };
    let pipe = Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok((Shell { child, helper }, running, pipe))
}

/// Captures the output until the command ends. `None` if it was cancelled.
async fn follow(
    shell: &mut Shell,
    pipe: &mut Receiver,
    capture: &mut Capture,
    cx: &Context,
) -> io::Result<Option<End>> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut open, mut end) = (true, None);
    let mut progress = Reports::new(cx.deadline.map(Instant::from_std));
    let grace = tokio::time::sleep(Duration::MAX);
    tokio::pin!(grace);
    while open || end.is_none() {
        // in this order, so that a flood of output does not delay the rest
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {
                drain(pipe, capture);
                return Ok(None);
            }
            () = &mut grace, if end.is_some() => break,
            ended = shell.wait(), if end.is_none() => {
                end = Some(ended?);
                grace.as_mut().reset(Instant::now() + OUTPUT_TIMEOUT);
            }
            () = tokio::time::sleep_until(progress.next) => progress.report(capture, cx),
            read = pipe.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(read) => capture.push(&buffer[..read]),
            },
        }
    }
    Ok(end)
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
        reports.schedule(FIRST_REPORT_DELAY);
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
        self.schedule(REPORT_INTERVAL.max(self.start.elapsed() / 10));
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
