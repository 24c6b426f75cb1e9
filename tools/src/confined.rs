//! Opens and replaces files by resolved paths. If a link has replaced a part of the path since,
//! that is an error.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use leftfold_files::{Unread, openat};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat};
use rustix::io::Errno;

use crate::Error;

/// A file's stamp: time of the last change in nanoseconds since 1970, and size in bytes. It differs
/// between two states of a file.
pub(crate) fn stamp(file: &Metadata) -> String {
    let changed = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    format!("{changed}-{}", file.len())
}

/// Whether both are one file with one content, as far as stamps show.
pub(crate) fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino()) && stamp(one) == stamp(other)
}

/// The metadata of the file at `path`, which must not be a link any more. `None` if nothing is
/// there.
pub(crate) fn lookup(path: &Path) -> Result<Option<Metadata>, Error> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look up", path, &error)),
    }
}

/// Refuses anything but a regular file, without opening it.
pub(crate) fn regular(path: &Path, found: &Metadata) -> Result<(), Error> {
    leftfold_files::regular(found).map_err(|why| unread(path, why))
}

/// Opens a regular file for reading and returns its metadata. Never blocks and never follows a
/// link.
pub(crate) fn open_found(path: &Path) -> Result<(File, Metadata), Error> {
    leftfold_files::open_real(path).map_err(|why| unread(path, why))
}

fn unread(path: &Path, why: Unread) -> Error {
    let text = format!("{} {why}.", path.display());
    match why {
        Unread::Io(error) => Error::io("read", path, &error),
        Unread::Folder => Error::IsDirectory(text),
        Unread::Special | Unread::TooLarge(_) | Unread::LeadsOut(_) => Error::SpecialFile(text),
    }
}

/// Replaces the whole file at `path`, or creates it with its parent folders. Readers see the old
/// content or the new, also after a crash. An existing file (`existing`) keeps its mode; its other
/// hard links keep the old content. Returns the metadata of the written file.
///
/// # Errors
/// Errors of the file system, or the file at `path` is no longer `existing`.
pub(crate) fn replace(
    path: &Path,
    existing: Option<&Metadata>,
    bytes: &[u8],
) -> Result<Metadata, Error> {
    let failed = |error: io::Error| Error::io("write", path, &error);
    let (folder, name) = folder_and_name(path, existing)?;
    let temporary = temporary_name();
    let written = fill(&folder, &temporary, existing, bytes).map_err(failed).and_then(|written| {
        unchanged(path, existing)?;
        rename(&folder, &temporary, name).map_err(failed)?;
        Ok(written)
    });
    if written.is_err() {
        // a failure leaves a temporary file behind; nothing more can be done
        let _ = rustix::fs::unlinkat(&folder, temporary.as_str(), AtFlags::empty());
    }
    written
}

/// Puts `bytes` back into the file at `path` that was `original`, whatever another program has made of it since, with
/// the mode of `original`.
///
/// # Errors
/// Errors of the file system, for example a folder at `path`.
pub(crate) fn put_back(path: &Path, original: &Metadata, bytes: &[u8]) -> Result<Metadata, Error> {
    if let Some(now) = lookup(path)?.filter(|now| same(original, now)) {
        return Ok(now);
    }
    let failed = |error: io::Error| Error::io("write", path, &error);
    let (folder, name) = folder_and_name(path, None)?;
    let temporary = temporary_name();
    let written = fill(&folder, &temporary, Some(original), bytes)
        .and_then(|written| rename(&folder, &temporary, name).map(|()| written))
        .map_err(failed);
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder, temporary.as_str(), AtFlags::empty());
    }
    written
}

/// Makes the checks of [`replace`] and creates the parent folders, so that another program can
/// replace the file on our behalf.
///
/// # Errors
/// The errors of [`replace`].
pub(crate) fn ready(path: &Path, existing: Option<&Metadata>) -> Result<(), Error> {
    folder_and_name(path, existing)?;
    unchanged(path, existing)
}

/// The folder in which a file is replaced, and the file's name in it.
fn folder_and_name<'a>(
    path: &'a Path,
    existing: Option<&Metadata>,
) -> Result<(OwnedFd, &'a OsStr), Error> {
    let failed = |error: io::Error| Error::io("write", path, &error);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::IsDirectory(format!("{} is a directory.", path.display())));
    };
    if existing.is_some() {
        // checked here because a rename would replace a read-only file
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| failed(e.into()))?;
    }
    Ok((make_folder(folder, &mut Vec::new()).map_err(failed)?, name))
}

/// Refuses to replace a file that another program has changed since. A short race remains.
fn unchanged(path: &Path, existing: Option<&Metadata>) -> Result<(), Error> {
    match (existing, lookup(path)?) {
        (None, None) => Ok(()),
        (Some(existing), Some(now)) if same(existing, &now) => Ok(()),
        (Some(_) | None, Some(_)) | (Some(_), None) => Err(Error::changed(path)),
    }
}

/// Opens the folder at `path`. Never follows a link.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    openat(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens the folder at `path`, and makes it and the folders above it if they are missing. Adds those to `made`. Never
/// follows a link, also none that another program puts there meanwhile.
pub(crate) fn make_folder(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<OwnedFd> {
    let (mut missing, mut at) = (Vec::new(), path);
    let mut opened = loop {
        match (folder(at), at.parent().zip(at.file_name())) {
            (Err(error), Some((parent, name))) if error.kind() == io::ErrorKind::NotFound => {
                missing.push((at, name));
                at = parent;
            }
            (opened, _) => break opened?,
        }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for (path, name) in missing.into_iter().rev() {
        match mkdirat(&opened, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.push(path.to_owned()),
            // another call was faster
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        opened = rustix::fs::openat(&opened, name, flags, Mode::empty())?;
    }
    Ok(opened)
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
    // the umask removes permissions that the user does not want to give
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
        let found = lookup(&path).unwrap().unwrap();
        // another size, so that the stamp does not depend on the clock
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
    fn a_link_that_appears_in_the_path_makes_no_folder_elsewhere() {
        let site = Site::new();
        std::os::unix::fs::symlink(site.outside(""), site.path("link")).unwrap();
        for name in ["link/f", "link/a/f", "link/a/b/f"] {
            assert!(replace(&site.path(name), None, b"x").is_err(), "{name}");
        }
        assert_eq!(std::fs::read_dir(site.outside("")).unwrap().count(), 0);
        let mut made = Vec::new();
        make_folder(&site.path("a/b/c"), &mut made).unwrap();
        assert_eq!(made, ["a", "a/b", "a/b/c"].map(|name| site.path(name)));
    }

    #[test]
    fn what_was_written_is_what_is_there() {
        let site = Site::new();
        let path = site.path("f");
        for content in ["one", "three"] {
            let before = lookup(&path).unwrap();
            let written = replace(&path, before.as_ref(), content.as_bytes()).unwrap();
            assert!(same(&written, &lookup(&path).unwrap().unwrap()));
            assert_eq!(site.text("f"), content);
        }
    }
}
