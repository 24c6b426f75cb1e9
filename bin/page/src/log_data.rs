//! One log as data for the page: columns with a value for each event, which the timeline needs at
//! once, and chunks with everything about some of the events, which are read when they are shown.

use std::collections::BTreeSet;

use leftfold_events::event::{Event, Files, Model, Tool};
use leftfold_events::state::Messages;
use leftfold_events::{Envelope, Seq, SessionId, Sha256, State, Time, line, mask, next};
use leftfold_view::clean::printable_line;
use leftfold_view::explain::{EventLinks, Links};
use leftfold_view::{FileDiff, event_line};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PageError;
use crate::patch::{Op, Step};
use crate::pool::{Pool, masked};
use crate::requests::Requests;
use crate::spans::Spans;
use crate::state_trace::StateTrace;

/// The most events in a chunk, and the bytes of JSON after which it ends.
const EVENTS: usize = 256;
const BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct LogData {
    /// For the start of the page.
    pub(crate) summary: Value,
    /// Each a block of its own.
    pub(crate) chunks: Vec<Value>,
}

/// Events with the state before the first of them.
#[derive(Debug)]
struct Chunk {
    first: usize,
    key_frame: Value,
    events: Vec<Value>,
    patches: Vec<Value>,
    about: Vec<Value>,
    bytes: usize,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS || self.bytes >= BYTES
    }

    fn json(self) -> Value {
        json!({
            "first": self.first,
            "key_frame": self.key_frame,
            "events": self.events,
            "patches": self.patches,
            "about": self.about,
        })
    }
}

impl LogData {
    /// `types` are the names of event types so far; columns have their indices.
    pub(crate) fn new(
        session: SessionId,
        events: &[Envelope],
        types: &mut Vec<String>,
        pool: &mut Pool,
    ) -> Result<Self, PageError> {
        let links = Links::new(events);
        let mut trace = StateTrace::new(session)?;
        let (mut spans, mut requests) = (Spans::default(), Requests::default());
        let mut columns = Columns::default();
        let (mut chunks, mut starts) = (Vec::new(), Vec::new());
        let mut edits = Vec::new();
        let mut chunk: Option<Chunk> = None;
        for (at, event) in events.iter().enumerate() {
            let mut about = about(&links, &trace, at)?;
            let decided = decided_request(event, &trace.state);
            let is_first = begin_chunk(&mut chunk, &mut chunks, at, &mut trace, pool)?;
            let patch = trace.apply(event)?;
            spans.apply(event);
            if let Some(request) = requests.describe(event, decided, &trace.state, pool)? {
                about.insert("request".to_owned(), request);
            }
            if has_diff(event) {
                let call = spans.call_of(event.of.unwrap_or_default());
                edits.push(Edit { seq: event.seq, call, moved: vec![event.seq] });
            }
            if let Event::Files(Files::Restored { .. }) = &event.event {
                follow_revert(&mut edits, event.seq, &trace.state);
            }
            columns.push(event, types);
            let line = mask::shown(event).line;
            if is_first {
                starts.push(at);
            }
            if let Some(chunk) = &mut chunk {
                chunk.bytes += line.len();
                chunk.events.push(pool.encode(without_columns(serde_json::from_str(&line)?)));
                chunk.patches.push(pool.encode(patch_json(event, patch, &trace.state)?));
                chunk.about.push(pool.encode(Value::Object(about)));
            }
        }
        chunks.extend(chunk.map(Chunk::json));
        trace.check()?;
        let state = &trace.state;
        let origin = state.origin.as_ref();
        let summary = json!({
            "session": session,
            "parent": origin.and_then(|origin| origin.parent),
            "directory": origin.map(|origin| &origin.directory),
            "title": state.title,
            "agent": state.agent,
            "model": state.config.model.name().to_string(),
            "usage": state.usage,
            "cost": state.cost,
            "delegated_cost": state.delegated.cost,
            "ended": state.ended.as_ref().filter(|_| state.turn.is_none()).map(|e| e.reason),
            "running": state.turn.is_some(),
            "first_seq": events.first().map_or(1, |event| event.seq),
            "chunks": starts,
            "columns": columns.json(),
            "context": requests.context,
            "edits": edits,
        });
        let mut summary = masked(&summary)?;
        summary["spans"] = serde_json::to_value(spans.finish())?;
        Ok(Self { summary, chunks })
    }
}

/// The hash of the request that this version would make in place of a `model.requested`.
fn decided_request(event: &Envelope, before: &State) -> Option<Sha256> {
    let Event::Model(Model::Requested { .. }) = &event.event else { return None };
    let decided = next(before)?;
    let Event::Model(Model::Requested { request_sha256, .. }) = decided.event else { return None };
    Some(request_sha256)
}

/// An event as exported, without the members that are in the columns.
fn without_columns(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.retain(|name, _| !matches!(name.as_str(), "v" | "session" | "seq" | "at" | "type"));
    }
    event
}

/// A patch for a page that takes seq and time from the event first, as nearly every event sets both.
fn patch_json(
    event: &Envelope,
    mut ops: Vec<Op>,
    state: &State,
) -> Result<Value, serde_json::Error> {
    let path = |key: &str| vec![Step::Key(key.to_owned())];
    let is_of_event =
        |op: &Op| matches!(op, Op::Set(at, _) if *at == path("seq") || *at == path("at"));
    ops.retain(|op| !is_of_event(op));
    if state.seq != event.seq {
        ops.push(Op::Set(path("seq"), json!(state.seq)));
    }
    // a clock may have been set back
    if state.at != event.at {
        ops.push(Op::Set(path("at"), json!(state.at)));
    }
    serde_json::to_value(ops)
}

/// Begins a chunk if the last one is full.
fn begin_chunk(
    chunk: &mut Option<Chunk>,
    chunks: &mut Vec<Value>,
    at: usize,
    trace: &mut StateTrace,
    pool: &mut Pool,
) -> Result<bool, PageError> {
    if chunk.as_ref().is_some_and(|chunk| !chunk.is_full()) {
        return Ok(false);
    }
    chunks.extend(chunk.take().map(Chunk::json));
    *chunk = Some(Chunk {
        first: at,
        key_frame: trace.key_frame(pool)?,
        events: Vec::new(),
        patches: Vec::new(),
        about: Vec::new(),
        bytes: 0,
    });
    Ok(true)
}

/// The event in one line, and what it follows from.
fn about(
    links: &Links<'_>,
    before: &StateTrace,
    at: usize,
) -> Result<Map<String, Value>, PageError> {
    let event = &links.events[at];
    let linked = EventLinks::new(links, &before.state, at);
    let mut about = Map::new();
    let line = event_line::detail(&event.event);
    let mut add = |key: &str, value: Value| {
        if !value.is_null() && value != json!([]) && value != "" {
            about.insert(key.to_owned(), value);
        }
    };
    add("line", json!(printable_line(&line)));
    add("reason", json!(linked.reason));
    add("rule", json!(linked.rule));
    add("rule_source", json!(linked.rule_source));
    add("decided_on", json!(linked.decided_on));
    add("from", json!(linked.from));
    add("then", json!(linked.then));
    let masked = masked(&about)?;
    Ok(masked.as_object().cloned().unwrap_or_default())
}

/// The result of a call that has changed files.
#[derive(Debug, Serialize)]
struct Edit {
    seq: Seq,
    #[serde(skip)]
    call: Seq,
    /// The events since which the change is there, is reverted, is there again, and so on.
    moved: Vec<Seq>,
}

impl Edit {
    fn is_there(&self) -> bool {
        self.moved.len() % 2 == 1
    }
}

fn has_diff(event: &Envelope) -> bool {
    let Event::Tool(Tool::Finished(finished)) = &event.event else { return false };
    FileDiff::of_call(finished).is_some_and(|files| !files.is_empty())
}

/// Notes which changes a revert has taken away or brought back.
fn follow_revert(edits: &mut [Edit], seq: Seq, state: &State) {
    let calls = |messages: &Messages| -> BTreeSet<Seq> {
        let replies = messages.iter().filter_map(|message| message.reply());
        replies.flat_map(|reply| reply.calls()).map(|call| call.seq).collect()
    };
    let kept = calls(&state.messages);
    let reverted = state.files.revert.as_ref().map(|revert| calls(&revert.messages));
    let reverted = reverted.unwrap_or_default();
    for edit in edits {
        let now = if edit.is_there() { &reverted } else { &kept };
        if now.contains(&edit.call) {
            edit.moved.push(seq);
        }
    }
}

#[derive(Debug, Default)]
struct Columns {
    /// Milliseconds since the event before; of the first, since 1970.
    at: Vec<i64>,
    last: i64,
    types: Vec<usize>,
    /// How far back the event is that this one is about; 0 without one.
    of: Vec<u64>,
    /// A digit for each event: 1 for bookkeeping, which lists leave out at first.
    bookkeeping: String,
    /// The session of shared events, which a fork has from its parent, and their number.
    shared: Vec<(SessionId, usize)>,
}

impl Columns {
    fn push(&mut self, event: &Envelope, types: &mut Vec<String>) {
        let at = event.at.since(Time::default());
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        self.at.push(at - self.last);
        self.last = at;
        let name = line::type_of(&event.event);
        let known = types.iter().position(|known| *known == name);
        self.types.push(known.unwrap_or_else(|| {
            types.push(name);
            types.len() - 1
        }));
        self.of.push(event.of.map_or(0, |of| event.seq.saturating_sub(of)));
        self.bookkeeping.push(if event_line::is_bookkeeping(&event.event) { '1' } else { '0' });
        match self.shared.last_mut() {
            Some((session, count)) if *session == event.session => *count += 1,
            _ => self.shared.push((event.session, 1)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "v": line::VERSION,
            "at": self.at,
            "type": self.types,
            "of": self.of,
            "bookkeeping": self.bookkeeping,
            "sessions": self.shared,
        })
    }
}
