//! Reads files whose names a project chooses: ignore files, settings and references of git, instructions, skills, manifests.
//!
//! A hostile project can put anything at such a path: a device without end, a pipe that nobody writes to, a link to a key. So
//! all code uses this one reader, and `tests/tidy` checks that it does. The reader takes regular files up to a size, never
//! waits, and follows no link out of the project.

mod git;
mod rules;
#[cfg(test)]
mod tests;
pub mod texts;
mod walk;

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

pub use git::{branch, common_folder, git_folder, line};
pub use rules::{IgnoreFiles, Rules};
pub use walk::walk;

/// File systems of the kernel. Their files look regular, but reading one may block, or never end.
const SPECIAL: [&str; 2] = ["/proc", "/sys"];

/// Opening a pipe does not wait for its other end.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// The reason why a file was not read. The text continues its path.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    #[error("is a directory, not a file")]
    Folder,
    #[error("is a pipe, socket or device, not a regular file")]
    Special,
    #[error("is larger than {0} bytes")]
    TooLarge(u64),
    #[error("leads out of {}", .0.display())]
    LeadsOut(PathBuf),
    #[error("{}", failure(.0))]
    Io(#[from] io::Error),
}

fn failure(error: &io::Error) -> String {
    match error.kind() == io::ErrorKind::NotFound {
        true => "does not exist".to_owned(),
        false => format!("cannot be read: {error}"),
    }
}

impl Unread {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Io(error) if matches!(error.kind(), NotFound | NotADirectory))
    }
}

impl From<Unread> for io::Error {
    fn from(why: Unread) -> Self {
        let text = format!("it {why}");
        if let Unread::Io(error) = why { error } else { Self::other(text) }
    }
}

/// The content of a regular file of at most `limit` bytes. Links lead nowhere out of the folder `root`; those of a file that
/// the user chose, which has no `root`, may lead anywhere.
///
/// # Errors
/// The file is not read, for the reason in the error.
pub fn read(path: &Path, root: Option<&Path>, limit: u64) -> Result<Vec<u8>, Unread> {
    content(open(path, root)?, limit)
}

/// The content of a regular file of at most `limit` bytes, at a path without links.
///
/// # Errors
/// The errors of [`read`]. A link that has replaced a part of the path since is one.
pub fn read_real(path: &Path, limit: u64) -> Result<Vec<u8>, Unread> {
    content(open_real(path)?, limit)
}

/// The content of a regular file of at most `limit` bytes, directly in an opened folder. Follows no link.
///
/// # Errors
/// The errors of [`read`].
pub fn read_in(folder: impl AsFd, name: &str, limit: u64) -> Result<Vec<u8>, Unread> {
    let flags = READING | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty());
    content(checked(opened.map_err(io::Error::from)?)?, limit)
}

fn content((file, found): (File, Metadata), limit: u64) -> Result<Vec<u8>, Unread> {
    if found.len() > limit {
        return Err(Unread::TooLarge(limit));
    }
    let mut content = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default() + 1);
    // it may grow, and files of some file systems do not say their size
    file.take(limit + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limit {
        true => Err(Unread::TooLarge(limit)),
        false => Ok(content),
    }
}

/// The text of a file that [`read`] reads. `None` if it does not, or if the content is not UTF-8.
pub fn text(path: &Path, root: Option<&Path>, limit: u64) -> Option<String> {
    String::from_utf8(read(path, root, limit).ok()?).ok()
}

/// Opens a file as [`read`] does.
///
/// # Errors
/// The errors of [`read`], except for [`Unread::TooLarge`].
pub fn open(path: &Path, root: Option<&Path>) -> Result<(File, Metadata), Unread> {
    // most files that are looked for do not exist, which one call of the system says
    path.symlink_metadata()?;
    let real = path.canonicalize()?;
    if let Some(root) = root {
        let root = root.canonicalize()?;
        if !real.starts_with(&root) || SPECIAL.iter().any(|special| real.starts_with(special)) {
            return Err(Unread::LeadsOut(root));
        }
    }
    open_real(&real)
}

/// Opens a file at a path without links. A link that has replaced a part of the path since is an error.
///
/// # Errors
/// The errors of [`open`].
pub fn open_real(path: &Path) -> Result<(File, Metadata), Unread> {
    checked(openat(path, READING)?)
}

fn checked(opened: OwnedFd) -> Result<(File, Metadata), Unread> {
    let file = File::from(opened);
    let found = file.metadata()?;
    regular(&found)?;
    Ok((file, found))
}

/// Refuses anything but a regular file.
///
/// # Errors
/// [`Unread::Folder`] and [`Unread::Special`].
pub fn regular(found: &Metadata) -> Result<(), Unread> {
    match (found.is_file(), found.is_dir()) {
        (true, _) => Ok(()),
        (false, true) => Err(Unread::Folder),
        (false, false) => Err(Unread::Special),
    }
}

/// Opens whatever is at a path, unless a part of it is a link.
///
/// # Errors
/// Errors of the file system, also for a link.
#[cfg(target_os = "linux")]
pub fn openat(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // kernels before 5.6, and sandboxes that do not know the call
        Err(Errno::NOSYS | Errno::PERM) => {
            Ok(rustix::fs::openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Opens whatever is at a path, unless its last part is a link.
///
/// # Errors
/// Errors of the file system, also for a link.
#[cfg(not(target_os = "linux"))]
pub fn openat(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}
