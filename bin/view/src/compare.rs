//! Compares two sessions: where they part, and which events of one stand beside which of the other.

use std::collections::BTreeSet;

use leftfold_events::event::{Event, Model, Turn};
use leftfold_events::verify::difference;
use leftfold_events::{Envelope, Seq, SessionId, Sha256, line, mask};
use serde::Serialize;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::clean::printable_line;
use crate::event_line;

/// Of longer sessions, events are put beside each other by their number: to find better pairs could take minutes.
const ALIGNED: usize = 20_000;

/// One of the sessions.
#[derive(Debug)]
pub struct Side<'a> {
    pub events: &'a [Envelope],
    ids: BTreeSet<SessionId>,
}

/// The first event in which two sessions differ in more than their ids and times.
#[derive(Debug, Serialize)]
pub struct Parting {
    /// The seq in the first session; one after its last event if it ends there.
    pub seq: Seq,
    /// Path of the field within the event's JSON line; `type` if the types of the events differ.
    pub field: String,
    pub a: Value,
    pub b: Value,
}

/// Events of two sessions side by side, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub a: Option<usize>,
    pub b: Option<usize>,
    /// Whether they differ in nothing but ids and times.
    pub is_same: bool,
}

pub fn parting(a: &Side<'_>, b: &Side<'_>) -> Option<Parting> {
    let most = a.events.len().max(b.events.len());
    (0..most).find_map(|index| {
        let (mine, other) = (a.comparable(index), b.comparable(index));
        let (field, x, y) = difference(&mine, &other, "")?;
        let after = a.events.last().map_or(1, |event| event.seq + 1);
        let seq = a.events.get(index).map_or(after, |event| event.seq);
        Some(Parting { seq, field, a: x, b: y })
    })
}

/// All events of both sessions in order.
pub fn aligned(a: &Side<'_>, b: &Side<'_>) -> Vec<Pair> {
    let hashes = |side: &Side<'_>| -> Vec<Sha256> {
        let all = (0..side.events.len()).map(|at| side.comparable(at).to_string());
        all.map(|text| Sha256::digest(text.as_bytes())).collect()
    };
    let (mine, other) = (hashes(a), hashes(b));
    let both = |a, b, is_same| Pair { a: Some(a), b: Some(b), is_same };
    let shared = mine.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let mut pairs: Vec<Pair> = (0..shared).map(|at| both(at, at, true)).collect();
    let (rest_a, rest_b) = (a.lines_from(shared), b.lines_from(shared));
    let ops = if rest_a.len().max(rest_b.len()) > ALIGNED {
        let (old_len, new_len) = (rest_a.len(), rest_b.len());
        vec![DiffOp::Replace { old_index: 0, old_len, new_index: 0, new_len }]
    } else {
        capture_diff_slices(Algorithm::Myers, &rest_a, &rest_b)
    };
    for op in ops {
        let (old, new) = (op.old_range(), op.new_range());
        for at in 0..old.len().max(new.len()) {
            let place =
                |range: &std::ops::Range<usize>| range.clone().nth(at).map(|index| index + shared);
            let (x, y) = (place(&old), place(&new));
            let is_same = x.zip(y).is_some_and(|(x, y)| mine[x] == other[y]);
            pairs.push(Pair { a: x, b: y, is_same });
        }
    }
    pairs
}

/// The hash of a turn's options without the places that they come from.
fn without_sources(options: &str) -> Value {
    let mut options: Value = serde_json::from_str(options).unwrap_or_default();
    options.as_object_mut().map(|options| options.remove("sources"));
    json!(Sha256::digest(options.to_string().as_bytes()))
}

impl<'a> Side<'a> {
    pub fn new(events: &'a [Envelope]) -> Self {
        // The ids of the session, of the sessions it was forked from, and of its children.
        let children = events.iter().filter_map(Envelope::spawned);
        let ids = events.iter().map(|event| event.session).chain(children).collect();
        Self { events, ids }
    }

    /// An event as JSON without the fields that differ between any two sessions; null past the end.
    fn comparable(&self, index: usize) -> Value {
        let Some(event) = self.events.get(index) else { return Value::Null };
        let text = self.without_ids(&mask::shown(event).line);
        let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            for name in ["session", "at", "until"] {
                fields.remove(name);
            }
        }
        // The exchange is another one in each session.
        if let Some(notes) = value.get_mut("notes").and_then(Value::as_object_mut) {
            notes.remove("exchange");
            if notes.is_empty()
                && let Some(fields) = value.as_object_mut()
            {
                fields.remove("notes");
            }
        }
        // The hashes depend on the session's id, which a request contains, and on the lines in settings files.
        if let Some(data) = value.get_mut("data").and_then(Value::as_object_mut) {
            if let Event::Turn(Turn::Configured(payloads)) = &event.event {
                data.insert("options".to_owned(), without_sources(payloads.options.text()));
            }
            data.remove("request_sha256");
            data.remove("body_sha256");
        }
        value
    }

    /// The session as text, one line for each event. Streamed text is left out, because it arrives
    /// in pieces of any length; the replies contain it.
    pub fn lines(&self) -> String {
        let shown =
            |event: &&Envelope| !matches!(event.event, Event::Model(Model::Streamed { .. }));
        self.events.iter().filter(shown).map(|event| self.line(event) + "\n").collect()
    }

    fn lines_from(&self, first: usize) -> Vec<String> {
        self.events.iter().skip(first).map(|event| self.line(event)).collect()
    }

    fn line(&self, event: &Envelope) -> String {
        let detail = self.without_ids(&event_line::detail(&event.event));
        let line = format!("{} {detail}", line::type_of(&event.event));
        printable_line(line.trim_end()).into_owned()
    }

    /// Replaces every id of these sessions with one word.
    pub fn without_ids(&self, text: &str) -> String {
        let with = |text: String, id: &SessionId| text.replace(&id.to_string(), "SESSION");
        self.ids.iter().fold(text.to_owned(), with)
    }
}
