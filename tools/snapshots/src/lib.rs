//! Snapshots (checkpoints) of a worktree's files, for `revert` (undo): git trees in a git directory of their own, one for each
//! worktree, below the data folder. The project's own `.git` is neither needed nor touched.
//!
//! - The first call of a turn that may change files waits for a snapshot. Another snapshot follows
//!   each step whose calls may have changed files. A step's changes are the difference of two
//!   trees, so the user's changes between turns are not among them.
//! - Changed files are found without git, through an index of sizes and times ([`index`]), and are
//!   stored without it ([`pack`]). One process of git compares the trees.
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
mod pack;
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
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use leftfold_events::Sha256;
use leftfold_events::event::{FileChange, FilesFailure};
use tokio_util::sync::CancellationToken;

pub use stamp::Mode as FileMode;
pub use transfer::{Piece, Unpacking};
pub use versions::{FileVersions, Objects, Version, is_name};

use git::Git;
use index::Index;
use pack::Pack;

/// Largest file in bytes that is kept.
pub const LARGEST: u64 = 2 << 20;
/// Most files in a worktree. Home folders have more.
pub const MAX_FILES: usize = 100_000;
/// Most bytes that one snapshot may add.
const MAX_BYTES: u64 = 1 << 30;
/// Most names of left-out files that are reported.
pub const MAX_LEFT_OUT: usize = 1_000;
/// Most files whose index stays in memory, which takes up about 200 bytes for each.
const MAX_REMEMBERED: usize = 20_000;
/// Pause between attempts to lock a snapshot store that another process uses.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_secs(2);
const TIDY_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The reason why there is no snapshot, or why files could not be restored. For people.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`git` was not found: install it to get snapshots of files")]
    NoGit,
    #[error("{0} is a home folder and not a project: no snapshots are taken of it")]
    NoProject(PathBuf),
    #[error("{0} holds more than {MAX_FILES} files that are not ignored: too many for a snapshot")]
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
    /// Its kind in the log.
    pub fn class(&self) -> FilesFailure {
        match self {
            Self::NoGit => FilesFailure::NoGit,
            Self::NoProject(_) => FilesFailure::NoProject,
            Self::TooMany(_) => FilesFailure::TooManyFiles,
            Self::TooLarge(_) => FilesFailure::TooLarge,
            Self::Io { .. } => FilesFailure::Io,
            Self::Git { .. } => FilesFailure::Git,
            Self::Path { .. } => FilesFailure::Path,
            Self::Cancelled => FilesFailure::Cancelled,
        }
    }

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
    /// Coarsest resolution of file times. A stamp that is younger is not trusted.
    tick: Duration,
    /// The index of the last snapshot.
    remembered: Arc<Mutex<Option<Arc<Index>>>>,
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

/// A worktree as it is now. What is new in it is in the pack.
struct Scanned {
    index: Index,
    pack: Pack,
    left_out: Vec<String>,
}

impl Snapshots {
    /// The snapshots of `worktree`, kept below the folder `data`.
    pub fn new(data: &Path, worktree: &Path) -> Self {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (data, worktree) = (resolved(data), resolved(worktree));
        let name = Sha256::digest(worktree.as_os_str().as_encoded_bytes()).to_string();
        let folder = data.join("snapshots").join(name.get(..16).unwrap_or(&name));
        Self { folder, worktree, data, is_project: true, tick: TICK, remembered: Arc::default() }
    }

    /// The snapshots of a session's worktree. A worktree that is the folder `home`, a folder above it or the root
    /// folder is refused unless it is a repository.
    pub fn of_project(data: &Path, worktree: &Path, home: Option<&Path>) -> Self {
        let mut snapshots = Self::new(data, worktree);
        let worktree = &snapshots.worktree;
        let home = home.and_then(|home| home.canonicalize().ok());
        let holds_home = home.is_some_and(|home| home.starts_with(worktree));
        let whole = worktree.parent().is_none() || holds_home;
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

    /// Once an hour, drops objects that no snapshot of the last week needs. The caller need not wait for the thread.
    pub fn tidy(&self) -> Option<JoinHandle<()>> {
        let stamp = self.folder.join("leftfold-tidied");
        let last = fs::metadata(&stamp).and_then(|stamp| stamp.modified());
        let is_new = last.is_err();
        if last.is_ok_and(|last| last.elapsed().is_ok_and(|age| age < TIDY_INTERVAL)) {
            return None;
        }
        fs::write(&stamp, "").ok()?;
        if is_new {
            return None;
        }
        let (folder, index) = (self.folder.clone(), self.index());
        let thread = std::thread::Builder::new().name("leftfold-tidy".into());
        let tidy = move || {
            // a failure is retried in an hour
            let _ = Git::new(&folder).tidy(&Index::read(&index).tree());
        };
        thread.spawn(tidy).ok()
    }

    fn take_locked(
        &self,
        since: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        let git = Git::new(&self.folder);
        let path = self.index();
        let before = self.last_index(&path);
        let mut scanned = self.scan(&before, stop)?;
        if !scanned.pack.is_empty() && !self.holds(&before)? {
            // what has not changed is gone from the store, so everything is written again
            scanned = self.scan(&Index::default(), stop)?;
        }
        let Scanned { mut index, pack, mut left_out } = scanned;
        if let Some(name) = pack.finish()? {
            index.pack = name;
        }
        let tree = index.tree();
        let is_news = !index.is_equal(&before);
        let (written, files) = std::thread::scope(|scope| {
            let writing = is_news.then(|| scope.spawn(|| index.write(&before, &path)));
            let files = match since {
                Some(since) if since != tree => git.diff(since, &tree),
                _ => Ok(Vec::new()),
            };
            let died = || Err(std::io::Error::other("it failed unexpectedly"));
            let written = writing.map_or(Ok(()), |it| it.join().unwrap_or_else(|_| died()));
            (written, files)
        });
        written.map_err(Error::io("write", &path))?;
        self.remember(if is_news { Arc::new(index) } else { before });
        let files = files?;
        left_out.truncate(MAX_LEFT_OUT);
        Ok(Snapshot { tree, files, left_out })
    }

    /// The index of the last snapshot, from memory if no other process has taken one since.
    fn last_index(&self, path: &Path) -> Arc<Index> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let remembered = remembered.filter(|index| index.is_current(path));
        remembered.unwrap_or_else(|| Arc::new(Index::read(path)))
    }

    fn remember(&self, index: Arc<Index>) {
        let count: usize = index.folders.values().map(|folder| folder.files.len()).sum();
        if count <= MAX_REMEMBERED {
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            *remembered = Some(index);
        }
    }

    fn index(&self) -> PathBuf {
        self.folder.join("leftfold-index")
    }

    /// Scans the worktree, and works out the trees that are new.
    fn scan(&self, before: &Index, stop: &CancellationToken) -> Result<Scanned, Error> {
        let pack = Pack::new(&self.folder);
        let found = scan::scan(self, before, &pack, stop)?;
        let mut index = Index::new(found.folders, before.pack.clone());
        index.write_trees(before, &pack)?;
        Ok(Scanned { index, pack, left_out: found.left_out })
    }

    /// Whether the store still has the objects of the last snapshot.
    fn holds(&self, index: &Index) -> Result<bool, Error> {
        let pack = self.folder.join("objects/pack").join(format!("{}.idx", index.pack));
        if index.folders.is_empty() || pack.exists() {
            return Ok(true);
        }
        // git packs objects anew from time to time
        let tree = index.tree();
        Ok(tree == git::EMPTY || Git::new(&self.folder).has(&tree)?)
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
                Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_DELAY),
                Err(fs::TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        }
    }
}

/// Whether there is a `git` that can be started.
pub fn is_possible() -> bool {
    leftfold_programs::find("git").is_ok()
}
