//! Keeps the newest files of a search, in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// A file's position in the results: newest first, then by path.
pub(crate) type FileRank = (Reverse<SystemTime>, PathBuf);

/// Keeps the files needed for the first `limit` results. A file has any number of results, which
/// stay together. A file is dropped when `limit` results of newer files precede it.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    limit: usize,
    files: BTreeMap<FileRank, Vec<T>>,
    /// Number of results in `files`.
    kept: usize,
    /// Number of results ever added.
    seen: usize,
}

impl<T> Newest<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, files: BTreeMap::new(), kept: 0, seen: 0 }
    }

    /// Adds the results of a file. More than `limit + 1` are not needed.
    pub(crate) fn add(&mut self, place: FileRank, results: Vec<T>) {
        self.seen += results.len();
        self.kept += results.len();
        self.files.insert(place, results);
        while let Some(last) = self.files.last_entry() {
            let before = self.kept - last.get().len();
            if before < self.limit {
                break;
            }
            self.kept = before;
            last.remove();
        }
    }

    /// Whether results at `place` could still matter: as one of the first results, or to show that
    /// there are more. Once there are more, results after the last kept file do not matter.
    pub(crate) fn wants(&self, place: &FileRank) -> bool {
        let last = self.files.last_key_value().map(|(last, _)| last);
        !self.more() || self.kept < self.limit || last.is_none_or(|last| place < last)
    }

    /// Whether there were more results than `limit`.
    pub(crate) fn more(&self) -> bool {
        self.seen > self.limit
    }

    /// Number of all results that were added.
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// The first `limit` results, by file.
    pub(crate) fn into_first(self) -> Vec<(PathBuf, Vec<T>)> {
        let mut left = self.limit;
        let mut first = Vec::new();
        for ((_, path), mut results) in self.files {
            results.truncate(left);
            left -= results.len();
            first.push((path, results));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(age: u64, name: &str) -> FileRank {
        (Reverse(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 - age)), name.into())
    }

    /// The results shown for files of `(age, name, results)`, and whether there are more.
    fn first(limit: usize, files: &[(u64, &str, usize)], skip: bool) -> (String, bool) {
        let mut newest = Newest::new(limit);
        for (age, name, results) in files {
            if !skip || newest.wants(&place(*age, name)) {
                newest.add(place(*age, name), vec![(); *results]);
            }
        }
        let more = newest.more();
        let shown = newest.into_first().iter().fold(String::new(), |text, (path, results)| {
            format!("{text}{}{} ", path.display(), results.len())
        });
        (shown.trim_end().to_owned(), more)
    }

    #[test]
    fn the_first_results_whatever_the_order_of_finding() {
        let files = [(3, "d", 2), (1, "b", 3), (2, "c", 1), (1, "a", 1), (4, "e", 9)];
        for (limit, expected, more) in [
            (1, "a1", true),
            (4, "a1 b3", true),
            (5, "a1 b3 c1", true),
            (6, "a1 b3 c1 d1", true),
            (15, "a1 b3 c1 d2 e8", true),
            (16, "a1 b3 c1 d2 e9", false),
            (99, "a1 b3 c1 d2 e9", false),
        ] {
            for turn in 0..files.len() {
                let mut order = files;
                order.rotate_left(turn);
                assert_eq!(first(limit, &order, false), (expected.to_owned(), more), "{limit}");
                assert_eq!(first(limit, &order, true), (expected.to_owned(), more), "{limit}");
                order.reverse();
                assert_eq!(first(limit, &order, true), (expected.to_owned(), more), "{limit}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_old_files_are_soon_unwanted() {
        let mut newest = Newest::new(100);
        for age in 0..1_000 {
            newest.add(place(age, "x"), vec![(); 7]);
            assert!(newest.kept < 107 && newest.files.len() < 101);
        }
        assert!(!newest.wants(&place(900, "x")));
        assert!(newest.wants(&place(0, "a")));
        assert_eq!(newest.seen(), 7_000);
    }
}
