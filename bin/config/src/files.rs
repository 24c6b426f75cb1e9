//! Looks at files, and notes at which, so that settings need not be read again while none of them has changed.
//!
//! Everything that [`load`](super::load()) looks at comes through here, which `clippy.toml` holds.

#![allow(clippy::disallowed_methods, reason = "this is what the others use")]

use std::cell::RefCell;
use std::fs::{self, File, Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

thread_local! {
    /// The looks of the reading that is under way on this thread.
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// A file that was changed more recently may change once more without a new time: the clocks of file systems are
/// coarse, that of FAT by two seconds.
const FILE_TIME_GRANULARITY: Duration = Duration::from_secs(3);

/// Everything that a reading has looked at, as it was just before.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    looks: Vec<Look>,
    /// Whether it would be found as it is, if it has not changed.
    is_whole: bool,
}

#[derive(Debug, PartialEq)]
enum Look {
    /// A file or folder that a path leads to; `None`: there is none.
    File(PathBuf, Option<Stamp>),
    /// A file, folder or link of this name.
    Name(PathBuf, Option<Stamp>),
    /// The path without links.
    Real(PathBuf, Option<PathBuf>),
}

/// Another content has another stamp. The time of the last change cannot be set, as that of the last write can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    mode: u32,
    owner: u32,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self {
            place: (found.dev(), found.ino()),
            mode: found.mode(),
            owner: found.uid(),
            size: found.size(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether the next change will have another time.
    fn is_settled(&self, now: Duration) -> bool {
        let before = |(seconds, _): (i64, i64)| {
            u64::try_from(seconds)
                .is_ok_and(|at| Duration::from_secs(at + 1) + FILE_TIME_GRANULARITY < now)
        };
        before(self.written) && before(self.changed)
    }
}

impl Noted {
    /// Whether everything is as it was.
    pub(crate) fn is_current(&self) -> bool {
        self.looks.iter().all(|look| match look {
            Look::File(path, known) => stamp(fs::metadata(path)) == *known,
            Look::Name(path, known) => stamp(fs::symlink_metadata(path)) == *known,
            Look::Real(path, known) => path.canonicalize().ok() == *known,
        })
    }
}

/// Does `read` at the time `now`, and answers what it looked at; `None` if a change of that might not be noticed.
pub(crate) fn noting<T>(now: SystemTime, read: impl FnOnce() -> T) -> (T, Option<Noted>) {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    NOTED.set(Some(Noted { looks: Vec::new(), is_whole: true }));
    let done = read();
    let noted = NOTED.take().filter(|noted| {
        let is_settled = |look: &Look| match look {
            Look::File(_, Some(stamp)) | Look::Name(_, Some(stamp)) => stamp.is_settled(now),
            Look::File(_, None) | Look::Name(_, None) | Look::Real(..) => true,
        };
        noted.is_whole && noted.looks.iter().all(is_settled)
    });
    (done, noted)
}

/// The reading under way depends on what is not noted here.
pub(crate) fn looked_elsewhere() {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted {
            noted.is_whole = false;
        }
    });
}

fn stamp(found: io::Result<Metadata>) -> Option<Stamp> {
    found.ok().map(|found| Stamp::of(&found))
}

fn note(look: impl FnOnce() -> Look) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(Noted { looks, .. }) = noted {
            let look = look();
            if !looks.contains(&look) {
                looks.push(look);
            }
        }
    });
}

fn note_file(path: &Path) {
    note(|| Look::File(path.to_owned(), stamp(fs::metadata(path))));
}

pub(crate) fn metadata(path: &Path) -> io::Result<Metadata> {
    let found = fs::metadata(path);
    note(|| Look::File(path.to_owned(), found.as_ref().ok().map(Stamp::of)));
    found
}

pub(crate) fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    let found = fs::symlink_metadata(path);
    note(|| Look::Name(path.to_owned(), found.as_ref().ok().map(Stamp::of)));
    found
}

pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize();
    note(|| Look::Real(path.to_owned(), real.as_ref().ok().cloned()));
    real
}

pub(crate) fn exists(path: &Path) -> bool {
    metadata(path).is_ok()
}

pub(crate) fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_file())
}

pub(crate) fn is_dir(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_dir())
}

pub(crate) fn is_symlink(path: &Path) -> bool {
    symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

pub(crate) fn read_dir(path: &Path) -> io::Result<ReadDir> {
    note_file(path);
    fs::read_dir(path)
}

/// Opens a file that the user names, which may be a pipe, or one of Leftfold's own. What a project names, [`read`] reads.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    note_file(path);
    File::open(path)
}

/// Reads a file as [`leftfold_files::read`] does.
pub(crate) fn read(path: &Path, root: Option<&Path>, limit: u64) -> io::Result<Vec<u8>> {
    note_file(path);
    Ok(leftfold_files::read(path, root, limit)?)
}
