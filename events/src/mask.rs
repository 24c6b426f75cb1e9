//! Tokens of well-known shapes, masked in whatever leaves the process. The log keeps them, so it
//! replays exactly; what is a secret by name never gets there ([`crate::secrets`]).

use crate::rewrite::{Rewrite, rewrite};
use crate::{Envelope, Sha256, line};

/// Stands for what was left out.
const MASKED: &str = "…[masked]";

/// Bytes of a token that are shown.
const SHOWN: usize = 4;

/// How a kind of token looks: how it begins, which characters follow, at least how many of them.
struct Shape {
    begins: &'static str,
    follows: fn(u8) -> bool,
    least: usize,
    /// Whether words could look like that, but for digits and capitals.
    wordy: bool,
}

const SHAPES: [Shape; 16] = [
    shape("sk-ant-", is_word, 12),
    shape("sk-proj-", is_word, 12),
    Shape { begins: "sk-", follows: is_word, least: 16, wordy: true },
    shape("ghp_", is_alphanumeric, 20),
    shape("gho_", is_alphanumeric, 20),
    shape("ghu_", is_alphanumeric, 20),
    shape("ghs_", is_alphanumeric, 20),
    shape("github_pat_", is_word, 20),
    shape("AKIA", is_capital, 16),
    shape("ASIA", is_capital, 16),
    shape("xoxa-", is_word, 10),
    shape("xoxb-", is_word, 10),
    shape("xoxp-", is_word, 10),
    shape("AIza", is_word, 30),
    shape("glpat-", is_word, 20),
    Shape { begins: "earer ", follows: is_credential, least: 16, wordy: true },
];

const fn shape(begins: &'static str, follows: fn(u8) -> bool, least: usize) -> Shape {
    Shape { begins, follows, least, wordy: false }
}

const fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

const fn is_capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

const fn is_credential(byte: u8) -> bool {
    is_word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
}

const JWT: &str = "eyJ";
const KEY_BEGINS: &str = "-----BEGIN ";
const KEY: &str = "PRIVATE KEY-----";
const KEY_ENDS: &str = "-----END ";

/// An event in its public form, masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// As [`line::write`] does it.
    pub line: String,
    /// The lines of the contents behind its hashes, as [`line::write_payload`] does it. What is masked
    /// in them changes the hashes, there and in `line`.
    pub payloads: Vec<(Sha256, String)>,
}

/// What may be shown of `envelope`. Masking what is masked changes nothing.
pub fn shown(envelope: &Envelope) -> Shown {
    let line = line::write(envelope);
    let payloads = envelope.event.payloads();
    if !might(&line) && !payloads.iter().any(|payload| might(payload.text())) {
        return with_payloads(envelope, line);
    }
    let mut masked = envelope.clone();
    rewrite(&mut masked.event, &Mask);
    let line = line::write(&masked);
    with_payloads(&masked, line)
}

/// The same with nothing masked.
pub fn unmasked(envelope: &Envelope) -> Shown {
    with_payloads(envelope, line::write(envelope))
}

fn with_payloads(envelope: &Envelope, line: String) -> Shown {
    let payloads = envelope.event.payloads().into_iter();
    let payloads = payloads.map(|payload| (payload.sha256(), line::write_payload(payload)));
    Shown { line, payloads: payloads.collect() }
}

/// `text` with its tokens masked; `None` if it has none.
pub fn mask(text: &str) -> Option<String> {
    let mut masked = String::new();
    let (mut rest, mut at) = (0, 0);
    while at < text.len() {
        match token(text, at, true) {
            Some(Token { shown, end }) => {
                masked.push_str(&text[rest..shown]);
                masked.push_str(MASKED);
                (rest, at) = (end, end);
            }
            None => at += 1,
        }
    }
    if rest == 0 {
        return None;
    }
    masked.push_str(&text[rest..]);
    Some(masked)
}

/// Whether there may be a token in a JSON text, in which an escape may stand before it.
fn might(json: &str) -> bool {
    (0..json.len()).any(|at| token(json, at, false).is_some())
}

struct Mask;

impl Rewrite for Mask {
    fn text(&self, text: &str) -> Option<String> {
        mask(text)
    }

    fn touches(&self, json: &str) -> bool {
        might(json)
    }
}

/// Where a token that has begun is to be cut off, and where it ends.
struct Token {
    shown: usize,
    end: usize,
}

/// The token that begins at `at`; if `alone`, then not within a word.
fn token(text: &str, at: usize, alone: bool) -> Option<Token> {
    let bytes = text.as_bytes();
    match bytes[at] {
        b'-' => return private_key(text, at),
        b's' | b'g' | b'A' | b'x' | b'e' => {}
        _ => return None,
    }
    // a capital or a small letter stands before the one that has none
    let is_scheme = bytes[at..].starts_with(b"earer ");
    let before = at.checked_sub(1).map(|before| bytes[before]);
    if is_scheme && !matches!(before, Some(b'B' | b'b')) {
        return None;
    }
    if alone && !is_scheme && before.is_some_and(is_word) {
        return None;
    }
    if bytes[at..].starts_with(JWT.as_bytes()) {
        return jwt(bytes, at);
    }
    let shape = SHAPES.iter().find(|shape| bytes[at..].starts_with(shape.begins.as_bytes()))?;
    let start = at + shape.begins.len();
    let end = start + count(&bytes[start..], shape.follows);
    let tail = &bytes[start..end];
    let is_word = shape.wordy && !tail.iter().any(|byte| is_capital(*byte));
    let shown = if is_scheme { start } else { at } + SHOWN;
    (tail.len() >= shape.least && !is_word).then_some(Token { shown, end })
}

/// Three parts in base64, with dots between them.
fn jwt(bytes: &[u8], at: usize) -> Option<Token> {
    const LEAST: usize = 8;
    let mut end = at;
    for part in 0..3 {
        let length = count(&bytes[end..], is_word);
        if length < LEAST {
            return None;
        }
        end += length;
        if part < 2 {
            (bytes.get(end) == Some(&b'.')).then_some(())?;
            end += 1;
        }
    }
    Some(Token { shown: at + SHOWN, end })
}

/// A key between its two lines, or up to the end of the text.
fn private_key(text: &str, at: usize) -> Option<Token> {
    const LABEL: usize = 32;
    let label = text.get(at..)?.strip_prefix(KEY_BEGINS)?;
    let shown = at + KEY_BEGINS.len() + label.find(KEY).filter(|at| *at < LABEL)? + KEY.len();
    let body = &text[shown..];
    let end = body.find(KEY_ENDS).map_or(text.len(), |end| shown + end);
    (text[shown..end] != *MASKED && shown < end).then_some(Token { shown, end })
}

fn count(bytes: &[u8], is: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Equipped, Session, Turn};
    use crate::{Event, Payload, SessionId, Time};

    /// Put together here, so that no token of this shape stands in a file of ours.
    fn tokens() -> Vec<(String, String)> {
        let long = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7";
        let capitals = "ABCDEFGH12345678";
        [
            ("sk-", long, "sk-a"),
            ("sk-ant-api03-", "abcdefghijkl", "sk-a"),
            ("ghp_", long, "ghp_"),
            ("github_pat_", long, "gith"),
            ("AKIA", capitals, "AKIA"),
            ("xoxb-", "12345-abcde-12", "xoxb"),
            ("AIza", long, "AIza"),
            ("glpat-", long, "glpa"),
            ("eyJhbGciOi", "JIUzI1NiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJh"),
        ]
        .into_iter()
        .map(|(begins, rest, shown)| (format!("{begins}{rest}"), format!("{shown}{MASKED}")))
        .collect()
    }

    #[test]
    fn tokens_are_masked_wherever_they_stand_and_only_once() {
        for (token, masked) in tokens() {
            for frame in ["T", "x T y", "KEY=T", "\"T\"", "ä:T,\n", "T T", "(T)"] {
                let text = frame.replace('T', &token);
                let found = mask(&text).unwrap();
                assert_eq!(found, frame.replace('T', &masked), "{text}");
                assert_eq!(mask(&found), None, "{found}");
            }
            assert_eq!(mask(&format!("a{token}")), None, "within a word");
        }
    }

    #[test]
    fn headers_and_private_keys_are_masked() {
        let key = |body: &str| format!("a -----BEGIN RSA {KEY}{body}-----END RSA {KEY} b");
        for (text, masked) in [
            (
                "authorization: Bearer abcdef0123456789xyz.",
                format!("authorization: Bearer abcd{MASKED}"),
            ),
            (&key("\nMIIabc\nxyz=\n"), key(MASKED)),
            (&format!("-----BEGIN {KEY}\nMIIabc"), format!("-----BEGIN {KEY}{MASKED}")),
        ] {
            assert_eq!(mask(text).unwrap(), masked);
            assert_eq!(mask(&masked), None, "{masked}");
        }
    }

    #[test]
    fn words_are_left_alone() {
        for text in [
            "sk-estimator-doc-link-hovered",
            "the bearer authentication-scheme",
            "task-force, sk-1, ghp_short, AKIA, xoxb-1, eyJhbGciOiJ9, eyJhbGciOiJ9.e.x",
            "-----BEGIN CERTIFICATE-----\nMIIabc\n-----END CERTIFICATE-----",
            "-----BEGIN ",
            "",
        ] {
            assert_eq!(mask(text), None, "{text}");
        }
    }

    #[test]
    fn contents_behind_a_hash_are_masked_with_their_hash() {
        for (token, masked) in tokens() {
            let system = Payload::new(format!("[\"a\\n{token}\"]"));
            let equipped = Equipped { system, ..Equipped::default() };
            let shown = shown(&envelope(Turn::Equipped(equipped).into()));
            let (hash, line) = &shown.payloads[0];
            assert!(line.contains(&masked) && !line.contains(&token), "{line}");
            assert!(shown.line.contains(&hash.to_string()), "{}", shown.line);
            let Ok(line::Line::Payload { sha256, text }) = line::read(line) else { panic!() };
            assert_eq!(sha256, Sha256::of(text.as_bytes()));
        }
    }

    #[test]
    fn an_event_without_tokens_is_shown_as_it_is() {
        let event = envelope(Session::Titled { title: "a \"title\"".into() }.into());
        assert_eq!(shown(&event), unmasked(&event));
        let token = &tokens()[0].0;
        let event = envelope(Session::Titled { title: format!("\n{token}") }.into());
        assert!(unmasked(&event).line.contains(token) && !shown(&event).line.contains(token));
    }

    fn envelope(event: Event) -> Envelope {
        let (session, at) = (SessionId::default(), Time::from_millis(1));
        Envelope { session, seq: 1, at, of: None, until: None, event }
    }
}
