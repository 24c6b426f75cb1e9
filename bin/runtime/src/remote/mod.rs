//! A client of a session in the node of another process: through the socket of its store, or through the inbox of a
//! store that nodes share.

pub mod client;
pub(crate) mod inbox;
pub(crate) mod path;
pub(crate) mod wire;

// `tests/fuzz` reads lines with them
#[doc(hidden)]
pub use wire::{Request, answer, request};
pub use wire::{RpcError, name_of, nullable};

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use leftfold_actors::{Answered, Observation, Opened, QuestionReply, Recorded, WatchScope};
use leftfold_events::event::{Event, Turn};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, Seq, SessionId, Sha256, State, fold};
use leftfold_framing::{self as framing, next_line};
use leftfold_store::{Inbox, Store};
use ractor::ActorRef;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, watch};

use crate::session_paths::SessionPlace;
use crate::turn_config::PromptOptions;
use crate::user_message::UserMessage;
use leftfold_view::QuestionId;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a node may take to answer the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest number of events in one observation.
const BATCH: usize = 512;

/// Clones share one connection for requests; each watch has a connection of its own.
#[derive(Clone, Debug)]
pub struct Remote(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: PathBuf,
    session: SessionId,
    route: Route,
    over: AtomicBool,
    /// Becomes `Some` when the node has died.
    died: watch::Sender<Option<String>>,
}

#[derive(Debug)]
enum Route {
    Socket(Mutex<RemoteConnection>),
    Inbox {
        inbox: Inbox,
        /// Whether this process takes messages of sessions without an owner.
        takes_messages: bool,
    },
}

impl Remote {
    /// Reaches a session of a shared store that another node owns, or that nobody owns and is bound to another place.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn through_inbox(
        place: &SessionPlace,
        inbox: Inbox,
        takes_messages: bool,
    ) -> anyhow::Result<(Self, Opened)> {
        let SessionPlace { store, session } = place.clone();
        let reader = inbox.reader();
        let read = move || reader.read(session, 1, usize::MAX);
        let state = fold(&tokio::task::spawn_blocking(read).await??);
        Ok(Self::new(store, session, Route::Inbox { inbox, takes_messages }, state))
    }

    /// Reaches a session of a shared store that another node owns, or that nobody owns and is bound to another place, for a
    /// process that has not opened the store. `None`: it is no such session.
    ///
    /// # Errors
    /// The database is away.
    pub async fn elsewhere(place: &SessionPlace) -> anyhow::Result<Option<Self>> {
        if leftfold_store::database_of(&place.store)?.is_none() {
            return Ok(None);
        }
        let folder = place.store.clone();
        let store = tokio::task::spawn_blocking(move || Store::open(&folder)).await??;
        let Some(inbox) = store.inbox() else { return Ok(None) };
        match inbox::elsewhere(&inbox, place.session).await? {
            Some(_) => Ok(Some(Self::through_inbox(place, inbox, false).await?.0)),
            None => Ok(None),
        }
    }

    fn new(store: PathBuf, session: SessionId, route: Route, state: State) -> (Self, Opened) {
        let (died, closed) = watch::channel(None);
        let opened = Opened {
            head: state.seq,
            // The other node decides about resuming its turn.
            unfinished: false,
            questions: state.questions(),
            ended: state.ended,
            closed,
        };
        let over = AtomicBool::new(false);
        (Self(Arc::new(Inner { store, session, route, over, died })), opened)
    }

    /// Attaches to the session in the node of its store; `None` if no other process is that node,
    /// or it does not answer.
    pub async fn attach(place: &SessionPlace) -> Option<(Self, Opened)> {
        path::identity(&place.store)?;
        let found = tokio::time::timeout(HANDSHAKE_TIMEOUT, Self::find(place)).await;
        let found = found.unwrap_or_else(|late| Err(late.into()));
        found.inspect_err(|error| tracing::debug!("no node to attach to: {error:#}")).ok()
    }

    async fn find(place: &SessionPlace) -> anyhow::Result<(Self, Opened)> {
        let SessionPlace { store, session } = place.clone();
        let mut connection = RemoteConnection::connect(&place.store)?;
        let state = connection.state(session).await?;
        Ok(Self::new(store, session, Route::Socket(Mutex::new(connection)), state))
    }

    /// The pid of the node of the store, if the node answers.
    pub fn holder(store: &std::path::Path) -> Option<i32> {
        RemoteConnection::connect(store).ok()?.stream.get_ref().peer_cred().ok()?.pid()
    }

    /// The pid of the node, if it is at this machine and answers.
    pub fn pid(&self) -> Option<i32> {
        match &self.0.route {
            Route::Socket(_) => Self::holder(&self.0.store),
            Route::Inbox { .. } => None,
        }
    }

    /// The inboxes through which requests go. `None`: they go through a socket.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        match &self.0.route {
            Route::Socket(_) => None,
            Route::Inbox { inbox, .. } => Some(inbox),
        }
    }

    /// The folder of the store.
    pub(crate) fn store(&self) -> &std::path::Path {
        &self.0.store
    }

    /// Whether this is still the way to the session. It is not once the node has ended, in good order or not.
    pub async fn is_live(&self) -> bool {
        if self.0.over.load(Ordering::Acquire) {
            return false;
        }
        let Route::Inbox { inbox, .. } = &self.0.route else { return true };
        // without the database nobody knows better
        let is_live =
            inbox::elsewhere(inbox, self.0.session).await.map_or(true, |owner| owner.is_some());
        if !is_live {
            self.end(true);
        }
        is_live
    }

    /// Sends a request, and waits for the answer. An error of the node is an [`RpcError`].
    pub async fn call(&self, method: &'static str, mut params: Value) -> anyhow::Result<Value> {
        if let Some(by) = params.get_mut("by").filter(|_| self.inbox().is_some()) {
            // the owner does not see this process
            let pid = i32::try_from(std::process::id()).ok();
            *by = name_of(by.as_str().unwrap_or_default(), pid).into();
        }
        self.pass_on(method, params).await
    }

    /// Sends the request of another process, as [`Self::call`] does. An inbox is given the whole name of the client.
    pub async fn pass_on(&self, method: &'static str, params: Value) -> anyhow::Result<Value> {
        let inner = Arc::clone(&self.0);
        // Runs to its end even if the caller is dropped.
        let asked = tokio::spawn(async move {
            match &inner.route {
                Route::Socket(requests) => {
                    let mut connection = requests.lock().await;
                    tokio::time::timeout(ANSWER_TIMEOUT, connection.call(method, params)).await
                }
                Route::Inbox { inbox, takes_messages } => {
                    Ok(inbox::call((inbox, *takes_messages), inner.session, method, params).await)
                }
            }
        });
        match asked.await.context("the request failed")? {
            Ok(Err(error)) if error.downcast_ref().is_some_and(RpcError::is_leaving) => {
                self.end(true);
                Err(error)
            }
            Ok(Err(error)) if !error.is::<RpcError>() && self.inbox().is_none() => {
                Err(error.context(gone(self.0.session)))
            }
            Ok(answered) => answered,
            Err(_) => bail!("the node of session {} does not answer", self.0.session),
        }
    }

    pub async fn prompt(
        &self,
        message: &UserMessage,
        options: &PromptOptions,
    ) -> anyhow::Result<Answered> {
        let mut params = serde_json::to_value(options)?;
        params["session"] = json!(self.0.session);
        params["parts"] = json!(message.parts);
        params["by"] = json!(message.by);
        params["no_reply"] = json!(message.quiet);
        let answered = self.call("_leftfold/prompt", params).await?;
        Ok(match answered["seq"].as_u64() {
            Some(seq) if answered["repeated"] == true => Answered::Repeated { seq },
            Some(_) | None => Answered::Accepted,
        })
    }

    pub async fn configure(&self, name: &str, value: Value, by: &str) -> anyhow::Result<bool> {
        let params = json!({ "session": self.0.session, name: value, "by": by });
        let asked = self.call("_leftfold/configure", params).await?;
        Ok(asked["accepted"] == true)
    }

    pub async fn compact(&self, by: &str, instructions: Option<&str>) -> anyhow::Result<Answered> {
        let session = self.0.session;
        let params = json!({ "session": session, "by": by, "instructions": instructions });
        let asked = self.call("_leftfold/compact", params).await?;
        Ok(if asked["accepted"] == true { Answered::Accepted } else { Answered::NotOpen })
    }

    /// Returns the reason if the revert is refused.
    pub async fn revert(&self, back: Option<Seq>, by: &str) -> anyhow::Result<Result<(), String>> {
        let mut params = json!({ "session": self.0.session, "by": by });
        let method = match back {
            Some(to) => {
                params["to"] = to.into();
                "_leftfold/revert"
            }
            None => "_leftfold/unrevert",
        };
        let asked = self.call(method, params).await?;
        Ok(asked["refused"].as_str().map_or(Ok(()), |why| Err(why.to_owned())))
    }

    pub async fn interrupt(&self, by: &str) -> anyhow::Result<()> {
        let params = json!({ "session": self.0.session, "by": by });
        self.call("_leftfold/cancel", params).await.map(|_| ())
    }

    pub async fn answer(
        &self,
        asked: QuestionId,
        reply: QuestionReply,
    ) -> anyhow::Result<Answered> {
        let (session, of) = asked;
        let QuestionReply { answer, feedback, always, by } = reply;
        let params = json!({
            "session": session,
            "of": of,
            "reply": answer,
            "feedback": feedback,
            "always": always,
            "by": by,
        });
        let answered = self.call("_leftfold/answer", params).await?;
        if let Some(why) = answered["refused"].as_str() {
            return Ok(Answered::Refused { why: why.to_owned() });
        }
        Ok(match answered["by"].as_str() {
            _ if answered["accepted"] == true => Answered::Accepted,
            Some(by) => Answered::Already { by: by.to_owned() },
            None => Answered::NotOpen,
        })
    }

    /// Sends every event from `from` on to `sink`: as long as this is the way to the session or, through an inbox and with
    /// `beyond`, until the sink stops.
    pub async fn watch(
        &self,
        from: Seq,
        sink: ActorRef<Observation>,
        scope: &WatchScope,
        beyond: bool,
    ) -> anyhow::Result<()> {
        if let Some(inbox) = self.inbox() {
            let (inbox, scope) = (inbox.clone(), scope.clone());
            let inner = Arc::clone(&self.0);
            let is_over = move || !beyond && inner.over.load(Ordering::Acquire);
            tokio::spawn(inbox::follow(inbox, self.0.session, from, sink, scope, is_over));
            return Ok(());
        }
        let mut connection =
            RemoteConnection::connect(&self.0.store).with_context(|| gone(self.0.session))?;
        let mut params = json!({ "session": self.0.session, "from": from });
        match scope {
            WatchScope::Alone => {}
            WatchScope::Live => params["children"] = json!({}),
            WatchScope::Whole(named) => params["children"] = json!(**named),
        }
        let watching =
            tokio::time::timeout(ANSWER_TIMEOUT, connection.call("_leftfold/watch", params));
        watching.await.context("the node does not answer")??;
        let remote = self.clone();
        tokio::spawn(async move {
            if let Some(rested) = follow(&mut connection, &sink).await {
                remote.end(rested);
            }
        });
        Ok(())
    }

    fn end(&self, rested: bool) {
        self.0.over.store(true, Ordering::Release);
        if !rested {
            self.0.died.send_replace(Some(gone(self.0.session)));
        }
    }
}

fn gone(session: SessionId) -> String {
    format!("the node of session {session} has ended: continue with `leftfold resume {session}`")
}

/// Forwards events until the node is gone. True: it released the store in good order. `None`:
/// nobody listens any more.
async fn follow(connection: &mut RemoteConnection, sink: &ActorRef<Observation>) -> Option<bool> {
    let (mut contents, mut events) = (Contents::default(), Vec::new());
    loop {
        // A killed node may end the connection in any way.
        let line = connection.line().await.ok().flatten();
        let ended = match &line {
            None => Some(false),
            Some(line) => wire::is_rested(line).then_some(true),
        };
        events
            .extend(line.as_deref().and_then(wire::carried).and_then(|line| contents.event(line)));
        let is_next_here = connection.stream.buffer().contains(&b'\n') && events.len() < BATCH;
        // the last events may come together with the end
        if !events.is_empty() && (ended.is_some() || !is_next_here) {
            let (done, shown) = ractor::concurrency::oneshot();
            let events: std::sync::Arc<[_]> = std::mem::take(&mut events).into();
            let events = Recorded::all(&events).collect();
            // A dead sink drops its port, which counts as an answer.
            let _ = sink.cast(Observation { events, done: done.into() });
            shown.await.ok()?;
        }
        if ended.is_some() {
            return ended;
        }
    }
}

/// One connection; requests are answered in order.
#[derive(Debug)]
struct RemoteConnection {
    stream: BufReader<UnixStream>,
    last: u64,
}

impl RemoteConnection {
    /// Connects to the node of the store, if that is another process.
    fn connect(store: &std::path::Path) -> anyhow::Result<Self> {
        let stream = path::connect(store)?;
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        let node = stream.peer_cred()?.pid();
        if node == i32::try_from(std::process::id()).ok() {
            bail!("this process is the node");
        }
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream), last: 0 })
    }

    async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        let sent = self.stream.get_mut().write_all(format!("{request}\n").as_bytes()).await;
        // If the write fails, the node's last messages can still be read.
        while let Some(line) = self.line().await? {
            if wire::is_rested(&line) {
                return Err(RpcError::leaving("the node has released the session").into());
            }
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] != self.last {
                continue;
            }
            if let Some(error) = answer.get_mut("error").map(Value::take) {
                return Err(serde_json::from_value::<RpcError>(error)?.into());
            }
            return Ok(answer["result"].take());
        }
        sent?;
        Err(anyhow!("the connection has ended"))
    }

    async fn line(&mut self) -> anyhow::Result<Option<String>> {
        match next_line(&mut self.stream, usize::MAX).await? {
            Some(framing::Line::Whole(line)) => Ok(Some(String::from_utf8(line)?)),
            // A node that dies may leave half a line.
            Some(framing::Line::Unfinished(_) | framing::Line::TooLong { .. }) | None => Ok(None),
        }
    }

    /// The fold of the session's durable events.
    async fn state(&mut self, session: SessionId) -> anyhow::Result<State> {
        let (mut from, mut contents, mut events) = (1, Contents::default(), Vec::new());
        loop {
            let page = self.call("_leftfold/read", json!({ "session": session, "from": from }));
            let page = page.await?;
            let lines = page["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
            events.extend(lines.iter().filter_map(|line| contents.event(&line.to_string())));
            match page["next"].as_u64() {
                Some(next) => from = next,
                None => return Ok(fold(&events)),
            }
        }
    }
}

/// The contents behind hashes, as received before the events that name them.
#[derive(Debug, Default)]
struct Contents(HashMap<Sha256, Arc<str>>);

impl Contents {
    /// The event on a line, if its type is known.
    fn event(&mut self, line: &str) -> Option<Envelope> {
        match line::read(line) {
            Ok(Line::Event(mut event)) => {
                if let Event::Turn(Turn::Configured(configured)) = &mut event.event {
                    for payload in configured.payloads_mut() {
                        if let Some(text) = self.0.get(&payload.sha256()) {
                            payload.fill(Arc::clone(text));
                        }
                    }
                }
                Some(*event)
            }
            Ok(Line::Payload { sha256, text }) => {
                self.0.insert(sha256, text.into());
                None
            }
            Err(error) => {
                tracing::debug!("a line of a newer node: {error}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leftfold_actors::Listener;
    use leftfold_events::Time;
    use leftfold_events::event::{Notes, Session};

    use super::*;

    #[tokio::test]
    async fn the_last_events_count_if_the_end_comes_with_them() {
        for (last, expected) in [(wire::rested(), true), (Vec::new(), false)] {
            let (mut node, mine) = UnixStream::pair().unwrap();
            let titled = |seq| Envelope {
                session: SessionId::from_bytes([1; 16]),
                seq,
                at: Time::default(),
                of: None,
                until: None,
                event: Session::Titled { title: "x".to_owned() }.into(),
                notes: Notes::default(),
            };
            let mut sent = Vec::new();
            for event in Recorded::all(&Arc::from([1, 2].map(titled))) {
                wire::event(event.line(), &mut sent);
            }
            sent.extend(last);
            node.write_all(&sent).await.unwrap();
            drop(node);
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            let sink = Listener::start(move |Observation { events, done }| {
                events.iter().for_each(|event| tell.send(event.seq).unwrap());
                let _ = done.send(());
            });
            let mut connection = RemoteConnection { stream: BufReader::new(mine), last: 0 };
            assert_eq!(follow(&mut connection, &sink.await.unwrap()).await, Some(expected));
            assert_eq!((told.recv().await, told.recv().await), (Some(1), Some(2)));
        }
    }
}
