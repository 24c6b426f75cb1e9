//! The metadata that shows whether a file has changed, without reading it.

use std::path::Path;

use rustix::fs::{FileType, Stat};

/// Metadata that differs between two states of a file; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) changed: i64,
    pub(super) status: i64,
    pub(super) inode: u64,
    pub(super) mode: Mode,
}

/// The kind of a file in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    File,
    Executable,
    Link,
}

impl Mode {
    /// As git writes it, such as `100644`.
    pub fn git(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
        }
    }

    /// The mode that git writes so.
    pub fn of_git(mode: &str) -> Option<Self> {
        [Self::File, Self::Executable, Self::Link].into_iter().find(|known| known.git() == mode)
    }

    fn of(stat: &Stat) -> Self {
        if FileType::from_raw_mode(stat.st_mode).is_symlink() {
            Self::Link
        } else if stat.st_mode & 0o100 == 0 {
            Self::File
        } else {
            Self::Executable
        }
    }
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        // an impossible time is fine, because times are only compared
        let nanos = |secs: i64, nanos: i128| {
            let nanos = i128::from(secs) * 1_000_000_000 + nanos;
            i64::try_from(nanos).unwrap_or(i64::MAX)
        };
        Self {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            changed: nanos(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
            status: nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
            inode: stat.st_ino,
            mode: Mode::of(stat),
        }
    }

    /// The stamp of a file or link, if it exists.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let stat = rustix::fs::lstat(path).ok()?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        (kind.is_file() || kind.is_symlink()).then(|| Self::of(&stat))
    }

    /// Whether a later change after the time `then` could leave the stamp unchanged.
    pub(super) fn is_young(&self, then: i64) -> bool {
        self.changed.max(self.status) >= then
    }
}
