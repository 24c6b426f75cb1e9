//! Parses messages of the type `application/vnd.amazon.eventstream` from bytes that may be split
//! anywhere.
//!
//! Follows Amazon's event stream specification. A message is a prelude (its length, the length of its
//! headers, a checksum of both), the headers, the payload, and a checksum of everything before. All
//! numbers are big-endian, the checksums are CRC-32. After the first damaged message nothing can be
//! read any more, because its length cannot be trusted.

use std::fmt;

/// Bytes of lengths and checksum before the headers.
const PRELUDE: usize = 12;
/// Bytes of the checksum at the end.
const TRAILER: usize = 4;
/// The most bytes of headers and of payload that the specification allows.
const LARGEST_HEADERS: usize = 128 << 10;
const LARGEST_PAYLOAD: usize = 16 << 20;

/// A message. Only its text headers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    headers: Vec<(&'a str, &'a str)>,
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The text header `name`.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bytes do not begin a message.
    Prelude,
    /// The lengths are not possible.
    Lengths,
    /// The checksum of the message is wrong.
    Checksum,
    /// The headers cannot be read.
    Headers,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prelude => "a message begins with a wrong checksum",
            Self::Lengths => "a message has an impossible length",
            Self::Checksum => "a message has a wrong checksum",
            Self::Headers => "a message has headers that cannot be read",
        })
    }
}

/// A parser for one stream.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of a message whose end has not come yet.
    rest: Vec<u8>,
    damage: Option<Damage>,
}

impl Parser {
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes and calls `on_message` for every message that they complete.
    ///
    /// # Errors
    /// The stream is damaged. Messages before the damage were given to `on_message`. Later bytes are
    /// ignored, with the same error.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut on_message: impl FnMut(Message<'_>),
    ) -> Result<(), Damage> {
        if let Some(damage) = self.damage {
            return Err(damage);
        }
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        let read = loop {
            match first(&self.rest[at..]) {
                Ok(Some((message, length))) => {
                    on_message(message);
                    at += length;
                }
                Ok(None) => break Ok(()),
                Err(damage) => break Err(damage),
            }
        };
        self.rest.drain(..at);
        if let Err(damage) = read {
            self.damage = Some(damage);
            self.rest.clear();
        }
        read
    }

    /// Bytes kept for an incomplete message.
    pub fn pending(&self) -> usize {
        self.rest.len()
    }

    /// The damage that was found.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

/// The message at the beginning of `bytes`, and its length. `None`: its end has not come yet.
fn first(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Damage> {
    let Some((prelude, _)) = bytes.split_at_checked(PRELUDE) else { return Ok(None) };
    let (lengths, checksum) = prelude.split_at(PRELUDE - 4);
    if number(checksum) != crc32fast::hash(lengths) {
        return Err(Damage::Prelude);
    }
    let length = size(&lengths[..4]);
    let headers = size(&lengths[4..]);
    let payload = length.checked_sub(PRELUDE + TRAILER + headers).ok_or(Damage::Lengths)?;
    if headers > LARGEST_HEADERS || payload > LARGEST_PAYLOAD {
        return Err(Damage::Lengths);
    }
    let Some((message, _)) = bytes.split_at_checked(length) else { return Ok(None) };
    let (content, checksum) = message.split_at(length - TRAILER);
    if number(checksum) != crc32fast::hash(content) {
        return Err(Damage::Checksum);
    }
    let (headers, payload) = content[PRELUDE..].split_at(headers);
    let headers = text_headers(headers).ok_or(Damage::Headers)?;
    Ok(Some((Message { headers, payload }, length)))
}

/// The text headers; `None`: these bytes are no headers.
fn text_headers(mut bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(take(&mut bytes, 1)?[0]);
        let name = std::str::from_utf8(take(&mut bytes, length)?).ok()?;
        let kind = take(&mut bytes, 1)?[0];
        let length = match kind {
            // true and false
            0 | 1 => 0,
            // integers of one, two, four and eight bytes
            2 => 1,
            3 => 2,
            4 => 4,
            // and a time
            5 | 8 => 8,
            // bytes and text
            6 | 7 => {
                let length = take(&mut bytes, 2)?;
                usize::from(u16::from_be_bytes([length[0], length[1]]))
            }
            // a UUID
            9 => 16,
            _ => return None,
        };
        let value = take(&mut bytes, length)?;
        if kind == 7 {
            headers.push((name, std::str::from_utf8(value).ok()?));
        }
    }
    Some(headers)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// The number in the first four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn size(bytes: &[u8]) -> usize {
    usize::try_from(number(bytes)).unwrap_or(usize::MAX)
}

/// A message with these text headers, as a server sends it. Headers have at most 255 bytes in their names
/// and 65 535 in their values.
pub fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut message = Vec::new();
    message.extend(length(PRELUDE + head.len() + payload.len() + TRAILER));
    message.extend(length(head.len()));
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message.extend(head);
    message.extend_from_slice(payload);
    message.extend(crc32fast::hash(&message).to_be_bytes());
    message
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text headers and payload of a message.
    type Read = (Vec<(String, String)>, Vec<u8>);

    fn read(pieces: &[&[u8]]) -> (Vec<Read>, Option<Damage>) {
        let (mut parser, mut messages) = (Parser::new(), Vec::new());
        for piece in pieces {
            let _ = parser.push(piece, |message| {
                let owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                messages
                    .push((message.headers.iter().map(owned).collect(), message.payload.to_vec()));
            });
        }
        (messages, parser.damage())
    }

    fn unhex(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    const WITH_HEADER: &str = "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c6963\
        6174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1";

    /// Amazon's published vectors of the format.
    #[test]
    fn the_published_vectors() {
        let payload = b"{'foo':'bar'}".to_vec();
        let content_type = vec![("content-type".to_owned(), "application/json".to_owned())];
        for (name, hex, expected) in [
            ("empty_message", "000000100000000005c248eb7d98c8ff", (vec![], vec![])),
            (
                "payload_no_headers",
                "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936",
                (vec![], payload.clone()),
            ),
            ("payload_one_str_header", WITH_HEADER, (content_type, payload.clone())),
            (
                "int32_header",
                "0000002d0000001041c424b80a6576656e742d74797065040000a00c7b27666f6f273a27626172277d\
                 36f480a0",
                (vec![], payload),
            ),
        ] {
            let bytes = unhex(&hex.replace(' ', ""));
            assert_eq!(read(&[&bytes]), (vec![expected], None), "{name}");
        }
        for (name, hex, damage) in [
            (
                "corrupted_length",
                "0100001d00000000fd528c5a7b27666f6f273a27626172277dc3653936",
                Damage::Prelude,
            ),
            (
                "corrupted_header_len",
                "0000003d0000012007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e\
                 7b27666f6f273a27626172277d8d9c08b1",
                Damage::Prelude,
            ),
            (
                "corrupted_headers",
                "0000003d0000002007fd83960c636f6e74656e742b747970650700106170706c69636174696f6e2f6a736f6e\
                 7b27666f6f273a27626172277d8d9c08b1",
                Damage::Checksum,
            ),
            (
                "corrupted_payload",
                "0000001d00000000fd528c5a7b27666f6f273a27626172278dc3653936",
                Damage::Checksum,
            ),
        ] {
            assert_eq!(read(&[&unhex(&hex.replace(' ', ""))]), (vec![], Some(damage)), "{name}");
        }
    }

    #[test]
    fn every_type_of_header_is_passed_over() {
        let values: [(u8, &[u8]); 9] = [
            (0, b""),
            (1, b""),
            (2, b"a"),
            (3, b"ab"),
            (4, b"abcd"),
            (5, b"abcdefgh"),
            (6, b"\0\x03\xff\xfe\xfd"),
            (8, b"abcdefgh"),
            (9, b"abcdefghijklmnop"),
        ];
        for (kind, value) in values {
            let headers = [b"\x01a", &[kind][..], value, b"\x01b\x07\0\x01c"].concat();
            assert_eq!(text_headers(&headers), Some(vec![("b", "c")]), "{kind}");
            for end in 1..headers.len() - 5 {
                let is_whole = end == 3 + value.len();
                assert_eq!(text_headers(&headers[..end]).is_some(), is_whole, "{kind} to {end}");
            }
        }
        assert_eq!(text_headers(b"\x01a\x0a"), None);
        assert_eq!(text_headers(b"\x01\xff\0"), None);
    }

    #[test]
    fn impossible_lengths_are_refused_before_their_bytes_come() {
        let prelude = |length: u32, headers: u32| {
            let mut bytes = [length.to_be_bytes(), headers.to_be_bytes()].concat();
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            bytes
        };
        for (length, headers, damage) in [
            (15, 0, Some(Damage::Lengths)),
            (20, 5, Some(Damage::Lengths)),
            (17 << 20, 0, Some(Damage::Lengths)),
            (1 << 20, 129 << 10, Some(Damage::Lengths)),
            (u32::MAX, u32::MAX, Some(Damage::Lengths)),
            (16 << 20, 0, None),
        ] {
            assert_eq!(read(&[&prelude(length, headers)]), (vec![], damage), "{length} {headers}");
        }
    }

    #[test]
    fn nothing_is_read_after_damage() {
        let good = unhex(WITH_HEADER);
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        let (messages, damage) = read(&[&good, &bad, &good]);
        assert_eq!((messages.len(), damage), (1, Some(Damage::Checksum)));
    }

    proptest! {
        #[test]
        fn pieces_do_not_change_messages(
            payloads in prop::collection::vec(any::<Vec<u8>>(), 0..5),
            noise in any::<Vec<u8>>(),
            size in 1_usize..40,
        ) {
            let messages = payloads.iter().map(|payload| message(&[(":event-type", "é")], payload));
            let bytes = [messages.collect::<Vec<_>>().concat(), noise].concat();
            let whole = read(&[&bytes]);
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(&read(&pieces), &whole);
            let found: Vec<&Vec<u8>> = whole.0.iter().map(|(_, payload)| payload).collect();
            prop_assert!(found.len() >= payloads.len());
            prop_assert_eq!(&found[..payloads.len()], &payloads.iter().collect::<Vec<_>>()[..]);
        }

        /// A changed byte never changes what a message says.
        #[test]
        fn a_flipped_bit_is_found(at in 0_usize..61, bit in 0_u32..8) {
            let mut bytes = unhex(WITH_HEADER);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(read(&[&bytes]).0.len(), 0);
        }
    }
}
