//! Finds the files of a worktree that are not ignored.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ignore::{DirEntry, WalkBuilder, WalkState};
use rustix::fs::{AtFlags, CWD, OFlags};
use tokio_util::sync::CancellationToken;

use super::stamp::Stamp;
use super::{Error, MOST_FILES};

/// A file or link: its path relative to the worktree, or an error if its name cannot be kept.
pub(super) type FoundFile = (Result<String, String>, Stamp);

/// Every file and link, unsorted.
pub(super) fn scan(
    worktree: &Path,
    data: &Path,
    stop: &CancellationToken,
) -> Result<Vec<FoundFile>, Error> {
    let (count, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    builder(worktree, data).build_parallel().run(|| {
        let mut mine = ThreadFiles { all: &found, some: Vec::new(), folder: None };
        let count = &count;
        Box::new(move |entry| {
            if stop.is_cancelled() || count.load(Ordering::Relaxed) > MOST_FILES {
                return WalkState::Quit;
            }
            // an entry that vanished or cannot be read counts as missing
            let Ok(entry) = entry else { return WalkState::Continue };
            let kind = entry.file_type();
            if kind.is_some_and(|kind| kind.is_file() || kind.is_symlink())
                && let Some(stamp) = mine.look(&entry)
                && let Ok(path) = entry.path().strip_prefix(worktree)
            {
                count.fetch_add(1, Ordering::Relaxed);
                mine.some.push((name(path), stamp));
            }
            WalkState::Continue
        })
    });
    if stop.is_cancelled() {
        return Err(Error::Cancelled);
    }
    let found = found.into_inner().unwrap_or_default();
    if found.len() > MOST_FILES {
        return Err(Error::TooMany(worktree.to_owned()));
    }
    Ok(found)
}

/// The files that one thread has found. Dropping the value adds them to the shared list.
struct ThreadFiles<'a> {
    all: &'a Mutex<Vec<FoundFile>>,
    some: Vec<FoundFile>,
    /// The folder of the last file, kept open: its other files are found without resolving the
    /// whole path.
    folder: Option<(PathBuf, OwnedFd)>,
}

impl ThreadFiles<'_> {
    fn look(&mut self, entry: &DirEntry) -> Option<Stamp> {
        let parent = entry.path().parent()?;
        if self.folder.as_ref().is_none_or(|(path, _)| path != parent) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::open(parent, flags, rustix::fs::Mode::empty());
            self.folder = opened.ok().map(|folder| (parent.to_owned(), folder));
        }
        let stat = match &self.folder {
            Some((_, folder)) => {
                rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            }
            None => rustix::fs::statat(CWD, entry.path(), AtFlags::SYMLINK_NOFOLLOW),
        };
        Some(Stamp::of(&stat.ok()?))
    }
}

impl Drop for ThreadFiles<'_> {
    fn drop(&mut self) {
        if let Ok(mut all) = self.all.lock() {
            all.append(&mut self.some);
        }
    }
}

/// Walks files by git's ignore rules, in a repository or not. `.ignore` files concern searches
/// only.
fn builder(worktree: &Path, data: &Path) -> WalkBuilder {
    let data = data.to_owned();
    let mut builder = WalkBuilder::new(worktree);
    builder.hidden(false).ignore(false).require_git(false).parents(false);
    builder.filter_entry(move |entry| {
        entry.depth() == 0 || entry.file_name() != ".git" && entry.path() != data
    });
    builder
}

/// The path as the index and the log spell it.
fn name(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some(name) if !name.contains('\n') => Ok(name.to_owned()),
        _ => Err(path.to_string_lossy().into_owned()),
    }
}
