//! One log as data for the page: columns with a value for each event, which the timeline needs at
//! once, and chunks, which are read when they are shown.

use std::collections::BTreeSet;

use leftfold_events::event::{Event, Files, Model, Tool};
use leftfold_events::state::Messages;
use leftfold_events::{Envelope, Seq, SessionId, Sha256, State, Time, line, next};
use leftfold_view::clean::printable_line;
use leftfold_view::explain::{EventLinks, Links};
use leftfold_view::{FileDiff, Finding, Findings, ParallelWrites, event_line};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PageError;
use crate::chunks::Chunks;
use crate::pool::{Pool, masked};
use crate::requests::Requests;
use crate::spans::Spans;
use crate::state_trace::StateTrace;

#[derive(Debug)]
pub(crate) struct LogData {
    pub(crate) session: SessionId,
    links: Links,
    trace: StateTrace,
    spans: Spans,
    requests: Requests,
    columns: Columns,
    chunks: Chunks,
    edits: Vec<Edit>,
    findings: Findings,
    /// The findings of all turns.
    found: Vec<Finding>,
}

impl LogData {
    pub(crate) fn new(session: SessionId) -> Result<Self, PageError> {
        Ok(Self {
            session,
            links: Links::default(),
            trace: StateTrace::new(session)?,
            spans: Spans::default(),
            requests: Requests::default(),
            columns: Columns::default(),
            chunks: Chunks::default(),
            edits: Vec::new(),
            findings: Findings::default(),
            found: Vec::new(),
        })
    }

    /// Adds an event. `types` are the names of event types so far; columns have their indices. Returns what it shows
    /// about this log or another one together with events of others.
    pub(crate) fn push(
        &mut self,
        event: Envelope,
        types: &mut Vec<String>,
        pool: &mut Pool,
        writes: &mut ParallelWrites,
    ) -> Result<Vec<(SessionId, Finding)>, PageError> {
        let Self { links, trace, spans, requests, columns, chunks, edits, findings, found, .. } =
            self;
        let at = links.events.len();
        links.push(event);
        let event = &links.events[at];
        let call = matches!(&event.event, Event::Tool(_) | Event::Permission(_));
        let call = event.of.filter(|_| call).and_then(|of| spans.heading(of));
        let mut about = about(links, trace, at, call.as_deref())?;
        let decided = decided_request(event, &trace.state);
        found.extend_from_slice(findings.push(&trace.state, event));
        let shared = writes.push(&trace.state, event);
        chunks.begin(at, trace, pool)?;
        let patch = trace.apply(event)?;
        spans.apply(event);
        if let Some(request) = requests.describe(event, decided, &trace.state, pool)? {
            about.insert("request".to_owned(), request);
        }
        if has_diff(event)
            && let Some(of) = event.of
        {
            let call = spans.call_of(of);
            edits.push(Edit { seq: event.seq, call, moved: vec![event.seq] });
        }
        if let Event::Files(Files::Restored { .. }) = &event.event {
            follow_revert(edits, event.seq, &trace.state);
        }
        columns.push(event, types);
        chunks.push(event, patch, about, &trace.state, pool)?;
        Ok(shared)
    }

    /// Adds a finding that events of several logs have shown.
    pub(crate) fn add_finding(&mut self, finding: Finding) {
        if !self.found.contains(&finding) {
            let at = self.found.partition_point(|known| known.seq <= finding.seq);
            self.found.insert(at, finding);
        }
    }

    pub(crate) fn check(&self) -> Result<(), PageError> {
        self.trace.check()
    }

    pub(crate) fn events(&self) -> &[Envelope] {
        &self.links.events
    }

    pub(crate) fn chunks(&self) -> usize {
        self.chunks.starts.len()
    }

    pub(crate) fn chunk(&self, at: usize) -> Option<String> {
        self.chunks.json(at, &self.links)
    }

    pub(crate) fn size(&self) -> usize {
        self.chunks.size()
    }

    /// The data of the events after the first `count`. The `number` of the log is its place in the run.
    pub(crate) fn since(&self, number: usize, count: usize) -> Result<Value, PageError> {
        let state = &self.trace.state;
        let known = count.checked_sub(1).and_then(|last| self.events().get(last));
        let known = known.map_or(0, |event| event.seq);
        let is_new = |edit: &&Edit| edit.moved.last().is_some_and(|moved| *moved > known);
        let context = self.requests.context.iter().filter(|point| point.seq > known);
        let found = self.found.iter().filter(|finding| finding.seq > known);
        let since = json!({
            "number": number,
            "from": count,
            "session": self.session,
            "title": state.title.as_deref().map(printable_line),
            "agent": printable_line(&state.agent),
            "model": printable_line(&state.config.model.name().to_string()),
            "usage": state.usage,
            "cost": state.cost,
            "delegated_cost": state.delegated.cost,
            "ended": state.ended.as_ref().filter(|_| state.turn.is_none()).map(|e| e.reason),
            "running": state.turn.is_some(),
            "first_seq": self.events().first().map_or(1, |event| event.seq),
            "chunks": self.chunks.starts,
            "columns": self.columns.since(count),
            "context": context.collect::<Vec<_>>(),
            "edits": self.edits.iter().filter(is_new).collect::<Vec<_>>(),
            "findings": found.collect::<Vec<_>>(),
        });
        let mut since = masked(&since)?;
        since["spans"] = serde_json::to_value(self.spans.since(known).collect::<Vec<_>>())?;
        Ok(since)
    }
}

/// The hash of the request that this version would make in place of a `model.requested`.
fn decided_request(event: &Envelope, before: &State) -> Option<Sha256> {
    let Event::Model(Model::Requested { .. }) = &event.event else { return None };
    let decided = next(before)?;
    let Event::Model(Model::Requested { request_sha256, .. }) = decided.event else { return None };
    Some(request_sha256)
}

/// The event in one line, the call that it is about, and what it follows from.
fn about(
    links: &Links,
    before: &StateTrace,
    at: usize,
    call: Option<&str>,
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
    add("call", json!(call.map(printable_line)));
    add("reason", json!(linked.reason));
    add("rule", json!(linked.rule));
    add("rule_source", json!(linked.rule_source));
    add("decided_on", json!(linked.decided_on));
    add("from", json!(linked.from));
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

    /// The values of the events from this index on.
    fn since(&self, from: usize) -> Value {
        json!({
            "v": line::VERSION,
            "at": self.at.get(from..),
            "type": self.types.get(from..),
            "of": self.of.get(from..),
            "bookkeeping": self.bookkeeping.get(from..),
            "sessions": self.shared,
        })
    }
}
