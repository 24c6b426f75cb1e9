//! The public form of an event: one JSON object per line.
//!
//! `{"v":1,"session":"01J…","seq":12,"at":"…","type":"tool.finished","of":7,"data":{}}`; `of`,
//! `until` and `notes` are present only if the event has them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::event::{Envelope, Event};
use crate::id::Seq;
use crate::payload::{Payload, Sha256};

/// The version in `v`.
pub const VERSION: u64 = 1;

/// Type names in exports from before the first release, and their current names.
const FORMER_TYPES: [(&str, &str); 9] = [
    ("turn.equipped", "turn.configured"),
    ("session.elapsed", "session.deadline_passed"),
    ("model.called", "tool.called"),
    ("model.replied", "model.finished"),
    ("tool.checked", "tool.resolve_started"),
    ("tool.inquired", "tool.elicitation_requested"),
    ("tool.replied", "tool.elicitation_answered"),
    ("plugin.asked", "hook.called"),
    ("plugin.answered", "hook.returned"),
];

/// Types with two stored forms: the field that only the second form has, and the name of that form.
const FORMS: [(&str, &str, &str); 7] = [
    ("session.resumed", "imported", "resumed_imported"),
    ("permission.answered", "with", "rejected_with"),
    ("permission.answered", "always", "answered_for"),
    ("compaction.asked", "instructions", "asked_with"),
    ("tool.started", "sandbox", "started_sandboxed"),
    ("files.snapshot_failed", "class", "snapshot_failed_as"),
    ("files.restore_failed", "class", "restore_failed_as"),
];

/// A line that is not an event of this version.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("`{0}` is missing or of the wrong type")]
    Field(&'static str),
    #[error("version {0} is unknown: this program reads version {VERSION}")]
    Version(u64),
    #[error("`{kind}`: {why}")]
    Event { kind: String, why: serde_json::Error },
}

/// A line of an export.
#[derive(Debug)]
pub enum Line {
    Event(Box<Envelope>),
    Payload { sha256: Sha256, text: String },
}

/// `concern.event`, as in `tool.finished`.
pub fn type_of(event: &Event) -> String {
    let (kind, _) = split(event);
    kind
}

/// The line of an event, without the newline.
pub fn write(envelope: &Envelope) -> String {
    let (kind, mut data) = split(&envelope.event);
    let mut notes = Value::Null;
    if !envelope.notes.is_empty() {
        // a derived form of plain data: serialising it cannot fail
        notes = serde_json::to_value(&envelope.notes).unwrap_or_default();
        into_data(&kind, &mut notes, &mut data);
    }
    let has_notes = notes.as_object().is_some_and(|notes| !notes.is_empty());
    let line = Written {
        v: VERSION,
        session: envelope.session.to_string(),
        seq: envelope.seq,
        at: envelope.at.to_string(),
        kind,
        of: envelope.of,
        until: envelope.until.map(|until| until.to_string()),
        notes: has_notes.then_some(notes),
        data,
    };
    // plain data: serialising it cannot fail
    serde_json::to_string(&line).unwrap_or_default()
}

/// A line, with its members in their order.
#[derive(Serialize)]
struct Written {
    v: u64,
    session: String,
    seq: Seq,
    at: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Value>,
    data: Value,
}

/// The line with the contents behind a hash. It comes before the first event that names the hash.
pub fn write_payload(payload: &Payload) -> String {
    json!({"v": VERSION, "payload": payload.sha256(), "text": &**payload.text()}).to_string()
}

/// Reads the output of [`write`] or [`write_payload`], also with former names of events. Unknown
/// fields are ignored.
///
/// # Errors
/// The line is not JSON, has another version, or is not a known event.
pub fn read(line: &str) -> Result<Line, LineError> {
    let Value::Object(mut line) = serde_json::from_str(line)? else {
        return Err(LineError::Field("v"));
    };
    match line.get("v").and_then(Value::as_u64) {
        None => return Err(LineError::Field("v")),
        Some(VERSION) => {}
        Some(other) => return Err(LineError::Version(other)),
    }
    if let Some(hash) = line.get("payload") {
        let sha256 = hash.as_str().and_then(Sha256::from_hex).ok_or(LineError::Field("payload"))?;
        let text = line.get("text").and_then(Value::as_str).ok_or(LineError::Field("text"))?;
        return Ok(Line::Payload { sha256, text: text.to_owned() });
    }
    let kind = line.get("type").and_then(Value::as_str).ok_or(LineError::Field("type"))?.to_owned();
    let former = FORMER_TYPES.iter().find(|(former, _)| *former == kind);
    let today = former.map_or(kind.as_str(), |(_, today)| *today);
    let (concern, name) = today.split_once('.').ok_or(LineError::Field("type"))?;
    let mut data = line.remove("data").unwrap_or_else(|| json!({}));
    let mut notes = line.remove("notes").unwrap_or(Value::Null);
    out_of_data(today, &mut notes, &mut data);
    let form = FORMS.iter().find(|(kind, field, _)| *kind == today && data.get(field).is_some());
    let name = form.map_or(name, |(_, _, form)| *form);
    let event = serde_json::from_value(json!({concern: {name: data}}))
        .map_err(|why| LineError::Event { kind: kind.clone(), why })?;
    let mut field = |name| line.remove(name).unwrap_or(Value::Null);
    Ok(Line::Event(Box::new(Envelope {
        session: serde_json::from_value(field("session"))?,
        seq: serde_json::from_value(field("seq"))?,
        at: serde_json::from_value(field("at"))?,
        of: serde_json::from_value(field("of"))?,
        until: serde_json::from_value(field("until"))?,
        event,
        notes: serde_json::from_value(notes)?,
    })))
}

const CANCELLED: &str = "tool.cancelled";
const ENDED: &str = "turn.ended";

/// Moves notes that explain fields of the event to these fields: the reason of a cancelled call, the class of each
/// denial, and the structured answer of a turn.
fn into_data(kind: &str, notes: &mut Value, data: &mut Value) {
    let (Some(notes), Some(data)) = (notes.as_object_mut(), data.as_object_mut()) else { return };
    if kind == CANCELLED
        && let Some(reason) = notes.shift_remove("reason")
    {
        data.insert("reason".to_owned(), reason);
    }
    if kind == ENDED
        && let Some(answer) = notes.shift_remove("structured")
    {
        data.insert("structured".to_owned(), answer);
    }
    let denied = data.get_mut("permission_denials").and_then(Value::as_array_mut);
    if kind == ENDED
        && let Some(denied) = denied
        && notes.get("denials").and_then(Value::as_array).map(Vec::len) == Some(denied.len())
        && let Some(Value::Array(classes)) = notes.shift_remove("denials")
    {
        for (denial, class) in denied.iter_mut().zip(classes) {
            denial["class"] = class;
        }
    }
}

/// Moves these fields back to notes.
fn out_of_data(kind: &str, notes: &mut Value, data: &mut Value) {
    let mut found = Map::new();
    if kind == CANCELLED
        && let Some(reason) = data.as_object_mut().and_then(|data| data.shift_remove("reason"))
    {
        found.insert("reason".to_owned(), reason);
    }
    if kind == ENDED
        && let Some(answer) = data.as_object_mut().and_then(|data| data.shift_remove("structured"))
    {
        found.insert("structured".to_owned(), answer);
    }
    let denied = data.get_mut("permission_denials").and_then(Value::as_array_mut);
    if kind == ENDED
        && let Some(denied) = denied.filter(|denied| !denied.is_empty())
        && denied.iter().all(|denial| denial["class"].is_string())
    {
        let classes = denied.iter().map(|denial| denial["class"].clone()).collect();
        found.insert("denials".to_owned(), Value::Array(classes));
    }
    if found.is_empty() {
        return;
    }
    if notes.is_null() {
        *notes = json!({});
    }
    if let Some(notes) = notes.as_object_mut() {
        notes.extend(found);
    }
}

/// The event's type and its fields: serde's form is `{concern: {event: fields}}`.
fn split(event: &Event) -> (String, Value) {
    let outer = serde_json::to_value(event).unwrap_or_default();
    let (concern, inner) = first(outer);
    let (name, data) = first(inner);
    (format!("{concern}.{name}"), data)
}

fn first(value: Value) -> (String, Value) {
    if let Value::Object(map) = value {
        map.into_iter().next().unwrap_or_default()
    } else {
        (String::new(), Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CallSpec, Session, Tool};
    use crate::{Json, Notes, SessionId, Time};

    fn round_trip(event: Event, of: Option<u64>) -> String {
        let envelope = Envelope {
            session: SessionId::default(),
            seq: 3,
            at: Time::from_millis(1_000),
            of,
            until: None,
            event,
            notes: Notes::default(),
        };
        let line = write(&envelope);
        let Ok(Line::Event(back)) = read(&line) else { panic!("{line}") };
        assert_eq!(*back, envelope);
        assert_eq!(write(&back), line);
        line
    }

    #[test]
    fn notes_that_explain_a_field_stand_beside_it() {
        let cancelled = r#"{"v":1,"session":"00000000000000000000000000","seq":3,"at":"1970-01-01T00:00:01.000Z","type":"tool.cancelled","data":{"call":"c","attempt":1,"reason":"deadline"}}"#;
        let denial = |class: &str| {
            format!(
                r#"{{"call":"c","tool":"t","permission":"p","patterns":[],"reason":"denied"{class}}}"#
            )
        };
        let ended = |denials: &str| {
            format!(
                r#"{{"v":1,"session":"00000000000000000000000000","seq":4,"at":"1970-01-01T00:00:01.000Z","type":"turn.ended","data":{{"reason":"completed","text":"","usage":{{"input":0,"output":0,"reasoning":0,"cache_read":0,"cache_write":0}},"cost":0.0,"steps":1,"permission_denials":[{denials}],"error":null}}}}"#
            )
        };
        let classed = denial(r#","class":"rule""#);
        for (line, reason, denials) in [
            (cancelled.to_owned(), Some("deadline"), 0),
            (cancelled.replace(r#","reason":"deadline""#, ""), None, 0),
            (ended(&format!("{classed},{classed}")), None, 2),
            (ended(&denial("")), None, 0),
            (ended(""), None, 0),
        ] {
            let Ok(Line::Event(event)) = read(&line) else { panic!("{line}") };
            assert_eq!(event.notes.reason.as_deref(), reason);
            assert_eq!(event.notes.denials.len(), denials);
            assert_eq!(write(&event), line);
        }
    }

    #[test]
    fn events_have_their_public_form() {
        let call = CallSpec {
            id: "c".into(),
            name: "read".into(),
            input: Json::parse(r#"{"b":1,"a":2}"#).unwrap(),
        };
        assert_eq!(
            round_trip(Tool::Called { call }.into(), Some(2)),
            r#"{"v":1,"session":"00000000000000000000000000","seq":3,"at":"1970-01-01T00:00:01.000Z","type":"tool.called","of":2,"data":{"call":{"id":"c","name":"read","input":{"b":1,"a":2}}}}"#
        );
        assert!(
            round_trip(Session::DeadlinePassed {}.into(), Some(1))
                .ends_with(r#""type":"session.deadline_passed","of":1,"data":{}}"#)
        );
        let (policy, close) = (1, false);
        assert!(
            round_trip(Session::Resumed { policy, close }.into(), None)
                .ends_with(r#""type":"session.resumed","data":{"policy":1,"close":false}}"#)
        );
        assert!(
            round_trip(Session::ResumedImported { policy, close, imported: 7 }.into(), None)
                .ends_with(
                    r#""type":"session.resumed","data":{"policy":1,"close":false,"imported":7}}"#
                )
        );
    }

    #[test]
    fn failures_with_files_have_a_class_since_they_are_named() {
        use crate::event::{Files, FilesFailure};
        let (class, message) = (FilesFailure::NoGit, "no".to_owned());
        let former = Files::SnapshotFailed { message: message.clone() };
        assert!(
            round_trip(former.into(), Some(2))
                .ends_with(r#""type":"files.snapshot_failed","of":2,"data":{"message":"no"}}"#)
        );
        let line = round_trip(Files::RestoreFailedAs { class, message }.into(), Some(2));
        assert!(line.ends_with(
            r#""type":"files.restore_failed","of":2,"data":{"class":"no_git","message":"no"}}"#
        ));
    }

    #[test]
    fn notes_stand_before_the_data() {
        let line = round_trip(Session::DeadlinePassed {}.into(), None);
        let notes = r#""notes":{"client":"msg_1","later":[1.0]}"#;
        let noted = line.replace(r#""data""#, &format!(r#"{notes},"data""#));
        let Ok(Line::Event(event)) = read(&noted) else { panic!("{noted}") };
        assert_eq!(event.notes.client.as_deref(), Some("msg_1"));
        assert_eq!(write(&event), noted);
    }

    #[test]
    fn payload_lines_round_trip() {
        let payload = Payload::new("text");
        let Ok(Line::Payload { sha256, text }) = read(&write_payload(&payload)) else { panic!() };
        assert_eq!((sha256, text.as_str()), (payload.sha256(), "text"));
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, part) in [
            ("{", "not JSON"),
            ("[]", "`v`"),
            (r#"{"v":9}"#, "version 9"),
            (r#"{"v":1}"#, "`type`"),
            (r#"{"v":1,"type":"tool.nonsense"}"#, "tool.nonsense"),
            (r#"{"v":1,"type":"session.titled","data":{}}"#, "title"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
