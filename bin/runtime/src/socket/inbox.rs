//! Takes the messages that other nodes have put into the inboxes of this node's sessions, and does what they ask as if
//! their senders were at the socket.
//!
//! Messages of one session are taken in order, one after the other. The append that has a message's effect deletes it; a
//! message without an effect is deleted with the answer for its sender. One that could not be judged stays and is tried
//! again, but not for ever: a row that no version of this program has written must not hold up those behind it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use leftfold_events::{MessageId, SessionId};
use leftfold_store::engine::{Inboxes, Progress, WaitingMessage};
use leftfold_store::{Inbox, WeakInbox};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::methods;
use super::peer::Peer;
use super::sessions::{SessionRegistry, Sessions, SingleSession};
use crate::client::Client;
use crate::fork::FORK;
use crate::remote::inbox::{self, Message, Outcome};
use crate::remote::wire::RpcError;

/// How often it looks for messages, if nothing wakes it, and how long it waits before it tries one again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Messages that are looked at together.
const MAX_MESSAGES: usize = 256;

/// After so many attempts a message is refused whose sender would have to ask again, because the session is on its way to
/// another node, and one that fails for a reason of this node.
const LEAVING: u32 = 60;
const FAILING: u32 = 3;

/// The methods that messages call.
const TAKEN: [&str; 8] = [
    "_leftfold/prompt", "_leftfold/answer", "_leftfold/cancel", "_leftfold/compact",
    "_leftfold/configure", "_leftfold/revert", "_leftfold/unrevert", FORK,
];

/// Takes messages for the one session of `sessions` as long as that and its store are there, if nodes share the store.
pub async fn take_messages_of_one(sessions: &Arc<SingleSession>, client: &Client) {
    if let Some(inbox) = inbox_of(client).await {
        let sessions: Arc<dyn Sessions> = Arc::<SingleSession>::clone(sessions);
        tokio::spawn(run(Arc::downgrade(&sessions), inbox.downgrade(), false));
    }
}

/// Takes messages for all sessions that are open in the store of `client`, if nodes share it.
pub async fn take_messages_of(sessions: &Arc<SessionRegistry>, client: &Client) {
    if let Some(inbox) = inbox_of(client).await {
        take_messages(sessions, &inbox, false);
    }
}

/// The inboxes of a shared store of this process.
async fn inbox_of(client: &Client) -> Option<Inbox> {
    if client.remote().is_some() {
        return None;
    }
    client.reading().await.ok()?.inbox()
}

/// Takes messages as long as `sessions` and the store are there: for sessions that this node owns, and (`may_claim`) for
/// those that nobody owns and that it may go on with. Does nothing if they are taken already.
pub(super) fn take_messages(sessions: &Arc<SessionRegistry>, inbox: &Inbox, may_claim: bool) {
    if sessions.begin_to_take(inbox) {
        let sessions: Arc<dyn Sessions> = Arc::<SessionRegistry>::clone(sessions);
        tokio::spawn(run(Arc::downgrade(&sessions), inbox.downgrade(), may_claim));
    }
}

async fn run(sessions: Weak<dyn Sessions>, inbox: WeakInbox, may_claim: bool) {
    let Some(woken) = inbox.upgrade().map(|inbox| inbox::wake(&inbox)) else { return };
    let (sender, mut ended) = mpsc::unbounded_channel::<(SessionId, Option<MessageId>)>();
    let mut busy: HashSet<SessionId> = HashSet::new();
    let mut attempts: HashMap<MessageId, u32> = HashMap::new();
    loop {
        tokio::select! {
            () = woken.notified() => {}
            () = sleep(POLL_INTERVAL) => {}
            Some((session, tried)) = ended.recv() => {
                busy.remove(&session);
                if let Some(message) = tried {
                    *attempts.entry(message).or_default() += 1;
                }
            }
        }
        let (Some(_), Some(inbox)) = (sessions.upgrade(), inbox.upgrade()) else { return };
        let except: Vec<SessionId> = busy.iter().copied().collect();
        let look =
            with(&inbox, move |inboxes| inboxes.waiting(may_claim, &except, MAX_MESSAGES)).await;
        let waiting = match look {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!("it is not known whether messages wait: {error:#}");
                continue;
            }
        };
        if waiting.is_empty() && busy.is_empty() {
            attempts.clear();
        }
        let mut queues: HashMap<SessionId, Vec<(WaitingMessage, u32)>> = HashMap::new();
        for message in waiting {
            let tried = attempts.get(&message.message).copied().unwrap_or_default();
            queues.entry(message.session).or_default().push((message, tried));
        }
        for (session, queue) in queues {
            busy.insert(session);
            let (sessions, inbox, sender) = (sessions.clone(), inbox.clone(), sender.clone());
            tokio::spawn(async move {
                let tried = take_all(&sessions, &inbox, queue).await;
                drop(inbox);
                if tried.is_some() {
                    sleep(POLL_INTERVAL).await;
                }
                // nobody waits for it any more when the node ends
                let _ = sender.send((session, tried));
            });
        }
    }
}

/// Works with the inboxes on a thread that may wait.
async fn with<T: Send + 'static>(
    inbox: &Inbox,
    work: impl FnOnce(&dyn Inboxes) -> Result<T, leftfold_store::Error> + Send + 'static,
) -> anyhow::Result<T> {
    let inbox = inbox.clone();
    Ok(tokio::task::spawn_blocking(move || inbox.with(work)).await??)
}

/// Takes messages of one session, in order. Answers the one that has to be tried again, with which it stops.
async fn take_all(
    sessions: &Weak<dyn Sessions>,
    inbox: &Inbox,
    queue: Vec<(WaitingMessage, u32)>,
) -> Option<MessageId> {
    for (message, tried) in queue {
        match take(sessions, inbox, message, tried).await {
            Ok(true) => {}
            Ok(false) => return Some(message.message),
            Err(error) => {
                tracing::warn!("message {} is not taken: {error:#}", message.message);
                return Some(message.message);
            }
        }
    }
    None
}

/// Takes one message. False: it has to be tried again.
async fn take(
    sessions: &Weak<dyn Sessions>,
    inbox: &Inbox,
    waiting: WaitingMessage,
    tried: u32,
) -> anyhow::Result<bool> {
    let WaitingMessage { message, session, is_mine } = waiting;
    let sessions = sessions.upgrade().context("the node ends")?;
    let body = with(inbox, move |inboxes| inboxes.body(message)).await?;
    let result = match body {
        Some(body) => handle(sessions, waiting, &body).await,
        None if with(inbox, move |inboxes| inboxes.progress(message)).await? == Progress::Waits => {
            Err(RpcError::request("the message is too large"))
        }
        // another one has taken it
        None => return Ok(true),
    };
    let refused = match &result {
        Err(error) if error.is_leaving() && tried < LEAVING => return Ok(false),
        Err(error) if error.is_internal() && tried < FAILING => {
            tracing::warn!("message {message} of session {session} is tried again: {error}");
            return Ok(false);
        }
        // it was not this node's to refuse
        Err(_) if !is_mine && inbox::elsewhere(inbox, session).await?.is_some() => {
            return Ok(false);
        }
        Err(error) => {
            tracing::warn!("message {message} of session {session} is refused: {error}");
            true
        }
        Ok(_) => false,
    };
    let outcome = match result {
        Ok(result) => Outcome::Result(result),
        Err(error) => Outcome::Error(error),
    };
    let outcome = serde_json::to_vec(&outcome)?;
    with(inbox, move |inboxes| inboxes.conclude(message, outcome, refused)).await?;
    Ok(true)
}

async fn handle(
    sessions: Arc<dyn Sessions>,
    WaitingMessage { message, session, is_mine }: WaitingMessage,
    body: &[u8],
) -> Result<Value, RpcError> {
    let Message { method, params, .. } = Message::decode(body)?;
    let Some(method) = TAKEN.iter().find(|known| **known == method) else {
        return Err(RpcError::method(&method, &TAKEN));
    };
    if !is_mine {
        sessions.take_over(session).await.map_err(RpcError::from_error)?;
    }
    let peer = Peer::of_message(sessions, message);
    methods::call(&peer, method, params).await
}
