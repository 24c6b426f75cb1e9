//! Reads sled's log file byte by byte and finds the places that sled did not write as they are.
//!
//! sled reports that something is wrong, but not where. When it recovers, it ignores the rest of a
//! segment after a broken message. Its file format is simple: segments of [`SEGMENT`] bytes, each
//! with a header of 20 bytes and then messages without gaps, each with a checksum. So the bytes
//! alone show where damage is, and where the next sound message begins.
//!
//! | part | bytes |
//! |---|---|
//! | header | `crc32 (4) ‖ lsn (8) ‖ highest stable lsn (8)`, little-endian, checksum and numbers inverted |
//! | message | `crc32 (4) ‖ kind (1) ‖ length ‖ segment ‖ page` (numbers of 1 to 9 bytes) `‖ body` |
//!
//! Invariant: this module only ever writes to a copy.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// sled's unit of allocation, in bytes. sled would put a page over a quarter of it into a file that
/// it never syncs; see `record` for how records avoid that.
pub(crate) const SEGMENT: usize = 256 << 10;

const HEADER: usize = 20;
/// No message begins in the last bytes of a segment.
const MARGIN: usize = 32;
/// Kinds of messages: a cancelled message, the end of a segment, the end of the log.
const CANCELED: u8 = 1;
const CAP: u8 = 2;
const LAST_KIND: u8 = 11;

/// Bytes that are not as sled wrote them, in front of a message that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tear {
    pub(crate) at: u64,
    /// The offset of the next sound message.
    pub(crate) until: u64,
    segment: u64,
}

/// The sound and the torn parts of a `db` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) tears: Vec<Tear>,
    /// The offset after the last sound message of the newest segment.
    pub(crate) end: u64,
    /// Whether no message can follow `end`: the file ends there, or bytes begin that cannot be
    /// read.
    pub(crate) cut: bool,
    newest: u64,
}

/// Inspects a whole file, one segment at a time.
pub(crate) fn inspect(db: &File) -> io::Result<Inspection> {
    let mut inspection = Inspection::default();
    let mut bytes = vec![0; SEGMENT];
    let mut base = 0;
    loop {
        let read = read(db, &mut bytes, base)?;
        if read <= HEADER {
            return Ok(inspection);
        }
        inspection.segment(bytes.get(..read).unwrap_or_default(), base);
        base += SEGMENT as u64;
    }
}

fn read(db: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match db.read_at(rest, at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

impl Inspection {
    fn segment(&mut self, bytes: &[u8], base: u64) {
        let first = Message::at(bytes, HEADER);
        let Some(segment) = number(bytes).or(first.map(|message| message.segment)) else { return };
        if number(bytes).is_none() {
            self.tears.push(Tear { at: base, until: base + HEADER as u64, segment });
        }
        let mut at = HEADER;
        while at + MARGIN <= SEGMENT {
            let message = Message::at(bytes, at).filter(|message| message.segment == segment);
            match message {
                Some(message) if message.kind == CAP => {
                    return self.ends(segment, base, message.end, &[0]);
                }
                Some(message) => at = message.end,
                None => match next(bytes, at, segment) {
                    Some(until) => {
                        let (from, until) = (base + at as u64, base + until as u64);
                        self.tears.push(Tear { at: from, until, segment });
                        at = usize::try_from(until - base).unwrap_or(SEGMENT);
                    }
                    None => break,
                },
            }
        }
        self.ends(segment, base, at, bytes.get(at..).unwrap_or_default());
    }

    fn ends(&mut self, segment: u64, base: u64, at: usize, rest: &[u8]) {
        if segment >= self.newest {
            (self.newest, self.end) = (segment, base + at as u64);
            self.cut = rest.is_empty() || rest.iter().any(|byte| *byte != 0);
        }
    }
}

/// The number of a segment, if its header is sound.
fn number(segment: &[u8]) -> Option<u64> {
    let crc = u32::from_le_bytes(segment.get(..4)?.try_into().ok()?);
    let rest = segment.get(4..HEADER)?;
    (crc == !crc32fast::hash(rest)).then_some(())?;
    let lsn = u64::from_le_bytes(rest.get(..8)?.try_into().ok()?) ^ (u64::MAX >> 1);
    Some(lsn / SEGMENT as u64)
}

/// The offset of the next sound message after a broken one.
fn next(bytes: &[u8], at: usize, segment: u64) -> Option<usize> {
    let is_sound = |at: &usize| Message::at(bytes, *at).is_some_and(|m| m.segment == segment);
    (at + 1..bytes.len().min(SEGMENT - MARGIN)).find(is_sound)
}

#[derive(Clone, Copy, Debug)]
struct Message {
    kind: u8,
    segment: u64,
    /// The offset of the message's end in its segment.
    end: usize,
}

impl Message {
    /// The message that begins at `at`, if its checksum holds.
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let rest = bytes.get(at..)?;
        let kind = *rest.get(4)?;
        (CANCELED..=LAST_KIND).contains(&kind).then_some(())?;
        let mut head = 5;
        let mut field = || {
            let (value, size) = varint(rest.get(head..)?)?;
            head += size;
            Some(value)
        };
        let (length, segment) = (field()?, field()?);
        field()?; // the page's number
        let end = head.checked_add(usize::try_from(length).ok()?)?;
        (end <= SEGMENT.checked_sub(at)?).then_some(())?;
        let crc = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
        (crc == checksum(rest.get(4..head)?, rest.get(head..end)?)).then_some(())?;
        Some(Self { kind, segment, end: at + end })
    }
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(body);
    crc.update(head);
    !crc.finalize()
}

/// A number and its length in bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let byte = |n: usize| bytes.get(n).map(|byte| u64::from(*byte));
    Some(match first {
        0..=240 => (u64::from(first), 1),
        241..=248 => (240 + 256 * (u64::from(first) - 241) + byte(1)?, 2),
        249 => (2_288 + 256 * byte(1)? + byte(2)?, 3),
        250.. => {
            let size = usize::from(first) - 247;
            let mut value = [0; 8];
            value.get_mut(..size)?.copy_from_slice(bytes.get(1..=size)?);
            (u64::from_le_bytes(value), size + 1)
        }
    })
}

fn put_varint(value: u64, to: &mut Vec<u8>) {
    let byte = |value: u64| u8::try_from(value & 0xff).unwrap_or_default();
    match value {
        0..=240 => to.push(byte(value)),
        241..=2_287 => to.extend([byte((value - 240) / 256 + 241), byte((value - 240) % 256)]),
        2_288..=67_823 => {
            to.extend([249, byte((value - 2_288) / 256), byte((value - 2_288) % 256)]);
        }
        67_824.. => {
            let size = (8 - value.leading_zeros() as usize / 8).max(3);
            to.push(u8::try_from(size + 247).unwrap_or(u8::MAX));
            to.extend(value.to_le_bytes().iter().take(size));
        }
    }
}

/// Overwrites each tear with a message that sled skips, so that sled reads the messages after it.
pub(crate) fn bridge(db: &File, inspection: &Inspection) -> io::Result<()> {
    for tear in &inspection.tears {
        let bytes = if tear.at % SEGMENT as u64 == 0 {
            Some(header(tear.segment))
        } else {
            usize::try_from(tear.until - tear.at).ok().and_then(|size| skipped(size, tear.segment))
        };
        if let Some(bytes) = bytes {
            db.write_all_at(&bytes, tear.at)?;
        }
    }
    Ok(())
}

fn header(segment: u64) -> Vec<u8> {
    let lsn = (segment * SEGMENT as u64) ^ (u64::MAX >> 1);
    // no lsn is marked as stable, so sled determines the stable part itself
    let rest = [lsn.to_le_bytes(), (u64::MAX >> 1).to_le_bytes()].concat();
    [(!crc32fast::hash(&rest)).to_le_bytes().to_vec(), rest].concat()
}

/// A cancelled message of exactly `size` bytes.
fn skipped(size: usize, segment: u64) -> Option<Vec<u8>> {
    // the page number is arbitrary: a number of two bytes fills the gap where the length's own size
    // grows
    [0, 241].into_iter().find_map(|page| {
        (0..MARGIN).find_map(|overhead| {
            let length = size.checked_sub(overhead)?;
            let mut head = vec![CANCELED];
            for value in [length as u64, segment, page] {
                put_varint(value, &mut head);
            }
            (head.len() + 4 == overhead).then_some(())?;
            let body = vec![0; length];
            Some([checksum(&head, &body).to_le_bytes().to_vec(), head, body].concat())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back() {
        for value in [0, 240, 241, 2_287, 2_288, 67_823, 67_824, 1 << 24, 1 << 40, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(value, &mut bytes);
            assert_eq!(varint(&bytes), Some((value, bytes.len())));
        }
    }

    #[test]
    fn a_message_of_any_length_is_read_or_left_out() {
        for length in [0, SEGMENT as u64, u64::MAX / 2, u64::MAX - 16, u64::MAX] {
            let mut bytes = vec![0; 4];
            bytes.push(CANCELED);
            for value in [length, 1, 0] {
                put_varint(value, &mut bytes);
            }
            for at in [0, HEADER, SEGMENT] {
                let placed = [vec![0; at], bytes.clone()].concat();
                assert!(Message::at(&placed, at).is_none(), "{length} at {at}");
            }
        }
    }

    #[test]
    fn a_message_that_says_nothing_fits_into_every_gap() {
        for size in (8..600).chain(2_200..2_400).chain(67_000..68_000) {
            let bytes = skipped(size, 3).unwrap_or_else(|| panic!("{size}"));
            let message = Message::at(&bytes, 0).unwrap();
            assert_eq!((message.kind, message.segment, message.end), (CANCELED, 3, size));
        }
    }

    #[test]
    fn a_tear_is_found_and_bridged() {
        let mut bytes = header(5);
        for size in [40, 300, 60] {
            bytes.extend(skipped(size, 5).unwrap());
        }
        let end = bytes.len() as u64;
        bytes.resize(2_000, 0);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let whole = inspect(&file).unwrap();
        assert_eq!((whole.tears.len(), whole.end, whole.cut), (0, end, false));
        for (broken, at, until) in [(3, 0, 20), (61, 60, 360), (200, 60, 360)] {
            file.write_all_at(&[bytes[broken] ^ 9], broken as u64).unwrap();
            let torn = inspect(&file).unwrap();
            assert_eq!(torn.tears, [Tear { at, until, segment: 5 }], "byte {broken}");
            bridge(&file, &torn).unwrap();
            assert_eq!(inspect(&file).unwrap(), whole, "byte {broken}");
            file.write_all_at(&bytes, 0).unwrap();
        }
        // the last message: nothing follows it
        file.set_len(end - 7).unwrap();
        let short = inspect(&file).unwrap();
        assert_eq!((short.tears.len(), short.end, short.cut), (0, 360, true));
    }
}
