//! The metadata that shows whether a file or a folder has changed, without reading it.

use std::path::Path;

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use serde::{Deserialize, Serialize};

/// Metadata that differs between two states of a file; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) size: u64,
    changed: i64,
    status: i64,
    inode: u64,
    pub(super) mode: Mode,
}

/// Metadata that differs between two states of a folder's list of entries; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderStamp {
    pub(super) device: u64,
    inode: u64,
    changed: i64,
    status: i64,
}

/// The kind of a file in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The stamp of an entry of a folder. `None` if there is no file or link of this name.
    ///
    /// # Errors
    /// The folder does not let its entries be looked at.
    pub(super) fn of_entry(folder: BorrowedFd<'_>, name: &str) -> rustix::io::Result<Option<Self>> {
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        Ok((kind.is_file() || kind.is_symlink()).then(|| Self {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            changed: nanos(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
            status: nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
            inode: stat.st_ino,
            mode: Mode::of(&stat),
        }))
    }

    /// Whether a later change after the time `then` could leave the stamp unchanged.
    pub(super) fn is_young(&self, then: i64) -> bool {
        self.changed.max(self.status) >= then
    }
}

impl FolderStamp {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            changed: nanos(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
            status: nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
        }
    }

    /// Whether a later change after the time `then` could leave the stamp unchanged.
    pub(super) fn is_young(&self, then: i64) -> bool {
        self.changed.max(self.status) >= then
    }
}

// an impossible time is fine, because times are only compared
fn nanos(secs: i64, nanos: i128) -> i64 {
    let nanos = i128::from(secs) * 1_000_000_000 + nanos;
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// The file system of a folder, if it is one that changes a folder's times with each entry that is
/// added, removed or renamed. Others, such as those of networks, may do so late or never.
#[cfg(target_os = "linux")]
pub(super) fn dated_file_system(folder: &Path) -> Option<u64> {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, overlayfs, ZFS, bcachefs.
    const DATED: [u64; 8] = [
        0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1,
        0xca45_1a4e,
    ];
    let kind = u64::try_from(rustix::fs::statfs(folder).ok()?.f_type).ok()?;
    let stat = rustix::fs::stat(folder).ok()?;
    DATED.contains(&kind).then_some(stat.st_dev)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn dated_file_system(_: &Path) -> Option<u64> {
    None
}
