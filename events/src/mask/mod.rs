//! Masks tokens of well-known shapes in everything that leaves the process. Nothing here changes the log: it keeps
//! the tokens, so that it replays exactly. Known secrets are replaced before they enter the log, in
//! [`crate::secrets`].
//!
//! The masked form of an event is computed once for all observers, and contents get new hashes.
//! Text that does not come from events is masked where it leaves the process. An import of a masked
//! export folds, but `verify` reports differences in the masked places: `export --unmasked` has the
//! original.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::event::Envelope;
use crate::line;
use crate::payload::Sha256;
use crate::rewrite::{Rewrite, Texts};

/// Replaces the omitted part.
const MASKED: &str = "…[masked]";

/// The number of bytes of a token that remain visible.
const SHOWN: usize = 4;

/// The shape of a kind of token: its prefix, the characters that follow, and their number.
struct Shape {
    begins: &'static str,
    follows: fn(u8) -> bool,
    least: usize,
    /// Whether a longer text is not a token of this kind.
    exact: bool,
    /// Whether ordinary words could match, apart from digits and capitals.
    wordy: bool,
    /// Whether `begins` is the name of a scheme, which remains visible.
    scheme: bool,
}

const SHAPES: [Shape; 17] = [
    shape("sk-ant-", is_word, 12),
    shape("sk-proj-", is_word, 12),
    Shape { wordy: true, ..shape("sk-", is_word, 16) },
    shape("ghp_", is_alphanumeric, 20),
    shape("gho_", is_alphanumeric, 20),
    shape("ghu_", is_alphanumeric, 20),
    shape("ghs_", is_alphanumeric, 20),
    shape("github_pat_", is_word, 20),
    exact("AKIA", is_capital, 16),
    exact("ASIA", is_capital, 16),
    shape("xoxa-", is_word, 10),
    shape("xoxb-", is_word, 10),
    shape("xoxp-", is_word, 10),
    exact("AIza", is_word, 35),
    shape("glpat-", is_word, 20),
    Shape { wordy: true, scheme: true, ..shape("Bearer ", is_credential, 16) },
    Shape { wordy: true, scheme: true, ..shape("bearer ", is_credential, 16) },
];

const fn shape(begins: &'static str, follows: fn(u8) -> bool, least: usize) -> Shape {
    Shape { begins, follows, least, exact: false, wordy: false, scheme: false }
}

const fn exact(begins: &'static str, follows: fn(u8) -> bool, least: usize) -> Shape {
    Shape { exact: true, ..shape(begins, follows, least) }
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
/// The maximum distance between `KEY_BEGINS` and `KEY`, in bytes.
const LABEL: usize = 32;

/// The maximum length of an incomplete token that is held back, in bytes.
const UNFINISHED: usize = 8 * 1024;

/// An event in its public form, masked.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicEvent {
    /// The line that [`line::write`] gives.
    pub line: String,
    /// The lines of the contents behind its hashes, as [`line::write_payload`] gives them. Masking
    /// changes the hashes, both there and in `line`.
    pub payloads: Vec<(Sha256, String)>,
    /// The masked event, if anything in it is masked.
    pub masked: Option<Box<Envelope>>,
}

/// The masked form of `envelope`. Masking a masked event changes nothing.
pub fn shown(envelope: &Envelope) -> PublicEvent {
    let line = line::write(envelope);
    let payloads = envelope.event.payloads();
    if !might(&line) && !payloads.iter().any(|payload| might(payload.text())) {
        return with_payloads(envelope, line);
    }
    let mut masked = envelope.clone();
    masked.event.rewrite(&Mask);
    masked.notes.rewrite(&Mask);
    let line = line::write(&masked);
    let shown = with_payloads(&masked, line);
    PublicEvent { masked: (masked != *envelope).then(|| Box::new(masked)), ..shown }
}

/// The unmasked form of `envelope`.
pub fn unmasked(envelope: &Envelope) -> PublicEvent {
    with_payloads(envelope, line::write(envelope))
}

fn with_payloads(envelope: &Envelope, line: String) -> PublicEvent {
    let payloads = envelope.event.payloads().into_iter();
    let payloads = payloads.map(|payload| (payload.sha256(), line::write_payload(payload)));
    PublicEvent { line, payloads: payloads.collect(), masked: None }
}

/// `text` with its tokens masked; `None` if it has none. JSON stays valid: tokens contain no quotes
/// and no escapes.
pub fn mask(text: &str) -> Option<String> {
    let (mut masked, mut rest) = (String::new(), 0);
    for at in beginnings(text) {
        if at >= rest
            && let Some(Token { shown, end }) = token(text, at)
        {
            masked.push_str(&text[rest..shown]);
            masked.push_str(MASKED);
            rest = end;
        }
    }
    if rest == 0 {
        return None;
    }
    masked.push_str(&text[rest..]);
    Some(masked)
}

/// The number of bytes at the start of `text` that can be masked now. The rest begins a token, or
/// may begin one if more text follows. The rest is at most 8 KiB long.
pub fn settled(text: &str) -> usize {
    let from = text.len().saturating_sub(UNFINISHED);
    (from..text.len()).find(|at| is_open(text, *at)).unwrap_or(text.len())
}

/// Whether a token begins at `at` and may continue after the end of the text.
fn is_open(text: &str, at: usize) -> bool {
    let bytes = &text.as_bytes()[at..];
    let begins = |begins: &str| {
        let common = bytes.len().min(begins.len());
        bytes[..common] == begins.as_bytes()[..common]
    };
    if bytes[0] == b'-' {
        let rest = text[at..].strip_prefix(KEY_BEGINS).unwrap_or_default();
        return begins(KEY_BEGINS)
            && !rest.contains(KEY_ENDS)
            && (rest.len() <= LABEL || rest.contains(KEY));
    }
    if !is_first(bytes[0]) || !begins_word(text.as_bytes(), at) {
        return false;
    }
    let goes_on = |start: usize, follows: fn(u8) -> bool| {
        bytes.get(start..).is_none_or(|rest| rest.iter().all(|byte| follows(*byte)))
    };
    let is_jwt = begins(JWT) && goes_on(JWT.len(), |byte| is_word(byte) || byte == b'.');
    is_jwt
        || SHAPES
            .iter()
            .any(|shape| begins(shape.begins) && goes_on(shape.begins.len(), shape.follows))
}

/// Whether a JSON text may contain a token.
fn might(json: &str) -> bool {
    beginnings(json).any(|at| token(json, at).is_some())
}

/// The positions of all prefixes of tokens.
fn beginnings(text: &str) -> impl Iterator<Item = usize> {
    static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let begins = SHAPES.iter().map(|shape| shape.begins).chain([JWT, KEY_BEGINS]);
        // a set this small can always be searched for
        AhoCorasick::new(begins).ok()
    });
    FINDER.iter().flat_map(move |finder| finder.find_iter(text)).map(|found| found.start())
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

/// Where a token is cut off, and where it ends.
struct Token {
    shown: usize,
    end: usize,
}

/// The first bytes of tokens, except for private keys.
const fn is_first(byte: u8) -> bool {
    matches!(byte, b's' | b'g' | b'A' | b'x' | b'e' | b'B' | b'b')
}

/// The token that begins at `at`, unless `at` is inside a word.
fn token(text: &str, at: usize) -> Option<Token> {
    let bytes = text.as_bytes();
    if bytes[at] == b'-' {
        return private_key(text, at);
    }
    if !is_first(bytes[at]) {
        return None;
    }
    if bytes[at..].starts_with(JWT.as_bytes()) {
        return jwt(bytes, at).filter(|_| begins_word(bytes, at));
    }
    let shape = SHAPES.iter().find(|shape| bytes[at..].starts_with(shape.begins.as_bytes()))?;
    let start = at + shape.begins.len();
    let end = start + count(&bytes[start..], shape.follows);
    let tail = &bytes[start..end];
    let is_word = shape.wordy && !tail.iter().any(|byte| is_capital(*byte));
    let fits = tail.len() == shape.least || !shape.exact && tail.len() > shape.least;
    let shown = if shape.scheme { start } else { at } + SHOWN;
    (fits && !is_word && begins_word(bytes, at)).then_some(Token { shown, end })
}

/// Whether no part of a word comes directly before `at`. The end of an escape (in JSON, or of a
/// terminal's color) is not part of a word.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let Some((last, before)) = bytes[..at].split_last() else { return true };
    if !is_word(*last) || before.ends_with(b"\\") && last.is_ascii_lowercase() {
        return true;
    }
    let hex = before.len().saturating_sub(5);
    if before[hex..].starts_with(b"\\u") && before.len() - hex == 5 {
        return true;
    }
    let in_colour = |byte: &&u8| byte.is_ascii_digit() || **byte == b';';
    let colour = before.iter().rev().take_while(in_colour).count();
    let before = &before[..before.len() - colour];
    *last == b'm' && (before.ends_with(b"\x1b[") || before.ends_with(b"\\u001b["))
}

/// Three base64 parts, separated by dots.
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

/// A key between its two lines, or up to the end of the text or of the string that contains it.
fn private_key(text: &str, at: usize) -> Option<Token> {
    let label = text.get(at..)?.strip_prefix(KEY_BEGINS)?;
    let shown = at + KEY_BEGINS.len() + label.find(KEY).filter(|at| *at < LABEL)? + KEY.len();
    let body = &text[shown..];
    let quoted = |quote: usize| body[..quote].trim_end_matches('\\').len();
    let end = body.find(KEY_ENDS).into_iter().chain(body.find('"').map(quoted)).min();
    let end = end.map_or(text.len(), |end| shown + end);
    (text[shown..end] != *MASKED && shown < end).then_some(Token { shown, end })
}

fn count(bytes: &[u8], is: fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is(**byte)).count()
}

#[cfg(test)]
mod tests;
