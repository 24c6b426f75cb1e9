//! The connection to a running plugin: it sends messages as lines and matches answers by id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leftfold_framing::{Line, clip, next_line};
use leftfold_process::{End, OPT_OUT, Program, ServerProcess, Started, StderrTail};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::spec::{LaunchContext, PluginProgram};

/// Longest line in bytes that a plugin may write.
const LINE: usize = 4 * 1_024 * 1_024;
/// Messages that may wait for a plugin to read.
const QUEUE: usize = 64;
/// How long a plugin may take to exit after its input has ended.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes kept of a plugin's error.
const MAX_WHY: usize = 1_000;

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The plugin answered with an error.
    Refused(String),
    TimedOut,
    Gone(String),
}

type Answer = oneshot::Sender<Result<Value, RequestError>>;
type Pending = Arc<Mutex<HashMap<u64, Answer>>>;

pub(super) struct Link {
    outbox: Mutex<Option<mpsc::Sender<String>>>,
    pending: Pending,
    next: AtomicU64,
    over: ConnectionEnd,
    /// Locked while the process is being ended, so that a second caller waits for the end.
    life: tokio::sync::Mutex<Option<ServerProcess>>,
    words: Mutex<Option<StderrTail>>,
    is_confined: bool,
}

/// Whether the connection has ended, and the reason.
#[derive(Clone, Default)]
struct ConnectionEnd {
    token: CancellationToken,
    why: Arc<Mutex<Option<String>>>,
}

impl ConnectionEnd {
    fn end(&self, why: &str) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why.to_owned());
        self.token.cancel();
    }

    fn why(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        why.unwrap_or_else(|| "it has ended".to_owned())
    }
}

impl Link {
    /// Starts the program in a process group of its own.
    ///
    /// # Errors
    /// The reason why it cannot start, in words for people.
    pub(super) async fn start(spec: &PluginProgram, root: &LaunchContext) -> Result<Self, String> {
        // the socket is there as soon as the session is open
        let store = root.socket.parent().filter(|store| store.is_absolute());
        let confinement = match &spec.sandbox {
            Some(sandbox) => sandbox.of_started(&spec.command, &root.directory, store).await?,
            None => None,
        };
        let program = Program {
            name: spec.command.first().map_or("", String::as_str),
            command: &spec.command,
            directory: &root.directory,
            passed: &root.environment,
            variables: &spec.environment,
            acts_for_user: true,
            profile: confinement.as_ref().map(|it| &it.profile),
        };
        let Started { stdin, stdout, process, stderr_tail } = program.start().await?;
        let is_confined = process.is_confined();
        let (over, pending) = (ConnectionEnd::default(), Pending::default());
        let (outbox, lines) = mpsc::channel(QUEUE);
        tokio::spawn(write(stdin, lines, spec.timeout, over.clone()));
        let answers = outbox.downgrade();
        tokio::spawn(read(stdout, Arc::clone(&pending), answers, over.clone()));
        Ok(Self {
            outbox: Mutex::new(Some(outbox)),
            pending,
            next: AtomicU64::new(1),
            over,
            life: tokio::sync::Mutex::new(Some(process)),
            words: Mutex::new(Some(stderr_tail)),
            is_confined,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.token.is_cancelled()
    }

    pub(super) fn why(&self) -> String {
        self.over.why()
    }

    fn outbox(&self) -> Option<mpsc::Sender<String>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request and waits for the answer, at most `limit` if there is one. If the future is
    /// dropped, the plugin gets a cancellation.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        limit: Option<Duration>,
    ) -> Result<Value, RequestError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let asking = PendingRequest { link: Arc::clone(self), id };
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let asked = async {
            if !self.send(line.to_string()).await {
                return Err(RequestError::Gone(self.why()));
            }
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(RequestError::Gone(self.why()))),
                () = self.over.token.cancelled() => Err(RequestError::Gone(self.why())),
            }
        };
        let answer = match limit {
            Some(limit) => {
                tokio::time::timeout(limit, asked).await.unwrap_or(Err(RequestError::TimedOut))
            }
            None => asked.await,
        };
        drop(asking);
        answer
    }

    /// Sends a line. Waits while the queue to the plugin is full. Returns false if the connection
    /// has ended.
    pub(super) async fn send(&self, line: String) -> bool {
        let Some(outbox) = self.outbox() else { return false };
        tokio::select! {
            biased;
            () = self.over.token.cancelled() => false,
            sent = outbox.send(line) => sent.is_ok(),
        }
    }

    /// Ends the connection and its process at once.
    pub(super) fn cut_off(self: &Arc<Self>, why: &str) {
        self.over.end(why);
        let link = Arc::clone(self);
        tokio::spawn(async move { link.close().await });
    }

    /// The reason why a plugin is gone that has not answered yet.
    pub(super) async fn why_not_started(&self, why: String) -> String {
        let mut life = self.life.lock().await;
        let end = match life.as_mut() {
            Some(process) if self.is_confined => process.wait(GRACE).await,
            Some(_) | None => None,
        };
        match end {
            Some(End::NotStarted(why)) => why,
            Some(End::Exited(status)) => {
                format!("it ended at once ({status}) in the sandbox, {OPT_OUT}")
            }
            None => why,
        }
    }

    /// Appends the plugin's last lines on standard error to the reason `why` it failed.
    pub(super) async fn stderr_tail(&self, why: &str) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner).take();
        match words {
            Some(words) => words.append_to(why).await,
            None => why.to_owned(),
        }
    }

    /// Closes the connection and ends all processes of the plugin: end of input after all queued
    /// messages, SIGTERM, SIGKILL.
    pub(super) async fn close(&self) {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut life = self.life.lock().await;
        let Some(mut process) = life.take() else { return };
        process.wait(GRACE).await;
        self.over.end("it was ended");
        process.end().await;
    }
}

/// A request that a caller waits for. Dropping it sends the plugin a cancellation.
struct PendingRequest {
    link: Arc<Link>,
    id: u64,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let open =
            self.link.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        if let (Some(_), Some(outbox)) = (open, self.link.outbox()) {
            let params = json!({ "id": self.id });
            let line = json!({ "jsonrpc": "2.0", "method": "cancel", "params": params });
            // a plugin whose queue is full has not read the request yet and needs no cancellation
            let _ = outbox.try_send(line.to_string());
        }
    }
}

async fn write(
    mut stdin: ChildStdin,
    mut lines: mpsc::Receiver<String>,
    limit: Duration,
    over: ConnectionEnd,
) {
    loop {
        let line = tokio::select! {
            biased;
            () = over.token.cancelled() => return,
            line = lines.recv() => line,
        };
        let Some(mut line) = line else { return };
        line.push('\n');
        let written = async {
            stdin.write_all(line.as_bytes()).await?;
            stdin.flush().await
        };
        match tokio::time::timeout(limit, written).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return over.end("it has closed its standard input"),
            Err(_) => {
                let why = format!("it has read nothing for {} ms", limit.as_millis());
                return over.end(&why);
            }
        }
    }
}

async fn read(
    stdout: ChildStdout,
    pending: Pending,
    answers: mpsc::WeakSender<String>,
    over: ConnectionEnd,
) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let line = tokio::select! {
            biased;
            () = over.token.cancelled() => return,
            line = next_line(&mut stdout, LINE) => line,
        };
        match line {
            Ok(None) | Err(_) => return over.end("it has ended"),
            Ok(Some(Line::TooLong { .. })) => {
                return over.end(&format!("it has written a line of more than {LINE} bytes"));
            }
            Ok(Some(Line::Whole(line) | Line::Unfinished(line))) => take(&line, &pending, &answers),
        }
    }
}

/// Handles one line of a plugin's output. Lines that are not answers are ignored, requests refused.
fn take(line: &[u8], pending: &Pending, answers: &mpsc::WeakSender<String>) {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => {
            let shown = clip(String::from_utf8_lossy(line).trim().to_owned(), MAX_WHY);
            return tracing::debug!(
                "a plugin has written a line that is not JSON ({error}): {shown}"
            );
        }
    };
    let id = message["id"].as_u64();
    if message["method"].is_string() {
        if let (Some(id), Some(outbox)) = (message.get("id"), answers.upgrade()) {
            let error = json!({ "code": -32601, "message": "plugins cannot send requests" });
            let line = json!({ "jsonrpc": "2.0", "id": id, "error": error });
            let _ = outbox.try_send(line.to_string());
        }
        return;
    }
    let waiting =
        id.and_then(|id| pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
    let answer = match (message.get("error"), message.get("result")) {
        (Some(error), _) if !error.is_null() => {
            let said = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
            Err(RequestError::Refused(clip(said, MAX_WHY)))
        }
        (_, result) => Ok(result.cloned().unwrap_or_default()),
    };
    match waiting {
        // the caller may be gone
        Some(waiting) => drop(waiting.send(answer)),
        None => tracing::debug!("a plugin has answered an unknown request: {id:?}"),
    }
}
