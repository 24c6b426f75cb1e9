//! A text and its lines, split when first needed.

use std::cell::OnceCell;
use std::ops::Range;

use memchr::memchr_iter;

/// A range of bytes of a text.
pub(super) type Span = Range<usize>;

/// Longest text, in bytes, that can be split into lines.
pub(super) const LONGEST: usize = u32::MAX as usize;

/// A line, as bytes of its text. There may be a million of them, so they are kept small.
#[derive(Debug)]
struct Line {
    start: u32,
    /// End of the line, without its ending (`\n` or `\r\n`).
    end: u32,
    /// The line without white space at both ends; empty for a blank line.
    trimmed: Range<u32>,
}

#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    lines: OnceCell<Vec<Line>>,
}

impl<'a> Source<'a> {
    /// Wraps `text`, which may have at most [`LONGEST`] bytes.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new() }
    }

    fn lines(&self) -> &[Line] {
        self.lines.get_or_init(|| {
            let bytes = self.text.as_bytes();
            let mut lines = Vec::with_capacity(memchr_iter(b'\n', bytes).count() + 1);
            let mut start = 0;
            for end in memchr_iter(b'\n', bytes) {
                lines.push(line(self.text, start..end, true));
                start = end + 1;
            }
            if start < bytes.len() {
                lines.push(line(self.text, start..bytes.len(), false));
            }
            lines
        })
    }

    /// Number of lines.
    pub(super) fn count(&self) -> usize {
        self.lines().len()
    }

    pub(super) fn whole_span(&self, line: usize) -> Span {
        let Line { start, end, .. } = &self.lines()[line];
        wide(*start)..wide(*end)
    }

    pub(super) fn trimmed_span(&self, line: usize) -> Span {
        let Line { trimmed, .. } = &self.lines()[line];
        wide(trimmed.start)..wide(trimmed.end)
    }

    pub(super) fn whole(&self, line: usize) -> &'a str {
        &self.text[self.whole_span(line)]
    }

    pub(super) fn trimmed(&self, line: usize) -> &'a str {
        &self.text[self.trimmed_span(line)]
    }

    pub(super) fn is_blank(&self, line: usize) -> bool {
        self.lines()[line].trimmed.is_empty()
    }

    /// The index of the line that contains the byte `at`.
    pub(super) fn line_of(&self, at: usize) -> usize {
        match self.lines.get() {
            Some(lines) => lines.partition_point(|line| wide(line.start) <= at).saturating_sub(1),
            // for one position no table is needed
            None => memchr_iter(b'\n', &self.text.as_bytes()[..at]).count(),
        }
    }

    /// End of the line that contains the byte `at`, including its ending.
    pub(super) fn end_of_line(&self, at: usize) -> usize {
        let end = memchr::memchr(b'\n', &self.text.as_bytes()[at..]);
        end.map_or(self.text.len(), |end| at + end + 1)
    }
}

fn wide(at: u32) -> usize {
    at as usize
}

fn narrow(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The line at `span`, which excludes its `\n`, if it has one.
fn line(text: &str, span: Span, ended: bool) -> Line {
    let bytes = &text.as_bytes()[span.clone()];
    let cut = usize::from(ended && bytes.last() == Some(&b'\r'));
    let whole = span.start..span.end - cut;
    let trimmed = trimmed(text, whole.clone());
    Line {
        start: narrow(whole.start),
        end: narrow(whole.end),
        trimmed: narrow(trimmed.start)..narrow(trimmed.end),
    }
}

fn trimmed(text: &str, whole: Span) -> Span {
    let bytes = &text.as_bytes()[whole.clone()];
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let lead = bytes.iter().take_while(blank).count();
    let trail = bytes[lead..].iter().rev().take_while(blank).count();
    let rest = &bytes[lead..bytes.len() - trail];
    // most lines end here; others may have Unicode white space
    match (rest.first(), rest.last()) {
        (None, None) => whole.end..whole.end,
        (Some(first), Some(last)) if first.is_ascii_graphic() && last.is_ascii_graphic() => {
            whole.start + lead..whole.end - trail
        }
        _ => {
            let line = &text[whole.clone()];
            let start = whole.end - line.trim_start().len();
            start..start + line.trim().len()
        }
    }
}
