use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::Error;

/// Whether a node has the store in `dir` open right now. It takes a shared lock for an instant; a
/// node that fails to open the store because of it tries again.
pub fn in_use(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join("db")) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Removes a store with all its sessions.
///
/// # Errors
/// [`Error::Locked`] while a node has it open, [`Error::NotAStore`] if there is no database in
/// `dir` (then nothing is removed), [`Error::Io`].
pub fn remove(dir: &Path) -> Result<(), Error> {
    let path = dir.join("db");
    let file = File::open(&path).map_err(|error| Error::NotAStore {
        dir: dir.to_owned(),
        why: format!("{} cannot be opened: {error}", path.display()),
    })?;
    // the lock is held until the files are gone, so that no node opens the store meanwhile
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => remove_all(dir).map_err(|e| Error::io("cannot remove", dir, e)),
        Err(_) => Err(Error::Locked { dir: dir.to_owned() }),
    }
}

/// How often the removal is repeated while another process still writes into the folder.
const ATTEMPTS: usize = 20;

/// Removes the folder. A node that has just released the store may still write one last file into
/// it.
fn remove_all(dir: &Path) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    fs::remove_dir_all(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn a_store_is_in_use_while_it_is_open_and_can_then_not_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        assert!(!in_use(&dir));
        let store = Store::open(&dir).unwrap();
        assert!(in_use(&dir));
        assert!(matches!(remove(&dir), Err(Error::Locked { .. })));
        drop(store);
        assert!(!in_use(&dir));
        remove(&dir).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn only_stores_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years").unwrap();
        assert!(matches!(remove(folder.path()), Err(Error::NotAStore { .. })));
        assert!(folder.path().join("thesis.txt").exists());
    }
}
