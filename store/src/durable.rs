//! Making things durable, at one place: whoever calls these waits for the disk. Debug builds keep a list
//! on demand, so that a test can hold each way of writing to the syncs that it owes.

use std::fs::File;
use std::io;
use std::path::Path;

/// The contents of a file.
pub(crate) fn contents(file: &File, path: &Path) -> io::Result<()> {
    file.sync_data()?;
    synced::note(path);
    Ok(())
}

/// A file with its length and times, by its path.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    synced::note(path);
    Ok(())
}

/// The names in a folder.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    file(path)
}

#[cfg(not(debug_assertions))]
mod synced {
    pub(super) fn note(_: &std::path::Path) {}
}

/// What was made durable since somebody began to look.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod synced {
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, PoisonError};

    static SYNCED: Mutex<Option<Vec<PathBuf>>> = Mutex::new(None);

    pub(super) fn note(path: &Path) {
        if let Some(synced) = &mut *SYNCED.lock().unwrap_or_else(PoisonError::into_inner) {
            synced.push(path.to_owned());
        }
    }

    /// All since the last call, in order; the first call only begins.
    pub fn take() -> Vec<PathBuf> {
        let mut synced = SYNCED.lock().unwrap_or_else(PoisonError::into_inner);
        synced.replace(Vec::new()).unwrap_or_default()
    }
}
