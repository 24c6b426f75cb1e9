//! The indentation of the place instead of the one that a model gave.

use super::lines::indent;
use super::search::{Candidate, Search};

/// What turns the indentation of the text searched for into that of the place, by the same rule in each of its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// Replaces this beginning by that one.
    Prefix(String, String),
    /// Replaces each of these units by that one, such as four blanks by a tab.
    Unit(String, String),
}

impl Shift {
    /// `None` if the place is not as many whole lines, if both have the same indentation, or if no rule holds for each line. A
    /// text that is not indented at all may have been shortened to what matters, so it is inserted as given.
    pub(super) fn for_candidate(search: &Search<'_>, place: &Candidate) -> Option<Self> {
        let (file, old) = (&search.file, &search.old);
        let first = file.line_of(place.span.start);
        if !place.lines || first + old.count() > file.count() {
            return None;
        }
        let indents = (0..old.count())
            .filter(|line| !old.is_blank(*line))
            .map(|line| (indent(old, line), indent(file, first + line)));
        let indents: Vec<(&str, &str)> = indents.collect();
        let (given, there) = *indents.iter().min_by_key(|(given, _)| given.len())?;
        if indents.iter().all(|(given, there)| given == there) {
            return None;
        }
        let prefix = (!given.is_empty()).then(|| Self::Prefix(given.to_owned(), there.to_owned()));
        let unit = unit(&indents).map(|(given, there)| Self::Unit(given, there));
        let holds = |shift: &Self| {
            indents.iter().all(|(given, there)| shift.indent(given).as_deref() == Some(*there))
        };
        [prefix, unit].into_iter().flatten().find(holds)
    }

    /// The indentation of the file for a line that was given with this one. `None` if the rule says nothing of it.
    fn indent(&self, given: &str) -> Option<String> {
        match self {
            Self::Prefix(from, to) => Some(format!("{to}{}", given.strip_prefix(from.as_str())?)),
            Self::Unit(from, to) => {
                let count = given.len() / from.len();
                (from.repeat(count) == given).then(|| to.repeat(count))
            }
        }
    }

    /// The text with the indentation of the place. Lines for which there is no rule stay as they are.
    pub(super) fn apply(&self, text: &str) -> String {
        let line = |line: &str| {
            let rest = line.trim_start_matches([' ', '\t']);
            let given = &line[..line.len() - rest.len()];
            let indent = if rest.trim().is_empty() { None } else { self.indent(given) };
            indent.map_or(line.to_owned(), |indent| indent + rest)
        };
        text.split_inclusive('\n').map(line).collect()
    }
}

/// The smallest indentation that stands for another one, such as four blanks for a tab.
fn unit(indents: &[(&str, &str)]) -> Option<(String, String)> {
    let both = indents.iter().filter(|(given, there)| !given.is_empty() && !there.is_empty());
    let (given, there) = both.min_by_key(|(given, _)| given.len())?;
    let level = gcd(given.len(), there.len());
    Some((given[..given.len() / level].to_owned(), there[..there.len() / level].to_owned()))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
