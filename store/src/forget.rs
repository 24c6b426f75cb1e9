//! Removes single sessions from a store.

use std::path::Path;

use leftfold_events::SessionId;

use crate::database;
use crate::error::Error;
use crate::sled_engine::{self, Records};
use crate::store::Store;

/// Removes the own events of `sessions` from the store in `dir`. No session outside the list may
/// share their events (as a fork does). Contents stay in the store, because other sessions may name
/// them.
///
/// A crash in the middle leaves sessions without a head, and possibly without some of their events.
/// Call the function again to complete the removal.
///
/// # Errors
/// [`Error::Locked`] while a node has the store open, [`Error::Taken`] while one of a database has a session, [`Error::Io`], [`Error::Database`].
pub fn forget(dir: &Path, sessions: &[SessionId]) -> Result<(), Error> {
    if database::is_named(dir) {
        return Store::open(dir)?.forget(sessions);
    }
    let Some(db) = sled_engine::open(dir)? else {
        return Err(Error::Locked { dir: dir.to_owned() });
    };
    Records::new(db, dir).remove(sessions)
}
