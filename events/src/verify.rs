//! Compares today's decisions with a log. The log is folded, and before each event the next intent
//! is compared with the recorded event.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;

use crate::event::{Envelope, Event, Notes, Session, Tool, Turn};
use crate::id::{Seq, SessionId};
use crate::memo::Memo;
use crate::state::State;
use crate::{line, next};

/// A place where a log and today's code differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    pub session: SessionId,
    pub seq: Seq,
    /// Path of the field within the event's JSON line; `type` if another event was expected.
    pub field: String,
    /// The decision of today's code; null for none.
    pub expected: Value,
    /// The recorded event; null for none.
    pub found: Value,
}

/// The last seq that comes from another agent's record, and that agent's name.
pub fn imported(events: &[Envelope]) -> Option<(Seq, &str)> {
    events.iter().find_map(|event| {
        let Event::Session(Session::Imported { from, through, .. }) = &event.event else {
            return None;
        };
        Some((*through, from.as_str()))
    })
}

/// Every divergence, in order. [`imported`] events are not compared. After a divergence the
/// recorded event is applied and the comparison continues.
pub fn verify(events: &[Envelope]) -> Vec<Divergence> {
    let range = 0..events.len();
    LogPart { before: State::default(), log: events, range }.verify()
}

/// A stretch of a log, which can be verified without the stretches before it.
#[derive(Debug)]
pub struct LogPart<'a> {
    /// The state before its first event.
    before: State,
    log: &'a [Envelope],
    range: Range<usize>,
}

/// Cuts a log into parts of `length` events, so that several threads can verify it. Each step folds
/// the part before. The divergences of all parts, one after the other, are those of [`verify`].
pub fn parts(log: &[Envelope], length: usize) -> impl Iterator<Item = LogPart<'_>> {
    let mut state = State::default();
    let length = length.max(1);
    (0..log.len()).step_by(length).map(move |start| {
        let mut before = state.clone();
        // states that are used by two threads share no cache
        before.memo = Memo::default();
        let range = start..log.len().min(start + length);
        log[range.clone()].iter().for_each(|event| state.apply(event));
        LogPart { before, log, range }
    })
}

impl LogPart<'_> {
    /// Every divergence in this part, in order.
    pub fn verify(self) -> Vec<Divergence> {
        let Self { before: mut state, log, range } = self;
        let is_last = range.end == log.len();
        let mut found = Vec::new();
        let imported = imported(log).map(|(through, _)| through);
        for index in range {
            let event = &log[index];
            let before = index.checked_sub(1).and_then(|before| log.get(before));
            let decided = Some(event.seq) > imported;
            if decided && !serves(before, event) && !cuts_in(event, log.get(index + 1)) {
                found.extend(compare(&state, event));
            }
            state.apply(event);
        }
        if is_last && let Some(left) = next(&state) {
            found.push(Divergence {
                session: state.session,
                seq: left.seq,
                field: "type".to_owned(),
                expected: line::type_of(&left.event).into(),
                found: Value::Null,
            });
        }
        found
    }
}

/// Whether `event` follows its turn configuration. The configuration itself decides nothing; the
/// fact after it does.
fn serves(before: Option<&Envelope>, event: &Envelope) -> bool {
    let changes_config = before.is_some_and(|before| changes_config(&before.event));
    changes_config && !event.event.is_intent()
}

/// Whether `event` is an outcome that an executor had kept for the next owner of the session.
pub fn is_recovered(event: &Envelope) -> bool {
    event.notes.recovered && matches!(event.event, Event::Tool(Tool::Finished(_)))
}

fn changes_config(event: &Event) -> bool {
    matches!(event, Event::Turn(Turn::Configured(_)))
}

/// Whether `event` may cut a batch short: `resumed`, `forked`, a `configured` directly before
/// one, or an outcome that was recovered before it.
fn cuts_in(event: &Envelope, following: Option<&Envelope>) -> bool {
    if is_recovered(event) {
        return true;
    }
    let cuts = |event: &Envelope| {
        matches!(
            event.event,
            Event::Session(
                Session::Resumed { .. } | Session::ResumedImported { .. } | Session::Forked { .. }
            )
        )
    };
    cuts(event) || changes_config(&event.event) && following.is_some_and(cuts)
}

fn compare(state: &State, event: &Envelope) -> Option<Divergence> {
    let expected = next(state);
    let is_same = match &expected {
        Some(intent) => decides_the_same(intent, event),
        None => !event.event.is_intent(),
    };
    if is_same {
        return None;
    }
    // notes are not decided
    let event = &Envelope { notes: Notes::default(), ..event.clone() };
    let (field, expected, found) = match &expected {
        Some(intent) if event.event.is_intent() => difference(&json(intent), &json(event), "")?,
        intent => {
            let expected = intent.as_ref().map_or(Value::Null, |i| line::type_of(&i.event).into());
            ("type".to_owned(), expected, line::type_of(&event.event).into())
        }
    };
    Some(Divergence { session: event.session, seq: event.seq, field, expected, found })
}

/// Whether two events are equal in everything that `next` decides, which is all but the notes.
fn decides_the_same(intent: &Envelope, event: &Envelope) -> bool {
    let Envelope { session, seq, at, of, until, event: decided, notes: _ } = intent;
    (session, seq, at, of, until)
        == (&event.session, &event.seq, &event.at, &event.of, &event.until)
        && *decided == event.event
}

fn json(event: &Envelope) -> Value {
    serde_json::from_str(&line::write(event)).unwrap_or_default()
}

/// The first difference between two values.
pub fn difference(expected: &Value, found: &Value, path: &str) -> Option<(String, Value, Value)> {
    if expected == found {
        return None;
    }
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let absent = Value::Null;
            let mut pairs =
                keys.map(|k| (k, a.get(k).unwrap_or(&absent), b.get(k).unwrap_or(&absent)));
            // a different type says more than its first different field
            if a.get("type") != b.get("type") && path.is_empty() {
                let kind =
                    |map: &serde_json::Map<_, _>| map.get("type").cloned().unwrap_or_default();
                return Some(("type".to_owned(), kind(a), kind(b)));
            }
            pairs.find_map(|(key, a, b)| difference(a, b, &at(key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| difference(a, b, &at(&index.to_string())))
        }
        _ => Some((path.to_owned(), expected.clone(), found.clone())),
    }
}
