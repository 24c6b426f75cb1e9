//! Finds blocks by their first and last line: BlockAnchor and ContextAware.
//!
//! Both may replace lines that differ from the text searched for. So both require at least three lines, anchors that are not
//! blank, as many lines as in the text, and the same content in each ([`changed_words`]): a line that nobody has named is
//! never replaced.

use super::alike::changed_words;
use super::ids::{ABSENT, BLANK};
use super::levenshtein::likeness;
use super::search::{Candidate, Search};

/// Least similarity of the lines between the anchors, from 0 to 1.
const MIN_LIKENESS: f64 = 0.65;

/// The block most similar to the text searched for, or all blocks of equal similarity. Lines are compared in order by their
/// Levenshtein distance.
pub(super) fn block_anchor<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let (mut best, mut at) = (MIN_LIKENESS, Vec::new());
    for first in blocks(search) {
        let Some(like) = block_likeness(search, first) else { continue };
        if like > best {
            at.clear();
        }
        if like >= best {
            best = like;
            at.push(first);
        }
    }
    at.into_iter().map(|first| search.block(first, search.old.count()))
}

/// Blocks in which at least half of the lines between the anchors are equal. Lines that are blank in both do not count.
pub(super) fn context_aware<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    blocks(search)
        .filter(|first| half_equal(search, *first))
        .map(|first| search.block(first, search.old.count()))
}

/// First lines of the blocks that may be replaced.
fn blocks<'a>(search: &'a Search<'a>) -> impl Iterator<Item = usize> + 'a {
    firsts(search).filter(|first| {
        let size = search.old.count();
        closes(search, *first, size)
            && pairs(search, *first).all(|(wanted, found)| {
                search.spend(300 + 20 * (wanted.len() + found.len()))
                    && changed_words(wanted, found).is_some()
            })
    })
}

/// The lines between the anchors, those searched for beside those of the block. Lines that are blank in both are left out.
fn pairs<'a>(search: &'a Search<'a>, first: usize) -> impl Iterator<Item = (&'a str, &'a str)> {
    (1..search.old.count() - 1)
        .map(move |line| (search.old.trimmed(line), search.file.trimmed(first + line)))
        .filter(|(wanted, found)| !(wanted.is_empty() && found.is_empty()))
}

/// Lines of the file that equal the first line searched for.
fn firsts<'a>(search: &'a Search<'a>) -> impl Iterator<Item = usize> + 'a {
    let wanted = search.searched_lines();
    let anchor = match wanted {
        [first, _, .., last] if *first != BLANK && *last != BLANK => *first,
        _ => ABSENT,
    };
    let found = if anchor == ABSENT { &[] } else { search.file_lines() };
    let starts = found.iter().take(found.len().saturating_sub(2)).enumerate();
    starts
        .filter(move |(_, number)| **number == anchor)
        .map(|(line, _)| line)
        .take_while(|_| search.spend(8))
}

/// Whether the last line of the block equals the last line searched for.
fn closes(search: &Search<'_>, first: usize, size: usize) -> bool {
    let last = search.file_lines().get(first + size - 1);
    last.is_some() && last == search.searched_lines().last()
}

fn half_equal(search: &Search<'_>, first: usize) -> bool {
    let equal = pairs(search, first).filter(|(wanted, found)| wanted == found).count();
    2 * equal >= pairs(search, first).count()
}

/// Similarity of the block to the text searched for. `None` without lines in between, or if the search has no steps left.
fn block_likeness(search: &Search<'_>, first: usize) -> Option<f64> {
    let likes: Option<Vec<f64>> = pairs(search, first)
        .map(|(wanted, found)| match changed_words(wanted, found) {
            Some(0) => Some(1.0),
            _ => likeness(search, wanted, found),
        })
        .collect();
    let likes = likes.filter(|likes| !likes.is_empty())?;
    #[expect(clippy::cast_precision_loss, reason = "no file has 2^52 lines")]
    let count = likes.len() as f64;
    Some(likes.iter().sum::<f64>() / count)
}
