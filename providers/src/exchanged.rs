//! A recorded HTTP exchange: the body that was sent and the answer as it came, and its form in a file.
//! It does no I/O, and it holds no address, no key and no header but those that decoding reads.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;

use leftfold_events::{Seq, SessionId, Time};
use serde::{Deserialize, Serialize};

/// The headers of an answer that are kept: those that decide about a retry or are part of a message.
pub(crate) const KEPT_HEADERS: [&str; 5] =
    ["retry-after", "retry-after-ms", "x-should-retry", "location", "x-amzn-errortype"];

/// The most bytes of body and answer that are recorded. Of a larger exchange only the body is kept.
pub const LARGEST_RECORD: usize = 32 << 20;

/// A request and its answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Exchanged {
    pub wire: String,
    pub vendor: String,
    /// The provider's name in settings.
    pub provider: String,
    /// The path below the base URL.
    pub path: String,
    pub body: Vec<u8>,
    /// `None`: no answer came.
    pub answer: Option<Answer>,
}

// Omits the contents.
leftfold_events::debug_fields!(Exchanged { path });

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Only those that decoding reads.
    pub headers: BTreeMap<String, String>,
    /// When the head came.
    pub at: Time,
    /// The body in the pieces in which it arrived.
    pub chunks: Vec<Vec<u8>>,
    pub end: End,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The body ended.
    Eof,
    /// Leftfold stopped reading: the reply was complete, or it was too large.
    Closed,
    /// The connection broke, or nothing came for too long.
    Broken,
    /// The body is not kept, for this reason.
    Dropped(String),
}

impl Exchanged {
    /// Forgets the body of the answer.
    pub fn drop_answer(&mut self, why: &str) {
        if let Some(answer) = &mut self.answer {
            answer.chunks.clear();
            answer.headers.clear();
            answer.end = End::Dropped(why.to_owned());
        }
    }

    /// The bytes of the answer's body, as text.
    pub fn answer_text(&self) -> String {
        let chunks = self.answer.as_ref().map(|answer| answer.chunks.concat());
        String::from_utf8_lossy(&chunks.unwrap_or_default()).into_owned()
    }
}

/// The first line of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    v: u32,
    session: SessionId,
    seq: Seq,
    wire: String,
    vendor: String,
    provider: String,
    path: String,
    /// Leftfold's version.
    version: String,
}

/// The other lines: the body, the answer's head, its pieces, its end.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Body {
        body: String,
    },
    Head {
        status: u16,
        headers: BTreeMap<String, String>,
        at: Time,
    },
    Text {
        text: String,
    },
    /// Bytes that are not UTF-8.
    Hex {
        hex: String,
    },
    End {
        end: End,
    },
}

/// The file of an exchange of `session`, whose `model.requested` is `seq`: JSON lines.
pub fn write(exchanged: &Exchanged, session: SessionId, seq: Seq) -> String {
    let head = Head {
        v: 1,
        session,
        seq,
        wire: exchanged.wire.clone(),
        vendor: exchanged.vendor.clone(),
        provider: exchanged.provider.clone(),
        path: exchanged.path.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut text = json(&head);
    // encoders make JSON, which is UTF-8
    let body = String::from_utf8_lossy(&exchanged.body).into_owned();
    text += &json(&Line::Body { body });
    let Some(answer) = &exchanged.answer else { return text };
    let (status, headers, at) = (answer.status, answer.headers.clone(), answer.at);
    text += &json(&Line::Head { status, headers, at });
    let mut rest: Vec<u8> = Vec::new();
    for chunk in &answer.chunks {
        rest.extend_from_slice(chunk);
        let whole = match std::str::from_utf8(&rest) {
            Ok(_) => rest.len(),
            // a character that is cut goes with the next piece
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => rest.len(),
        };
        let after = rest.split_off(whole);
        text += &piece(std::mem::replace(&mut rest, after));
    }
    text += &piece(rest);
    text + &json(&Line::End { end: answer.end.clone() })
}

fn piece(bytes: Vec<u8>) -> String {
    if bytes.is_empty() {
        return String::new();
    }
    json(&match String::from_utf8(bytes) {
        Ok(text) => Line::Text { text },
        Err(error) => {
            let mut hex = String::new();
            for byte in error.as_bytes() {
                // writing to a string cannot fail
                let _ = write!(hex, "{byte:02x}");
            }
            Line::Hex { hex }
        }
    })
}

fn json(line: &impl Serialize) -> String {
    // serialising these types to memory cannot fail
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

/// Reads the file of an exchange.
///
/// # Errors
/// A line that is no part of a record, or a missing body or end.
pub fn read(text: &str) -> Result<Exchanged, String> {
    let mut lines = text.lines().enumerate();
    let bad = |at: usize, error: &dyn fmt::Display| format!("line {}: {error}", at + 1);
    let (_, first) = lines.next().ok_or("the record is empty")?;
    let head: Head = serde_json::from_str(first).map_err(|error| bad(0, &error))?;
    if head.v != 1 {
        return Err(format!("the record has version {}, which this build does not read", head.v));
    }
    let mut body = None;
    let mut answer: Option<Answer> = None;
    let mut ended = false;
    for (at, line) in lines {
        let line: Line = serde_json::from_str(line).map_err(|error| bad(at, &error))?;
        match (line, &mut answer) {
            (Line::Body { body: text }, None) => body = Some(text.into_bytes()),
            (Line::Head { status, headers, at }, None) => {
                let (chunks, end) = (Vec::new(), End::Broken);
                answer = Some(Answer { status, headers, at, chunks, end });
            }
            (Line::Text { text }, Some(answer)) => answer.chunks.push(text.into_bytes()),
            (Line::Hex { hex }, Some(answer)) => {
                let bytes = unhex(&hex).ok_or_else(|| bad(at, &"invalid hex digits"))?;
                answer.chunks.push(bytes);
            }
            (Line::End { end }, Some(answer)) => {
                answer.end = end;
                ended = true;
            }
            (
                Line::Body { .. }
                | Line::Head { .. }
                | Line::Text { .. }
                | Line::Hex { .. }
                | Line::End { .. },
                _,
            ) => return Err(bad(at, &"not expected here")),
        }
    }
    let body = body.ok_or("the record has no body")?;
    if answer.is_some() && !ended {
        return Err("the record has no end".to_owned());
    }
    let Head { wire, vendor, provider, path, .. } = head;
    Ok(Exchanged { wire, vendor, provider, path, body, answer })
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let pairs = digits?;
    let byte = |pair: &[u8]| Some(pair.first()? << 4 | pair.get(1)?);
    pairs.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let exchanged = |chunks: &[&[u8]], end| Exchanged {
            wire: "openai-chat".into(),
            vendor: "mistral".into(),
            provider: "p".into(),
            path: "/chat/completions".into(),
            body: b"{\"a\":\"\\n\xc3\xa9\"}".to_vec(),
            answer: Some(Answer {
                status: 200,
                headers: BTreeMap::from([("retry-after".into(), "3".into())]),
                at: Time::from_millis(1_795_291_762_123),
                chunks: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
                end,
            }),
        };
        let session = SessionId::default();
        let no_answer = Exchanged { answer: None, ..exchanged(&[], End::Eof) };
        let table = [
            exchanged(&[b"data: 1\n", b"\n"], End::Eof),
            exchanged(&[b"\xff\xfe\x00"], End::Closed),
            exchanged(&[], End::Dropped("too large".into())),
            no_answer,
        ];
        for exchanged in table {
            assert_eq!(read(&write(&exchanged, session, 7)), Ok(exchanged));
        }
        let cut = exchanged(&[b"a\xc3", b"\xa9b", b"\xc3"], End::Broken);
        let answer = read(&write(&cut, session, 7)).unwrap().answer.unwrap();
        let expected: [&[u8]; 3] = [b"a", "éb".as_bytes(), b"\xc3"];
        assert_eq!(answer.chunks, expected);
    }

    #[test]
    fn a_record_that_is_cut_off_is_an_error() {
        let head = json(&Head {
            v: 1,
            session: SessionId::default(),
            seq: 1,
            wire: String::new(),
            vendor: String::new(),
            provider: String::new(),
            path: String::new(),
            version: String::new(),
        });
        let body = "{\"body\":\"\"}\n";
        let status = "{\"status\":200,\"headers\":{},\"at\":\"2026-11-21T20:09:22.123Z\"}\n";
        for (text, problem) in [
            (String::new(), "empty"),
            (head.clone(), "no body"),
            (format!("{head}{body}{status}"), "no end"),
            (format!("{head}{body}{status}{{\"text\""), "line 4"),
            (format!("{head}{body}{{\"text\":\"x\"}}"), "line 3: not expected"),
            (format!("{head}{body}{status}{{\"hex\":\"0g\"}}"), "line 4: invalid hex"),
        ] {
            assert!(read(&text).unwrap_err().contains(problem), "{text}");
        }
    }
}
