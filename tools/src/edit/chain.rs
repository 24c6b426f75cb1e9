//! Runs the ten matching strategies in order, and decides whether a match counts.

use std::borrow::Cow;

use super::search::{Candidate, Candidates, Search};
use super::{alike, anchors, escapes, exact, lines, whitespace};

leftfold_events::named! {
    /// A way to find the text to replace, in the order in which they are tried. The names are those of `metadata.strategy`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Strategy {
        Simple = "simple",
        LineTrimmed = "line_trimmed",
        BlockAnchor = "block_anchor",
        WhitespaceNormalized = "whitespace_normalized",
        IndentationFlexible = "indentation_flexible",
        EscapeNormalized = "escape_normalized",
        TrimmedBoundary = "trimmed_boundary",
        ContextAware = "context_aware",
        MultiOccurrence = "multi_occurrence",
        Folded = "folded",
    }
}

/// Most places that an error lists.
const NAMED: usize = 1_000;

impl Strategy {
    /// How the match differs from the text, for the model. `None` for exact matches.
    pub(super) fn leniency(self) -> Option<&'static str> {
        match self {
            Self::Simple | Self::MultiOccurrence => None,
            Self::LineTrimmed => Some("apart from white space at the ends of its lines"),
            Self::BlockAnchor => Some("by its first and last line, with similar lines between"),
            Self::Folded => Some("apart from typographic characters and Unicode normalization"),
            Self::WhitespaceNormalized => Some("apart from the amount of white space"),
            Self::IndentationFlexible => Some("apart from its indentation"),
            Self::EscapeNormalized => Some("apart from backslash escapes"),
            Self::TrimmedBoundary => Some("apart from white space around it"),
            Self::ContextAware => {
                Some("by its first and last line, with half of the lines between")
            }
        }
    }

    /// Whether a match may have other words than the text searched for. One such place can be shown to the model, many
    /// could not.
    fn changes_words(self) -> bool {
        matches!(self, Self::BlockAnchor | Self::ContextAware)
    }

    /// All candidates from the top of the file down, including overlapping ones. Computed lazily.
    fn candidates<'a>(self, search: &'a Search<'a>) -> Candidates<'a> {
        match self {
            Self::Simple => Box::new(exact::simple(search)),
            Self::LineTrimmed => Box::new(lines::line_trimmed(search)),
            Self::BlockAnchor => Box::new(anchors::block_anchor(search)),
            Self::WhitespaceNormalized => Box::new(whitespace::whitespace_normalized(search)),
            Self::IndentationFlexible => Box::new(lines::indentation_flexible(search)),
            Self::EscapeNormalized => escapes::escape_normalized(search),
            Self::TrimmedBoundary => Box::new(exact::trimmed_boundary(search)),
            Self::ContextAware => Box::new(anchors::context_aware(search)),
            Self::MultiOccurrence => Box::new(exact::multi_occurrence(search)),
            Self::Folded => Box::new(alike::folded(search)),
        }
    }

    /// The candidates that are not empty.
    fn matches<'a>(self, search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
        search.begin();
        self.candidates(search).filter(|candidate| !candidate.span.is_empty())
    }
}

/// The places to replace.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) strategy: Strategy,
    /// In order, without overlaps.
    pub(super) places: Vec<Candidate>,
}

#[derive(Debug)]
pub(super) enum Failure {
    Nothing,
    /// Found more than once, and by no strategy exactly once.
    Several {
        strategy: Strategy,
        places: Vec<Candidate>,
    },
    /// The match is so much larger than the text searched for that it must be wrong.
    TooLarge(Candidate),
}

/// The first unique match. A match is unique if its strategy finds no other and its text occurs
/// nowhere else in the file. If a strategy's match is not unique, the next strategy is tried.
pub(super) fn unique(search: &Search<'_>) -> Result<Matches, Failure> {
    let mut several = None;
    for strategy in Strategy::ALL {
        let mut matches = strategy.matches(search);
        let Some(first) = matches.next() else { continue };
        // a strategy that gave up cannot rule out more matches
        let alone = matches.next().is_none() && !search.spent();
        if alone && (strategy == Strategy::Simple || exact::is_unique(search, &first)) {
            return guarded(search, Matches { strategy, places: vec![first] });
        }
        several.get_or_insert(strategy);
    }
    let several = several.map(|strategy| {
        let places = strategy.matches(search).take(NAMED).collect();
        Failure::Several { strategy, places }
    });
    Err(several.unwrap_or(Failure::Nothing))
}

/// All exact matches, or else all matches of the first strategy that has any and keeps all words.
pub(super) fn every(search: &Search<'_>) -> Result<Matches, Failure> {
    let others = Strategy::ALL
        .into_iter()
        .filter(|strategy| strategy.leniency().is_some() && !strategy.changes_words());
    for strategy in std::iter::once(Strategy::MultiOccurrence).chain(others) {
        let mut places: Vec<Candidate> = Vec::new();
        for found in strategy.matches(search) {
            if places.last().is_none_or(|last| last.span.end <= found.span.start) {
                places.push(found);
            }
        }
        if !places.is_empty() && !search.spent() {
            return guarded(search, Matches { strategy, places });
        }
    }
    Err(Failure::Nothing)
}

fn guarded(search: &Search<'_>, found: Matches) -> Result<Matches, Failure> {
    // an escaped text stands for more lines than it has
    let old = if found.strategy == Strategy::EscapeNormalized {
        escapes::unescaped(search.old.text)
    } else {
        Cow::Borrowed(search.old.text)
    };
    let too_large = |place: &&Candidate| is_too_large(&search.file.text[place.span.clone()], &old);
    let is_lenient = found.strategy.leniency().is_some();
    match found.places.iter().filter(|_| is_lenient).find(too_large) {
        Some(place) => Err(Failure::TooLarge(place.clone())),
        None => Ok(found),
    }
}

/// Whether `found` has so many more lines or characters than `old` that it must be wrong.
fn is_too_large(found: &str, old: &str) -> bool {
    let lines = |text: &str| text.lines().count();
    let chars = |text: &str| text.trim().chars().count();
    let (wanted_lines, wanted_chars) = (lines(old), chars(old));
    lines(found) >= (wanted_lines + 3).max(2 * wanted_lines)
        || chars(found) > (wanted_chars + 500).max(4 * wanted_chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_may_have_few_more_lines_or_characters() {
        let text = |lines: usize| "a\n".repeat(lines);
        for (old, found, refused) in [
            (1, 3, false),
            (1, 4, true),
            (3, 5, false),
            (3, 6, true),
            (8, 15, false),
            (8, 16, true),
        ] {
            assert_eq!(is_too_large(&text(found), &text(old)), refused, "{old} {found}");
        }
        for (old, found, refused) in
            [(1, 501, false), (1, 502, true), (300, 1_200, false), (300, 1_201, true)]
        {
            assert_eq!(
                is_too_large(&"x".repeat(found), &"x".repeat(old)),
                refused,
                "{old} {found}"
            );
        }
    }
}
