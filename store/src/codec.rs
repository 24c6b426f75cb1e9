//! The binary form of an event: bincode 2 with serde, standard configuration.
//!
//! Invariant: this is the only file that knows bincode. The form is positional, so fields are
//! never reordered, enums grow at their end, and each [`SCHEMA`](crate::SCHEMA) has a golden file
//! that must decode for ever.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use leftfold_events::Envelope;

/// The largest size of an encoded event, in bytes. It limits what a damaged length can make the
/// decoder allocate.
pub(crate) const MAX_EVENT: usize = 256 << 20;

const fn config() -> Configuration<LittleEndian, Varint, Limit<MAX_EVENT>> {
    bincode::config::standard().with_limit::<MAX_EVENT>()
}

/// # Errors
/// A message for people if the event is too large.
pub fn encode(envelope: &Envelope) -> Result<Vec<u8>, String> {
    let bytes = bincode::serde::encode_to_vec(envelope, config()).map_err(|e| e.to_string())?;
    if bytes.len() > MAX_EVENT {
        return Err(format!("{} bytes are over the limit of {MAX_EVENT}", bytes.len()));
    }
    Ok(bytes)
}

/// Decodes one event. Its payloads have their hashes but not their contents.
///
/// # Errors
/// A message for people if the bytes are not an event of this schema, or bytes follow the event.
pub fn decode(bytes: &[u8]) -> Result<Envelope, String> {
    let (envelope, read) = bincode::serde::decode_from_slice::<Envelope, _>(bytes, config())
        .map_err(|e| e.to_string())?;
    if read == bytes.len() {
        Ok(envelope)
    } else {
        Err(format!("{} bytes are left over behind the event", bytes.len() - read))
    }
}
