//! Opening and replacing files by paths that are already resolved, so that a link put in their
//! place afterwards is an error and not a way out.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::Error;

/// What tells one state of a file from the next: nanoseconds since 1970 of the last change, and bytes.
pub(crate) fn stamp(file: &Metadata) -> String {
    let changed = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    format!("{changed}-{}", file.len())
}

/// Whether both are the same file with the same content, as far as its stamp can say.
pub(crate) fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino()) && stamp(one) == stamp(other)
}

/// What is at `path`, which must not be a link any more; `None` if nothing is.
pub(crate) fn look(path: &Path) -> Result<Option<Metadata>, Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look up", path, &error)),
    }
}

/// Refuses what is there but is no regular file, without opening it (opening a pipe would wait for
/// its other end).
pub(crate) fn regular(path: &Path, found: &Metadata) -> Result<(), Error> {
    let path = path.display();
    if found.is_dir() {
        return Err(Error::IsDirectory(format!("{path} is a directory, not a file.")));
    }
    if !found.is_file() {
        let text = format!("{path} is a pipe, socket or device, not a regular file.");
        return Err(Error::SpecialFile(text));
    }
    Ok(())
}

/// Opens a regular file for reading, with what is known of it then. Never blocks and never follows a
/// link.
pub(crate) fn open_found(path: &Path) -> Result<(File, Metadata), Error> {
    let error = |error: io::Error| Error::io("read", path, &error);
    let file = File::from(openat(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(error)?);
    let found = file.metadata().map_err(error)?;
    regular(path, &found)?;
    Ok((file, found))
}

#[cfg(target_os = "linux")]
fn openat(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
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

#[cfg(not(target_os = "linux"))]
fn openat(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Replaces the file at `path` as a whole, or creates it and its parent folders. Readers see the old
/// content or the new, also after a crash. The mode of an existing file is kept (`existing`); its
/// other hard links keep the old content. Answers what is known of the file as it was written.
///
/// # Errors
/// Those of the file system; what is there is not what was found before (`existing`).
pub(crate) fn replace(
    path: &Path,
    existing: Option<&Metadata>,
    bytes: &[u8],
) -> Result<Metadata, Error> {
    let failed = |error: io::Error| Error::io("write", path, &error);
    let (folder, name) = place(path, existing)?;
    let temporary = temporary_name();
    let written = fill(&folder, &temporary, existing, bytes).map_err(failed).and_then(|written| {
        unchanged(path, existing)?;
        rename(&folder, &temporary, name).map_err(failed)?;
        Ok(written)
    });
    if written.is_err() {
        // nothing more can be done if this fails too
        let _ = rustix::fs::unlinkat(&folder, temporary.as_str(), AtFlags::empty());
    }
    written
}

/// Whether the file at `path` can be replaced by somebody else on our behalf: all that [`replace`]
/// looks at before it writes, and its parent folders are there.
///
/// # Errors
/// Those of [`replace`].
pub(crate) fn ready(path: &Path, existing: Option<&Metadata>) -> Result<(), Error> {
    place(path, existing)?;
    unchanged(path, existing)
}

/// The folder in which a file is replaced, and the file's name in it.
fn place<'a>(path: &'a Path, existing: Option<&Metadata>) -> Result<(OwnedFd, &'a OsStr), Error> {
    let failed = |error: io::Error| Error::io("write", path, &error);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::IsDirectory(format!("{} is a directory.", path.display())));
    };
    if existing.is_some() {
        // a rename would replace a file that its owner has made read-only
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| failed(e.into()))?;
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    Ok((openat(folder, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?, name))
}

/// Refuses to replace what somebody else has put there since; only a moment is left for that.
fn unchanged(path: &Path, existing: Option<&Metadata>) -> Result<(), Error> {
    match (existing, look(path)?) {
        (None, None) => Ok(()),
        (Some(existing), Some(now)) if same(existing, &now) => Ok(()),
        (Some(_) | None, Some(_)) | (Some(_), None) => Err(Error::changed(path)),
    }
}

/// The folder at `path`, for work on what is in it. Never follows a link.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    openat(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".leftfold-{}-{n}.tmp", std::process::id())
}

fn fill(
    folder: &OwnedFd,
    name: &str,
    existing: Option<&Metadata>,
    bytes: &[u8],
) -> io::Result<Metadata> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // the umask takes from this what the user does not want to give
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, mode)?);
    file.write_all(bytes)?;
    if let Some(existing) = existing {
        file.set_permissions(existing.permissions())?;
    }
    file.sync_data()?;
    file.metadata()
}

fn rename(folder: &OwnedFd, from: &str, to: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat(folder, from, folder, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use crate::text;

    #[test]
    fn what_somebody_else_has_put_there_since_is_not_replaced() {
        let site = Site::new();
        let path = site.file("f", "one");
        let found = look(&path).unwrap().unwrap();
        // of another size, so that the stamp does not depend on the clock
        std::fs::write(&path, "theirs").unwrap();
        for error in [
            replace(&path, Some(&found), b"mine").unwrap_err(),
            replace(&path, None, b"mine").unwrap_err(),
            text::load(&path, &found).unwrap_err(),
        ] {
            assert_eq!(error.kind(), "changed_on_disk");
        }
        assert_eq!(site.text("f"), "theirs");
        std::fs::remove_file(&path).unwrap();
        let error = replace(&path, Some(&found), b"mine").unwrap_err();
        assert_eq!(error.kind(), "not_found");
        let left: Vec<_> = std::fs::read_dir(site.path("")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn what_was_written_is_what_is_there() {
        let site = Site::new();
        let path = site.path("f");
        for content in ["one", "three"] {
            let before = look(&path).unwrap();
            let written = replace(&path, before.as_ref(), content.as_bytes()).unwrap();
            assert!(same(&written, &look(&path).unwrap().unwrap()));
            assert_eq!(site.text("f"), content);
        }
    }
}
