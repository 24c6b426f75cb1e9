//! Keys and values in the database.
//!
//! | key | value |
//! |---|---|
//! | session (16) ‖ seq (8, big-endian) ‖ part (1) | an event |
//! | `ff` × 16 ‖ SHA-256 (32) ‖ part (1) | a payload |
//!
//! A value is `schema (1) ‖ crc32 (4) ‖ rest`; the checksum covers key and rest, and since schema 3
//! also the schema. All parts of a key have one schema. The rest of part 0
//! is `lead ‖ parts (1) ‖ bytes`; the rest of further parts is only bytes. The lead of an event is
//! its link. With `parts` = 0 the bytes are `SHA-256 (32) ‖ length (8)` of a file that holds the
//! contents.
//!
//! `turn.configured` and events over 64 KiB keep their contents in a payload under their hash. All
//! other contents are inside the event's own records.
//!
//! Invariant: key and value are at most [`MAX_RECORD`] bytes together. sled puts any page over a
//! quarter of a segment into a file that it never syncs; a page has at most 17 records.

use std::fmt;
use std::ops::RangeInclusive;

use leftfold_events::{Seq, SessionId, Sha256};

use crate::chain::{OLDEST, PLACE, SCHEMA, START, other_schema, place};

/// The most bytes of a key and its value together.
pub(crate) const MAX_RECORD: usize = 3 << 10;

/// Contents over this many bytes become files.
pub(crate) const MAX_INLINE: usize = 64 << 10;

/// The prefix of payload keys. No session has this id: it would date from the year 10889.
pub(crate) const PAYLOADS: [u8; 16] = [0xff; 16];

const HEADER: usize = 5;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The key of an event's first record, which is before its other ones.
pub(crate) fn event_key(session: SessionId, seq: Seq) -> Vec<u8> {
    part(&place(session, seq), 0)
}

/// The keys of a session's events from seq `from` on.
pub(crate) fn range(session: SessionId, from: Seq) -> RangeInclusive<Vec<u8>> {
    event_key(session, from)..=part(&place(session, Seq::MAX), u8::MAX)
}

pub(crate) fn payload_key(sha256: Sha256) -> Vec<u8> {
    [PAYLOADS.as_slice(), sha256.as_bytes()].concat()
}

/// The key of one part.
pub(crate) fn part(key: &[u8], part: u8) -> Vec<u8> {
    [key, &[part]].concat()
}

/// The seq in an event's key (with its part).
pub(crate) fn seq_of(key: &[u8]) -> Option<Seq> {
    (key.len() == PLACE + 1).then_some(())?;
    Some(Seq::from_be_bytes(key.get(16..PLACE)?.try_into().ok()?))
}

/// The session in an event's key.
pub(crate) fn session_of(key: &[u8]) -> Option<SessionId> {
    let id: [u8; 16] = key.get(..16)?.try_into().ok()?;
    (id != PAYLOADS).then(|| SessionId::from_bytes(id))
}

/// The hash in a payload's key (with its part).
pub(crate) fn payload_of(key: &[u8]) -> Option<Sha256> {
    let hash: [u8; 32] = key.strip_prefix(&PAYLOADS)?.get(..32)?.try_into().ok()?;
    Some(Sha256::from_bytes(hash))
}

/// The file that the record names, if it is a first record that names one.
pub(crate) fn file_of(key: &[u8], value: &[u8]) -> Option<Sha256> {
    let lead = if payload_of(key).is_some() { 0 } else { START.len() };
    match from_records(&[(key, value)], lead).ok()?.body {
        Body::File { sha256, .. } => Some(sha256),
        Body::Inline(_) => None,
    }
}

/// Whether the checksum of a single record holds.
pub(crate) fn is_whole(key: &[u8], value: &[u8]) -> bool {
    open(key, value).is_ok()
}

/// Splits `body` into records that hold it inline.
pub(crate) fn to_records(schema: u8, key: &[u8], lead: &[u8], body: &[u8]) -> Vec<Pair> {
    let first_room = MAX_RECORD - key.len() - 1 - HEADER - lead.len() - 1;
    let room = MAX_RECORD - key.len() - 1 - HEADER;
    let (first, rest) = body.split_at(body.len().min(first_room));
    let chunks = rest.chunks(room);
    // `MAX_INLINE` keeps the number of parts far below 255
    let parts = u8::try_from(1 + chunks.len()).unwrap_or(u8::MAX);
    let mut records = Vec::with_capacity(usize::from(parts));
    records.push(seal(schema, part(key, 0), &[lead, &[parts], first]));
    for (number, chunk) in (1..=u8::MAX).zip(chunks) {
        records.push(seal(schema, part(key, number), &[chunk]));
    }
    records
}

/// The record that names a file.
pub(crate) fn to_file_record(
    schema: u8,
    key: &[u8],
    lead: &[u8],
    sha256: Sha256,
    length: u64,
) -> Vec<Pair> {
    let pieces = [lead, &[0], sha256.as_bytes(), &length.to_be_bytes()];
    vec![seal(schema, part(key, 0), &pieces)]
}

fn seal(schema: u8, key: Vec<u8>, pieces: &[&[u8]]) -> Pair {
    let mut value = Vec::with_capacity(HEADER + pieces.iter().map(|p| p.len()).sum::<usize>());
    value.push(schema);
    value.extend([0; 4]);
    pieces.iter().for_each(|piece| value.extend(*piece));
    let crc = checksum(schema, &key, &value[HEADER..]);
    value[1..HEADER].copy_from_slice(&crc.to_be_bytes());
    (key, value)
}

fn checksum(schema: u8, key: &[u8], rest: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    if schema > 2 {
        crc.update(&[schema]);
    }
    crc.update(key);
    crc.update(rest);
    crc.finalize()
}

/// Why the contents of records cannot be read back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordError {
    Schema(u8),
    Bad(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(found) => f.write_str(&other_schema(*found)),
            Self::Bad(what) => f.write_str(what),
        }
    }
}

fn bad<T>(what: impl Into<String>) -> Result<T, RecordError> {
    Err(RecordError::Bad(what.into()))
}

/// The contents of one key's records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded<'a> {
    pub(crate) schema: u8,
    pub(crate) lead: &'a [u8],
    pub(crate) body: Body,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Inline(Vec<u8>),
    File { sha256: Sha256, length: u64 },
}

/// Decodes the records of one key, which are in the order of their parts.
pub(crate) fn from_records<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    records: &[(K, V)],
    lead: usize,
) -> Result<Decoded<'_>, RecordError> {
    let Some(((key, value), rest)) = records.split_first() else { return bad("no record") };
    let (schema, first) = open(key.as_ref(), value.as_ref())?;
    if key.as_ref().last() != Some(&0) {
        return bad("the first part is missing");
    }
    let (Some(lead), Some(&parts), Some(bytes)) =
        (first.get(..lead), first.get(lead), first.get(lead + 1..))
    else {
        return bad("the record is too short");
    };
    let body = if parts == 0 { file(bytes, rest.len()) } else { join(schema, bytes, rest, parts) }?;
    Ok(Decoded { schema, lead, body })
}

/// Part 0 of a key's records.
#[derive(Debug)]
pub(crate) struct First<'a> {
    pub(crate) schema: u8,
    pub(crate) lead: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

/// Decodes only part 0.
pub(crate) fn first<'a>(
    key: &[u8],
    value: &'a [u8],
    lead: usize,
) -> Result<First<'a>, RecordError> {
    let (schema, rest) = open(key, value)?;
    match (rest.get(..lead), rest.get(lead + 1..)) {
        (Some(lead), Some(bytes)) => Ok(First { schema, lead, bytes }),
        (_, None) | (None, _) => bad("the record is too short"),
    }
}

fn file(bytes: &[u8], more: usize) -> Result<Body, RecordError> {
    let (Some(sha256), Some(length), true) = (
        bytes.get(..32).and_then(|b| <[u8; 32]>::try_from(b).ok()),
        bytes.get(32..).and_then(|b| <[u8; 8]>::try_from(b).ok()),
        more == 0,
    ) else {
        return bad("the reference to a file is malformed");
    };
    Ok(Body::File { sha256: Sha256::from_bytes(sha256), length: u64::from_be_bytes(length) })
}

fn join<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    schema: u8,
    first: &[u8],
    rest: &[(K, V)],
    parts: u8,
) -> Result<Body, RecordError> {
    let further: usize = rest.iter().map(|(_, value)| value.as_ref().len()).sum();
    let mut body = Vec::with_capacity(first.len() + further);
    body.extend(first);
    for (number, (key, value)) in (1..=u8::MAX).zip(rest) {
        if key.as_ref().last() != Some(&number) {
            return bad(format!("part {number} of {parts} is missing"));
        }
        let (found, bytes) = open(key.as_ref(), value.as_ref())?;
        if found != schema {
            return bad(format!("part {number} has schema {found}, the first part {schema}"));
        }
        body.extend(bytes);
    }
    if rest.len() + 1 == usize::from(parts) {
        Ok(Body::Inline(body))
    } else {
        bad(format!("it has {} parts where {parts} were written", rest.len() + 1))
    }
}

/// Checks a value's schema and checksum. Returns the schema and the rest.
fn open<'a>(key: &[u8], value: &'a [u8]) -> Result<(u8, &'a [u8]), RecordError> {
    let (Some(&schema), Some(crc), Some(rest)) =
        (value.first(), value.get(1..HEADER), value.get(HEADER..))
    else {
        return bad("the record is too short");
    };
    if schema == 0 {
        return bad("there has never been a schema 0");
    }
    if !(OLDEST..=SCHEMA).contains(&schema) {
        return Err(RecordError::Schema(schema));
    }
    if crc != checksum(schema, key, rest).to_be_bytes() {
        return bad("the record's checksum does not match");
    }
    Ok((schema, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Vec<u8> {
        place(SessionId::default(), 7).to_vec()
    }

    #[test]
    fn contents_of_every_size_come_back_and_records_stay_small() {
        for size in [0, 1, 3_024, 3_025, 3_026, 6_000, 6_067, 6_068, MAX_INLINE] {
            let body: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let records = to_records(SCHEMA, &key(), &[9; 16], &body);
            assert!(records.iter().all(|(k, v)| k.len() + v.len() <= MAX_RECORD), "{size}");
            let decoded = from_records(&records, 16).unwrap();
            let expected = Decoded { schema: SCHEMA, lead: &[9; 16], body: Body::Inline(body) };
            assert_eq!(decoded, expected, "{size}");
        }
    }

    #[test]
    fn a_reference_to_a_file_comes_back() {
        let sha256 = Sha256::digest(b"x");
        let records = to_file_record(SCHEMA, &key(), &[], sha256, 70_000);
        assert_eq!(from_records(&records, 0).unwrap().body, Body::File { sha256, length: 70_000 });
    }

    #[test]
    fn every_flipped_bit_lost_part_and_strange_key_is_found() {
        let records = to_records(SCHEMA, &key(), &[1; 16], &[5; 4_000]);
        for (part, (_, value)) in records.iter().enumerate() {
            for (byte, bit) in (0..value.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
            {
                let mut broken = records.clone();
                broken[part].1[byte] ^= 1 << bit;
                assert!(from_records(&broken, 16).is_err(), "part {part}, byte {byte}, bit {bit}");
            }
        }
        assert!(from_records(&records[..1], 16).is_err());
        assert!(from_records(&records[1..], 16).is_err());
        let mut moved = records.clone();
        moved[0].0[20] ^= 1;
        assert!(from_records(&moved, 16).is_err());
    }

    #[test]
    fn records_of_schema_2_are_read_and_none_is_taken_for_another_schema() {
        let old = to_records(OLDEST, &key(), &[1; 16], &[5; 4_000]);
        let new = to_records(SCHEMA, &key(), &[1; 16], &[5; 4_000]);
        assert_eq!(from_records(&old, 16).unwrap().schema, OLDEST);
        assert_eq!(first(&old[0].0, &old[0].1, 16).unwrap().schema, OLDEST);
        for mixed in [[&old[0], &new[1]], [&new[0], &old[1]]] {
            let mixed = mixed.map(Clone::clone);
            let Err(RecordError::Bad(what)) = from_records(&mixed, 16) else { panic!() };
            assert!(what.contains("part 1 has schema"), "{what}");
        }
        for (records, other) in [(old, SCHEMA), (new, OLDEST)] {
            let relabelled = |(key, mut value): Pair| {
                value[0] = other;
                (key, value)
            };
            let relabelled: Vec<Pair> = records.into_iter().map(relabelled).collect();
            let Err(RecordError::Bad(what)) = from_records(&relabelled, 16) else { panic!() };
            assert!(what.contains("checksum"), "{what}");
        }
    }

    #[test]
    fn a_newer_schema_is_distinguished_from_damage() {
        let mut records = to_records(SCHEMA, &key(), &[], b"x");
        records[0].1[0] = SCHEMA + 1;
        assert_eq!(from_records(&records, 0), Err(RecordError::Schema(SCHEMA + 1)));
    }
}
