//! Snapshots of a worktree's files: git trees in a git directory of their own, one for each
//! worktree, below the data folder. The project's own `.git` is neither needed nor touched.
//!
//! - The first call of a turn that may change files waits for a snapshot. Another snapshot follows
//!   each step whose calls may have changed files. A step's changes are the difference of two
//!   trees, so the user's changes between turns are not among them.
//! - Changed files are found without git, through an index of sizes and times ([`index`]). A
//!   snapshot of unchanged files starts no process. Otherwise one `git fast-import` stores the
//!   changed contents and a second process compares trees.
//! - Git attributes, filters, hooks and settings have no effect. Nested repositories are ordinary
//!   folders.
//! - Ignored files, files over 2 MB, and anything but files and links are left out.
//! - A revert takes a snapshot first. It then resets each file changed by the reverted steps to its
//!   state before the first of them.
//! - Child sessions take no snapshots: their parent's snapshots include the children's changes.
//!
//! The crate never decides when to take a snapshot (`next` does) and never appends to a log.

mod git;
mod index;
mod restore;
mod scan;
mod stamp;
#[cfg(test)]
mod tests;
mod transfer;
mod versions;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use leftfold_events::Sha256;
use leftfold_events::event::FileChange;
use tokio_util::sync::CancellationToken;

pub use stamp::Mode as FileMode;
pub use transfer::{Piece, Unpacking};
pub use versions::{FileVersions, Objects, Version};

use git::Git;
use index::Index;

/// Largest file in bytes that is kept (SPEC: snapshot details).
const LARGEST: u64 = 2 << 20;
/// Most files in a worktree. Home folders have more.
const MOST_FILES: usize = 100_000;
/// Most bytes that one snapshot may add.
const MOST_BYTES: u64 = 1 << 30;
/// Most names of left-out files that are reported.
const MOST_LEFT_OUT: usize = 1_000;
/// Pause between attempts to lock a snapshot store that another process uses.
const AGAIN: Duration = Duration::from_millis(10);
const TIDY: Duration = Duration::from_secs(60 * 60);

/// The reason why there is no snapshot, or why files could not be restored. For people.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`git` was not found: install it to get snapshots of files")]
    NoGit,
    #[error("{0} is a home folder and not a project: no snapshots are taken of it")]
    NoProject(PathBuf),
    #[error("{0} holds more than {MOST_FILES} files that are not ignored: too many for a snapshot")]
    TooMany(PathBuf),
    #[error("more than 1 GiB has changed in {0}: too much for a snapshot")]
    TooLarge(PathBuf),
    #[error("cannot {act} {path}: {source}")]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    #[error("git {command} failed: {message}")]
    Git { command: &'static str, message: String },
    #[error("{path} is not written: {why}")]
    Path { path: String, why: &'static str },
    #[error("cancelled: it took too long, or its session no longer waits for it")]
    Cancelled,
}

impl Error {
    fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { act, path: path.to_owned(), source }
    }
}

/// The snapshots of one worktree.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// The git directory.
    folder: PathBuf,
    worktree: PathBuf,
    /// The data folder. It is never part of a snapshot, even if it lies in the worktree.
    data: PathBuf,
    is_project: bool,
}

/// A snapshot, and its difference from an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The git tree.
    pub tree: String,
    /// The changes since the tree `since`.
    pub files: Vec<FileChange>,
    /// Files that are missing from the snapshot though nothing ignores them.
    pub left_out: Vec<String>,
}

impl Snapshots {
    /// The snapshots of `worktree`, kept below the folder `data`.
    pub fn new(data: &Path, worktree: &Path) -> Self {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (data, worktree) = (resolved(data), resolved(worktree));
        let name = Sha256::of(worktree.as_os_str().as_encoded_bytes()).to_string();
        let folder = data.join("snapshots").join(name.get(..16).unwrap_or(&name));
        Self { folder, worktree, data, is_project: true }
    }

    /// The snapshots of a session's worktree. A worktree that is the folder `home` or the root
    /// folder is refused unless it is a repository.
    pub fn of_project(data: &Path, worktree: &Path, home: Option<&Path>) -> Self {
        let mut snapshots = Self::new(data, worktree);
        let worktree = &snapshots.worktree;
        let home = home.and_then(|home| home.canonicalize().ok());
        let whole = worktree.parent().is_none() || home.as_ref() == Some(worktree);
        snapshots.is_project = !whole || worktree.join(".git").exists();
        snapshots
    }

    /// Takes a snapshot. Blocks while it reads the changed files.
    ///
    /// # Errors
    /// Git is missing, the worktree is too large, or a file cannot be read or written.
    pub fn take(&self, since: Option<&str>, stop: &CancellationToken) -> Result<Snapshot, Error> {
        if !self.is_project {
            return Err(Error::NoProject(self.worktree.clone()));
        }
        let _lock = self.lock(stop)?;
        self.take_locked(since, stop)
    }

    /// Once an hour, drops objects that no snapshot of the last week needs (SPEC: snapshot
    /// details). The caller need not wait for the thread.
    pub fn tidy(&self) -> Option<JoinHandle<()>> {
        let stamp = self.folder.join("leftfold-tidied");
        let last = fs::metadata(&stamp).and_then(|stamp| stamp.modified());
        let is_new = last.is_err();
        if last.is_ok_and(|last| last.elapsed().is_ok_and(|age| age < TIDY)) {
            return None;
        }
        fs::write(&stamp, "").ok()?;
        let mut tidying = if is_new { None } else { Git::new(&self.folder).tidy() }?;
        let thread = std::thread::Builder::new().name("leftfold-tidy".into());
        // a failure is retried in an hour
        thread.spawn(move || drop(tidying.wait())).ok()
    }

    fn take_locked(
        &self,
        since: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        let git = Git::new(&self.folder);
        let path = self.folder.join("leftfold-index");
        let (mut index, found) = std::thread::scope(|scope| {
            let reading = std::thread::Builder::new().spawn_scoped(scope, || Index::read(&path));
            let found = scan::scan(&self.worktree, &self.data, stop);
            let index = match reading {
                Ok(reading) => reading.join().unwrap_or_default(),
                Err(_) => Index::read(&path),
            };
            (index, found)
        });
        let found = found?;
        let mut changes_found = index.compare(&self.worktree, &found)?;
        let known = index.tree.clone().filter(|_| changes_found.changes.is_empty());
        let tree = match known {
            Some(tree) => tree,
            None => match git.import(
                &self.worktree,
                index.tree.as_deref(),
                &changes_found.changes,
                stop,
            ) {
                Err(Error::Git { .. }) if index.tree.is_some() => {
                    // the tree's objects may be gone, so everything is written again
                    index = Index::default();
                    changes_found = index.compare(&self.worktree, &found)?;
                    git.import(&self.worktree, None, &changes_found.changes, stop)?
                }
                imported => imported?,
            },
        };
        let is_news = index.tree.as_deref() != Some(&tree) || changes_found.index_changed;
        index.tree = Some(tree.clone());
        let (written, files) = std::thread::scope(|scope| {
            let writing = is_news.then(|| scope.spawn(|| index.write(&path)));
            let files = match since {
                Some(since) if since != tree => git.diff(since, &tree),
                _ => Ok(Vec::new()),
            };
            let died = || Err(std::io::Error::other("it failed unexpectedly"));
            let written = writing.map_or(Ok(()), |it| it.join().unwrap_or_else(|_| died()));
            (written, files)
        });
        written.map_err(Error::io("write", &path))?;
        let files = files?;
        let mut left_out = changes_found.left_out;
        left_out.truncate(MOST_LEFT_OUT);
        Ok(Snapshot { tree, files, left_out })
    }

    /// Waits until no other process uses the snapshot store. Creates the store if it is missing.
    fn lock(&self, stop: &CancellationToken) -> Result<File, Error> {
        git::init(&self.folder).map_err(Error::io("write", &self.folder))?;
        let path = self.folder.join("leftfold-lock");
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(Error::io("open", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if stop.is_cancelled() => {
                    return Err(Error::Cancelled);
                }
                Err(fs::TryLockError::WouldBlock) => std::thread::sleep(AGAIN),
                Err(fs::TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        }
    }
}

/// Whether there is a `git` that can be started.
pub fn is_possible() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("git").is_file())
}
