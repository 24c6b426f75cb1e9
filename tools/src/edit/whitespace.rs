//! WhitespaceNormalized (SPEC E4): every run of white space counts as one blank.

use super::exact::{Overlap, occurrences};
use super::search::{Candidate, Search};
use super::source::{Source, Span};

/// A whole line, a part of a line, or as many lines as were looked for.
pub(super) fn whitespace_normalized<'a>(
    search: &'a Search<'a>,
) -> impl Iterator<Item = Candidate> + 'a {
    let wanted = Squeezed::new(search.old.text).text;
    let file = Squeezed::new(search.file.text);
    let shape = Shape::new(&search.old);
    let cost = 64 + 2 * wanted.len() + 4 * (shape.above + shape.below);
    let hits: Vec<Candidate> = occurrences(&file.text, &wanted, Overlap::Counts)
        .take_while(|_| search.spend(cost))
        .filter_map(|hit| shape.place(search, file.span(hit)))
        .collect();
    hits.into_iter()
}

/// How the words looked for lie in their lines.
struct Shape {
    lines: usize,
    /// Blank lines before and after the words.
    above: usize,
    below: usize,
}

impl Shape {
    fn new(source: &Source<'_>) -> Self {
        let lines = source.lines().len();
        let above = (0..lines).take_while(|line| source.is_blank(*line)).count();
        let below = (0..lines).rev().take_while(|line| source.is_blank(*line)).count();
        Self { lines, above, below }
    }

    /// The candidate whose words begin and end with `span`.
    fn place(&self, search: &Search<'_>, span: Span) -> Option<Candidate> {
        let file = &search.file;
        let (first, last) = (file.line_of(span.start), file.line_of(span.end - 1));
        let aligned = file.lines()[first].trimmed.start == span.start
            && file.lines()[last].trimmed.end == span.end;
        if self.lines == 1 {
            let part = || if aligned { search.block(first, 1) } else { Candidate::part(span) };
            return (first == last).then(part);
        }
        let top = first.checked_sub(self.above)?;
        let bottom = last + self.below;
        let fits = aligned && bottom < file.lines().len() && bottom - top + 1 == self.lines;
        let mut around = (top..first).chain(last + 1..=bottom);
        (fits && around.all(|line| file.is_blank(line))).then(|| search.block(top, self.lines))
    }
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
