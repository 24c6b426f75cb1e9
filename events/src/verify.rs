//! Compares today's decisions with a log. The log is folded, and before each event the next intent
//! is compared with the recorded event.

use serde::Serialize;
use serde_json::Value;

use crate::event::{Envelope, Event, Notes, Session, Turn};
use crate::id::{Seq, SessionId};
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

/// The last seq that comes from another agent's record, and that agent's name. 0 if there is none.
pub fn imported(events: &[Envelope]) -> (Seq, &str) {
    let found = events.iter().find_map(|event| {
        let Event::Session(Session::Imported { from, through, .. }) = &event.event else {
            return None;
        };
        Some((*through, from.as_str()))
    });
    found.unwrap_or((0, ""))
}

/// Every divergence, in order. [`imported`] events are not compared. After a divergence the
/// recorded event is applied and the comparison continues.
pub fn verify(events: &[Envelope]) -> Vec<Divergence> {
    let mut state = State::default();
    let mut found = Vec::new();
    let (imported, _) = imported(events);
    for (index, event) in events.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| events.get(before));
        let decided = event.seq > imported;
        if decided && !serves(before, event) && !cuts_in(event, events.get(index + 1)) {
            found.extend(compare(&state, event));
        }
        state.apply(event);
    }
    if let Some(left) = next(&state) {
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

/// Whether `event` follows its turn configuration. The configuration itself decides nothing; the
/// fact after it does.
fn serves(before: Option<&Envelope>, event: &Envelope) -> bool {
    let changes_config = before.is_some_and(|before| changes_config(&before.event));
    changes_config && !event.event.is_intent()
}

fn changes_config(event: &Event) -> bool {
    matches!(event, Event::Turn(Turn::Configured(_)))
}

/// Whether `event` may cut a batch short: `resumed`, `forked`, or a `configured` directly before
/// one.
fn cuts_in(event: &Envelope, following: Option<&Envelope>) -> bool {
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
    // notes are not decided
    let event = &Envelope { notes: Notes::default(), ..event.clone() };
    let expected = next(state);
    if expected.as_ref() == event.event.is_intent().then_some(event) {
        return None;
    }
    let (field, expected, found) = match &expected {
        Some(intent) if event.event.is_intent() => difference(&json(intent), &json(event), "")?,
        intent => {
            let expected = intent.as_ref().map_or(Value::Null, |i| line::type_of(&i.event).into());
            ("type".to_owned(), expected, line::type_of(&event.event).into())
        }
    };
    Some(Divergence { session: event.session, seq: event.seq, field, expected, found })
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
