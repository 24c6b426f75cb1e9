//! Numbers the lines searched for, so that lines can be compared as numbers.

use std::collections::HashMap;

/// The number of every line that is not searched for.
pub(super) const ABSENT: u32 = u32::MAX;

/// The number of a line without text.
pub(super) const BLANK: u32 = 0;

/// The lines searched for, by their text. Equal lines have equal numbers.
#[derive(Debug)]
pub(super) struct Ids<'a> {
    of: HashMap<&'a str, u32>,
    /// The first bytes that occur in these lines.
    first: [bool; 256],
    longest: usize,
}

impl<'a> Ids<'a> {
    pub(super) fn new(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut ids = Self { of: HashMap::new(), first: [false; 256], longest: 0 };
        for line in lines {
            let next = u32::try_from(ids.of.len()).unwrap_or(ABSENT - 2) + 1;
            if let Some(first) = line.bytes().next() {
                ids.first[usize::from(first)] = true;
                ids.longest = ids.longest.max(line.len());
                ids.of.entry(line).or_insert(next);
            }
        }
        ids
    }

    pub(super) fn get(&self, line: &str) -> u32 {
        match line.bytes().next() {
            None => BLANK,
            Some(first) if !self.first[usize::from(first)] || line.len() > self.longest => ABSENT,
            Some(_) => self.of.get(line).copied().unwrap_or(ABSENT),
        }
    }

    /// The numbers of many lines. Runs of equal lines are cheap.
    pub(super) fn all<'t>(&self, lines: impl Iterator<Item = &'t str>) -> Vec<u32> {
        let mut last = ("", BLANK);
        lines
            .map(|line| {
                if line != last.0 {
                    last = (line, self.get(line));
                }
                last.1
            })
            .collect()
    }
}
