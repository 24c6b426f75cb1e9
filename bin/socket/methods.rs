//! What a client can ask.

use leftfold_actors::{Answered, Reply};
use leftfold_events::event::{Answer, Event, Permission};
use leftfold_events::state::Phase;
use leftfold_events::{Envelope, Seq, SessionId, State};
use leftfold_store::Store;
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::Peer;
use super::tap::Tap;
use super::wire::{self, RpcError};
use crate::client::Client;
use crate::lines::Lines;

pub(super) const WATCH: &str = "_leftfold/watch";

const METHODS: [&str; 5] =
    ["_leftfold/read", WATCH, "_leftfold/prompt", "_leftfold/answer", "_leftfold/cancel"];

/// Events in one answer to `read` at most, and the bytes after which no further one is begun.
const CHUNK: usize = 512;
const BYTES: usize = 4 << 20;

#[derive(Deserialize)]
struct Read {
    session: SessionId,
    from: Seq,
    to: Option<Seq>,
}

#[derive(Deserialize)]
struct Watch {
    session: SessionId,
    from: Seq,
}

#[derive(Deserialize)]
struct Prompt {
    session: SessionId,
    text: String,
    by: Option<String>,
}

#[derive(Deserialize)]
struct AnswerTo {
    session: SessionId,
    of: Option<Seq>,
    call: Option<String>,
    reply: Answer,
    feedback: Option<String>,
    by: Option<String>,
}

#[derive(Deserialize)]
struct Cancel {
    session: SessionId,
    by: Option<String>,
}

/// Every method but [`WATCH`].
pub(super) async fn call(peer: &Peer, method: &str, params: Value) -> Result<Value, RpcError> {
    match method {
        "_leftfold/read" => read(peer, wire::params(params)?).await,
        "_leftfold/prompt" => prompt(peer, wire::params(params)?),
        "_leftfold/answer" => answer(peer, wire::params(params)?).await,
        "_leftfold/cancel" => cancel(peer, wire::params(params)?),
        other => Err(RpcError::method(other, &METHODS)),
    }
}

pub(super) async fn watch(peer: &Peer, params: Value) -> Result<Tap, RpcError> {
    let Watch { session, from } = wire::params(params)?;
    first(from)?;
    Tap::open(&open(peer, session)?, from).await.map_err(RpcError::internal)
}

fn open(peer: &Peer, session: SessionId) -> Result<Client, RpcError> {
    peer.sessions.client(session).ok_or_else(|| RpcError::not_open(session))
}

fn first(from: Seq) -> Result<(), RpcError> {
    if from == 0 { Err(RpcError::params("`from`: the first event is 1")) } else { Ok(()) }
}

async fn read(peer: &Peer, asked: Read) -> Result<Value, RpcError> {
    let Read { session, from, to } = asked;
    first(from)?;
    let store = open(peer, session)?.reading().await.map_err(RpcError::internal)?;
    let to = to.unwrap_or(Seq::MAX);
    blocking(move || {
        let events = store.read(session, from, CHUNK).map_err(RpcError::internal)?;
        Ok(page(&events, from, to))
    })
    .await
}

/// Lines up to `to`, and where the next page begins if there may be one.
fn page(events: &[Envelope], from: Seq, to: Seq) -> Value {
    let (mut lines, mut bytes, mut next) = (Lines::default(), 0, from);
    let mut page: Vec<Value> = Vec::new();
    for event in events.iter().take_while(|event| event.seq <= to) {
        if bytes > BYTES {
            break;
        }
        for line in lines.of(event) {
            bytes += line.len();
            // it was made as JSON a moment ago
            page.extend(serde_json::from_str::<Value>(&line).ok());
        }
        next = event.seq + 1;
    }
    let more = next <= to && events.len() == CHUNK || events.last().is_some_and(|e| e.seq >= next);
    json!({ "lines": page, "next": (more && next <= to).then_some(next) })
}

fn prompt(peer: &Peer, asked: Prompt) -> Result<Value, RpcError> {
    let Prompt { session, text, by } = asked;
    if text.trim().is_empty() {
        return Err(RpcError::params("`text`: the prompt is empty"));
    }
    let client = open(peer, session)?;
    let equipment =
        peer.sessions.equipment(session).map_err(|e| RpcError::internal(format!("{e:#}")))?;
    let by = peer.by(by.as_deref());
    client.prompt_with(equipment, text, &by).map_err(RpcError::internal)?;
    Ok(json!({}))
}

fn cancel(peer: &Peer, asked: Cancel) -> Result<Value, RpcError> {
    let Cancel { session, by } = asked;
    open(peer, session)?.interrupt(&peer.by(by.as_deref())).map_err(RpcError::internal)?;
    Ok(json!({}))
}

/// Which question is meant.
#[derive(Clone)]
enum Which {
    Of(Seq),
    /// The model's id of the call, or the seq of its `model.called` or of its question.
    Call(String),
}

impl Which {
    fn is(&self, asked: Seq, called: Seq, call: &str) -> bool {
        match self {
            Self::Of(of) => *of == asked,
            Self::Call(name) => {
                name == call || name.parse().is_ok_and(|seq: Seq| seq == asked || seq == called)
            }
        }
    }
}

async fn answer(peer: &Peer, asked: AnswerTo) -> Result<Value, RpcError> {
    let AnswerTo { session, of, call, reply, feedback, by } = asked;
    let which = match (of, call) {
        (Some(of), None) => Which::Of(of),
        (None, Some(call)) => Which::Call(call),
        (None, None) | (Some(_), Some(_)) => {
            return Err(RpcError::params("params: either `of` or `call` says which question"));
        }
    };
    let client = open(peer, session)?;
    let state = client.view().await.map_err(RpcError::internal)?;
    if let Some(of) = question(&state, &which) {
        let reply = Reply { answer: reply, feedback, by: peer.by(by.as_deref()) };
        // from before the answer, so that what becomes of it is not missed
        let tap = Tap::open(&client, of).await.map_err(RpcError::internal)?;
        match client.answer(of, reply).await.map_err(RpcError::internal)? {
            Answered::Accepted => return durable(tap, of).await,
            Answered::Already { by } => {
                return Ok(json!({ "accepted": false, "of": of, "by": by }));
            }
            Answered::NotOpen => {}
        }
    }
    let store = client.reading().await.map_err(RpcError::internal)?;
    let answered = blocking(move || answered(&store, session, &which)).await?;
    let (of, by) = answered.unzip();
    Ok(json!({ "accepted": false, "of": of, "by": by.flatten() }))
}

/// The open question that is meant.
fn question(state: &State, which: &Which) -> Option<Seq> {
    state.calls().find_map(|call| match &call.phase {
        Phase::Asking { wait, .. } if which.is(wait.intent, call.seq, &call.id) => {
            Some(wait.intent)
        }
        Phase::Called
        | Phase::Checking(_)
        | Phase::Resolved
        | Phase::MustAsk { .. }
        | Phase::Asking { .. }
        | Phase::Allowed
        | Phase::Running { .. }
        | Phase::TimedOut { .. }
        | Phase::Unknown { .. }
        | Phase::Done(_) => None,
    })
}

/// Waits until an answer that was accepted stands in the log, or its question was closed before.
async fn durable(mut tap: Tap, of: Seq) -> Result<Value, RpcError> {
    while let Some(observation) = tap.next().await {
        for event in observation.events.iter() {
            match &event.event {
                Event::Permission(Permission::Answered { .. }) if event.of == Some(of) => {
                    return Ok(json!({ "accepted": true, "of": of, "by": null }));
                }
                Event::Session(leftfold_events::event::Session::Elapsed {})
                    if event.of == Some(of) =>
                {
                    return Ok(json!({ "accepted": false, "of": of, "by": null }));
                }
                Event::Turn(leftfold_events::event::Turn::Ended(_)) => {
                    return Ok(json!({ "accepted": false, "of": of, "by": null }));
                }
                Event::Session(_)
                | Event::Turn(_)
                | Event::Model(_)
                | Event::Tool(_)
                | Event::Permission(_)
                | Event::Compaction(_)
                | Event::Subagent(_)
                | Event::Todo(_) => {}
            }
        }
        // the hub may have gone with the node
        let _ = observation.done.send(());
    }
    Err(RpcError::internal("the node has died"))
}

/// The last question that is meant and, if it was answered, by whom.
fn answered(
    store: &Store,
    session: SessionId,
    which: &Which,
) -> Result<Option<(Seq, Option<String>)>, RpcError> {
    let (mut from, mut found) = (1, None);
    loop {
        let events = store.read(session, from, CHUNK).map_err(RpcError::internal)?;
        let Some(last) = events.last() else { return Ok(found) };
        from = last.seq + 1;
        for event in &events {
            let Event::Permission(permission) = &event.event else { continue };
            match permission {
                Permission::Asked { call, .. } => {
                    if which.is(event.seq, event.of.unwrap_or_default(), call) {
                        found = Some((event.seq, None));
                    }
                }
                Permission::Answered { by, .. } => {
                    if let Some((of, answerer)) = &mut found
                        && event.of == Some(*of)
                    {
                        *answerer = Some(by.clone());
                    }
                }
                Permission::Ruled { .. } => {}
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(RpcError::internal)?
}
