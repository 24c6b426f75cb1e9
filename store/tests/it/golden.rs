//! Stored events as they are on the disk. `golden/schemaN.hex` holds one encoded event a line, and
//! `golden/schemaN.jsonl` its public line.
//!
//! The files of schema 2 never change. Those of schema 3 only grow: `LEFTFOLD_GOLDEN=write` rewrites
//! them for variants that were added at the end of their enum, never to make a changed encoding pass.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::common::{VARIANTS, every_variant, id, variant};
use leftfold_events::event::{
    Answer, Backend, CallKind, Change, Class, Compaction, Consent, EndReason, FailureClass, Files,
    FilesFailure, Finish, Hook, HookOutcome, HookPoint, Model, PartKind, Permission, PromptKind,
    Purpose, Session, Subagent, Todo, TodoPriority, TodoStatus, Tool, Turn, Wanted, WorktreeAccess,
};
use leftfold_events::line::{self, Line};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Event, Sha256};
use leftfold_store::{SCHEMA, decode, encode, encode_as};
use serde::de::DeserializeOwned;
use serde_json::json;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn file(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// Fills in the contents: the encoding has only their hashes.
fn filled(mut decoded: Envelope, like: &Envelope) -> Envelope {
    for (payload, original) in decoded.event.payloads_mut().into_iter().zip(like.event.payloads()) {
        assert_eq!(payload.sha256(), original.sha256());
        payload.fill(original.text().clone());
    }
    decoded
}

#[test]
fn schema_2_is_read_as_it_always_was() {
    let (records, public) = (lines("schema2.hex"), lines("schema2.jsonl"));
    assert_eq!((records.len(), public.len()), (136, 136));
    for (record, public) in records.iter().zip(public) {
        let event = decode(2, &unhex(record)).unwrap();
        assert!(event.notes.is_empty());
        assert_eq!(line::write(&event), public);
        assert_eq!(hex(&encode_as(2, &event).unwrap()), *record, "{public}");
        // the store continues in schema 3
        assert_eq!(decode(SCHEMA, &encode(&event).unwrap()).unwrap(), event);
    }
}

#[test]
fn schema_3_is_written_and_read_as_it_always_was() {
    let events = every_variant(id(7));
    let records: Vec<String> = events.iter().map(|event| hex(&encode(event).unwrap())).collect();
    let public: Vec<String> = events.iter().map(line::write).collect();
    if std::env::var("LEFTFOLD_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(file("schema3.hex"), records.join("\n") + "\n").unwrap();
        std::fs::write(file("schema3.jsonl"), public.join("\n") + "\n").unwrap();
    }
    let golden = lines("schema3.hex");
    assert_eq!(golden.len(), events.len(), "one line an event");
    assert_eq!(lines("schema3.jsonl"), public);
    for (((event, record), public), golden) in events.iter().zip(&records).zip(&public).zip(golden)
    {
        let decoded = filled(decode(SCHEMA, &unhex(&golden)).unwrap(), event);
        assert_eq!(decoded, *event);
        assert_eq!(*record, golden, "the encoding of {event:?} has changed");
        let Ok(Line::Event(read)) = line::read(public) else { panic!("{public}") };
        // a line without usage reads as one of usage 0
        if !matches!(event.event, Event::Subagent(Subagent::EndedUncounted { .. })) {
            assert_eq!(filled(*read, event), *event);
        }
    }
}

/// The number of events of schema 3 that never change again, and the SHA-256 of their lines. Raise
/// both after adding events, never for another reason.
const FROZEN: (usize, &str) =
    (152, "9ce7d08a73f885fb779184304d60955fa312ed5ccd6828ab9d34fe43e7373c9e");

#[test]
fn schema_3_is_frozen() {
    let records = lines("schema3.hex");
    let (count, hash) = FROZEN;
    let frozen = records.get(..count).expect("events are missing").join("\n");
    let found = Sha256::digest(frozen.as_bytes()).to_string();
    assert_eq!(found, hash, "the first {count} events of schema 3 never change");
}

macro_rules! enums {
    ($($name:ident)*) => {
        vec![$((stringify!($name), variants::<$name>())),*]
    };
}

/// The stored enums with their variants.
fn enums() -> Vec<(&'static str, String)> {
    enums!(
        Event Session Turn PromptKind EndReason Model Purpose PartKind Finish FailureClass Tool
        Wanted Consent CallKind Class Permission Answer Compaction Subagent Todo TodoStatus
        TodoPriority Files FilesFailure Change Hook HookPoint HookOutcome Backend WorktreeAccess
        Action
    )
}

/// The names of all variants in their order, with former names, as serde lists them for an unknown
/// one.
fn variants<T: DeserializeOwned>() -> String {
    let unknown = serde_json::from_value::<T>(json!({ "no variant": null }));
    let error = unknown.err().expect("an enum refuses an unknown variant").to_string();
    let names: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(!names.is_empty(), "{error}");
    names.join(" ")
}

/// `golden/variants` has a line for each stored enum: its name, then its variants. The log stores the
/// position of a variant, so new ones follow the known ones. `LEFTFOLD_GOLDEN=write` adds them.
#[test]
fn variants_are_added_at_the_end() {
    let write = std::env::var("LEFTFOLD_GOLDEN").as_deref() == Ok("write");
    let known = lines("variants");
    let enums = enums();
    for line in &known {
        let (name, before) = line.split_once(": ").unwrap();
        let (_, today) = enums.iter().find(|(known, _)| *known == name).expect(name);
        let mut today = today.split(' ');
        for before in before.split(' ') {
            assert_eq!(today.next(), Some(before), "{name}: a variant stands before `{before}`");
        }
    }
    if write {
        let today: Vec<String> = enums.iter().map(|(name, all)| format!("{name}: {all}")).collect();
        std::fs::write(file("variants"), today.join("\n") + "\n").unwrap();
    }
}

#[test]
fn the_golden_file_has_every_variant() {
    let seen: BTreeSet<usize> =
        every_variant(id(7)).iter().map(|envelope| variant(&envelope.event)).collect();
    assert_eq!(seen, (0..VARIANTS).collect());
}

#[test]
fn bytes_left_over_and_bytes_missing_are_refused() {
    for event in every_variant(id(7)) {
        let mut bytes = encode(&event).unwrap();
        assert!(decode(SCHEMA, &bytes[..bytes.len() - 1]).is_err(), "{event:?}");
        bytes.push(0);
        assert!(decode(SCHEMA, &bytes).is_err(), "{event:?}");
    }
}

#[test]
fn a_damaged_length_allocates_nothing_huge() {
    let event = crate::common::envelope(id(1), 1, crate::common::text(1, 3));
    let mut bytes = encode(&event).unwrap();
    let start = bytes.len() - 4;
    bytes.truncate(start);
    bytes.extend([0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(decode(SCHEMA, &bytes).is_err());
}

#[test]
fn a_payload_is_stored_as_its_hash() {
    let event = every_variant(id(7))
        .into_iter()
        .find(|envelope| {
            matches!(envelope.event, Event::Turn(_)) && !envelope.event.payloads().is_empty()
        })
        .unwrap();
    let bytes = encode(&event).unwrap();
    let sha256 = Sha256::digest(b"[]");
    assert!(bytes.windows(32).any(|window| window == sha256.as_bytes()));
    assert!(
        decode(SCHEMA, &bytes)
            .unwrap()
            .event
            .payloads()
            .iter()
            .all(|payload| payload.text().is_empty())
    );
}
