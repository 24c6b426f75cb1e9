//! What a client can ask.

use leftfold_actors::{Answered, Reply};
use leftfold_events::event::PromptPart;
use leftfold_events::event::{Answer, Event, Permission, Session, Turn};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Store;
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::Peer;
use super::question::{Search, Which};
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
    peer.house.sessions.client(session).ok_or_else(|| RpcError::not_open(session))
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
    if peer.house.is_closing() {
        let how = format!("the turn has ended: `leftfold run --session {session}` begins another");
        return Err(RpcError::request(how));
    }
    let client = open(peer, session)?;
    let equipment =
        peer.house.sessions.equipment(session).map_err(|e| RpcError::internal(format!("{e:#}")))?;
    let by = peer.by(by.as_deref());
    client.prompt_with(equipment, vec![PromptPart::text(text)], &by).map_err(RpcError::internal)?;
    Ok(json!({}))
}

fn cancel(peer: &Peer, asked: Cancel) -> Result<Value, RpcError> {
    let Cancel { session, by } = asked;
    open(peer, session)?.interrupt(&peer.by(by.as_deref())).map_err(RpcError::internal)?;
    Ok(json!({}))
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
    if let Some(of) = which.open(&state) {
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
    // whatever has closed the question may still be on its way to the disk
    let mut tap = Tap::open(&client, state.seq).await.map_err(RpcError::internal)?;
    tap.next().await;
    let store = client.reading().await.map_err(RpcError::internal)?;
    let search = blocking(move || search(&store, session, which)).await?;
    let (of, by) = search.found.unzip();
    Ok(json!({ "accepted": false, "of": of, "by": by.flatten() }))
}

/// Waits until an answer that was accepted stands in the log, or its question was closed before.
async fn durable(mut tap: Tap, of: Seq) -> Result<Value, RpcError> {
    while let Some(observation) = tap.next().await {
        let accepted = observation.events.iter().find_map(|event| counts(event, of));
        if let Some(accepted) = accepted {
            return Ok(json!({ "accepted": accepted, "of": of, "by": null }));
        }
        // the hub may have gone with the node
        let _ = observation.done.send(());
    }
    Err(RpcError::internal("the node has died"))
}

/// Whether `event` is the answer to the question (true), or closes it without one (false).
fn counts(event: &Envelope, of: Seq) -> Option<bool> {
    let ours = event.of == Some(of);
    match &event.event {
        Event::Permission(Permission::Answered { .. }) if ours => Some(true),
        Event::Session(Session::Elapsed {}) if ours => Some(false),
        Event::Turn(Turn::Ended(_)) => Some(false),
        Event::Session(_)
        | Event::Turn(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Permission(_)
        | Event::Compaction(_)
        | Event::Subagent(_)
        | Event::Todo(_) => None,
    }
}

/// What the log says of a question.
fn search(store: &Store, session: SessionId, which: Which) -> Result<Search, RpcError> {
    let (mut from, mut search) = (1, Search::new(which));
    loop {
        let events = store.read(session, from, CHUNK).map_err(RpcError::internal)?;
        let Some(last) = events.last() else { return Ok(search) };
        from = last.seq + 1;
        events.iter().for_each(|event| search.take(event));
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(RpcError::internal)?
}
