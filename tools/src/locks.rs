//! Allows one writer per file within the process, so that concurrent calls do not lose each other's
//! edits between reading and writing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// Runs `change` while no other call changes the file at `path` (resolved). Blocks the thread.
pub(crate) fn with_lock<T>(path: &Path, change: impl FnOnce() -> T) -> T {
    let lock = lock_of(path);
    let _held = hold(&lock);
    change()
}

/// [`with_lock`] for several files. `paths` must be sorted and unique: calls that share files then
/// wait at the first shared one, which prevents deadlock.
pub(crate) fn with_locks<T>(paths: &[PathBuf], change: impl FnOnce() -> T) -> T {
    let locks: Vec<_> = paths.iter().map(|path| lock_of(path)).collect();
    let _held: Vec<_> = locks.iter().map(|lock| hold(lock)).collect();
    change()
}

fn lock_of(path: &Path) -> Arc<Mutex<()>> {
    let mut locks = hold(&LOCKS);
    locks.retain(|_, lock| lock.strong_count() > 0);
    if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
        return lock;
    }
    let lock = Arc::default();
    locks.insert(path.to_owned(), Arc::downgrade(&lock));
    lock
}

/// Locks. A poisoned lock is fine: a change that panicked has left whole files, because they are
/// replaced atomically.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
