//! The way to a session that another node of a shared store owns: messages go through the session's inbox, and events
//! are read from its log.
//!
//! A message is one request of the socket, as JSON. The owner does it as if its sender were at its own socket, and the
//! append that has its effect deletes it. What became of it comes back the same way. So a request counts once, whoever
//! dies in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use leftfold_actors::{Observation, Recorded, WatchScope};
use leftfold_events::{Envelope, MessageId, Seq, SessionId};
use leftfold_store::Inbox;
use leftfold_store::engine::{Owner, Progress};
use ractor::ActorRef;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;
use ulid::Ulid;

use super::wire::RpcError;
use crate::{executors, only_people};

/// The version of messages.
const VERSION: u32 = 1;

/// How long the owner, or the next one, may take for a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a sender looks what became of its message, if nothing wakes it.
const OUTCOME_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// After this time a sender looks whether somebody is there to take its message.
const NOBODY_NOTICE_DELAY: Duration = Duration::from_millis(1_500);
/// How long the details of an outcome may come after the append.
const DETAILS_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a log is read, if nothing says that it has grown.
const LOG_READ_INTERVAL: Duration = Duration::from_secs(5);
/// Events of one observation.
const BATCH: usize = 512;

/// A request to the owner of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    v: u32,
    pub(crate) method: String,
    /// `by` in it is the whole name for the log.
    pub(crate) params: Value,
}

impl Message {
    /// # Errors
    /// It is no message, or one of a newer version: why.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, RpcError> {
        if leftfold_framing::is_too_dense(body) {
            return Err(RpcError::request("the message has too many values"));
        }
        let message: Self = serde_json::from_slice(body)
            .map_err(|error| RpcError::request(format!("the message cannot be read: {error}")))?;
        if message.v != VERSION {
            let why = format!(
                "the message has version {}, and the owner of the session knows {VERSION}",
                message.v
            );
            return Err(RpcError::request(why));
        }
        Ok(message)
    }
}

/// The answer of the owner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Result(Value),
    Error(RpcError),
}

/// Works with the inboxes on a thread that may wait.
async fn with<T: Send + 'static>(
    inbox: &Inbox,
    work: impl FnOnce(&dyn leftfold_store::engine::Inboxes) -> Result<T, leftfold_store::Error>
    + Send
    + 'static,
) -> anyhow::Result<T> {
    let inbox = inbox.clone();
    Ok(tokio::task::spawn_blocking(move || inbox.with(work)).await??)
}

/// The owner and the place of the session, if messages are the way to it.
pub(crate) async fn elsewhere(inbox: &Inbox, session: SessionId) -> anyhow::Result<Option<Owner>> {
    with(inbox, move |inboxes| inboxes.elsewhere(session)).await
}

/// Sends a request to the owner of a session, and waits for its answer. A process that takes messages itself
/// (`takes_messages`) waits for the next owner, which it may be.
///
/// # Errors
/// An [`RpcError`]: the owner refuses it, nobody can take it now, or (`is_leaving`) it was taken back because the session
/// has no owner any more and can be opened here.
pub(crate) async fn call(
    (inbox, takes_messages): (&Inbox, bool),
    session: SessionId,
    method: &str,
    params: Value,
) -> anyhow::Result<Value> {
    // the owner cannot see whose process asks
    only_people::require(method)?;
    let message = MessageId::from_ulid(Ulid::new());
    let body = Message { v: VERSION, method: method.to_owned(), params };
    let body = serde_json::to_vec(&body)?;
    let woken = wake(inbox);
    with(inbox, move |inboxes| inboxes.post(session, message, body)).await?;
    let answered = answer((inbox, takes_messages), session, message, &woken).await;
    if !matches!(&answered, Err(error) if error.is::<StillWaits>()) {
        // what stays is forgotten within some days
        let _ = with(inbox, move |inboxes| inboxes.forget(message)).await;
    }
    answered.map_err(|error| match error.downcast::<StillWaits>() {
        Ok(StillWaits(why)) => RpcError::waits(why).into(),
        Err(error) => error,
    })
}

/// Is notified when a message was posted or concluded.
pub(crate) fn wake(inbox: &Inbox) -> Arc<Notify> {
    let woken = Arc::new(Notify::new());
    let weak = Arc::downgrade(&woken);
    let wake = move || weak.upgrade().map(|woken| woken.notify_one()).is_some();
    let subscribed = inbox.with(|inboxes| {
        inboxes.on_message(Box::new(wake));
        Ok(())
    });
    if let Err(error) = subscribed {
        tracing::warn!("nothing says that messages come: {error}");
    }
    woken
}

/// The message stays where it is: why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct StillWaits(String);

async fn answer(
    (inbox, takes_messages): (&Inbox, bool),
    session: SessionId,
    message: MessageId,
    woken: &Notify,
) -> anyhow::Result<Value> {
    let posted = Instant::now();
    loop {
        match with(inbox, move |inboxes| inboxes.progress(message)).await? {
            Progress::Concluded(outcome) => {
                return match serde_json::from_slice(&outcome)? {
                    Outcome::Result(result) => Ok(result),
                    Outcome::Error(error) => Err(error.into()),
                };
            }
            // its owner has ended before it could say more
            Progress::Settled(since) if since > DETAILS_TIMEOUT => {
                return Ok(json!({ "accepted": true }));
            }
            Progress::Gone => {
                let why = format!("session {session} was removed before it got the message");
                return Err(RpcError::request(why).into());
            }
            Progress::Waits if posted.elapsed() > NOBODY_NOTICE_DELAY => {
                let owner = elsewhere(inbox, session).await?;
                let is_late = posted.elapsed() > MESSAGE_TIMEOUT;
                if let Some(why) = nobody(owner.as_ref(), session, is_late) {
                    return Err(StillWaits(why).into());
                }
                if (!takes_messages || is_late)
                    && owner.is_none()
                    && with(inbox, move |inboxes| inboxes.withdraw(message)).await?
                {
                    let why = format!("session {session} has no owner any more: ask again");
                    return Err(RpcError::leaving(why).into());
                }
            }
            Progress::Waits | Progress::Settled(_) => {}
        }
        let _ = timeout(OUTCOME_POLL_INTERVAL, woken.notified()).await;
    }
}

/// Why a message goes on waiting although its sender does not.
fn nobody(owner: Option<&Owner>, session: SessionId, is_late: bool) -> Option<String> {
    let Owner { node, place, .. } = owner?;
    match node {
        Some(node) if is_late => {
            let took = MESSAGE_TIMEOUT.as_secs();
            Some(format!(
                "node {node} owns session {session} and has not taken the message within {took} s: it stays in the \
                 inbox, and the session's owner takes it when it can"
            ))
        }
        Some(_) => None,
        None => {
            let nodes = executors::nodes_at(place.as_deref().unwrap_or("another"));
            Some(format!(
                "session {session} waits for {nodes}: the message stays in the inbox until such a `leftfold serve` or \
                 `leftfold node` takes it"
            ))
        }
    }
}

/// Sends the events of a session from the log to `sink`, until that has stopped or this way to the session `is_over`.
pub(crate) async fn follow(
    inbox: Inbox,
    session: SessionId,
    from: Seq,
    sink: ActorRef<Observation>,
    scope: WatchScope,
    is_over: impl Fn() -> bool,
) {
    let mut tail = Tail::new(inbox, session, from, scope);
    loop {
        let events = match tail.read().await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!("the log of session {session} is not read: {error:#}");
                Vec::new()
            }
        };
        if events.is_empty() {
            tail.grown().await;
            if is_over() || !matches!(sink.get_status(), ractor::ActorStatus::Running) {
                return;
            }
            continue;
        }
        if is_over() {
            return;
        }
        let events: Arc<[Envelope]> = events.into();
        let (done, shown) = ractor::concurrency::oneshot();
        let events = Recorded::all(&events).collect();
        if sink.cast(Observation { events, done: done.into() }).is_err() || shown.await.is_err() {
            return;
        }
    }
}

/// A place in the logs of a session and its subagents.
struct Tail {
    inbox: Inbox,
    scope: WatchScope,
    /// Parents before children.
    logs: Vec<TailedLog>,
    grown: Arc<Notify>,
}

struct TailedLog {
    session: SessionId,
    next: Seq,
    /// Whether there may be more events than were read.
    has_more: Arc<AtomicBool>,
    /// Sets that, as long as it lives.
    _watch: Option<Box<dyn Send + Sync>>,
}

impl Tail {
    fn new(inbox: Inbox, session: SessionId, from: Seq, scope: WatchScope) -> Self {
        let mut tail = Self { inbox, scope, logs: Vec::new(), grown: Arc::default() };
        tail.add(session, from);
        if let WatchScope::Whole(named) = tail.scope.clone() {
            named.iter().for_each(|(child, from)| tail.add(*child, *from));
        }
        tail
    }

    fn add(&mut self, session: SessionId, next: Seq) {
        if self.logs.iter().any(|log| log.session == session) {
            return;
        }
        let (grown, has_more) = (Arc::clone(&self.grown), Arc::new(AtomicBool::new(true)));
        let flag = Arc::clone(&has_more);
        let wake = move || {
            flag.store(true, Ordering::Release);
            grown.notify_one();
        };
        let watch = self.inbox.with(|inboxes| Ok(inboxes.on_growth(session, Arc::new(wake))));
        let watch = watch.inspect_err(|error| tracing::warn!("no hints of {session}: {error}"));
        self.logs.push(TailedLog { session, next, has_more, _watch: watch.ok() });
    }

    /// Waits until a log may have grown.
    async fn grown(&self) {
        if timeout(LOG_READ_INTERVAL, self.grown.notified()).await.is_err() {
            self.logs.iter().for_each(|log| log.has_more.store(true, Ordering::Release));
        }
    }

    /// Events that have come since, of one session.
    async fn read(&mut self) -> anyhow::Result<Vec<Envelope>> {
        for log in &mut self.logs {
            if !log.has_more.swap(false, Ordering::AcqRel) {
                continue;
            }
            let (session, next, reader) = (log.session, log.next, self.inbox.reader());
            let read = move || reader.read(session, next, BATCH);
            let events = tokio::task::spawn_blocking(read).await.context("reading failed")??;
            let Some(last) = events.last() else { continue };
            log.next = last.seq + 1;
            log.has_more.store(true, Ordering::Release);
            if !matches!(self.scope, WatchScope::Alone) {
                let spawned = events.iter().filter_map(Envelope::spawned);
                let spawned: Vec<SessionId> = spawned.collect();
                spawned.into_iter().for_each(|child| self.add(child, 1));
            }
            return Ok(events);
        }
        Ok(Vec::new())
    }
}
