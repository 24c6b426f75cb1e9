//! EscapeNormalized (SPEC E6): text that was escaped once too often, or once too little.

use std::borrow::Cow;

use super::exact::{Overlap, occurrences};
use super::lines::runs;
use super::search::{Candidate, Candidates, Search};

/// The unescaped text as it stands in the file; if it does not, whole lines that are equal to it
/// once they are unescaped themselves.
pub(super) fn escape_normalized<'a>(search: &'a Search<'a>) -> Candidates<'a> {
    let (file, old) = (search.file.text, search.old.text);
    let wanted = search.ending.apply(&unescaped(old));
    let escaped = file.contains('\\') || old.contains('\\');
    if !escaped || wanted.trim().is_empty() {
        return Box::new(std::iter::empty());
    }
    let other = if wanted == old { "" } else { wanted.as_str() };
    let mut parts = occurrences(file, other, Overlap::Counts).map(Candidate::part).peekable();
    if parts.peek().is_some() {
        return Box::new(parts);
    }
    let wanted: Vec<Cow<'a, str>> =
        wanted.lines().map(|line| Cow::Owned(line.to_owned())).collect();
    let count = wanted.len();
    let lines = search.file.lines().len();
    let hits = runs(lines, |line| unescaped(search.file.whole(line)), wanted);
    Box::new(hits.map(move |first| search.block(first, count)))
}

/// With `\n`, `\t`, `\r`, quotes, backtick, backslash, dollar and the end of a line unescaped; any
/// other backslash stays.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let meant = if c == '\\' { rest.clone().next().and_then(meant) } else { None };
        if meant.is_some() {
            rest.next();
        }
        plain.push(meant.unwrap_or(c));
    }
    Cow::Owned(plain)
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
