//! Exact matches: Simple, TrimmedBoundary and MultiOccurrence.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;

use super::search::{Candidate, Search};

/// E1: the exact text. Overlapping matches count, because they are ambiguous too.
pub(super) fn simple<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    occurrences(search.file.text, search.old.text.into(), Overlap::Counts).map(Candidate::part)
}

/// E7: the text without the white space around it, if it had any.
pub(super) fn trimmed_boundary<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let trimmed = search.old.text.trim();
    let wanted = if trimmed.len() < search.old.text.len() { trimmed } else { "" };
    occurrences(search.file.text, wanted.into(), Overlap::Counts).map(Candidate::part)
}

/// E9: all exact matches without overlaps, for `replaceAll`.
pub(super) fn multi_occurrence<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    occurrences(search.file.text, search.old.text.into(), Overlap::Skipped).map(Candidate::part)
}

/// Whether the candidate's text occurs nowhere else in the file.
pub(super) fn is_unique(search: &Search<'_>, candidate: &Candidate) -> bool {
    let text = &search.file.text[candidate.span.clone()];
    occurrences(search.file.text, text.into(), Overlap::Counts).nth(1).is_none()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    Counts,
    Skipped,
}

/// The positions of `wanted` in `body`. An empty text has none.
pub(super) fn occurrences<'a>(
    body: &'a str,
    wanted: Cow<'a, str>,
    overlap: Overlap,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let first = wanted.chars().next().map_or(0, char::len_utf8);
    let step = if overlap == Overlap::Counts { first } else { wanted.len() };
    let mut needle = Needle::new(wanted);
    let mut from = 0;
    std::iter::from_fn(move || {
        if step == 0 {
            return None;
        }
        let at = from + needle.find(&body.as_bytes()[from..])?;
        from = at + step;
        Some(at..at + needle.text.len())
    })
}

/// Bytes of a long text that are searched for before the rest is compared.
const START: usize = 64;

/// Bytes compared without a match before a long text is searched for as a whole.
const IN_VAIN: usize = 8 << 20;

/// A text to search for. Preparing the search for a long text takes longer than the search, so only
/// its start is searched for, unless that start turns out to be everywhere.
struct Needle<'a> {
    text: Cow<'a, str>,
    start: Finder<'static>,
    whole: Option<Finder<'static>>,
    in_vain: usize,
}

impl<'a> Needle<'a> {
    fn new(text: Cow<'a, str>) -> Self {
        let start = &text.as_bytes()[..text.len().min(START)];
        Self { start: Finder::new(start).into_owned(), whole: None, in_vain: 0, text }
    }

    fn find(&mut self, body: &[u8]) -> Option<usize> {
        let text = self.text.as_bytes();
        let mut from = 0;
        while self.whole.is_none() {
            let at = from + self.start.find(&body[from..])?;
            let found = body.get(at..at + text.len())?;
            if found == text {
                return Some(at);
            }
            from = at + 1;
            self.in_vain += text.len();
            if self.in_vain > IN_VAIN {
                self.whole = Some(Finder::new(text).into_owned());
            }
        }
        let found = self.whole.as_ref()?.find(&body[from..])?;
        Some(from + found)
    }
}
