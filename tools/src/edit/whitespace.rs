//! WhitespaceNormalized: every run of white space counts as one blank.

use memchr::memmem;

use super::exact::{Overlap, occurrences};
use super::search::{Candidate, Search};
use super::source::{Source, Span};

/// Finds a whole line, a part of a line, or as many lines as the text searched for.
pub(super) fn whitespace_normalized<'a>(
    search: &'a Search<'a>,
) -> impl Iterator<Item = Candidate> + 'a {
    let wanted = squeezed(search.old.text);
    let hits = if may_have(search.file.text, &wanted) { hits(search, &wanted) } else { Vec::new() };
    hits.into_iter()
}

/// Whether the longest of the words occurs in the text at all.
fn may_have(text: &str, words: &str) -> bool {
    let longest = words.split(' ').max_by_key(|word| word.len()).unwrap_or_default();
    memmem::find(text.as_bytes(), longest.as_bytes()).is_some()
}

fn hits(search: &Search<'_>, wanted: &str) -> Vec<Candidate> {
    let text = squeezed(search.file.text);
    let shape = Shape::new(&search.old);
    let cost = 64 + 2 * wanted.len() + 4 * (shape.above + shape.below);
    let mut places = PositionMap::new(|| words(search.file.text));
    occurrences(&text, wanted.into(), Overlap::Counts)
        .take_while(|_| search.spend(cost))
        .filter_map(|hit| shape.place(search, places.span(hit)))
        .collect()
}

/// The position of the searched words in their lines.
struct Shape {
    lines: usize,
    /// Number of blank lines before and after the words.
    above: usize,
    below: usize,
}

impl Shape {
    fn new(source: &Source<'_>) -> Self {
        let lines = source.count();
        let above = (0..lines).take_while(|line| source.is_blank(*line)).count();
        let below = (0..lines).rev().take_while(|line| source.is_blank(*line)).count();
        Self { lines, above, below }
    }

    /// The candidate whose words span `span`.
    fn place(&self, search: &Search<'_>, span: Span) -> Option<Candidate> {
        let file = &search.file;
        let (first, last) = (file.line_of(span.start), file.line_of(span.end - 1));
        let aligned =
            file.trimmed_span(first).start == span.start && file.trimmed_span(last).end == span.end;
        if self.lines == 1 {
            let part = || if aligned { search.block(first, 1) } else { Candidate::part(span) };
            return (first == last).then(part);
        }
        let top = first.checked_sub(self.above)?;
        let bottom = last + self.below;
        let fits = aligned && bottom < file.count() && bottom - top + 1 == self.lines;
        let mut around = (top..first).chain(last + 1..=bottom);
        (fits && around.all(|line| file.is_blank(line))).then(|| search.block(top, self.lines))
    }
}

/// A text with one blank between its words.
fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for word in words(text) {
        if !squeezed.is_empty() {
            squeezed.push(' ');
        }
        squeezed.push_str(&text[word]);
    }
    squeezed
}

/// The positions of the words in a text.
fn words(text: &str) -> impl Iterator<Item = Span> {
    let mut from = 0;
    std::iter::from_fn(move || {
        from += length(text, from, true);
        let word = from..from + length(text, from, false);
        from = word.end;
        (!word.is_empty()).then_some(word)
    })
}

/// Number of bytes from `from` on that are white space, or that are not.
fn length(text: &str, from: usize, white: bool) -> usize {
    let bytes = &text.as_bytes()[from..];
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (is_white, size) = if byte.is_ascii() {
            (matches!(byte, b'\t'..=b'\r' | b' '), 1)
        } else {
            let c = text[from + at..].chars().next().unwrap_or_default();
            (c.is_whitespace(), c.len_utf8())
        };
        if is_white != white {
            break;
        }
        at += size;
    }
    at
}

/// Maps positions in a squeezed text to the original. Ask for them from left to right.
struct PositionMap<W> {
    starts: Cursor<W>,
    ends: Cursor<W>,
}

impl<W: Iterator<Item = Span>> PositionMap<W> {
    fn new(words: impl Fn() -> W) -> Self {
        Self { starts: Cursor::new(words()), ends: Cursor::new(words()) }
    }

    /// The original span of `part`, which begins and ends with (a part of) a word.
    fn span(&mut self, part: Span) -> Span {
        self.starts.original(part.start)..self.ends.original(part.end - 1) + 1
    }
}

struct Cursor<W> {
    words: W,
    word: Span,
    /// Position in the squeezed text.
    start: usize,
}

impl<W: Iterator<Item = Span>> Cursor<W> {
    fn new(mut words: W) -> Self {
        let word = words.next().unwrap_or_default();
        Self { words, word, start: 0 }
    }

    fn original(&mut self, at: usize) -> usize {
        while at >= self.start + self.word.len() {
            let Some(next) = self.words.next() else { break };
            self.start += self.word.len() + 1;
            self.word = next;
        }
        self.word.start + (at - self.start).min(self.word.len())
    }
}
