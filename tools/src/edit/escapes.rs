//! EscapeNormalized: finds text that was escaped once too often or too little.

use std::borrow::Cow;

use memchr::memchr;

use super::exact::{Overlap, occurrences};
use super::ids::Ids;
use super::lines::runs;
use super::search::{Candidate, Candidates, Search};

/// The unescaped text if the file contains it. Otherwise whole lines of the file that equal it
/// after unescaping.
pub(super) fn escape_normalized<'a>(search: &'a Search<'a>) -> Candidates<'a> {
    let (file, old) = (search.file.text, search.old.text);
    let wanted = search.ending.apply(&unescaped(old)).into_owned();
    let escaped = file.contains('\\') || old.contains('\\');
    if !escaped || wanted.trim().is_empty() {
        return Box::new(std::iter::empty());
    }
    let other = if wanted == old { Cow::Borrowed("") } else { Cow::Owned(wanted.clone()) };
    let mut parts = occurrences(file, other, Overlap::Counts).map(Candidate::part).peekable();
    if parts.peek().is_some() {
        return Box::new(parts);
    }
    let (wanted, found) = numbers(search, &wanted);
    let count = wanted.len();
    let hits = runs(found.len(), move |line| found[line], wanted);
    Box::new(hits.map(move |first| search.block(first, count)))
}

/// Numbers for the lines of `wanted`, and for the file's lines after unescaping.
fn numbers(search: &Search<'_>, wanted: &str) -> (Vec<u32>, Vec<u32>) {
    let ids = Ids::new(wanted.lines());
    let mut plain = String::new();
    let lines = (0..search.file.count()).map(|line| {
        let whole = search.file.whole(line);
        if memchr(b'\\', whole.as_bytes()).is_none() {
            return ids.get(whole);
        }
        plain.clear();
        unescape(whole, &mut plain);
        ids.get(&plain)
    });
    (ids.all(wanted.lines()), lines.collect())
}

/// Unescapes `\n`, `\t`, `\r`, quotes, backtick, backslash, dollar and the end of a line. Any other
/// backslash stays.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    unescape(text, &mut plain);
    Cow::Owned(plain)
}

fn unescape(text: &str, plain: &mut String) {
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        plain.push_str(&rest[..at]);
        let after = rest[at + 1..].chars().next();
        let meant = after.and_then(meant);
        plain.push(meant.unwrap_or('\\'));
        // every escape with a meaning is one byte long
        rest = &rest[at + 1 + usize::from(meant.is_some())..];
    }
    plain.push_str(rest);
}

fn meant(escaped: char) -> Option<char> {
    match escaped {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '\'' | '"' | '`' | '\\' | '$' | '\n' => Some(escaped),
        _ => None,
    }
}
