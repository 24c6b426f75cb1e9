//! Applies hunks to a text. Pure.
//!
//! Hunks are located in the original text. Only added and removed lines change: context that
//! matches except for white space keeps the file's spelling. Line endings, byte order mark and the
//! newline at the end (or its absence) stay as in the file.

use std::collections::{BTreeMap, BTreeSet};

use super::find::{self, HunkPlaces, Strictness};
use super::parse::{Hunk, Line};
use crate::text;

/// Most empty lines at the end of a hunk that are tried as context one by one. With more, all or
/// none are.
const MAX_LOOSE: usize = 8;

/// The reason why a hunk does not fit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HunkMismatch {
    /// Index of the hunk.
    pub(super) hunk: usize,
    pub(super) why: MismatchReason,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MismatchReason {
    /// No line matches this header.
    Header(String),
    /// The lines are missing; the index of the most similar lines, from 0.
    Lines(Option<usize>),
    /// The lines are at this index (from 0), but the file does not end after them.
    NotAtEnd(usize),
    /// The lines are missing after the previous hunk and occur twice before it (indices from 0).
    Several(usize, usize),
}

/// The text with all hunks applied, and the least strict comparison that was needed.
pub(super) fn apply(before: &str, hunks: &[Hunk]) -> Result<(String, Strictness), HunkMismatch> {
    let (bom, body) = match before.strip_prefix(text::BOM) {
        Some(body) => (text::BOM, body),
        None => ("", before),
    };
    let lines: Vec<(&str, &str)> = body.split_inclusive('\n').map(split_ending).collect();
    let texts: Vec<&str> = lines.iter().map(|(text, _)| *text).collect();
    let mut work = HunkEdits { lines: &texts, ..HunkEdits::default() };
    let mut loosest = Strictness::Exact;
    for (index, hunk) in hunks.iter().enumerate() {
        let pass = work.hunk(hunk).map_err(|why| HunkMismatch { hunk: index, why })?;
        loosest = loosest.max(pass);
    }
    Ok((format!("{bom}{}", work.written(&lines)), loosest))
}

fn split_ending(line: &str) -> (&str, &str) {
    let text = line.strip_suffix('\n').unwrap_or(line);
    // a carriage return at the very end of the file does not end a line
    let text = if text.len() < line.len() { text.strip_suffix('\r').unwrap_or(text) } else { text };
    line.split_at(text.len())
}

/// Changes to a file's lines, collected before any is applied.
#[derive(Default)]
struct HunkEdits<'a> {
    lines: &'a [&'a str],
    removed: BTreeSet<usize>,
    /// Added lines, by the index of the line that they precede.
    added: BTreeMap<usize, Vec<&'a str>>,
    /// The line after the previous hunk.
    cursor: usize,
}

impl<'a> HunkEdits<'a> {
    fn hunk(&mut self, hunk: &'a Hunk) -> Result<Strictness, MismatchReason> {
        let mut missed = None;
        // empty lines at the end count as context first, as the format requires
        for loose in (0..hunk.loose.min(MAX_LOOSE)).chain([hunk.loose]) {
            let lines = &hunk.lines[..hunk.lines.len() - loose];
            let old: Vec<&str> = lines.iter().filter_map(Line::old).collect();
            if old.len() == hunk.loose - loose {
                continue;
            }
            match self.place(hunk, &old) {
                Ok((at, pass)) => {
                    self.change(lines, at);
                    return Ok(pass);
                }
                Err(why) => missed = missed.or(Some(why)),
            }
        }
        if let Some(why) = missed {
            // an empty last line may stand for the newline at the end of the file
            return self.without_last(hunk).ok_or(why);
        }
        let at = self.insertion(hunk)?;
        self.change(&hunk.lines[..hunk.lines.len() - hunk.loose], at);
        Ok(Strictness::Exact)
    }

    /// Places the hunk without its empty last context line.
    fn without_last(&mut self, hunk: &'a Hunk) -> Option<Strictness> {
        let lines = &hunk.lines[..hunk.lines.len() - hunk.loose];
        let (Line::Keep(last), lines) = lines.split_last()? else { return None };
        let old: Vec<&str> = lines.iter().filter_map(Line::old).collect();
        if !last.is_empty() || old.is_empty() {
            return None;
        }
        let (at, pass) = self.place(hunk, &old).ok()?;
        // only at the end of the file is that line the final newline
        (at + old.len() == self.lines.len()).then(|| self.change(lines, at))?;
        Some(pass)
    }

    /// The index at which a hunk that only adds lines inserts them: after its header, or at the
    /// end.
    fn insertion(&mut self, hunk: &Hunk) -> Result<usize, MismatchReason> {
        let after = self.headers(hunk, self.cursor).or_else(|why| {
            let again = self.headers(hunk, 0);
            again.map_err(|_| why)
        })?;
        Ok(match after {
            Some(header) if !hunk.at_end => header + 1,
            _ => self.lines.len(),
        })
    }

    fn place(&self, hunk: &Hunk, old: &[&str]) -> Result<(usize, Strictness), MismatchReason> {
        let free = |at| self.is_free(at, old.len());
        let places = HunkPlaces { lines: self.lines, wanted: old, free: &free };
        let missing = || MismatchReason::Lines(find::nearest(self.lines, old));
        let ahead = self.headers(hunk, self.cursor);
        if hunk.at_end {
            ahead.or_else(|why| self.headers(hunk, 0).map_err(|_| why))?;
            let end = self.lines.len().checked_sub(old.len()).ok_or_else(missing)?;
            let elsewhere =
                || places.first(0).map_or_else(missing, |(at, _)| MismatchReason::NotAtEnd(at));
            return places.at(end).ok_or_else(elsewhere);
        }
        let found = match &ahead {
            Ok(None) => places.first(self.cursor),
            // some models repeat the header as the first line of the hunk
            Ok(Some(header)) => places.first(header + 1).or_else(|| places.first(*header)),
            // the previous hunk may have passed the header already
            Err(_) if self.headers(hunk, 0).is_ok() => places.first(self.cursor),
            Err(_) => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let from = self.headers(hunk, 0)?.unwrap_or(0);
        match places.only(from) {
            Ok(found) => found.ok_or_else(missing),
            Err((first, second)) => Err(MismatchReason::Several(first, second)),
        }
    }

    /// The line of the last header. Each header is searched after the previous one.
    fn headers(&self, hunk: &Hunk, from: usize) -> Result<Option<usize>, MismatchReason> {
        let mut last = None;
        for header in &hunk.headers {
            let from = last.map_or(from, |at| at + 1);
            let at = find::header(self.lines, header, from);
            last = Some(at.ok_or_else(|| MismatchReason::Header(header.clone()))?);
        }
        Ok(last)
    }

    /// Whether the lines from `at` on are unchanged and still adjacent.
    fn is_free(&self, at: usize, count: usize) -> bool {
        self.removed.range(at..at + count).next().is_none()
            && self.added.range(at + 1..(at + count).max(at + 1)).next().is_none()
    }

    fn change(&mut self, lines: &'a [Line], at: usize) {
        let mut here = at;
        for line in lines {
            match line {
                Line::Keep(_) => here += 1,
                Line::Remove(_) => {
                    self.removed.insert(here);
                    here += 1;
                }
                Line::Add(text) => self.added.entry(here).or_default().push(text),
            }
        }
        // lines added at the end of the file do not move the position of the next hunk
        if here > at || at < self.lines.len() {
            self.cursor = here;
        }
    }

    fn written(&self, lines: &[(&str, &str)]) -> String {
        let usual = usual_ending(lines);
        let mut out: Vec<(&str, &str)> = Vec::with_capacity(lines.len());
        for at in 0..=lines.len() {
            let neighbour = at.checked_sub(1).and_then(|before| lines.get(before));
            let ending = neighbour.or_else(|| lines.first()).map_or("", |(_, ending)| ending);
            let added = self.added.get(&at).into_iter().flatten();
            out.extend(added.map(|text| (*text, ending)));
            out.extend(lines.get(at).filter(|_| !self.removed.contains(&at)));
        }
        let open_end = lines.last().is_some_and(|(_, ending)| ending.is_empty());
        let last = out.len().saturating_sub(1);
        let mut text = String::new();
        for (at, (line, ending)) in out.into_iter().enumerate() {
            text += line;
            text += match ending {
                _ if at == last && open_end => "",
                "" => usual,
                ending => ending,
            };
        }
        text
    }
}

/// CRLF if most lines end in it.
fn usual_ending(lines: &[(&str, &str)]) -> &'static str {
    let crlf = lines.iter().filter(|(_, ending)| *ending == "\r\n").count();
    let lf = lines.iter().filter(|(_, ending)| *ending == "\n").count();
    if crlf > lf { "\r\n" } else { "\n" }
}
