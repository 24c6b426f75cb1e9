//! WhitespaceNormalized (SPEC E4): every run of white space counts as one blank.

use super::exact::{Overlap, occurrences};
use super::search::{Candidate, Search};
use super::source::{Source, Span};

/// A whole line, a part of a line, or as many lines as were looked for.
pub(super) fn whitespace_normalized<'a>(
    search: &'a Search<'a>,
) -> impl Iterator<Item = Candidate> + 'a {
    let wanted = Squeezed::new(search.old.text).text;
    let cost = 64 + wanted.len() / 8;
    let file = Squeezed::new(search.file.text);
    let hits: Vec<Candidate> = occurrences(&file.text, &wanted, Overlap::Counts)
        .take_while(|_| search.spend(cost))
        .filter_map(|hit| place(search, file.span(hit)))
        .collect();
    hits.into_iter()
}

/// The candidate whose words begin and end with `span`.
fn place(search: &Search<'_>, span: Span) -> Option<Candidate> {
    let (file, count) = (&search.file, search.old.lines().len());
    let (first, last) = (file.line_of(span.start), file.line_of(span.end - 1));
    let aligned = file.lines()[first].trimmed.start == span.start
        && file.lines()[last].trimmed.end == span.end;
    if count == 1 {
        let whole = aligned && first == last;
        let part = (first == last).then(|| Candidate::part(span));
        return if whole { Some(search.block(first, 1)) } else { part };
    }
    let first = first.checked_sub(blank(&search.old, |line| line))?;
    let last = last + blank(&search.old, |line| count - 1 - line);
    let fits = aligned && last < file.lines().len() && last - first + 1 == count;
    // outer lines that are blank in one are blank in the other
    let outer = |line: &usize| search.old.is_blank(*line);
    let alike = || (0..count).take_while(outer).all(|line| file.is_blank(first + line));
    let alike_below = || (0..count).rev().take_while(outer).all(|line| file.is_blank(first + line));
    (fits && alike() && alike_below()).then(|| search.block(first, count))
}

/// How many lines in the given order are blank before one that is not.
fn blank(source: &Source<'_>, nth: impl Fn(usize) -> usize) -> usize {
    (0..source.lines().len()).take_while(|line| source.is_blank(nth(*line))).count()
}

/// A text whose words are one blank apart, and where each byte comes from.
struct Squeezed {
    text: String,
    from: Vec<usize>,
}

impl Squeezed {
    fn new(text: &str) -> Self {
        let mut squeezed = Self { text: String::with_capacity(text.len()), from: Vec::new() };
        squeezed.from.reserve(text.len());
        let mut at = 0;
        for piece in text.split(char::is_whitespace) {
            if !piece.is_empty() {
                squeezed.push(piece, at);
            }
            at += piece.len();
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
        squeezed
    }

    fn push(&mut self, word: &str, at: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
            self.from.push(at);
        }
        self.text.push_str(word);
        self.from.extend(at..at + word.len());
    }

    /// Where a part of the squeezed text that begins and ends with a word stands in the original.
    fn span(&self, part: Span) -> Span {
        self.from[part.start]..self.from[part.end - 1] + 1
    }
}
