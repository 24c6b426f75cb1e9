//! One writer a file within the process: calls that run side by side must not lose each other's
//! edits between reading and writing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<Mutex<()>>>>> = LazyLock::new(Mutex::default);

/// Runs `change` while nobody else changes the file at `path` (resolved). Blocks the thread.
pub(crate) fn alone<T>(path: &Path, change: impl FnOnce() -> T) -> T {
    let lock = lock_of(path);
    let _held = hold(&lock);
    change()
}

/// [`alone`] on several files. `paths` must be sorted and unique: whoever needs some of the same then
/// waits for the first of them instead of for each other.
pub(crate) fn alone_on<T>(paths: &[PathBuf], change: impl FnOnce() -> T) -> T {
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

/// A change that panicked has left a whole file behind (they are replaced atomically), so a
/// poisoned lock is as good as any.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
