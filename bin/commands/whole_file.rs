//! Writes a file as a whole: a reader sees the old contents or the new ones, also after a crash.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Only the owner can read it.
pub(super) const FOR_OWNER: u32 = 0o600;
/// The user's umask decides who can read it.
pub(super) const FOR_ALL: u32 = 0o666;

/// Replaces the file.
///
/// # Errors
/// It cannot be written. The old contents are still there.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let part = part_of(path)?;
    let mut open = OpenOptions::new();
    let opened = open.write(true).create(true).truncate(true).mode(mode).open(&part);
    let written = opened.and_then(|mut part| {
        part.write_all(text.as_bytes())?;
        part.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&part, path));
    if replaced.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&part);
    }
    replaced.with_context(|| cannot(path))
}

/// Whether [`write`] can write the file.
///
/// # Errors
/// It cannot.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a folder", path.display());
    }
    let part = part_of(path)?;
    let opened = OpenOptions::new().write(true).create(true).truncate(true).open(&part);
    opened.and_then(|_| fs::remove_file(&part)).with_context(|| cannot(path))
}

fn part_of(path: &Path) -> anyhow::Result<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(path.with_file_name(format!(".{}.part", name.with_context(|| cannot(path))?)))
}

fn cannot(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}
