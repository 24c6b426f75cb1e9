//! Finds blocks by their first and last line: BlockAnchor and ContextAware.
//!
//! Both replace lines that differ from the text searched for. So both require at least three lines,
//! anchors that are not blank, a block of nearly the expected size, and enough similarity in
//! between.

use super::ids::{ABSENT, BLANK};
use super::levenshtein::likeness;
use super::search::{Candidate, Search};
use super::source::Source;

/// Least similarity of the lines between the anchors, from 0 to 1.
const LIKE: f64 = 0.65;

/// E3: the block most similar to the text searched for, or all blocks of equal similarity. Its size
/// may differ by a quarter (at least one line). Lines are compared in order by their Levenshtein
/// distance; a line without a counterpart counts as dissimilar.
pub(super) fn block_anchor<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let count = search.old.count();
    let spread = (count / 4).max(1);
    let sizes = count.saturating_sub(spread).max(3)..=count + spread;
    let (mut best, mut at) = (LIKE, Vec::new());
    for first in firsts(search) {
        for size in sizes.clone() {
            if !search.spend(8) || first + size > search.file.count() {
                break;
            }
            let Some(like) = block_likeness(search, first, size, best) else { continue };
            if like > best {
                at.clear();
            }
            best = like;
            at.push((first, size));
        }
    }
    at.into_iter().map(|(first, size)| search.block(first, size))
}

/// E8: a block of equal size in which at least half of the lines between the anchors are equal.
/// Lines that are blank in both do not count.
pub(super) fn context_aware<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let count = search.old.count();
    firsts(search)
        .filter(move |first| closes(search, *first, count) && half_equal(search, *first, count))
        .map(move |first| search.block(first, count))
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

fn half_equal(search: &Search<'_>, first: usize, count: usize) -> bool {
    let between = first + 1..first + count - 1;
    if !search.spend(4 * count) {
        return false;
    }
    let (mut counted, mut equal) = (0, 0);
    for (wanted, found) in search.searched_lines()[1..].iter().zip(&search.file_lines()[between]) {
        counted += usize::from(*wanted != BLANK || *found != BLANK);
        equal += usize::from(*wanted != BLANK && wanted == found);
    }
    2 * equal >= counted
}

/// Similarity of the block to the text searched for. `None` if it is less than `least`.
fn block_likeness(search: &Search<'_>, first: usize, size: usize, least: f64) -> Option<f64> {
    if !closes(search, first, size) {
        return None;
    }
    if !search.spend(150 + 8 * (size + search.old.count())) {
        return None;
    }
    let wanted = middle(&search.old, 0, search.old.count());
    let found = middle(&search.file, first, size);
    let (short, long) = if wanted.len() <= found.len() { (wanted, found) } else { (found, wanted) };
    aligned(search, &short, &long, least)
}

/// The lines between two anchors, without blank ones.
fn middle<'a>(source: &Source<'a>, first: usize, size: usize) -> Vec<&'a str> {
    let lines = first + 1..first + size - 1;
    lines.map(|line| source.trimmed(line)).filter(|line| !line.is_empty()).collect()
}

/// The similarity of the lines: the best alignment that leaves out lines of the longer side,
/// divided by the length of the longer side.
fn aligned(search: &Search<'_>, short: &[&str], long: &[&str], least: f64) -> Option<f64> {
    let skips = long.len() - short.len();
    let total = float(long.len());
    // sums[s]: the lines so far, with s lines of the longer side left out
    let mut sums = vec![0.0_f64; skips + 1];
    for (nth, line) in short.iter().enumerate() {
        let mut most = 0.0_f64;
        for skipped in 0..=skips {
            sums[skipped] += likeness(search, line, long[nth + skipped])?;
            if skipped > 0 {
                sums[skipped] = sums[skipped].max(sums[skipped - 1]);
            }
            most = most.max(sums[skipped]);
        }
        if most + float(short.len() - nth - 1) < least * total {
            return None;
        }
    }
    let like = sums[skips] / total;
    // without lines this is NaN, which is not enough
    (like >= least).then_some(like)
}

#[expect(clippy::cast_precision_loss, reason = "no file has 2^52 lines")]
fn float(count: usize) -> f64 {
    count as f64
}
