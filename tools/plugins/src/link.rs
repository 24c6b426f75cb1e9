//! The connection to a running plugin: it sends messages as lines and matches answers by id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leftfold_events::event::{Consent, Wanted};
use leftfold_events::rules::LEFTFOLD;
use leftfold_framing::{Line, clip, next_line};
use leftfold_process::{End, OPT_OUT, Program, ServerProcess, Started, StderrTail};
use leftfold_tools::BoxFuture;
use serde::Deserialize;
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

/// Asks for a permission while a plugin's tool runs: a message for people, and the permission.
pub(super) type PermissionAsker =
    Arc<dyn Fn(String, Wanted) -> BoxFuture<'static, Consent> + Send + Sync>;

/// A request that waits for its answer.
struct Waiting {
    answer: oneshot::Sender<Result<Value, RequestError>>,
    /// For a tool: where its questions go. Taken while one is open.
    asks: Option<PermissionAsker>,
}

type Pending = Arc<Mutex<HashMap<u64, Waiting>>>;

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
        self.request(method, params, limit, None).await
    }

    /// Sends a request during which the plugin may ask for permissions, and waits for the answer.
    pub(super) async fn call(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        asks: PermissionAsker,
    ) -> Result<Value, RequestError> {
        self.request(method, params, None, Some(asks)).await
    }

    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        limit: Option<Duration>,
        asks: Option<PermissionAsker>,
    ) -> Result<Value, RequestError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting { answer: sender, asks };
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, waiting);
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

/// The method by which a plugin asks for a permission.
const ASK: &str = "ask";
/// The most patterns in a plugin's question.
const PATTERNS: usize = 100;

/// A plugin's question, while its tool runs.
#[derive(Deserialize)]
struct AskParams {
    /// The id of the request `tool` that it belongs to.
    request: u64,
    permission: String,
    patterns: Vec<String>,
    #[serde(default)]
    always: Vec<String>,
    #[serde(default)]
    message: String,
}

/// Answers a plugin's request: `ask` once rules or people have answered, others with an error.
fn requested(message: &Value, pending: &Pending, answers: &mpsc::WeakSender<String>) {
    let Some(id) = message.get("id").cloned() else { return };
    let answers = answers.clone();
    let reply = move |result: Result<Value, (i32, String)>| {
        let line = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                let error = json!({ "code": code, "message": message });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        if let Some(outbox) = answers.upgrade() {
            // a plugin whose queue is full does not read its answers
            let _ = outbox.try_send(line.to_string());
        }
    };
    if message["method"] != ASK {
        return reply(Err((-32601, "plugins can send only the request `ask`".to_owned())));
    }
    let params = match AskParams::deserialize(&message["params"]) {
        Ok(params) => params,
        Err(error) => return reply(Err((-32602, format!("params: {error}")))),
    };
    let AskParams { request, permission, patterns, always, message } = params;
    let reserved = [LEFTFOLD, "question"].contains(&permission.as_str());
    if permission.trim().is_empty() || reserved {
        return reply(Err((-32602, "`permission`: give the name of a permission".to_owned())));
    }
    if patterns.is_empty() || patterns.len().max(always.len()) > PATTERNS {
        return reply(Err((-32602, format!("`patterns`: give 1 to {PATTERNS}"))));
    }
    let taken = {
        let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.get_mut(&request).and_then(|waiting| waiting.asks.take())
    };
    let Some(asks) = taken else {
        let why = "`request`: no call of a tool with this id runs, or a question of it is open";
        return reply(Err((-32602, why.to_owned())));
    };
    let (pending, wanted) =
        (Arc::clone(pending), Wanted::Permission { permission, patterns, always });
    tokio::spawn(async move {
        let consent = asks(clip(message, MAX_WHY), wanted).await;
        // the next question may come from now on
        let mut open = pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = open.get_mut(&request) {
            waiting.asks = Some(asks);
        }
        drop(open);
        let status = if consent == Consent::Accepted { "allow" } else { "deny" };
        reply(Ok(json!({ "status": status })));
    });
}

/// Handles one line of a plugin's output. Lines that are neither answers nor requests are ignored.
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
        return requested(&message, pending, answers);
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
        Some(waiting) => drop(waiting.answer.send(answer)),
        None => tracing::debug!("a plugin has answered an unknown request: {id:?}"),
    }
}
