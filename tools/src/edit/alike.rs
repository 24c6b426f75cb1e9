//! Lines that a loose match may replace, and matches of text that only looks alike.

use super::escapes;
use super::exact::{Overlap, occurrences};
use super::search::{Candidate, Search};
use super::source::Span;
use crate::fold;

/// Least number of words of a line of which one may have changed.
const MIN_WORDS: usize = 3;

/// Largest file, in bytes, that is compared in its folded form.
const MAX_FOLDED: usize = 4 << 20;

/// How many words of the line of a file differ from the line searched for: none if both are equal but for white space,
/// escapes, quotes and Unicode normalization, or one word or literal of at least three. `None` for any other line: it is one
/// that nobody has named.
pub(super) fn changed_words(wanted: &str, found: &str) -> Option<usize> {
    let [wanted, found] =
        [wanted, found].map(|line| fold::folded(&escapes::unescaped(line)).into_owned());
    let [wanted, found] = [tokens(&wanted), tokens(&found)];
    let words = wanted.iter().filter(|token| token.is_word()).count();
    let differing: Vec<_> =
        wanted.iter().zip(&found).filter(|(wanted, found)| wanted != found).collect();
    let is_named = wanted.len() == found.len()
        && match differing.as_slice() {
            [] => true,
            [(wanted, found)] => words >= MIN_WORDS && wanted.is_word() && found.is_word(),
            _ => false,
        };
    is_named.then_some(differing.len())
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// The text between two equal quotes, of whatever kind.
    Quoted(&'a str),
    Other(char),
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// The words, literals and other characters of a line, without white space.
fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted =
            matches!(first, '"' | '\'' | '`').then(|| rest[1..].split_once(first)).flatten();
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let token;
        (token, rest) = match quoted {
            Some((text, rest)) => (Token::Quoted(text), rest),
            None if word > 0 => (Token::Word(&rest[..word]), &rest[word..]),
            None => (Token::Other(first), &rest[first.len_utf8()..]),
        };
        tokens.push(token);
        rest = rest.trim_start();
    }
    tokens
}

/// The text apart from Unicode normalization and from typographic spaces, quotes and dashes.
pub(super) fn folded<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let (file, old) = (search.file.text, search.old.text);
    let is_plain =
        (file.is_ascii() && old.is_ascii()) || file.len() > MAX_FOLDED || search.is_blank();
    let (text, wanted) =
        if is_plain { ("".into(), "".into()) } else { (fold::folded(file), fold::folded(old)) };
    let hits: Vec<Span> = occurrences(&text, wanted, Overlap::Counts)
        .take_while(|_| search.spend(64 + old.len()))
        .collect();
    original(file, &hits).into_iter().map(Candidate::part)
}

/// The parts of the file that make up these parts of its folded form. A part that ends within a character is left out. All
/// parts are equally long and in order.
fn original(file: &str, hits: &[Span]) -> Vec<Span> {
    let mut starts = Vec::with_capacity(hits.len());
    let mut ends = Vec::with_capacity(hits.len());
    let mut at = 0;
    for cluster in fold::clusters(file) {
        if starts.len() == hits.len() && ends.len() == hits.len() {
            break;
        }
        let end = at + fold::folded(&file[cluster.clone()]).len();
        starts.extend(
            hits[starts.len()..]
                .iter()
                .take_while(|hit| hit.start < end)
                .map(|hit| (hit.start == at).then_some(cluster.start)),
        );
        ends.extend(
            hits[ends.len()..]
                .iter()
                .take_while(|hit| hit.end <= end)
                .map(|hit| (hit.end == end).then_some(cluster.end)),
        );
        at = end;
    }
    starts.into_iter().zip(ends).filter_map(|(start, end)| Some(start?..end?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_same_words_or_one_other_of_three() {
        for (wanted, found, changed) in [
            ("    limit(u, 5)", "\tlimit( u,5 )", Some(0)),
            ("limit(u, 5)", "limit(u, 9)", Some(1)),
            ("check(u)", "audit(u)", None),
            ("b();", "c();", None),
            ("let x = load(a);", "let x = save(a);", Some(1)),
            ("let x = load(a);", "let y = save(a);", None),
            ("let x = a + b;", "let x = a - b;", None),
            ("print(\"one two\")", "print('one two')", Some(0)),
            ("say(x, \"one two\")", "say(x, \"three\")", Some(1)),
            ("say \\\"hi\\\"", "say \"hi\"", Some(0)),
            ("// Café", "// Cafe\u{301}", Some(0)),
            ("x = “a”", "x = \"a\"", Some(0)),
            ("return x", "returnx", None),
            ("", "  ", Some(0)),
            ("", "}", None),
        ] {
            assert_eq!(changed_words(wanted, found), changed, "{wanted} {found}");
        }
    }
}
