//! Small JSON files below `LEFTFOLD_HOME` that only their owner can read: changed under a lock and replaced as a
//! whole, so that a reader sees the old contents or the new ones, also after a crash.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::files;
use crate::source::is_absent;

/// Only the owner can read and write.
pub(crate) const MODE: u32 = 0o600;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Reads a file; `None` if there is none.
///
/// # Errors
/// It cannot be read, is larger than 16 MiB, or holds something else.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let file = match files::open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Changes a file's contents if `change` returns true, and returns that. Other processes that change files of the
/// same folder wait.
///
/// # Errors
/// The file cannot be read or written.
pub fn change<T: DeserializeOwned + Serialize + Default>(
    path: &Path,
    change: impl FnOnce(&mut T) -> bool,
) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let lock = create(&folder.join("lock"))?;
    lock.lock()?;
    let mut contents = read(path)?.unwrap_or_default();
    let changed = change(&mut contents);
    if changed {
        replace(path, &contents)?;
    }
    Ok(changed)
}

/// Writes a new file beside the old one and puts it in its place.
#[expect(clippy::disallowed_methods, reason = "for writing")]
pub(crate) fn replace(path: &Path, contents: &impl Serialize) -> io::Result<()> {
    // Follows a link to the real file.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let new = path.with_extension("new");
    let mut file = create(&new)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    let mut text = serde_json::to_vec_pretty(contents)?;
    text.push(b'\n');
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(path.parent().unwrap_or(&path))?.sync_all()
}

/// Creates or empties a file, with a mode that only the owner can read from the start.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(MODE).open(path)
}
