//! A text and its lines, worked out when first asked for.

use std::cell::OnceCell;
use std::ops::Range;

/// Bytes of a text.
pub(super) type Span = Range<usize>;

/// A line, as bytes of its text.
#[derive(Debug)]
pub(super) struct Line {
    /// Without its ending, `\n` or `\r\n`.
    pub(super) whole: Span,
    /// Without white space at both ends. Empty in a blank line.
    pub(super) trimmed: Span,
    /// Where the next line begins, or the end of the text.
    pub(super) next: usize,
}

#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    lines: OnceCell<Vec<Line>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new() }
    }

    pub(super) fn lines(&self) -> &[Line] {
        self.lines.get_or_init(|| {
            let mut start = 0;
            let pieces = self.text.split_inclusive('\n');
            pieces
                .map(|piece| {
                    let line = line(piece, start);
                    start += piece.len();
                    line
                })
                .collect()
        })
    }

    pub(super) fn whole(&self, line: usize) -> &'a str {
        &self.text[self.lines()[line].whole.clone()]
    }

    pub(super) fn trimmed(&self, line: usize) -> &'a str {
        &self.text[self.lines()[line].trimmed.clone()]
    }

    pub(super) fn is_blank(&self, line: usize) -> bool {
        self.lines()[line].trimmed.is_empty()
    }

    /// The index of the line that has the byte `at`.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.lines().partition_point(|line| line.next <= at)
    }
}

fn line(piece: &str, start: usize) -> Line {
    let whole = match piece.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => piece,
    };
    let lead = whole.len() - whole.trim_start().len();
    let trimmed = whole.trim();
    Line {
        whole: start..start + whole.len(),
        trimmed: start + lead..start + lead + trimmed.len(),
        next: start + piece.len(),
    }
}
