//! A node's side: one executor in its settings.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leftfold_events::event::{CallKind, CallSpec, Class, FilesFailure, Resolution, Saved};
use leftfold_framing::{Line, next_line};
use leftfold_snapshots::{FileVersions, LARGEST, MAX_FILES, MAX_LEFT_OUT};
use leftfold_tools::{
    BoxFuture, Context, LateOutcome, Output, RemoteFailure, RemoteSnapshot, RemoteWorkspace,
    RunKey, SessionOwner, Workspace,
};
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::protocol::{
    Circumstances, Compare, Contents, Described, FENCED, Fence, Hello, Kept, LONGEST, LOST, Late,
    Message, Outcome, Resolve, Restore, RpcError, Run, TakeSnapshot, UNAUTHORIZED, VERSION,
    notification, request,
};
use crate::tls;

/// How long connecting may take, with TLS and the token.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take that reads files alone, and one that ends calls.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const FENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a call that was never sent waits for its executor.
const UNSENT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The time left of a call's limit in which its failure is reported.
const REPORT_MARGIN: Duration = Duration::from_secs(1);
/// The pauses between attempts.
const RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long the end of a call that was cancelled is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a snapshot or a restore may take, with attempts to reach the executor, and an answer about snapshots.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(180);
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of contents that are read, and of objects in one request.
const MAX_CONTENTS: usize = 256 << 20;
const MAX_OBJECTS: usize = 1_000;
/// The longest path in bytes and message in characters, and the most lines of a file, that a node believes.
const MAX_PATH: usize = 4_096;
const MAX_MESSAGE: usize = 2_000;
const MAX_LINES: u64 = u32::MAX as u64;

/// Where an executor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its name in settings.
    pub name: String,
    /// `HOST:PORT`.
    pub address: String,
    /// The certificates of the authority that has signed its own, in PEM. `None`: those of the system.
    pub roots: Option<PathBuf>,
}

/// An executor.
pub struct Client {
    at: Address,
    server: ServerName<'static>,
    tls: TlsConnector,
    token: String,
}

leftfold_events::debug_fields!(Client { at });

/// Why an executor did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unavailable {
    /// Nothing answers. Later it may.
    #[error("the executor `{name}` ({address}) cannot be reached: {why}")]
    Unreachable { name: String, address: String, why: String },
    /// Its certificate, or the settings, are wrong.
    #[error("the executor `{name}` ({address}): {why}")]
    Wrong { name: String, address: String, why: String },
    #[error("the executor `{name}` ({address}) refuses: {message}")]
    Refused { name: String, address: String, code: i64, message: String },
}

type Connected = (BufReader<tokio::io::ReadHalf<TlsStream<TcpStream>>>, Writer);
type Writer = tokio::io::WriteHalf<TlsStream<TcpStream>>;

impl Client {
    /// # Errors
    /// [`Unavailable::Wrong`]: the address or the file of the authority.
    pub fn new(at: Address, token: String) -> Result<Self, Unavailable> {
        let wrong = |why: String| Unavailable::Wrong {
            name: at.name.clone(),
            address: at.address.clone(),
            why,
        };
        let Some((host, port)) = at.address.rsplit_once(':') else {
            return Err(wrong("the address is not HOST:PORT".to_owned()));
        };
        if port.parse::<u16>().is_err() {
            return Err(wrong("the address has no port".to_owned()));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server = ServerName::try_from(host).map_err(|error| wrong(error.to_string()))?;
        let config =
            tls::of_client(at.roots.as_deref()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { server, tls: TlsConnector::from(config), token, at })
    }

    fn unreachable(&self, why: impl fmt::Display) -> Unavailable {
        let (name, address) = (self.at.name.clone(), self.at.address.clone());
        Unavailable::Unreachable { name, address, why: why.to_string() }
    }

    fn broken(&self, error: &io::Error) -> Unavailable {
        let is_of_tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
        if is_of_tls {
            let (name, address) = (self.at.name.clone(), self.at.address.clone());
            return Unavailable::Wrong { name, address, why: error.to_string() };
        }
        self.unreachable(error)
    }

    fn refused(&self, RpcError { code, message }: RpcError) -> Unavailable {
        let (name, address) = (self.at.name.clone(), self.at.address.clone());
        Unavailable::Refused { name, address, code, message }
    }

    /// Describes the workspace.
    ///
    /// # Errors
    /// It cannot be reached within some seconds, or refuses.
    pub async fn describe(&self) -> Result<Described, Unavailable> {
        self.ask("describe", &json!({}), ANSWER_TIMEOUT).await
    }

    /// The files that differ between the two trees of each pair of snapshots. `None`: one of them is not kept.
    ///
    /// # Errors
    /// It cannot be reached within some seconds, or refuses.
    pub async fn compare(
        &self,
        pairs: &[(&str, &str)],
    ) -> Result<Vec<Option<Vec<FileVersions>>>, Unavailable> {
        let owned = |(old, new): &(&str, &str)| ((*old).to_owned(), (*new).to_owned());
        let params = Compare { pairs: pairs.iter().map(owned).collect() };
        let mut found: Vec<Option<Vec<FileVersions>>> =
            self.ask("compare", &params, READ_TIMEOUT).await?;
        found.resize(pairs.len(), None);
        for files in found.iter_mut().flatten() {
            files.retain(|file| is_inside(&file.path));
        }
        Ok(found)
    }

    /// The contents of files in snapshots, of those that are kept and that are not larger than a snapshot allows.
    ///
    /// # Errors
    /// As for [`Self::compare`].
    pub async fn contents(
        &self,
        objects: &[String],
    ) -> Result<HashMap<String, Vec<u8>>, Unavailable> {
        let (mut contents, mut bytes, mut rest) = (HashMap::new(), 0, objects);
        while !rest.is_empty() && bytes < MAX_CONTENTS {
            let (now, later) = rest.split_at(rest.len().min(MAX_OBJECTS));
            let params = Contents { objects: now.to_vec() };
            let read: Vec<Option<String>> = self.ask("contents", &params, READ_TIMEOUT).await?;
            if read.is_empty() {
                break;
            }
            let answered = read.len().min(now.len());
            for (object, content) in now.iter().zip(read) {
                let content = content.and_then(|text| STANDARD.decode(text).ok());
                let content = content.filter(|content| content.len() as u64 <= LARGEST);
                if let Some(content) = content {
                    bytes += content.len();
                    contents.insert(object.clone(), content);
                }
            }
            rest = if answered < now.len() { &rest[answered..] } else { later };
        }
        Ok(contents)
    }

    async fn connect(&self) -> Result<Connected, Unavailable> {
        let connect = async {
            let stream = TcpStream::connect(&self.at.address).await?;
            stream.set_nodelay(true)?;
            let stream = self.tls.connect(self.server.clone(), stream).await?;
            let (reader, mut writer) = tokio::io::split(stream);
            let mut reader = BufReader::new(reader);
            let hello = Hello { version: VERSION, token: self.token.clone() };
            send(&mut writer, &request("hello", &hello)).await?;
            let answer = receive(&mut reader).await?;
            Ok::<_, io::Error>((answer, (reader, writer)))
        };
        let connected = timeout(CONNECT_TIMEOUT, connect).await;
        let connected = connected.map_err(|_| self.unreachable("it does not answer in time"))?;
        let (answer, connected) = connected.map_err(|error| self.broken(&error))?;
        match answer.error {
            None => Ok(connected),
            Some(error) => Err(self.refused(error)),
        }
    }

    /// One request that is answered soon.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Unavailable> {
        let asked = async {
            let (mut reader, mut writer) = self.connect().await?;
            let exchange = async {
                send(&mut writer, &request(method, params)).await?;
                receive(&mut reader).await
            };
            let answer = exchange.await.map_err(|error| self.broken(&error))?;
            self.result(answer)
        };
        let asked = timeout(limit, asked).await;
        asked.unwrap_or_else(|_| Err(self.unreachable("it does not answer in time")))
    }

    fn result<T: DeserializeOwned>(&self, message: Message) -> Result<T, Unavailable> {
        if let Some(error) = message.error {
            return Err(self.refused(error));
        }
        serde_json::from_value(message.result.unwrap_or_default())
            .map_err(|error| self.unreachable(format!("its answer is wrong: {error}")))
    }

    /// Repeats a request until there is an answer, for at most `limit`.
    async fn insist<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Unavailable> {
        let (start, mut pause) = (Instant::now(), RETRY_DELAY);
        loop {
            let left = limit.saturating_sub(start.elapsed());
            match self.ask(method, params, left).await {
                Err(Unavailable::Unreachable { .. }) if start.elapsed() + pause < limit => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_RETRY_DELAY);
                }
                answer => return answer,
            }
        }
    }

    async fn run_to_end(&self, key: &RunKey, resolved: &Resolution, cx: &Context) -> Output {
        let mut params = Run::from_key(key, resolved, cx);
        let (start, mut pause, mut sent) = (Instant::now(), RETRY_DELAY, false);
        let deadline =
            cx.deadline.map(|deadline| deadline.checked_sub(REPORT_MARGIN).unwrap_or(deadline));
        loop {
            let left = cx.begin_by.map(|by| by.saturating_duration_since(Instant::now()));
            params.begin_within = left.and_then(|left| u64::try_from(left.as_millis()).ok());
            let failure = match self.attempt(&params, cx, &mut sent).await {
                Ok(outcome) => return outcome.into(),
                Err(failure) => failure,
            };
            let now = Instant::now();
            let may_wait = match &failure {
                Unavailable::Unreachable { .. } => {
                    let until = if sent { deadline } else { Some(start + UNSENT_CALL_TIMEOUT) };
                    [until, deadline].into_iter().flatten().all(|until| now + pause < until)
                }
                Unavailable::Wrong { .. } | Unavailable::Refused { .. } => false,
            };
            if !may_wait || cx.cancel.is_cancelled() {
                return failed(&failure, sent);
            }
            tracing::warn!("{failure}; it is tried again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = cx.cancel.cancelled() => {}
            }
            pause = (pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    async fn attempt(
        &self,
        params: &Run,
        cx: &Context,
        sent: &mut bool,
    ) -> Result<Outcome, Unavailable> {
        let (mut reader, mut writer) = tokio::select! {
            connected = self.connect() => connected?,
            () = cx.cancel.cancelled(), if !*sent => {
                return Err(self.unreachable("the call was cancelled"));
            }
        };
        *sent = true;
        let sending = send(&mut writer, &request("run", params)).await;
        sending.map_err(|error| self.broken(&error))?;
        let cancelled = cancelled(&cx.cancel, &mut writer);
        let answered = async {
            loop {
                let message = receive(&mut reader).await.map_err(|error| self.broken(&error))?;
                if message.method.as_deref() != Some("progress") {
                    return self.result(message);
                }
                if let Some(tail) = message.params["tail"].as_str() {
                    (cx.progress)(tail.to_owned());
                }
            }
        };
        tokio::select! {
            answered = answered => answered,
            () = cancelled => Err(self.unreachable("it does not say that the call has ended")),
        }
    }
}

/// Passes a cancel on, and completes if the call does not end then.
async fn cancelled(cancel: &CancellationToken, writer: &mut Writer) {
    cancel.cancelled().await;
    // an executor that is gone has ended the call, or will
    let _ = send(writer, &notification("cancel", &json!({}))).await;
    tokio::time::sleep(CANCEL_TIMEOUT).await;
}

impl RemoteWorkspace for Client {
    fn name(&self) -> &str {
        &self.at.name
    }

    fn resolve(&self, call: &CallSpec, cx: &Workspace) -> Resolution {
        let circumstances = Circumstances::from_workspace(cx, &call.input);
        let params = Resolve { call: call.clone(), circumstances };
        let resolved = leftfold_process::wait_for(self.insist("resolve", &params, ANSWER_TIMEOUT));
        let why = match resolved {
            Some(Ok(resolution)) => return resolution,
            Some(Err(error)) => error.to_string(),
            None => "there is no runtime for a connection".to_owned(),
        };
        Resolution {
            name: call.name.clone(),
            input: call.input.clone(),
            class: Class::Read,
            access: Vec::new(),
            paths: Vec::new(),
            timeout: 0,
            error: Some(format!("The call was not run: {why}.")),
            kind: CallKind::Plain,
        }
    }

    fn run<'a>(&'a self, resolved: &'a Resolution, cx: &'a Context) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            match &cx.run_key {
                Some(key) => self.run_to_end(key, resolved, cx).await,
                None => {
                    error("executor_refused", "Calls outside a session do not run at executors.")
                }
            }
        })
    }

    fn fence<'a>(
        &'a self,
        owner: &'a SessionOwner,
        waiting: Vec<u64>,
    ) -> BoxFuture<'a, Result<Vec<LateOutcome>, String>> {
        Box::pin(async move {
            let params = Fence { owner: owner.clone(), waiting };
            let late: Result<Vec<Late>, _> = self.ask("fence", &params, FENCE_TIMEOUT).await;
            let late = late.map_err(|error| error.to_string())?.into_iter();
            let outcome = |Late { seq, outcome }| LateOutcome { seq, output: outcome.into() };
            Ok(late.map(outcome).collect())
        })
    }

    fn snapshot<'a>(
        &'a self,
        owner: &'a SessionOwner,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>> {
        Box::pin(async move {
            let params = TakeSnapshot { owner: owner.clone(), since: since.map(str::to_owned) };
            checked(self.insist("snapshot", &params, SNAPSHOT_TIMEOUT).await)
        })
    }

    fn restore<'a>(
        &'a self,
        owner: &'a SessionOwner,
        before: &'a str,
        paths: &'a [Saved],
    ) -> BoxFuture<'a, Result<RemoteSnapshot, RemoteFailure>> {
        Box::pin(async move {
            let (owner, before) = (owner.clone(), before.to_owned());
            let params = Restore { owner, before, paths: paths.to_vec() };
            checked(self.insist("restore", &params, SNAPSHOT_TIMEOUT).await)
        })
    }

    fn acknowledge<'a>(&'a self, run: &'a RunKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.ask::<Value>("acknowledge", run, ANSWER_TIMEOUT).await {
                tracing::debug!("an outcome is not acknowledged: {error}");
            }
        })
    }
}

/// An answer to `snapshot` or `restore`, as far as a node believes it.
fn checked(answer: Result<Kept, Unavailable>) -> Kept {
    let failure = |message: String| RemoteFailure { class: FilesFailure::Internal, message };
    let answer = answer.map_err(|error| failure(error.to_string()))?;
    let mut snapshot = answer.map_err(|RemoteFailure { class, message }| RemoteFailure {
        class,
        message: message.chars().take(MAX_MESSAGE).collect(),
    })?;
    let is_right = leftfold_snapshots::is_name(&snapshot.tree)
        && snapshot.files.len() <= MAX_FILES
        && snapshot.files.iter().all(|file| is_inside(&file.path));
    if !is_right {
        return Err(failure("the executor answers what is no snapshot".to_owned()));
    }
    for file in &mut snapshot.files {
        // they are summed up
        file.additions = file.additions.min(MAX_LINES);
        file.deletions = file.deletions.min(MAX_LINES);
    }
    snapshot.left_out.retain(|path| is_inside(path));
    snapshot.left_out.truncate(MAX_LEFT_OUT);
    Ok(snapshot)
}

/// Whether it is the path of a file below the worktree.
fn is_inside(path: &str) -> bool {
    let parts = Path::new(path).components();
    let is_plain = parts.into_iter().all(|part| matches!(part, Component::Normal(_)));
    is_plain && !path.is_empty() && path.len() <= MAX_PATH
}

/// The outcome of a run about which the executor does not say how it ended.
fn failed(failure: &Unavailable, sent: bool) -> Output {
    let unknown = "It may have taken effect fully, partly or not at all. Look at the current state before you run it \
                   again.";
    match failure {
        Unavailable::Refused { code: LOST, .. } => error(
            "lost",
            &format!(
                "The outcome of this call is unknown: the executor was started again while it ran. {unknown}"
            ),
        ),
        Unavailable::Refused { code: FENCED, message, .. } => error(
            "executor_fenced",
            &format!("The call was not run, or was ended: {message}. {unknown}"),
        ),
        Unavailable::Refused { code: UNAUTHORIZED, .. } | Unavailable::Wrong { .. } => {
            error("executor_refused", &format!("The call was not run: {failure}."))
        }
        Unavailable::Refused { .. } => {
            error("executor_refused", &format!("The call was not run: {failure}."))
        }
        Unavailable::Unreachable { .. } if sent => error(
            "executor_unreachable",
            &format!("The outcome of this call is unknown: {failure}. {unknown}"),
        ),
        Unavailable::Unreachable { .. } => {
            error("executor_unreachable", &format!("The call was not run: {failure}."))
        }
    }
}

fn error(kind: &str, text: &str) -> Output {
    Output { is_error: true, ..Output::new("", text, &json!({ "error_kind": kind })) }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let mut line = message.to_string();
    line.push('\n');
    writer.write_all(line.as_bytes()).await?;
    writer.flush().await
}

async fn receive(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> io::Result<Message> {
    match next_line(reader, LONGEST).await? {
        Some(Line::Whole(line)) => Ok(serde_json::from_slice(&line)?),
        Some(Line::TooLong { length, .. }) => {
            Err(io::Error::other(format!("an answer has {length} bytes")))
        }
        Some(Line::Unfinished(_)) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{Change, FileChange};

    use super::*;

    #[test]
    fn a_node_believes_no_answer_that_is_no_snapshot() {
        let file = |path: &str, additions| FileChange {
            path: path.into(),
            change: Change::Modified,
            additions,
            deletions: 0,
        };
        let answer = |tree: &str, files| {
            let left_out = vec!["a".into(), "/etc/b".into(), "../c".into()];
            checked(Ok(Ok(RemoteSnapshot { tree: tree.into(), files, left_out })))
        };
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let right = answer(tree, vec![file("a/b", u64::MAX), file("c", 2)]).unwrap();
        assert_eq!((right.files[0].additions, right.files[1].additions), (MAX_LINES, 2));
        assert_eq!(right.left_out, ["a"]);
        for wrong in ["", "--help", "HEAD", &format!("{tree}\n")] {
            assert!(answer(wrong, Vec::new()).is_err(), "{wrong}");
        }
        for wrong in ["", "/etc/passwd", "../a", "a/../../b", &"a".repeat(5_000)] {
            assert!(answer(tree, vec![file(wrong, 1)]).is_err(), "{wrong}");
        }
        assert!(answer(tree, vec![file("a", 1); MAX_FILES + 1]).is_err());
    }
}
