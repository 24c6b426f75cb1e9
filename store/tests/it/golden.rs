//! Schema 2 as it is on the disk. `golden/schema2.hex` holds one encoded event a
//! line. `LEFTFOLD_GOLDEN=write` rewrites it: only for events added at the end, never to make a
//! changed encoding pass, which needs a new schema and an upcaster.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::common::{VARIANTS, every_variant, id, variant};
use leftfold_events::{Envelope, Event, Sha256};
use leftfold_store::{decode, encode};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/schema2.hex");

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
fn schema_2_is_written_and_read_as_it_always_was() {
    let events = every_variant(id(7));
    let lines: Vec<String> = events.iter().map(|event| hex(&encode(event).unwrap())).collect();
    if std::env::var("LEFTFOLD_GOLDEN").as_deref() == Ok("write") {
        std::fs::write(PATH, lines.join("\n") + "\n").unwrap();
    }
    let golden = std::fs::read_to_string(PATH).unwrap();
    let golden: Vec<&str> = golden.lines().collect();
    assert_eq!(golden.len(), events.len(), "one line an event");
    for ((event, line), golden) in events.iter().zip(&lines).zip(golden) {
        let decoded = filled(decode(&unhex(golden)).unwrap(), event);
        assert_eq!(decoded, *event);
        assert_eq!(line, golden, "the encoding of {event:?} has changed");
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
        assert!(decode(&bytes[..bytes.len() - 1]).is_err(), "{event:?}");
        bytes.push(0);
        assert!(decode(&bytes).is_err(), "{event:?}");
    }
}

#[test]
fn a_damaged_length_allocates_nothing_huge() {
    let event = crate::common::envelope(id(1), 1, crate::common::text(1, 3));
    let mut bytes = encode(&event).unwrap();
    let start = bytes.len() - 4;
    bytes.truncate(start);
    bytes.extend([0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(decode(&bytes).is_err());
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
    let sha256 = Sha256::of(b"[]");
    assert!(bytes.windows(32).any(|window| window == sha256.as_bytes()));
    assert!(
        decode(&bytes).unwrap().event.payloads().iter().all(|payload| payload.text().is_empty())
    );
}
