//! Text as it stands: Simple (SPEC E1), TrimmedBoundary (E7) and MultiOccurrence (E9).

use memchr::memmem::Finder;

use super::search::{Candidate, Search};

/// E1: the exact text. Hits that overlap count: they are ambiguous as well.
pub(super) fn simple<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    occurrences(search.file.text, search.old.text, Overlap::Counts).map(Candidate::part)
}

/// E7: the text without white space around it, where there was some.
pub(super) fn trimmed_boundary<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let trimmed = search.old.text.trim();
    let wanted = if trimmed.len() < search.old.text.len() { trimmed } else { "" };
    occurrences(search.file.text, wanted, Overlap::Counts).map(Candidate::part)
}

/// E9: all exact hits, one behind the other, for `replaceAll`.
pub(super) fn multi_occurrence<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    occurrences(search.file.text, search.old.text, Overlap::Skipped).map(Candidate::part)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    Counts,
    Skipped,
}

/// Where `wanted` stands in `body`; nothing is nowhere.
pub(super) fn occurrences<'a>(
    body: &'a str,
    wanted: &str,
    overlap: Overlap,
) -> impl Iterator<Item = std::ops::Range<usize>> + 'a {
    let finder = Finder::new(wanted).into_owned();
    let first = wanted.chars().next().map_or(0, char::len_utf8);
    let step = if overlap == Overlap::Counts { first } else { wanted.len() };
    let mut from = 0;
    std::iter::from_fn(move || {
        if step == 0 {
            return None;
        }
        let at = from + finder.find(&body.as_bytes()[from..])?;
        from = at + step;
        Some(at..at + finder.needle().len())
    })
}
