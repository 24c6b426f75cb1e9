//! Known secrets, and their names in place of them: `{{secret:NAME}}`.
//!
//! A value is found as it is and in the forms that it takes inside other texts: escaped in a JSON
//! string, percent-encoded, in base64, line by line, and by the greater part of it that every way of
//! quoting leaves alone. Those have a form behind the name, as in `{{secret:NAME:json}}`. What a command
//! makes of a value otherwise is not recognised.

mod forms;
mod put_back;
mod stream;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::event::Event;
use crate::rewrite::{Rewrite, rewrite};

pub use put_back::UnknownSecret;
pub use stream::Redactor;

/// Shorter values are not replaced, in bytes: they stand in too much that is no secret.
pub const SHORTEST: usize = 8;

/// Parts of names that say what nobody should be given.
const CREDENTIALS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PAT",
    "PRIVATE",
    "PW",
];

/// Whether a variable of this name may hold a key, a token or a password. No such variable is passed
/// on, whoever asks for it.
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
    /// Whether calls may name it: then its value is put back into their arguments.
    pub usable: bool,
}

/// Has no value.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// There is more of them than can be searched for.
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

/// Names alone.
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
    /// Of several names for one value the first counts, and a name that is taken gets a number. Values
    /// are trimmed; those that are shorter than [`SHORTEST`] are left out.
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

    /// These and more, which calls can not name.
    ///
    /// # Errors
    /// Gigabytes of values.
    pub fn and(&self, more: impl IntoIterator<Item = (String, String)>) -> Result<Self, TooMany> {
        let more = more.into_iter().map(|(name, value)| Secret { name, value, usable: false });
        Self::new(self.secrets().iter().cloned().chain(more))
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn secrets(&self) -> &[Secret] {
        self.0.as_ref().map_or(&[], |known| &known.secrets)
    }

    /// `text` with names in place of values; `None` if there is none in it.
    pub fn hide(&self, text: &str) -> Option<String> {
        self.0.as_ref()?.hide_text(text)
    }

    /// Puts names in place of values wherever the event holds somebody's words.
    pub fn redact(&self, event: &mut Event) {
        if let Some(known) = &self.0 {
            rewrite(event, &**known);
        }
    }

    /// The same for a turn configuration.
    pub fn redact_config(&self, configured: &mut crate::event::TurnConfigPayloads) {
        if let Some(known) = &self.0 {
            crate::rewrite::config(configured, &**known);
        }
    }

    /// The same for every string of a JSON text.
    pub fn redact_json(&self, json: &mut crate::json::Json) {
        if let Some(known) = &self.0 {
            crate::rewrite::json(json, &**known);
        }
    }

    /// The same for what a call would do.
    pub fn redact_resolution(&self, resolution: &mut crate::event::Resolution) {
        if let Some(known) = &self.0 {
            crate::rewrite::resolved(resolution, &**known);
        }
    }

    /// `range` of `text` without what it would cut in two: a part of a value is not recognised any more.
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

    /// How many of the first bytes of `text` can be judged by themselves: the rest may begin a secret,
    /// if more follows.
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

    /// A text without the beginnings of values behind which it was cut.
    fn without_beginnings(&self, text: &str) -> Option<String> {
        let (mut kept, mut rest) = (String::new(), 0);
        let marks = text.match_indices("…").chain(text.match_indices("..."));
        for cut in marks.map(|(at, _)| at).collect::<BTreeSet<_>>() {
            // near enough to tell what stands inside a whole value
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

    /// Whether a pattern begins with `text` and goes on.
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
        // what stands inside a whole one begins none
        (from..text.len()).find(|at| begins(at) && !inside(at)).unwrap_or(text.len())
    }
}

impl Rewrite for Known {
    fn text(&self, text: &str) -> Option<String> {
        self.hide_text(text)
    }

    fn touches(&self, json: &str) -> bool {
        // an escape within a string may be part of a value, and a cut may stand behind one
        json.contains(['\\', '…']) || json.contains("...") || self.finder.is_match(json)
    }
}

fn free(name: &str, known: &[Secret]) -> String {
    let taken = |name: &str| known.iter().any(|secret| secret.name == name);
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}

/// Each value in all its forms. Placeholders are among them, to be replaced by themselves: a value that
/// is part of one is not looked for inside it.
fn patterns(known: &[Secret]) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for secret in known {
        for (form, found) in forms::of(&secret.value) {
            let placeholder = forms::placeholder(&secret.name, form);
            for found in [found, placeholder.clone()] {
                if !patterns.iter().any(|pattern| pattern.found == found) {
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
