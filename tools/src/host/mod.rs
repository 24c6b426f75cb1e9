//! A host: a program beside the node, such as an editor that speaks ACP, that has files and terminals of its own.
//!
//! Tools ask the host when they run, after the call's `tool.started` is durable. Only a preview
//! reads texts earlier. The host's answers become part of `tool.finished`, cut and redacted like
//! any output, so a log replays without the host. After a crash, a call in the host's terminal is
//! as lost as any other.
//!
//! A host that refuses has done nothing, so the tool uses the disk or a shell of its own. A host
//! that is silent may have acted or not. Reads then fall back to the disk, which has no effect.
//! Everything else ends shortly before the call's deadline with an error that says so.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

/// Most bytes of a text exchanged with a host, and of a terminal's output. As a line of JSON it may
/// be six times as long.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// How long a host may take to return a text that is also on disk.
pub(crate) const READING: Duration = Duration::from_secs(10);

/// Time before the call's deadline at which waiting for a host ends, so that the error is still
/// reported.
const MARGIN: Duration = Duration::from_millis(500);

/// The reason why a host did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host refused, with this message, and has done nothing.
    #[error("{0}")]
    Refused(String),
    /// The host did not answer, so it is unknown whether it acted.
    #[error("{0}")]
    Silent(String),
}

/// The operations of a host. `None` means that the host does not offer the operation for this file
/// or call; the caller then does it itself.
pub trait Host: fmt::Debug + Send + Sync {
    /// The text of the file as the host shows it.
    fn read(&self, path: &Path) -> Option<BoxFuture<'static, Result<String, HostError>>>;

    /// Replaces the file's text and saves it.
    fn write(&self, path: &Path, text: &str) -> Option<BoxFuture<'static, Result<(), HostError>>>;

    /// Starts a command in a terminal.
    fn start(&self, command: &HostCommand<'_>) -> Option<Starting>;
}

/// A terminal that is being opened.
pub type Starting = BoxFuture<'static, Result<Arc<dyn Terminal>, HostError>>;

/// A command line for a host's terminal.
#[derive(Clone, Copy, Debug)]
pub struct HostCommand<'a> {
    /// The command line for the shell.
    pub line: &'a str,
    /// The shell; `None`: the usual one.
    pub shell: Option<&'a str>,
    pub folder: &'a Path,
    /// The value of `LEFTFOLD_CALL` in its environment.
    pub call_env: &'a str,
    /// Variables that it gets in addition to the usual ones ([`leftfold_process::environment`]).
    pub environment: &'a [String],
    /// The file of its sandbox, for [`become_shell`](crate::become_shell).
    pub sandbox: Option<&'a Path>,
    /// Least number of bytes kept of the end of the output.
    pub limit: usize,
}

/// A command in a host's terminal.
pub trait Terminal: Send + Sync {
    /// The output so far.
    fn output(&self) -> BoxFuture<'static, Result<TerminalOutput, HostError>>;

    /// Waits until the command ends.
    fn ended(&self) -> BoxFuture<'static, Result<Exit, HostError>>;

    fn kill(&self) -> BoxFuture<'static, Result<(), HostError>>;

    /// Releases the terminal. Ends the command if it still runs.
    fn release(&self) -> BoxFuture<'static, Result<(), HostError>>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalOutput {
    pub text: String,
    /// Whether the beginning of the output is missing.
    pub cut: bool,
}

/// The end of a command: an exit code, the name of a signal, or neither if the host did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<u32>,
    pub signal: Option<String>,
}

/// Where a text was written.
#[derive(Debug)]
pub(crate) enum WrittenTo {
    /// On disk.
    Disk(Metadata),
    /// The host has it, and the disk has another text.
    Host,
}

/// A time limit that cancellation cuts short.
#[derive(Clone, Debug)]
pub(crate) struct TimeLimit {
    until: Option<Instant>,
    cancel: CancellationToken,
}

impl TimeLimit {
    pub(crate) fn new(deadline: Option<Instant>, cancel: &CancellationToken) -> Self {
        let until = deadline.map(|deadline| deadline.checked_sub(MARGIN).unwrap_or(deadline));
        Self { until, cancel: cancel.clone() }
    }

    /// This limit, but at most `time` from now.
    pub(crate) fn at_most(&self, time: Duration) -> Self {
        let most = Instant::now() + time;
        let until = Some(self.until.map_or(most, |until| until.min(most)));
        Self { until, ..self.clone() }
    }

    pub(crate) async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, HostError>>,
    ) -> Result<T, HostError> {
        let late = async {
            match self.until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.cancel.cancelled() => Err(HostError::Silent("the call was stopped".into())),
            () = late => Err(HostError::Silent("it did not answer in time".into())),
        }
    }
}
