//! Finds files and folders of a worktree by a few letters of their paths, on a thread of its own. What
//! git ignores is not found, links are not followed, and nothing outside of the worktree is.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use ignore::Walk;

use crate::fuzzy::Query;

/// Files and folders that are listed.
const MAX_PATHS: usize = 200_000;
/// Bytes of a path. Longer ones are left out.
const LONGEST_PATH: usize = 1_000;
/// Paths of an answer.
const MAX_FOUND: usize = 50;
/// Paths that are read, and searched, before the next look for another query.
const READ_AT_ONCE: usize = 1_000;
const SEARCHED_AT_ONCE: usize = 10_000;
/// How long a list of files is used before it is read again.
const LIST_LIFETIME: Duration = Duration::from_secs(5);
/// The time between two answers to a query, while files are still read.
const ANSWER_INTERVAL: Duration = Duration::from_millis(50);

/// The matches so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundFiles {
    pub(crate) query: String,
    /// Relative paths with `/`, also at the end of folders; the best first.
    pub(crate) paths: Vec<String>,
    /// Whether all files were searched.
    pub(crate) is_complete: bool,
}

/// A search in the background. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FileSearch {
    queries: Sender<String>,
}

impl FileSearch {
    /// `answer` is called on another thread, several times for a query if there are many files.
    pub(crate) fn start(
        worktree: PathBuf,
        answer: impl FnMut(FoundFiles) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queries, asked) = channel();
        let search = Search::new(worktree);
        let thread = std::thread::Builder::new().name("file-search".to_owned());
        thread.spawn(move || search.run(&asked, answer))?;
        Ok(Self { queries })
    }

    /// Searches for this instead of the last query.
    pub(crate) fn search(&self, query: &str) {
        // without the thread there is nothing to find
        let _ = self.queries.send(query.to_owned());
    }
}

struct Search {
    worktree: PathBuf,
    /// Reads the rest of the files.
    walk: Option<Walk>,
    read_at: Option<Instant>,
    paths: Vec<String>,
    /// The query.
    text: String,
    query: Query,
    /// The paths that were searched.
    searched: usize,
    /// The best paths, as indices, with their ranks.
    best: Vec<(Rank, usize)>,
}

/// The smallest is the best.
type Rank = (std::cmp::Reverse<i32>, usize, usize);

impl Search {
    fn new(worktree: PathBuf) -> Self {
        Self {
            worktree,
            walk: None,
            read_at: None,
            paths: Vec::new(),
            text: String::new(),
            query: Query::new(""),
            searched: 0,
            best: Vec::new(),
        }
    }

    fn run(mut self, asked: &Receiver<String>, mut answer: impl FnMut(FoundFiles)) {
        let Ok(mut query) = asked.recv() else { return };
        loop {
            self.begin(&query, Instant::now());
            let mut answered = Instant::now();
            query = loop {
                match asked.try_recv() {
                    // only the last one counts
                    Ok(query) => break asked.try_iter().last().unwrap_or(query),
                    Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => {}
                }
                if self.step() {
                    if answered.elapsed() >= ANSWER_INTERVAL {
                        answer(self.found(false));
                        answered = Instant::now();
                    }
                    continue;
                }
                answer(self.found(true));
                let Ok(query) = asked.recv() else { return };
                break asked.try_iter().last().unwrap_or(query);
            };
        }
    }

    fn begin(&mut self, query: &str, now: Instant) {
        query.clone_into(&mut self.text);
        self.query = Query::new(query);
        self.searched = 0;
        self.best.clear();
        let is_fresh = self.read_at.is_some_and(|read| now.duration_since(read) < LIST_LIFETIME);
        if self.walk.is_none() && !is_fresh {
            self.paths.clear();
            self.walk =
                Some(leftfold_files::walk(&self.worktree, &self.worktree, |_| false).0.build());
            self.read_at = Some(now);
        }
    }

    /// Reads and searches some more; answers whether there was anything.
    fn step(&mut self) -> bool {
        let mut has_worked = false;
        if let Some(walk) = &mut self.walk {
            has_worked = true;
            let mut is_over = self.paths.len() >= MAX_PATHS;
            for _ in 0..READ_AT_ONCE {
                let Some(entry) = walk.next().filter(|_| !is_over) else {
                    is_over = true;
                    break;
                };
                // what cannot be read cannot be named
                let path = entry.ok().and_then(|entry| path_of(&entry, &self.worktree));
                self.paths.extend(path);
            }
            if is_over {
                self.walk = None;
            }
        }
        let end = self.paths.len().min(self.searched + SEARCHED_AT_ONCE);
        let new = &self.paths[self.searched..end];
        if !new.is_empty() {
            has_worked = true;
            let from = self.searched;
            let is_empty = self.query.is_empty();
            let rank = |index: usize, score| {
                let path = &self.paths[index];
                let depth = path.trim_end_matches('/').matches('/').count();
                // without a query what is near comes first, and with one what is short
                let order = if is_empty { depth } else { path.len() };
                ((std::cmp::Reverse(score), order, index), index)
            };
            let hits = self.query.search(new).into_iter();
            let ranked: Vec<_> = hits.map(|hit| rank(from + hit.index, hit.score)).collect();
            self.best.extend(ranked);
            self.best.sort_unstable();
            self.best.truncate(MAX_FOUND);
            self.searched = end;
        }
        has_worked
    }

    fn found(&self, is_complete: bool) -> FoundFiles {
        let paths = self.best.iter().map(|(_, index)| self.paths[*index].clone()).collect();
        FoundFiles { query: self.text.clone(), paths, is_complete }
    }
}

/// Whether a mention in a prompt ends here.
pub(crate) fn ends_mention(c: char) -> bool {
    c.is_whitespace() || "`,;\"'()<>[]{}".contains(c)
}

/// The path below the worktree, if a prompt can name it.
fn path_of(entry: &ignore::DirEntry, worktree: &Path) -> Option<String> {
    let path = entry.path().strip_prefix(worktree).ok()?.to_str()?;
    if path.is_empty() || path.len() > LONGEST_PATH {
        return None;
    }
    let ends = |c: char| c.is_control() || ends_mention(c);
    if path.contains(ends) || path.ends_with(['.', ':', '!', '?']) {
        return None;
    }
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    Some(format!("{path}{}", if is_folder { "/" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is found for a query at once.
    fn found(search: &mut Search, query: &str) -> Vec<String> {
        // the list that was read stays fresh, however long a test takes
        let now = search.read_at.unwrap_or_else(Instant::now);
        search.begin(query, now);
        while search.step() {}
        let found = search.found(true);
        assert_eq!(found.query, query);
        found.paths
    }

    fn worktree(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn files_and_folders_are_found_but_not_what_git_ignores() {
        let folder = worktree(&[
            "src/main.rs", "src/parser/mod.rs", "target/debug/main", ".github/ci.yml",
            ".git/config", "notes.tmp", "a b.rs", "a\nb.rs", "[x].rs", "docs/main.md", "größe.rs",
        ]);
        std::fs::write(folder.path().join(".gitignore"), "target\n*.tmp\n").unwrap();
        let outside = worktree(&["secret-main.rs"]);
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let mut search = Search::new(folder.path().to_owned());
        let mut all = found(&mut search, "");
        assert_eq!(all[..3].iter().filter(|path| path.matches('/').count() > 1).count(), 0);
        all.sort();
        assert_eq!(
            all,
            [
                ".github/", ".github/ci.yml", ".gitignore", "docs/", "docs/main.md", "größe.rs",
                "link", "src/", "src/main.rs", "src/parser/", "src/parser/mod.rs",
            ]
        );
        assert_eq!(found(&mut search, "main")[..], ["src/main.rs", "docs/main.md"]);
        assert_eq!(found(&mut search, "parsmod"), ["src/parser/mod.rs"]);
        assert_eq!(found(&mut search, "größe"), ["größe.rs"]);
        assert_eq!(found(&mut search, "../"), Vec::<String>::new());
        assert_eq!(found(&mut search, "secret"), Vec::<String>::new());
    }

    #[test]
    fn the_best_of_many_are_kept() {
        let mut search = Search::new(PathBuf::from("/nonexistent"));
        search.paths = (0..120_000).map(|n| format!("folder{}/file{n}.rs", n / 100)).collect();
        search.read_at = Some(Instant::now());
        let all = found(&mut search, "file119999rs");
        assert_eq!(all, ["folder1199/file119999.rs"]);
        assert_eq!(found(&mut search, "file").len(), MAX_FOUND);
        assert_eq!(found(&mut search, "").len(), MAX_FOUND);
    }

    #[test]
    fn a_new_query_replaces_the_last_one() {
        let folder = worktree(&["one.rs", "two.rs"]);
        let (sender, answers) = channel();
        let search = FileSearch::start(folder.path().to_owned(), move |found| {
            let _ = sender.send(found);
        })
        .unwrap();
        for query in ["x", "o", "one"] {
            search.search(query);
        }
        let last = answers.iter().find(|found| found.query == "one" && found.is_complete).unwrap();
        assert_eq!(last.paths, ["one.rs"]);
        drop(search);
        // the thread has ended
        assert!(answers.iter().all(|found| found.query == "one"));
    }
}
