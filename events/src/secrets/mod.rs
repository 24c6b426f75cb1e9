//! Replaces known secrets by their names: `{{secret:NAME}}`. The session does this with every fact before it logs the fact.
//! Tokens of unknown secrets stay in the log, and [`crate::mask`] masks them in outputs.
//!
//! A value is found as it is, and in the forms that it takes inside other texts: escaped in a JSON
//! string, percent-encoded, in base64, as numbers (hexadecimal, `%68`, `\x68`, `\u0068`), line by line,
//! and by its greater part that every kind of quoting leaves unchanged. Forms other than the plain one have a suffix, as in
//! `{{secret:NAME:json}}`. Other transformations of a value by a command are not recognised.
//!
//! Values are put back into a call's arguments when it is resolved and when it runs. Keys of
//! providers and headers are replaced too, but a call that names one fails, and commands do not get
//! them in their environment. Snapshots hold files unchanged. `next` does not use this module: a
//! log replays, verifies and reruns without any secret.

mod forms;
mod put_back;
mod stream;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::event::{Event, Fact};
use crate::rewrite::{Rewrite, Texts};

pub use put_back::UnknownSecret;
pub use stream::Redactor;

/// Shorter values are not replaced, in bytes: they occur in too many texts that are not secret.
pub const SHORTEST: usize = 8;

/// Parts of names of variables that must not be passed on.
const CREDENTIALS: &[&str] = &[
    "APIKEY", "AUTH", "COOKIE", "CREDENTIAL", "CREDENTIALS", "CREDS", "KEY", "KEYS", "PASS",
    "PASSPHRASE", "PASSWD", "PAT", "PRIVATE", "PW",
];

/// Whether a variable of this name may hold a key, a token or a password. Such variables are never
/// passed on.
pub fn is_credential(name: &str) -> bool {
    let name = name.to_uppercase();
    let within = ["APIKEY", "CREDENTIAL", "PASSWORD", "SECRET", "TOKEN"];
    within.iter().any(|part| name.contains(part))
        || name.split(['_', '-', '.']).any(|part| CREDENTIALS.contains(&part))
}

/// A value and its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub name: String,
    pub value: String,
    /// Whether calls may name it. If so, its value is put back into their arguments.
    pub usable: bool,
}

// Shows no value.
crate::debug_fields!(Secret { name });

/// There are too many secrets to search for.
#[derive(Debug, thiserror::Error)]
#[error("the known secrets cannot be searched for: {0}")]
pub struct TooMany(#[from] aho_corasick::BuildError);

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Known>>);

struct Known {
    secrets: Vec<Secret>,
    finder: AhoCorasick,
    /// In the order of the finder's patterns, which is that of their texts.
    patterns: Vec<Pattern>,
    /// Bytes of the longest pattern.
    longest: usize,
    /// The bytes that patterns begin with.
    first: [bool; 256],
}

struct Pattern {
    found: String,
    placeholder: String,
}

/// Shows only names.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.secrets().iter().map(|secret| &secret.name)).finish()
    }
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.secrets() == other.secrets()
    }
}

impl Secrets {
    /// If a value has several names, the first one counts. A name that is taken gets a number.
    /// Values are trimmed; values shorter than [`SHORTEST`] are ignored.
    ///
    /// # Errors
    /// Gigabytes of values.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Result<Self, TooMany> {
        let mut known: Vec<Secret> = Vec::new();
        for Secret { name, value, usable } in secrets {
            let value = value.trim().to_owned();
            if value.len() >= SHORTEST && !known.iter().any(|secret| secret.value == value) {
                let name = free(&forms::plain(&name), &known);
                known.push(Secret { name, value, usable });
            }
        }
        if known.is_empty() {
            return Ok(Self::default());
        }
        let patterns = patterns(&known);
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(patterns.iter().map(|pattern| &pattern.found))?;
        let longest = patterns.iter().map(|pattern| pattern.found.len()).max().unwrap_or(0);
        let mut first = [false; 256];
        for pattern in &patterns {
            first[usize::from(pattern.found.as_bytes()[0])] = true;
        }
        Ok(Self(Some(Arc::new(Known { secrets: known, finder, patterns, longest, first }))))
    }

    /// These secrets and `more`, which calls cannot name.
    ///
    /// # Errors
    /// Gigabytes of values.
    pub fn and(&self, more: impl IntoIterator<Item = (String, String)>) -> Result<Self, TooMany> {
        let more = more.into_iter().map(|(name, value)| Secret { name, value, usable: false });
        Self::new(self.secrets().iter().cloned().chain(more))
    }

    /// These secrets and the values of `others` that are not among them.
    ///
    /// # Errors
    /// Gigabytes of values.
    pub fn with_all_of(&self, others: &Self) -> Result<Self, TooMany> {
        let is_new = |other: &&Secret| !self.secrets().iter().any(|own| own.value == other.value);
        let mut more = others.secrets().iter().filter(is_new).peekable();
        if more.peek().is_none() {
            return Ok(self.clone());
        }
        Self::new(self.secrets().iter().chain(more).cloned())
    }

    /// Whether this value is one of them, or too short to be hidden.
    pub fn knows(&self, value: &str) -> bool {
        let value = value.trim();
        value.len() < SHORTEST || self.secrets().iter().any(|secret| secret.value == value)
    }

    /// The secrets that `input` names and calls may use.
    pub fn named_in(&self, input: &crate::json::Json) -> Vec<Secret> {
        let named = |secret: &&Secret| {
            let begin = format!("{}{}", forms::BEGIN, secret.name);
            let mut after = input.as_str().split(&begin).skip(1);
            secret.usable && after.any(|after| after.starts_with([':', '}']))
        };
        self.secrets().iter().filter(named).cloned().collect()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn secrets(&self) -> &[Secret] {
        self.0.as_ref().map_or(&[], |known| &known.secrets)
    }

    /// `text` with names in place of values; `None` if there is no value in it.
    pub fn hide(&self, text: &str) -> Option<String> {
        self.0.as_ref()?.hide_text(text)
    }

    /// Replaces values by names in all texts of the event.
    pub fn redact(&self, event: &mut Event) {
        if let Some(known) = &self.0 {
            event.rewrite(&**known);
        }
    }

    /// Replaces values by names in all texts of the fact's event and notes.
    pub fn redact_fact(&self, fact: &mut Fact) {
        if let Some(known) = &self.0 {
            fact.event.rewrite(&**known);
            fact.notes.rewrite(&**known);
        }
    }

    /// Replaces values by names in a turn configuration.
    pub fn redact_config(&self, configured: &mut crate::event::TurnConfigPayloads) {
        if let Some(known) = &self.0 {
            configured.rewrite(&**known);
        }
    }

    /// Replaces values by names in every string of a JSON text.
    pub fn redact_json(&self, json: &mut crate::json::Json) {
        if let Some(known) = &self.0 {
            json.rewrite(&**known);
        }
    }

    /// Replaces values by names in a resolution.
    pub fn redact_resolution(&self, resolution: &mut crate::event::Resolution) {
        if let Some(known) = &self.0 {
            resolution.rewrite(&**known);
        }
    }

    /// Shrinks `range` of `text` so that it cuts no value in two: a part of a value is not
    /// recognised.
    pub fn uncut(&self, text: &[u8], range: Range<usize>) -> Range<usize> {
        let Range { mut start, mut end } = range;
        for found in self.0.iter().flat_map(|known| known.finder.find_iter(text)) {
            if found.start() < start && start < found.end() {
                start = found.end();
            }
            if found.start() < end && end < found.end() {
                end = found.start();
            }
        }
        start.min(end)..end
    }

    /// The number of bytes at the start of `text` that can be searched now. The rest may begin a
    /// secret if more text follows.
    pub fn settled(&self, text: &str) -> usize {
        self.0.as_ref().map_or(text.len(), |known| known.settled(text.as_bytes()))
    }
}

impl Known {
    fn hide_text(&self, text: &str) -> Option<String> {
        // patterns are text, so they begin and end between characters
        let hidden = self.hide(text.as_bytes());
        let hidden = hidden.map(|hidden| String::from_utf8_lossy(&hidden).into_owned());
        self.without_beginnings(hidden.as_deref().unwrap_or(text)).or(hidden)
    }

    /// A truncated text without the beginnings of values before the cut.
    fn without_beginnings(&self, text: &str) -> Option<String> {
        let (mut kept, mut rest) = (String::new(), 0);
        let marks = text.match_indices("…").chain(text.match_indices("..."));
        for cut in marks.map(|(at, _)| at).collect::<BTreeSet<_>>() {
            // near enough to find out what is inside a whole value
            let mut near = cut.saturating_sub(2 * self.longest).max(rest);
            while near < cut && !text.is_char_boundary(near) {
                near += 1;
            }
            let before = text.get(near..cut).unwrap_or_default();
            let begun = before.get(self.settled(before.as_bytes())..).unwrap_or_default();
            if begun.len() >= SHORTEST && !begun.starts_with(forms::BEGIN) {
                kept.push_str(&text[rest..cut - begun.len()]);
                rest = cut;
            }
        }
        (rest > 0).then(|| kept + &text[rest..])
    }

    fn hide(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut hidden = Vec::new();
        let (mut rest, mut changed) = (0, false);
        for found in self.finder.find_iter(text) {
            let pattern = &self.patterns[found.pattern().as_usize()];
            changed |= pattern.found != pattern.placeholder;
            hidden.extend_from_slice(&text[rest..found.start()]);
            hidden.extend_from_slice(pattern.placeholder.as_bytes());
            rest = found.end();
        }
        if !changed {
            return None;
        }
        hidden.extend_from_slice(&text[rest..]);
        Some(hidden)
    }

    /// Whether a pattern begins with `text` and is longer.
    fn begins_longer(&self, text: &[u8]) -> bool {
        let after = self.patterns.partition_point(|pattern| pattern.found.as_bytes() <= text);
        self.patterns.get(after).is_some_and(|next| next.found.as_bytes().starts_with(text))
    }

    fn settled(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(self.longest - 1);
        let begins = |at: &usize| {
            let rest = &text[*at..];
            self.first[usize::from(rest[0])] && self.begins_longer(rest)
        };
        let mut found: Option<Vec<Range<usize>>> = None;
        let mut inside = |at: &usize| {
            let found = found
                .get_or_insert_with(|| self.finder.find_iter(text).map(|m| m.range()).collect());
            found.iter().any(|found| found.start < *at && *at < found.end)
        };
        // a match inside a whole value does not begin another value
        (from..text.len()).find(|at| begins(at) && !inside(at)).unwrap_or(text.len())
    }
}

impl Rewrite for Known {
    fn text(&self, text: &str) -> Option<String> {
        self.hide_text(text)
    }

    fn touches(&self, json: &str) -> bool {
        // an escape within a string may be part of a value, and a value may be cut before an
        // ellipsis
        json.contains(['\\', '…']) || json.contains("...") || self.finder.is_match(json)
    }
}

fn free(name: &str, known: &[Secret]) -> String {
    let taken = |name: &str| known.iter().any(|secret| secret.name == name);
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}

/// Each value in all its forms. Placeholders are among the patterns and are replaced by themselves,
/// so that a value that is part of a placeholder is not found inside it.
fn patterns(known: &[Secret]) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut known_texts = HashSet::new();
    for secret in known {
        for (form, found) in forms::for_value(&secret.value) {
            let placeholder = forms::placeholder(&secret.name, form);
            for found in [found, placeholder.clone()] {
                if known_texts.insert(found.clone()) {
                    let placeholder = placeholder.clone();
                    patterns.push(Pattern { found, placeholder });
                }
            }
        }
    }
    patterns.sort_by(|a, b| a.found.cmp(&b.found));
    patterns
}

#[cfg(test)]
mod tests;
