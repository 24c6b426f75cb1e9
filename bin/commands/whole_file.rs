//! Writes a file as a whole: a reader sees the old contents or the new ones, also after a crash.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Only the owner can read it.
pub(super) const FOR_OWNER: u32 = 0o600;
/// The user's umask decides who can read it.
pub(super) const FOR_ALL: u32 = 0o666;

/// Replaces the file.
///
/// # Errors
/// It cannot be written. The old contents are still there.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    fill(path, mode, |part| Ok(part.write_all(text.as_bytes())?))
}

/// Replaces the file with one that `fill` writes.
///
/// # Errors
/// It cannot be written. The old contents are still there.
pub(super) fn fill(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut NamedTempFile) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cannot = || format!("{} cannot be written", path.display());
    let mut part = beside(path, mode).with_context(cannot)?;
    fill(&mut part)
        .and_then(|()| Ok(part.as_file().sync_all()?))
        .and_then(|()| Ok(part.persist(path).map(drop)?))
        .with_context(cannot)
}

/// Whether [`write`] can write the file.
///
/// # Errors
/// It cannot.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{} is a folder", path.display());
    }
    let made = beside(path, FOR_OWNER);
    made.with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(())
}

/// A new file in the same folder. It is removed unless it takes the other's place.
fn beside(path: &Path, mode: u32) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".leftfold-").suffix(".part").permissions(Permissions::from_mode(mode));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}
