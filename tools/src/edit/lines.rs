//! Whole lines that differ at their ends: LineTrimmed (SPEC E2) and IndentationFlexible (E5).

use super::search::{Candidate, Search};
use super::source::Source;

/// E2: lines that are equal without the white space at both of their ends.
pub(super) fn line_trimmed<'a>(search: &'a Search<'a>) -> impl Iterator<Item = Candidate> + 'a {
    let wanted = wanted(search, |source, line| source.trimmed(line));
    let count = wanted.len();
    let lines = search.file.lines().len();
    runs(lines, |line| search.file.trimmed(line), wanted)
        .map(move |first| search.block(first, count))
}

/// E5: lines that are equal once the indentation common to all of them is taken off on both sides.
/// Blank lines are alike whatever white space they have.
pub(super) fn indentation_flexible<'a>(
    search: &'a Search<'a>,
) -> impl Iterator<Item = Candidate> + 'a {
    let wanted = wanted(search, unindented);
    let count = wanted.len();
    let shift = common_indent(&search.old, 0, count);
    let lines = search.file.lines().len();
    runs(lines, |line| unindented(&search.file, line), wanted)
        .take_while(move |_| search.spend(8 * count))
        .filter(move |first| indented_alike(search, *first, count, shift))
        .map(move |first| search.block(first, count))
}

const INDENT: [char; 2] = [' ', '\t'];

/// The lines looked for; none if all of them are blank.
fn wanted<'a>(search: &Search<'a>, text: impl Fn(&Source<'a>, usize) -> &'a str) -> Vec<&'a str> {
    let lines = if search.is_blank() { 0 } else { search.old.lines().len() };
    (0..lines).map(|line| text(&search.old, line)).collect()
}

fn unindented<'a>(source: &Source<'a>, line: usize) -> &'a str {
    if source.is_blank(line) { "" } else { source.whole(line).trim_start_matches(INDENT) }
}

fn indent<'a>(source: &Source<'a>, line: usize) -> &'a str {
    let whole = source.whole(line);
    &whole[..whole.len() - whole.trim_start_matches(INDENT).len()]
}

/// Bytes of the least indentation among lines that are not blank.
fn common_indent(source: &Source<'_>, first: usize, count: usize) -> usize {
    let lines = (first..first + count).filter(|line| !source.is_blank(*line));
    lines.map(|line| indent(source, line).len()).min().unwrap_or(0)
}

fn indented_alike(search: &Search<'_>, first: usize, count: usize, shift: usize) -> bool {
    let own = common_indent(&search.file, first, count);
    (0..count)
        .filter(|line| !search.old.is_blank(*line))
        .all(|line| indent(&search.old, line)[shift..] == indent(&search.file, first + line)[own..])
}

/// Where `needle` begins among the `length` things of `hay`, overlapping hits included, in linear time
/// (Knuth, Morris, Pratt).
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

/// For each prefix, the length of the longest shorter one that is also its end.
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
