//! Runs a command line in a terminal of the host.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use leftfold_sandbox::Message;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::capture::Capture;
use crate::command::{
    CommandResult, REPORT, Reports, confinement, not_confined, not_set_up, traces,
};
use crate::host::{
    Exit, HostCommand, HostError, MAX_TEXT, Starting, Terminal, TerminalOutput, TimeLimit,
};
use crate::sandbox::ConfinementFile;
use crate::{Context, Error, screen, text};

/// How long to wait for the output of a progress report.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(400);

/// How long to wait for the last output of a stopped call: its caller is waiting.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(50);

/// Runs `line` in the host's terminal until it ends or the call is cancelled, like
/// [`crate::command::run`]. `None` if the host refuses; nothing was started then.
///
/// # Errors
/// [`Error::Client`]: it is unknown whether the command runs or how it ended.
pub(crate) async fn run(
    line: &str,
    folder: &Path,
    cx: &Context,
) -> Result<Option<CommandResult>, Error> {
    let workspace = &cx.workspace;
    // a terminal would show secrets, and the variables that plugins add must stay in this process
    let ours = workspace.secrets.hide(line).is_some() || !cx.variables.is_empty();
    let Some(host) = workspace.host.as_ref().filter(|_| !ours) else { return Ok(None) };
    let environment = workspace.environment.as_slice();
    let confinement = confinement(cx).await?;
    let file = confinement.as_ref().map(|it| ConfinementFile::create(it, &cx.call_env, workspace));
    let file = file.transpose().map_err(|error| not_set_up(&error))?;
    let command = HostCommand {
        line,
        shell: workspace.shell.as_deref(),
        folder,
        call_env: &cx.call_env,
        environment,
        sandbox: file.as_ref().map(ConfinementFile::path),
        limit: MAX_TEXT,
    };
    let Some(starting) = host.start(&command) else { return Ok(None) };
    let time_limit = TimeLimit::new(cx.deadline, &cx.cancel);
    let terminal = match time_limit.wait(open(starting)).await {
        Ok(terminal) => terminal,
        Err(HostError::Refused(why)) => {
            tracing::info!("a shell here instead of the client's terminal: {why}");
            return Ok(None);
        }
        Err(HostError::Silent(why)) => return Err(unknown(&why)),
    };
    let shown = HostTerminal { terminal, call_env: cx.call_env.clone(), over: false };
    let (exit, printed) = follow(&shown, cx).await?;
    let status = exit.map(status).transpose()?;
    let mut capture = Capture::new(workspace, &cx.call);
    if printed.cut {
        capture.push(
            format!("(The client kept only the last {MAX_TEXT} bytes of the output.)\n").as_bytes(),
        );
    }
    capture.push(printed.text.as_bytes());
    if status.is_some() {
        shown.end().await;
    }
    let output = capture.finish();
    let denied = match file.and_then(|file| file.report()) {
        Some(Message::Failed(failure)) => return Err(not_confined(&failure)),
        Some(Message::Report(report)) => {
            let denied = confinement.as_ref().map(|it| it.denied(report, &output.text, folder));
            denied.unwrap_or_default()
        }
        // the terminal was closed
        Some(Message::Ready(_)) | None => Vec::new(),
    };
    let traces = traces(confinement, cx).await;
    Ok(Some(CommandResult { status, output, denied, traces }))
}

/// Opens the terminal. If the caller has stopped waiting by then, the terminal is closed.
async fn open(starting: Starting) -> Result<Arc<dyn Terminal>, HostError> {
    let (told, opened) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        if let Err(Ok(late)) = told.send(starting.await) {
            give_up(late).await;
        }
    });
    opened.await.unwrap_or_else(|_| Err(HostError::Silent("it died".to_owned())))
}

/// Kills and releases the terminal. The host's answers are ignored.
async fn give_up(terminal: Arc<dyn Terminal>) {
    let _ = terminal.kill().await;
    let _ = terminal.release().await;
}

fn unknown(why: &str) -> Error {
    Error::Client(format!(
        "The client did not confirm the command in its terminal: {why}. The command may have run fully, partly or not at all, and may still be running. Check the current state before you run it again."
    ))
}

/// A command that runs in a terminal. Dropping the value ends it, with all processes it has
/// started.
struct HostTerminal {
    terminal: Arc<dyn Terminal>,
    call_env: String,
    over: bool,
}

impl HostTerminal {
    /// Ends the processes that the command has left running, and releases the terminal.
    async fn end(mut self) {
        self.over = true;
        leftfold_process::end_marked(&self.call_env).await;
        let terminal = Arc::clone(&self.terminal);
        tokio::spawn(async move { terminal.release().await });
    }
}

impl Drop for HostTerminal {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        tokio::spawn(give_up(Arc::clone(&self.terminal)));
        leftfold_process::end_marked_later(&self.call_env);
    }
}

/// Reports progress until the command ends or is stopped (`None`). Returns its output.
async fn follow(
    shown: &HostTerminal,
    cx: &Context,
) -> Result<(Option<Exit>, TerminalOutput), Error> {
    let terminal = &shown.terminal;
    // the client needs time to send the output of the last report
    let soon = cx.deadline.map(|deadline| deadline.checked_sub(OUTPUT_TIMEOUT).unwrap_or(deadline));
    let mut progress = Reports::new(soon.map(Instant::from_std));
    let mut ended = terminal.ended();
    let mut last = TerminalOutput::default();
    loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {
                let looked = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, terminal.output()).await;
                return Ok((None, looked.ok().and_then(Result::ok).unwrap_or(last)));
            }
            exit = &mut ended => {
                let exit = exit.map_err(|why| unknown(&why.to_string()))?;
                let time_limit = TimeLimit::new(cx.deadline, &cx.cancel);
                let printed = time_limit.wait(terminal.output()).await;
                let printed = printed.map_err(|why| lost_output(&exit, &why))?;
                return Ok((Some(exit), printed));
            }
            () = tokio::time::sleep_until(progress.next()) => {
                let look = tokio::time::timeout(OUTPUT_TIMEOUT, terminal.output());
                let looked = tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => continue,
                    looked = look => looked,
                };
                if let Ok(Ok(printed)) = looked {
                    last = printed;
                }
                let bytes = last.text.len() as u64;
                progress.report_tail(bytes, |size| tail(&last.text, size, cx), cx);
            }
        }
    }
}

fn lost_output(exit: &Exit, why: &HostError) -> Error {
    let how = match (exit.code, &exit.signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    };
    Error::Client(format!(
        "The command has ended {how} in the client's terminal, and its output is lost: {why}."
    ))
}

/// The last `size` bytes, starting at a whole character.
fn tail(text: &str, size: usize, cx: &Context) -> String {
    // a secret that begins before the cut is hidden as a whole
    let wide =
        &text[text::floor(text, text.len().saturating_sub(size.saturating_mul(4).max(REPORT)))..];
    let shown = screen::shown(wide);
    let shown = cx.workspace.secrets.hide(&shown).unwrap_or(shown);
    let from = shown.len().saturating_sub(size);
    let from = (from..=shown.len()).find(|at| shown.is_char_boundary(*at)).unwrap_or(shown.len());
    shown[from..].to_owned()
}

/// The exit as a status of this system.
fn status(exit: Exit) -> Result<ExitStatus, Error> {
    match (exit.code, exit.signal) {
        (Some(code), _) => Ok(ExitStatus::from_raw(i32::try_from(code & 0xff).unwrap_or(1) << 8)),
        (None, Some(name)) => Ok(ExitStatus::from_raw(signal(&name).as_raw())),
        (None, None) => Err(Error::Client(
            "The command has ended in the client's terminal, but the client does not say how. Check the current state before you run it again.".to_owned(),
        )),
    }
}

/// The signal with this name, with or without `SIG`. An unknown name still means that a signal
/// ended the command.
fn signal(name: &str) -> Signal {
    let known = [
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("ILL", Signal::ILL),
        ("TRAP", Signal::TRAP),
        ("ABRT", Signal::ABORT),
        ("BUS", Signal::BUS),
        ("FPE", Signal::FPE),
        ("SEGV", Signal::SEGV),
        ("PIPE", Signal::PIPE),
        ("ALRM", Signal::ALARM),
        ("TERM", Signal::TERM),
    ];
    let name = name.to_uppercase();
    let short = name.strip_prefix("SIG").unwrap_or(&name);
    known.iter().find(|(known, _)| *known == short).map_or(Signal::KILL, |(_, signal)| *signal)
}
