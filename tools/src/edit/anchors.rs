//! Blocks known by their first and last line: BlockAnchor (SPEC E3) and ContextAware (E8).
//!
//! Both take lines that were not looked for, so both ask for at least three lines, anchors that are
//! not blank, a block of (nearly) the same size, and enough likeness in between.

use super::ids::{ABSENT, BLANK};
use super::levenshtein::likeness;
use super::search::{Candidate, Search};
use super::source::Source;

/// How alike the lines between the anchors have to be, from 0 to 1.
const LIKE: f64 = 0.65;

/// E3: the block that is most like what was looked for, or all that are equally so. Its size may
/// differ by a quarter (at least one line). Lines are compared in order by their Levenshtein
/// distance; one that has no counterpart counts as unlike.
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

/// E8: a block of the same size, with at least half of the lines between the anchors equal. Where
/// both are blank does not count.
pub(super) fn context_aware<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let count = search.old.count();
    firsts(search)
        .filter(move |first| closes(search, *first, count) && half_equal(search, *first, count))
        .map(move |first| search.block(first, count))
}

/// Lines of the file that equal the first line looked for.
fn firsts<'a>(search: &'a Search<'a>) -> impl Iterator<Item = usize> + 'a {
    let wanted = search.wanted();
    let anchor = match wanted {
        [first, _, .., last] if *first != BLANK && *last != BLANK => *first,
        _ => ABSENT,
    };
    let found = if anchor == ABSENT { &[] } else { search.found() };
    let starts = found.iter().take(found.len().saturating_sub(2)).enumerate();
    starts
        .filter(move |(_, number)| **number == anchor)
        .map(|(line, _)| line)
        .take_while(|_| search.spend(8))
}

/// Whether the last line of the block equals the last line looked for.
fn closes(search: &Search<'_>, first: usize, size: usize) -> bool {
    let last = search.found().get(first + size - 1);
    last.is_some() && last == search.wanted().last()
}

fn half_equal(search: &Search<'_>, first: usize, count: usize) -> bool {
    let between = first + 1..first + count - 1;
    if !search.spend(4 * count) {
        return false;
    }
    let (mut counted, mut equal) = (0, 0);
    for (wanted, found) in search.wanted()[1..].iter().zip(&search.found()[between]) {
        counted += usize::from(*wanted != BLANK || *found != BLANK);
        equal += usize::from(*wanted != BLANK && wanted == found);
    }
    2 * equal >= counted
}

/// How like the block is to what was looked for; `None` if that is less than `least`.
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

/// The lines between two anchors. Blank ones say nothing.
fn middle<'a>(source: &Source<'a>, first: usize, size: usize) -> Vec<&'a str> {
    let lines = first + 1..first + size - 1;
    lines.map(|line| source.trimmed(line)).filter(|line| !line.is_empty()).collect()
}

/// The likeness of the lines, in the best of the ways to leave out lines of the longer side, over
/// the number of its lines.
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
    // without any lines this is not a number, and not enough
    (like >= least).then_some(like)
}

#[expect(clippy::cast_precision_loss, reason = "no file has 2^52 lines")]
fn float(count: usize) -> f64 {
    count as f64
}
