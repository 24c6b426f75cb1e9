//! Finds where in a file a run of lines occurs.

use crate::fold;

/// Strictness of a line comparison. The first that finds a match is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strictness {
    Exact,
    /// Ignores white space at the end.
    End,
    /// Ignores white space at both ends.
    Ends,
    /// Also ignores Unicode normalization, and treats typographic dashes, quotes and spaces as plain ones.
    Folded,
}

const PASSES: [Strictness; 4] =
    [Strictness::Exact, Strictness::End, Strictness::Ends, Strictness::Folded];

impl Strictness {
    pub(super) fn agree(self, a: &str, b: &str) -> bool {
        match self {
            Self::Exact => a == b,
            Self::End => a.trim_end() == b.trim_end(),
            Self::Ends => a.trim() == b.trim(),
            Self::Folded => fold::folded(a.trim()) == fold::folded(b.trim()),
        }
    }

    /// A note for people and models. `None` for an exact match.
    pub(super) fn remark(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::End => Some("white space at the end of lines differs from the patch"),
            Self::Ends => Some("indentation differs from the patch"),
            Self::Folded => {
                Some("typographic characters or Unicode normalization differ from the patch")
            }
        }
    }
}

/// The matches of `wanted`, by the strictest comparison that has any.
pub(super) struct HunkPlaces<'a> {
    pub(super) lines: &'a [&'a str],
    pub(super) wanted: &'a [&'a str],
    /// Whether the hunk may be placed at an index.
    pub(super) free: &'a dyn Fn(usize) -> bool,
}

impl HunkPlaces<'_> {
    pub(super) fn first(&self, from: usize) -> Option<(usize, Strictness)> {
        let found = |pass: Strictness| self.all(from, pass).next().map(|at| (at, pass));
        PASSES.into_iter().find_map(found)
    }

    /// The only match. `Err` holds the first two of several.
    pub(super) fn only(&self, from: usize) -> Result<Option<(usize, Strictness)>, (usize, usize)> {
        for pass in PASSES {
            let mut all = self.all(from, pass);
            match (all.next(), all.next()) {
                (None, _) => {}
                (Some(at), None) => return Ok(Some((at, pass))),
                (Some(first), Some(second)) => return Err((first, second)),
            }
        }
        Ok(None)
    }

    /// A match at `at` only.
    pub(super) fn at(&self, at: usize) -> Option<(usize, Strictness)> {
        PASSES.into_iter().find(|pass| self.stands(at, *pass)).map(|pass| (at, pass))
    }

    fn all(&self, from: usize, pass: Strictness) -> impl Iterator<Item = usize> {
        let end = (self.lines.len() + 1).saturating_sub(self.wanted.len());
        (from..end).filter(move |at| self.stands(*at, pass))
    }

    fn stands(&self, at: usize, pass: Strictness) -> bool {
        let there = self.lines.get(at..at + self.wanted.len());
        there.is_some_and(|there| {
            there.iter().zip(self.wanted).all(|(line, wanted)| pass.agree(line, wanted))
        }) && (self.free)(at)
    }
}

/// The first line from `from` on that matches a header: an equal line, or else a line that begins
/// with the header or contains it.
pub(super) fn header(lines: &[&str], header: &str, from: usize) -> Option<usize> {
    let wanted = [header];
    let whole = HunkPlaces { lines, wanted: &wanted, free: &|_| true };
    if let Some((at, _)) = whole.first(from) {
        return Some(at);
    }
    if whole.first(0).is_some() {
        return None;
    }
    let rest = || lines.iter().enumerate().skip(from).map(|(at, line)| (at, line.trim()));
    let begins = rest().find(|(_, line)| line.starts_with(header));
    begins.or_else(|| rest().find(|(_, line)| line.contains(header))).map(|(at, _)| at)
}

/// Index of the lines most similar to `wanted`, judged by the words that they share.
pub(super) fn nearest(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    /// Most lines of a file and of a hunk that are compared.
    const LINES: usize = 20_000;
    const WANTED: usize = 8;
    let wanted: Vec<Vec<&str>> = wanted.iter().take(WANTED).map(|line| words(line)).collect();
    let total: usize = wanted.iter().map(Vec::len).sum();
    let lines: Vec<Vec<&str>> = lines.iter().take(LINES).map(|line| words(line)).collect();
    let score = |at: usize| -> usize {
        let there = lines.iter().skip(at);
        let shared = |(wanted, line): (&Vec<&str>, &Vec<&str>)| {
            let some = wanted.iter().filter(|word| line.contains(word)).count();
            // a line with all words and no other counts twice
            if some == line.len() && some == wanted.len() { some * 2 } else { some }
        };
        wanted.iter().zip(there).map(shared).sum()
    };
    let best = (0..lines.len()).map(|at| (score(at), at));
    let (score, at) = best.max_by(|(a, i), (b, j)| a.cmp(b).then(j.cmp(i)))?;
    (score * 3 > total).then_some(at)
}

fn words(line: &str) -> Vec<&str> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).take(30).collect()
}
