//! Finds whole lines that differ only in white space: LineTrimmed and IndentationFlexible.

use super::search::{Candidate, Search};
use super::source::Source;

/// E2: lines that are equal without white space at both ends.
pub(super) fn line_trimmed<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let count = search.searched_lines().len();
    alike(search).map(move |first| search.block(first, count))
}

/// E5: lines that are equal after removing the common indentation on both sides. Blank lines are
/// equal whatever white space they have.
pub(super) fn indentation_flexible<'a>(
    search: &'a Search<'a>,
) -> impl Iterator<Item = Candidate> + 'a {
    let count = search.searched_lines().len();
    let shift = common_indent(&search.old, 0, count);
    // such lines are also equal without white space at their ends
    alike(search)
        .take_while(|_| search.spend(8))
        .filter(move |first| indented_alike(search, *first, count, shift))
        .map(move |first| search.block(first, count))
}

/// Starts of runs of lines that are equal except for white space at their ends. Empty if all lines
/// are blank.
fn alike<'a>(search: &'a Search<'a>) -> impl Iterator<Item = usize> + 'a {
    let wanted = if search.is_blank() { &[] } else { search.searched_lines() };
    let found = if wanted.is_empty() { &[] } else { search.file_lines() };
    runs(found.len(), |line| found[line], wanted.to_vec())
}

const INDENT: [char; 2] = [' ', '\t'];

fn unindented<'a>(source: &Source<'a>, line: usize) -> &'a str {
    if source.is_blank(line) { "" } else { source.whole(line).trim_start_matches(INDENT) }
}

pub(super) fn indent<'a>(source: &Source<'a>, line: usize) -> &'a str {
    let whole = source.whole(line);
    &whole[..whole.len() - whole.trim_start_matches(INDENT).len()]
}

/// Smallest indentation, in bytes, of the lines that are not blank.
fn common_indent(source: &Source<'_>, first: usize, count: usize) -> usize {
    let lines = (first..first + count).filter(|line| !source.is_blank(*line));
    lines.map(|line| indent(source, line).len()).min().unwrap_or(0)
}

fn indented_alike(search: &Search<'_>, first: usize, count: usize, shift: usize) -> bool {
    let (file, old) = (&search.file, &search.old);
    let Some(line) = (0..count).find(|line| !old.is_blank(*line)) else { return false };
    // every line must be shifted by the difference of the two smallest indentations
    let Some(own) = (indent(file, first + line).len() + shift).checked_sub(indent(old, line).len())
    else {
        return false;
    };
    let alike = |line: usize| {
        let (wanted, found) = (unindented(old, line), unindented(file, first + line));
        let rest = indent(file, first + line).get(own..);
        wanted == found && rest == Some(&indent(old, line)[shift..])
    };
    (0..count)
        .filter(|line| !old.is_blank(*line))
        .all(|line| search.spend(20 + old.whole(line).len() / 8) && alike(line))
}

/// Positions of `needle` among the `length` items of `hay`, including overlapping ones, in linear
/// time (Knuth, Morris, Pratt).
pub(super) fn runs<T: PartialEq>(
    length: usize,
    hay: impl Fn(usize) -> T,
    needle: Vec<T>,
) -> impl Iterator<Item = usize> {
    let borders = borders(&needle);
    let (mut at, mut matched) = (0, 0);
    std::iter::from_fn(move || {
        while !needle.is_empty() && at < length {
            let thing = hay(at);
            while matched > 0 && (matched == needle.len() || thing != needle[matched]) {
                matched = borders[matched - 1];
            }
            if thing == needle[matched] {
                matched += 1;
            }
            at += 1;
            if matched == needle.len() {
                return Some(at - matched);
            }
        }
        None
    })
}

/// For each prefix, the length of the longest shorter prefix that is also its suffix.
fn borders<T: PartialEq>(needle: &[T]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[at] != needle[length] {
            length = borders[length - 1];
        }
        if needle[at] == needle[length] {
            length += 1;
        }
        borders[at] = length;
    }
    borders
}
