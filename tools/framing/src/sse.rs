//! Parses server-sent events from bytes that may be split anywhere.
//!
//! Follows the parsing rules of the HTML standard (section 9.2.6): lines end in LF, CRLF or CR. A
//! leading BOM, comments and unknown fields are skipped. An event that no blank line closes is
//! dropped. Lines have no length limit. The parser looks at every byte a bounded number of times,
//! however the bytes arrive.

use std::borrow::Cow;

use memchr::memchr2;

/// One event: its name (empty if it had none) and its data. Invalid UTF-8 is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
}

/// A parser for one stream.
#[derive(Debug, Default)]
pub struct Parser {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether the current event has a `data` field.
    has_data: bool,
    /// The last line ended in CR, so an LF that follows directly belongs to it.
    after_cr: bool,
    /// A line has been seen, so a BOM can no longer appear.
    started: bool,
}

impl Parser {
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes and calls `on_event` for every event that they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut on_event: impl FnMut(SseEvent<'_>)) {
        while !bytes.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if let Some(rest) = bytes.strip_prefix(b"\n") {
                    bytes = rest;
                    continue;
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                return;
            };
            self.after_cr = bytes[end] == b'\r';
            let is_complete = if self.line.is_empty() {
                self.end_of_line(&bytes[..end])
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                let is_complete = self.end_of_line(&line);
                line.clear();
                self.line = line;
                is_complete
            };
            if is_complete {
                let (name, data) = (text(&self.name), text(&self.data));
                on_event(SseEvent { name, data });
                self.name.clear();
                self.data.clear();
            }
            bytes = &bytes[end + 1..];
        }
    }

    /// Bytes kept for incomplete events. A reader that limits memory ends the stream when this
    /// grows too large.
    pub fn pending(&self) -> usize {
        self.line.len() + self.name.len() + self.data.len()
    }

    /// The data so far of an event that no blank line has closed yet. `None` between events.
    pub fn unfinished(&self) -> Option<String> {
        let comment = self.line.starts_with(b":");
        if !self.has_data && self.name.is_empty() && (self.line.is_empty() || comment) {
            return None;
        }
        let mut data = self.data.clone();
        if let Some(value) = self.line.strip_prefix(b"data:") {
            if self.has_data {
                data.push(b'\n');
            }
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        }
        Some(text(&data).into_owned())
    }

    /// Ends the current line. Returns true if an event is now complete and ready to be emitted.
    fn end_of_line(&mut self, mut line: &[u8]) -> bool {
        if !self.started {
            self.started = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.blank_line();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[..0]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.add_data(value),
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // a comment (no name before the colon), `id`, `retry` or unknown
            _ => {}
        }
        false
    }

    fn add_data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn blank_line(&mut self) -> bool {
        let is_complete = std::mem::take(&mut self.has_data) && !self.data.is_empty();
        if !is_complete {
            self.name.clear();
            self.data.clear();
        }
        is_complete
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece, |e| events.push((e.name.into_owned(), e.data.into_owned())));
        }
        events
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn name_and_data() {
        assert_eq!(parse(&[b"event: ping\ndata: {}\n\n"]), [event("ping", "{}")]);
        assert_eq!(parse(&[b"data:no blank\n\n"]), [event("", "no blank")]);
        assert_eq!(parse(&[b"data:  two\n\n"]), [event("", " two")]);
    }

    #[test]
    fn data_lines_are_joined_by_line_feeds() {
        assert_eq!(parse(&[b"data: a\ndata:\ndata: b\n\n"]), [event("", "a\n\nb")]);
    }

    #[test]
    fn comments_ids_and_unknown_fields_are_skipped() {
        let text = b": hello\nid: 7\nretry: 10\nfoo: bar\njunk\ndata: x\n: more\n\n:\n\n";
        assert_eq!(parse(&[text]), [event("", "x")]);
    }

    #[test]
    fn a_name_without_data_is_no_event_and_does_not_leak() {
        assert_eq!(parse(&[b"event: a\n\ndata: x\n\n"]), [event("", "x")]);
        assert_eq!(parse(&[b"data\n\ndata:\n\n"]), []);
    }

    #[test]
    fn an_event_that_is_not_closed_is_dropped() {
        assert_eq!(parse(&[b"data: a\n\ndata: b\n"]), [event("", "a")]);
        assert_eq!(parse(&[b"data: a\n\ndata: b"]), [event("", "a")]);
    }

    #[test]
    fn what_is_unfinished_at_the_end() {
        for (text, rest) in [
            ("", None),
            ("data: a\n\n", None),
            ("data: a\n\n: comm", None),
            ("data: a\n\nda", Some("")),
            ("event: e\n", Some("")),
            ("data: a\n", Some("a")),
            ("data: [DONE]", Some("[DONE]")),
            ("data: a\ndata:b", Some("a\nb")),
            ("data: a\r\n\r\n", None),
        ] {
            let mut parser = Parser::new();
            parser.push(text.as_bytes(), |_| {});
            assert_eq!(parser.unfinished().as_deref(), rest, "{text:?}");
        }
    }

    #[test]
    fn only_a_leading_bom_is_dropped() {
        let text = "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: \u{feff}c\n\n";
        assert_eq!(parse(&[text.as_bytes()]), [event("", "a"), event("", "\u{feff}c")]);
    }

    #[test]
    fn damaged_utf8_is_replaced() {
        assert_eq!(parse(&[b"data: a\xffb\n\n"]), [event("", "a\u{fffd}b")]);
    }

    #[test]
    fn every_line_end_and_every_split_give_the_same() {
        let text = "\u{feff}: c\nevent: é\ndata: ünï\ndata: 世界 🎉\n\n\n\ndata: x\n\nevent: z\ndata: {\"a\":1}\n\n";
        let expected = parse(&[text.as_bytes()]);
        assert_eq!(expected.len(), 3);
        for line_end in ["\n", "\r\n", "\r"] {
            let bytes = text.replace('\n', line_end).into_bytes();
            assert_eq!(parse(&[&bytes]), expected);
            for at in 0..=bytes.len() {
                assert_eq!(parse(&[&bytes[..at], &bytes[at..]]), expected, "{line_end:?} {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(parse(&single), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_mean_the_same_however_they_arrive(
            bytes in "([a-z :\\r\\n\u{feff}é]|data:|event:|\n\n)*",
            pieces in prop::collection::vec(1usize..9, 1..9),
        ) {
            let whole = parse(&[bytes.as_bytes()]);
            let mut rest = bytes.as_bytes();
            let mut split = Vec::new();
            for size in pieces.iter().cycle() {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                split.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(parse(&split), whole);
        }
    }

    #[test]
    fn a_long_line_in_small_pieces() {
        let long = "x".repeat(3_000_000);
        let text = format!("data: {long}\n\n");
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
        let events = parse(&pieces);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].1.len(), long.len());
    }
}
