//! The bytes of a batch.
//!
//! Each event is `schema (1) ‖ seq (8) ‖ link (16) ‖ length (4) ‖ crc32 (4) ‖ body`, with integers
//! big-endian. The checksum covers the session and everything but itself, so that damage of one event
//! does not make the others unreadable. The chain above this crate covers the order.

use leftfold_events::{Seq, SessionId};
use leftfold_store::Link;
use leftfold_store::engine::StoredEvent;

const HEADER: usize = 33;
const CHECKSUM: std::ops::Range<usize> = 29..33;

/// Appends the events to `bytes`.
pub(crate) fn encode(session: SessionId, events: &[StoredEvent], bytes: &mut Vec<u8>) {
    for event in events {
        let start = bytes.len();
        bytes.push(event.schema);
        bytes.extend(event.seq.to_be_bytes());
        bytes.extend(event.link);
        // a batch is far smaller than 4 GiB: `append` checks that
        bytes.extend(u32::try_from(event.body.len()).unwrap_or(u32::MAX).to_be_bytes());
        let checksum = checksum(session, &bytes[start..start + CHECKSUM.start], &event.body);
        bytes.extend(checksum.to_be_bytes());
        bytes.extend(&event.body);
    }
}

fn checksum(session: SessionId, header: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&session.to_bytes());
    crc.update(header);
    crc.update(body);
    crc.finalize()
}

/// Bytes of a batch's event around its body.
pub(crate) fn size(events: &[StoredEvent]) -> usize {
    events.iter().map(|event| HEADER + event.body.len()).sum()
}

/// The events of a batch, in order; in the place of what cannot be read, why. Nothing can be read
/// after a header that is damaged.
pub(crate) fn decode(session: SessionId, mut bytes: &[u8]) -> Vec<Result<StoredEvent, Fault>> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let Some(header) = header(bytes) else {
            events.push(Err(Fault::unplaced("a batch ends within an event")));
            break;
        };
        let Some(body) = bytes.get(HEADER..HEADER + header.length) else {
            events.push(Err(Fault::unplaced("a batch ends within an event")));
            break;
        };
        let found = checksum(session, &bytes[..CHECKSUM.start], body);
        if found == header.checksum {
            let (seq, schema, link) = (header.seq, header.schema, header.link);
            events.push(Ok(StoredEvent { seq, schema, link, body: body.to_vec() }));
        } else {
            let what = "the checksum of an event does not match".to_owned();
            events.push(Err(Fault { seq: Some(header.seq), what }));
        }
        bytes = &bytes[HEADER + header.length..];
    }
    events
}

/// An event that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The seq in its header, which may itself be damaged.
    pub seq: Option<Seq>,
    pub what: String,
}

impl Fault {
    pub(crate) fn unplaced(what: &str) -> Self {
        Self { seq: None, what: what.to_owned() }
    }
}

struct Header {
    schema: u8,
    seq: Seq,
    link: Link,
    length: usize,
    checksum: u32,
}

fn header(bytes: &[u8]) -> Option<Header> {
    let bytes: &[u8; HEADER] = bytes.first_chunk()?;
    let length = u32::from_be_bytes(*bytes[25..].first_chunk()?);
    Some(Header {
        schema: bytes[0],
        seq: Seq::from_be_bytes(*bytes[1..].first_chunk()?),
        link: *bytes[9..].first_chunk()?,
        length: usize::try_from(length).ok()?,
        checksum: u32::from_be_bytes(*bytes[CHECKSUM].first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> (Vec<StoredEvent>, Vec<u8>) {
        let event = |seq: u64, size| {
            let body = vec![u8::try_from(seq).unwrap(); size];
            StoredEvent { seq, schema: 3, link: [7; 16], body }
        };
        let events = vec![event(4, 0), event(5, 9), event(6, 300)];
        let mut bytes = Vec::new();
        encode(SessionId::default(), &events, &mut bytes);
        assert_eq!(bytes.len(), size(&events));
        (events, bytes)
    }

    #[test]
    fn batches_come_back_also_joined() {
        let (events, bytes) = batch();
        let joined = [bytes.as_slice(), &bytes].concat();
        let decoded: Vec<_> = decode(SessionId::default(), &joined).into_iter().flatten().collect();
        assert_eq!(decoded, [events.as_slice(), &events].concat());
        let other = SessionId::from_bytes([1; 16]);
        assert!(decode(other, &bytes).iter().all(Result::is_err));
    }

    #[test]
    fn every_flipped_bit_and_torn_end_is_found() {
        let (events, good) = batch();
        for byte in 0..good.len() {
            let mut bytes = good.clone();
            bytes[byte] ^= 16;
            let decoded = decode(SessionId::default(), &bytes);
            assert!(decoded.iter().any(Result::is_err), "byte {byte}");
            assert!(decoded.iter().flatten().all(|event| events.contains(event)), "byte {byte}");
        }
        for end in 1..good.len() {
            let whole = decode(SessionId::default(), &good[..end]);
            let at_an_edge = [HEADER, 2 * HEADER + 9].contains(&end);
            assert_eq!(whole.iter().all(Result::is_ok), at_an_edge, "{end}");
        }
    }
}
