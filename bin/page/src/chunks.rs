//! Chunks of a log: some events, the state before the first of them, and how each changes it. The page reads a
//! chunk when it shows one of its events.

use leftfold_events::{Envelope, State, mask};
use leftfold_view::explain::{Links, then};
use serde_json::{Map, Value, json};

use crate::PageError;
use crate::patch::{Op, Step};
use crate::pool::Pool;
use crate::state_trace::StateTrace;

/// The most events in a chunk, and the bytes of JSON after which it ends.
const EVENTS: usize = 256;
const BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// The index of the first event of each.
    pub(crate) starts: Vec<usize>,
    chunks: Vec<Chunk>,
}

/// Events with the state before the first of them, all as JSON.
#[derive(Debug)]
struct Chunk {
    first: usize,
    key_frame: String,
    events: Vec<String>,
    patches: Vec<String>,
    about: Vec<String>,
    /// The bytes of the events before their texts are shared.
    bytes: usize,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.events.len() >= EVENTS || self.bytes >= BYTES
    }
}

impl Chunks {
    /// Begins a chunk with the event at this index, which `trace` has not applied, if the last one is full.
    pub(crate) fn begin(
        &mut self,
        at: usize,
        trace: &mut StateTrace,
        pool: &mut Pool,
    ) -> Result<(), PageError> {
        if self.chunks.last().is_some_and(|chunk| !chunk.is_full()) {
            return Ok(());
        }
        self.starts.push(at);
        self.chunks.push(Chunk {
            first: at,
            key_frame: trace.key_frame(pool)?.to_string(),
            events: Vec::new(),
            patches: Vec::new(),
            about: Vec::new(),
            bytes: 0,
        });
        Ok(())
    }

    /// Adds an event to the last chunk; `state` is the one after it.
    pub(crate) fn push(
        &mut self,
        event: &Envelope,
        patch: Vec<Op>,
        about: Map<String, Value>,
        state: &State,
        pool: &mut Pool,
    ) -> Result<(), PageError> {
        let Some(chunk) = self.chunks.last_mut() else { return Ok(()) };
        let line = mask::shown(event).line;
        chunk.bytes += line.len();
        let data = without_columns(serde_json::from_str(&line)?);
        chunk.events.push(pool.encode(data).to_string());
        chunk.patches.push(pool.encode(patch_json(event, patch, state)?).to_string());
        chunk.about.push(pool.encode(Value::Object(about)).to_string());
        Ok(())
    }

    /// The JSON of a chunk. Later events may follow from those in it: `links` has all.
    pub(crate) fn json(&self, at: usize, links: &Links) -> Option<String> {
        let Chunk { first, key_frame, events, patches, about, .. } = self.chunks.get(at)?;
        let then: Vec<Value> =
            (*first..first + events.len()).map(|at| json!(then(links, at))).collect();
        Some(format!(
            "{{\"first\":{first},\"key_frame\":{key_frame},\"events\":[{}],\"patches\":[{}],\"about\":[{}],\
             \"then\":{}}}",
            events.join(","),
            patches.join(","),
            about.join(","),
            Value::from(then)
        ))
    }

    pub(crate) fn size(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }
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
