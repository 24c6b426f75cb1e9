//! Whoever runs beside the node and has files and terminals of its own: an editor.
//!
//! What it answers is a result like any other: it gets into the log with the call's own, is cut and
//! redacted as that is, and nothing is asked of a host before the call's `tool.started` is durable, but
//! for the texts that a preview is made of. A host that refuses has done nothing, so the disk or a shell of our own takes its place. One that is
//! silent may have done it or not: reading falls back to the disk, which has no effect, and all else
//! ends shortly before the call's deadline with an error that says so.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

/// Bytes of a text that is asked of a host or handed to it, and of a terminal's output: as one line of
/// JSON it may be six times as long.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// How long a host may take to say what it has in a file that is on disk as well.
pub(crate) const READING: Duration = Duration::from_secs(10);

/// How long before the call's deadline an answer is given up: the error is to be told in time.
const MARGIN: Duration = Duration::from_millis(500);

/// Why a host did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It said no, in these words, and has done nothing.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether it has done it: it said nothing.
    #[error("{0}")]
    Silent(String),
}

/// What a host can be asked for; `None` where it does not offer that for this file or call, and the
/// caller does it itself.
pub trait Host: fmt::Debug + Send + Sync {
    /// The text of the file as the host shows it.
    fn read(&self, path: &Path) -> Option<BoxFuture<'static, Result<String, HostError>>>;

    /// Gives the file this text, and saves it.
    fn write(&self, path: &Path, text: &str) -> Option<BoxFuture<'static, Result<(), HostError>>>;

    /// Starts a command in a terminal.
    fn start(&self, command: &HostCommand<'_>) -> Option<Starting>;
}

/// A terminal that is being opened.
pub type Starting = BoxFuture<'static, Result<Arc<dyn Terminal>, HostError>>;

/// A command line for a host's terminal.
#[derive(Clone, Copy, Debug)]
pub struct HostCommand<'a> {
    /// For the shell.
    pub line: &'a str,
    pub folder: &'a Path,
    /// The value of `LEFTFOLD_CALL` in its environment.
    pub call_env: &'a str,
    /// Names of variables that it is given besides the usual ones ([`leftfold_process::environment`]).
    pub environment: &'a [String],
    /// Bytes of output that are kept at least: the last.
    pub limit: usize,
}

/// A command in a host's terminal.
pub trait Terminal: Send + Sync {
    /// What it has printed so far.
    fn output(&self) -> BoxFuture<'static, Result<Printed, HostError>>;

    /// Waits for its end.
    fn ended(&self) -> BoxFuture<'static, Result<Exit, HostError>>;

    fn kill(&self) -> BoxFuture<'static, Result<(), HostError>>;

    /// Nothing more is wanted of it. Ends the command if it runs.
    fn release(&self) -> BoxFuture<'static, Result<(), HostError>>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    pub text: String,
    /// Whether its beginning is missing.
    pub cut: bool,
}

/// How a command ended: with a code, by a signal (as its name), or in a way that was not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<u32>,
    pub signal: Option<String>,
}

/// How a text was put in its place.
#[derive(Debug)]
pub(crate) enum Put {
    /// It is on disk.
    Disk(Metadata),
    /// The host has it; on disk is something else.
    Host,
}

/// How long something may take, and what cuts it short.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    until: Option<Instant>,
    cancel: CancellationToken,
}

impl Patience {
    pub(crate) fn new(deadline: Option<Instant>, cancel: &CancellationToken) -> Self {
        let until = deadline.map(|deadline| deadline.checked_sub(MARGIN).unwrap_or(deadline));
        Self { until, cancel: cancel.clone() }
    }

    /// The same, but no longer than this from now on.
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
