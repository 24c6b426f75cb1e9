//! JSON-RPC 2.0 with a child program over its standard input and output, as plugins and language servers speak it.
//!
//! A [`Link`] matches answers with requests, bounds what the program may send and leave unread, and ends the program with
//! all its processes. It knows no method of either protocol: what the program asks for goes to a [`Handler`].

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leftfold_framing::{Content, Line, clip, is_too_dense, next_content, next_line, surrogates};
use leftfold_process::{End, OPT_OUT, ServerProcess, Started, StderrTail};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How long the program may take to exit after its input has ended.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes kept of an error, or of output that is no message.
const MAX_WHY: usize = 1_000;
/// The time over which [`Protocol::most_bytes`] are counted.
const PERIOD: Duration = Duration::from_secs(10);
/// The least that a message counts against the limit of the queue, in bytes.
const LEAST: usize = 1_024;

/// The error code for a method that does not exist.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The error code for parameters that are wrong.
pub const INVALID_PARAMS: i64 = -32_602;

/// The settings of one protocol.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub framing: Framing,
    /// The notification by which a request is called off. Its parameter is `id`.
    pub cancel: &'static str,
    /// The longest message in bytes that the program may write.
    pub longest: usize,
    /// How many bytes the program may write in ten seconds. Messages of less than 1 KiB count as 1 KiB.
    pub most_bytes: usize,
    /// How many messages may wait for the program to read.
    pub queue: usize,
    /// How long the program may leave a message unread.
    pub read_limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A message is a line.
    Lines,
    /// The header `Content-Length` says how long the message after it is.
    ContentLength,
}

/// Handles what the program sends by itself. Runs where messages are read, so it must not wait.
pub trait Handler: Send + Sync + 'static {
    /// A request. Dropping `reply` without an answer is allowed.
    fn request(&self, method: &str, params: Value, reply: Reply);

    fn notification(&self, method: &str, params: Value);
}

/// The way of an answer to the program.
pub struct Reply {
    id: Value,
    outbox: mpsc::WeakSender<Vec<u8>>,
    framing: Framing,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reply").field(&self.id).finish()
    }
}

impl Reply {
    /// Answers with a result, or with an error code and a message.
    pub fn send(self, result: Result<Value, (i64, String)>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": self.id, "result": result }),
            Err((code, message)) => {
                let error = json!({ "code": code, "message": message });
                json!({ "jsonrpc": "2.0", "id": self.id, "error": error })
            }
        };
        if let Some(outbox) = self.outbox.upgrade() {
            // a program whose queue is full does not read its answers
            let _ = outbox.try_send(self.framing.frame(&message.to_string()));
        }
    }
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The program answered with an error.
    Refused {
        code: i64,
        why: String,
    },
    TimedOut,
    Gone(String),
}

type Answer = Result<Value, RequestError>;
type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// The connection to a running program.
pub struct Link {
    protocol: Protocol,
    outbox: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    pending: Pending,
    next: AtomicU64,
    over: ConnectionEnd,
    /// Locked while the process is being ended, so that a second caller waits for the end.
    life: tokio::sync::Mutex<Option<ServerProcess>>,
    stderr_tail: Mutex<Option<StderrTail>>,
    is_confined: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("over", &self.is_over()).finish_non_exhaustive()
    }
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

impl Framing {
    fn frame(self, message: &str) -> Vec<u8> {
        match self {
            Self::Lines => format!("{message}\n"),
            Self::ContentLength => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
        }
        .into_bytes()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over what they have just made")]
impl Link {
    /// The connection to a program that has just started.
    pub fn new(started: Started, protocol: Protocol, handler: Arc<dyn Handler>) -> Self {
        let Started { stdin, stdout, process, stderr_tail } = started;
        let is_confined = process.is_confined();
        let (over, pending) = (ConnectionEnd::default(), Pending::default());
        let (outbox, messages) = mpsc::channel(protocol.queue);
        tokio::spawn(write(stdin, messages, protocol.read_limit, over.clone()));
        let reader = MessageReader {
            protocol: protocol.clone(),
            pending: Arc::clone(&pending),
            outbox: outbox.downgrade(),
            handler,
            over: over.clone(),
        };
        tokio::spawn(reader.read(stdout));
        Self {
            protocol,
            outbox: Mutex::new(Some(outbox)),
            pending,
            next: AtomicU64::new(1),
            over,
            life: tokio::sync::Mutex::new(Some(process)),
            stderr_tail: Mutex::new(Some(stderr_tail)),
            is_confined,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.token.is_cancelled()
    }

    /// The reason why the connection is over, in words for people.
    pub fn why(&self) -> String {
        self.over.why()
    }

    fn outbox(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A request to the program. [`Request::answer`] sends it.
    pub fn request(self: &Arc<Self>, method: &str, params: Value) -> Request {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Request { link: Arc::clone(self), id, message: message.to_string(), answer }
    }

    /// Sends a message. Waits while the queue to the program is full. Returns false if the connection has ended.
    pub async fn send(&self, message: &str) -> bool {
        let Some(outbox) = self.outbox() else { return false };
        tokio::select! {
            biased;
            () = self.over.token.cancelled() => false,
            sent = outbox.send(self.protocol.framing.frame(message)) => sent.is_ok(),
        }
    }

    /// Sends a notification without waiting. Returns false if the connection has ended or the program does not read.
    pub fn notify(&self, method: &str, params: Value) -> bool {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let Some(outbox) = self.outbox().filter(|_| !self.is_over()) else { return false };
        outbox.try_send(self.protocol.framing.frame(&message.to_string())).is_ok()
    }

    /// Ends the connection and its process at once.
    pub fn cut_off(self: &Arc<Self>, why: &str) {
        self.over.end(why);
        let link = Arc::clone(self);
        tokio::spawn(async move { link.close().await });
    }

    /// The reason why a program is gone that has not answered yet, with its last lines on standard error.
    pub async fn why_not_started(&self, why: String) -> String {
        let why = {
            let mut life = self.life.lock().await;
            let end = match life.as_mut() {
                Some(process) if self.is_confined => process.wait(EXIT_TIMEOUT).await,
                Some(_) | None => None,
            };
            match end {
                Some(End::NotStarted(why)) => why,
                Some(End::Exited(status)) => {
                    format!("it ended at once ({status}) in the sandbox, {OPT_OUT}")
                }
                None => why,
            }
        };
        let tail = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner).take();
        match tail {
            Some(tail) => tail.append_to(&why).await,
            None => why,
        }
    }

    /// Closes the connection and ends all processes of the program: end of input after all queued messages, SIGTERM,
    /// SIGKILL.
    pub async fn close(&self) {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut life = self.life.lock().await;
        let Some(mut process) = life.take() else { return };
        process.wait(EXIT_TIMEOUT).await;
        self.over.end("it was ended");
        process.end().await;
    }
}

/// A request that a caller waits for. Dropping it sends the program a cancellation.
pub struct Request {
    link: Arc<Link>,
    id: u64,
    message: String,
    answer: oneshot::Receiver<Answer>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Request {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sends the request and waits for the answer, at most `limit` if there is one.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn answer(mut self, limit: Option<Duration>) -> Answer {
        let message = std::mem::take(&mut self.message);
        let asked = async {
            if !self.link.send(&message).await {
                return Err(RequestError::Gone(self.link.why()));
            }
            tokio::select! {
                biased;
                answer = &mut self.answer => {
                    answer.unwrap_or_else(|_| Err(RequestError::Gone(self.link.why())))
                }
                () = self.link.over.token.cancelled() => Err(RequestError::Gone(self.link.why())),
            }
        };
        match limit {
            Some(limit) => {
                tokio::time::timeout(limit, asked).await.unwrap_or(Err(RequestError::TimedOut))
            }
            None => asked.await,
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut pending = self.link.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = pending.remove(&self.id).is_some();
        drop(pending);
        if is_open {
            // a program whose queue is full has not read the request yet and needs no cancellation
            self.link.notify(self.link.protocol.cancel, json!({ "id": self.id }));
        }
    }
}

async fn write(
    mut stdin: ChildStdin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    limit: Duration,
    over: ConnectionEnd,
) {
    loop {
        let message = tokio::select! {
            biased;
            () = over.token.cancelled() => return,
            message = messages.recv() => message,
        };
        let Some(message) = message else { return };
        let written = async {
            stdin.write_all(&message).await?;
            stdin.flush().await
        };
        match tokio::time::timeout(limit, written).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                // a program that has ended, or written nonsense, is named by what is read
                let _ = tokio::time::timeout(EXIT_TIMEOUT, over.token.cancelled()).await;
                return over.end("it has closed its standard input");
            }
            Err(_) => {
                let why = format!("it has read nothing for {} ms", limit.as_millis());
                return over.end(&why);
            }
        }
    }
}

/// Reads what the program writes.
struct MessageReader {
    protocol: Protocol,
    pending: Pending,
    outbox: mpsc::WeakSender<Vec<u8>>,
    handler: Arc<dyn Handler>,
    over: ConnectionEnd,
}

impl MessageReader {
    async fn read(self, stdout: ChildStdout) {
        let mut stdout = BufReader::new(stdout);
        let (mut since, mut read) = (Instant::now(), 0);
        loop {
            let message = tokio::select! {
                biased;
                () = self.over.token.cancelled() => return,
                message = self.next(&mut stdout) => message,
            };
            let message = match message {
                Ok(message) => message,
                Err(why) => return self.over.end(&why),
            };
            if since.elapsed() >= PERIOD {
                (since, read) = (Instant::now(), 0);
            }
            read += message.len().max(LEAST);
            if read > self.protocol.most_bytes {
                let seconds = PERIOD.as_secs();
                return self.over.end(&format!("it has written too much within {seconds} s"));
            }
            self.take(&message);
        }
    }

    /// The next message. The error says why there is none.
    async fn next(&self, stdout: &mut BufReader<ChildStdout>) -> Result<Vec<u8>, String> {
        let longest = self.protocol.longest;
        let too_long =
            |what: &str| Err(format!("it has written {what} of more than {longest} bytes"));
        let ended = || "it has ended".to_owned();
        match self.protocol.framing {
            Framing::Lines => match next_line(stdout, longest).await {
                Ok(None) | Err(_) => Err(ended()),
                Ok(Some(Line::TooLong { .. })) => too_long("a line"),
                Ok(Some(Line::Whole(line) | Line::Unfinished(line))) => Ok(line),
            },
            Framing::ContentLength => match next_content(stdout, longest).await {
                Ok(None) | Err(_) => Err(ended()),
                Ok(Some(Content::TooLong(_))) => too_long("a message"),
                Ok(Some(Content::NoLength(said))) => {
                    let said = clip(String::from_utf8_lossy(&said).trim().to_owned(), 200);
                    Err(format!("it has written something else than a message: {said:?}"))
                }
                Ok(Some(Content::Whole(message))) => Ok(message),
            },
        }
    }

    /// Handles one message. Anything that is neither an answer, a request nor a notification is ignored.
    fn take(&self, text: &[u8]) {
        if is_too_dense(text) {
            return tracing::debug!("a program has written a message of too many values");
        }
        let text = String::from_utf8_lossy(text);
        let mut message: Value = match serde_json::from_str(&surrogates::repair(&text)) {
            Ok(message) => message,
            Err(error) => {
                let shown = clip(text.trim().to_owned(), MAX_WHY);
                return tracing::debug!("a program has written no JSON ({error}): {shown}");
            }
        };
        let Some(members) = message.as_object_mut() else { return };
        let id = members.remove("id").filter(|id| !id.is_null());
        if let Some(Value::String(method)) = members.get("method") {
            let method = method.clone();
            let params = members.remove("params").unwrap_or_default();
            let framing = self.protocol.framing;
            match id {
                Some(id) => {
                    let reply = Reply { id, outbox: self.outbox.clone(), framing };
                    self.handler.request(&method, params, reply);
                }
                None => self.handler.notification(&method, params),
            }
            return;
        }
        let id = id.and_then(|id| id.as_u64());
        let waiting = id
            .and_then(|id| self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
        let answer = match members.remove("error").filter(|error| !error.is_null()) {
            Some(error) => {
                let why =
                    error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
                let code = error["code"].as_i64().unwrap_or_default();
                Err(RequestError::Refused { code, why: clip(why, MAX_WHY) })
            }
            None => Ok(members.remove("result").unwrap_or_default()),
        };
        match waiting {
            // the caller may be gone
            Some(waiting) => drop(waiting.send(answer)),
            None => tracing::debug!("a program has answered an unknown request: {id:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
