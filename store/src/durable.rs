//! Makes files and folders durable. Every function here blocks until the disk has the data. Debug
//! builds can record the calls, so that a test can check that each way of writing makes its syncs.

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs the contents of a file.
pub(crate) fn contents(file: &File, path: &Path) -> io::Result<()> {
    file.sync_data()?;
    synced::note(path);
    Ok(())
}

/// Syncs a file with its length and times.
pub(crate) fn file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    synced::note(path);
    Ok(())
}

/// Syncs the names in a folder.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    file(path)
}

#[cfg(not(debug_assertions))]
mod synced {
    pub(super) fn note(_: &std::path::Path) {}
}

/// The record of syncs, for tests.
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

    /// Returns all syncs since the last call, in order. The first call starts the recording.
    pub fn take() -> Vec<PathBuf> {
        let mut synced = SYNCED.lock().unwrap_or_else(PoisonError::into_inner);
        synced.replace(Vec::new()).unwrap_or_default()
    }
}
