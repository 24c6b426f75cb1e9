//! The binary form of an event: bincode 2 with serde, standard configuration.
//!
//! Schema 3 is schema 2 and one more field, the notes of an event. Later versions add variants at the
//! end of enums, members of JSON texts or members of notes, so there is no schema 4.
//!
//! Invariant: this is the only file that knows bincode. The form is positional, so fields are
//! never reordered, enums grow at their end, and each schema has a golden file that must decode for
//! ever.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use leftfold_events::{Envelope, Event, Notes, Seq, SessionId, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::chain::{OLDEST, SCHEMA};

/// The largest size of an encoded event, in bytes. It limits what a damaged length can make the
/// decoder allocate.
pub(crate) const MAX_EVENT: usize = 256 << 20;

const fn config() -> Configuration<LittleEndian, Varint, Limit<MAX_EVENT>> {
    bincode::config::standard().with_limit::<MAX_EVENT>()
}

/// An event of schema 2. `E` is the event or a reference to it.
#[derive(Serialize, Deserialize)]
struct Schema2<E> {
    session: SessionId,
    seq: Seq,
    at: Time,
    of: Option<Seq>,
    until: Option<Time>,
    event: E,
}

impl From<Schema2<Event>> for Envelope {
    fn from(old: Schema2<Event>) -> Self {
        let Schema2 { session, seq, at, of, until, event } = old;
        Self { session, seq, at, of, until, event, notes: Notes::default() }
    }
}

/// Encodes an event in the schema that is written today, [`SCHEMA`].
///
/// # Errors
/// A message for people if the event is too large.
pub fn encode(envelope: &Envelope) -> Result<Vec<u8>, String> {
    encode_as(SCHEMA, envelope)
}

/// Encodes an event in a schema. Schema 2 drops its notes.
///
/// # Errors
/// A message for people if the event is too large or there is no such schema.
pub fn encode_as(schema: u8, envelope: &Envelope) -> Result<Vec<u8>, String> {
    match schema {
        SCHEMA => to_bytes(envelope),
        OLDEST => {
            let Envelope { session, seq, at, of, until, event, notes: _ } = envelope;
            let (session, seq, at, of, until) = (*session, *seq, *at, *of, *until);
            to_bytes(&Schema2 { session, seq, at, of, until, event })
        }
        other => Err(no_such(other)),
    }
}

/// Decodes one event. Its payloads have their hashes but not their contents.
///
/// # Errors
/// A message for people if the bytes are not an event of this schema, or bytes follow the event.
pub fn decode(schema: u8, bytes: &[u8]) -> Result<Envelope, String> {
    match schema {
        SCHEMA => from_bytes(bytes),
        OLDEST => from_bytes::<Schema2<Event>>(bytes).map(Envelope::from),
        other => Err(no_such(other)),
    }
}

/// Decodes an event whose schema is lost.
pub(crate) fn decode_unlabelled(bytes: &[u8]) -> Option<Envelope> {
    (OLDEST..=SCHEMA).rev().find_map(|schema| decode(schema, bytes).ok())
}

fn no_such(schema: u8) -> String {
    format!("there is no schema {schema}")
}

fn to_bytes(event: &impl Serialize) -> Result<Vec<u8>, String> {
    let bytes = bincode::serde::encode_to_vec(event, config()).map_err(|e| e.to_string())?;
    if bytes.len() > MAX_EVENT {
        return Err(format!("{} bytes are over the limit of {MAX_EVENT}", bytes.len()));
    }
    Ok(bytes)
}

fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (event, read) =
        bincode::serde::decode_from_slice::<T, _>(bytes, config()).map_err(|e| e.to_string())?;
    if read == bytes.len() {
        Ok(event)
    } else {
        Err(format!("{} bytes are left over behind the event", bytes.len() - read))
    }
}
