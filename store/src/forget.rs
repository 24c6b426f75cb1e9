//! Removes single sessions from a store.

use std::fs;
use std::path::Path;

use leftfold_events::{Seq, SessionId};

use crate::database::{self, catch_panic};
use crate::error::Error;
use crate::{head, record};

/// Removes the own events of `sessions` from the store in `dir`. No session outside the list may
/// share their events (as a fork does). Contents stay in the store, because other sessions may name
/// them.
///
/// A crash in the middle leaves sessions without a head, and possibly without some of their events.
/// Call the function again to complete the removal.
///
/// # Errors
/// [`Error::Locked`] while a node has the store open, [`Error::Io`], [`Error::Database`].
pub fn forget(dir: &Path, sessions: &[SessionId]) -> Result<(), Error> {
    let Some(db) = database::open(dir)? else {
        return Err(Error::Locked { dir: dir.to_owned() });
    };
    remove_events(dir, &db, sessions)
}

/// Removes the own events of `sessions` from a store that is open.
pub(crate) fn remove_events(
    dir: &Path,
    db: &sled::Db,
    sessions: &[SessionId],
) -> Result<(), Error> {
    // heads first: a log that ends before its head counts as damaged
    for session in sessions {
        let path = dir.join(head::FOLDER).join(session.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("cannot remove", &path, error));
            }
            _ => {}
        }
    }
    let removed = catch_panic(|| {
        let mut batch = sled::Batch::default();
        for session in sessions {
            let low = record::part(&record::event_key(*session, 0), 0);
            let high = record::part(&record::event_key(*session, Seq::MAX), u8::MAX);
            for record in db.range(low..=high) {
                batch.remove(record?.0);
            }
        }
        db.apply_batch(batch)?;
        db.flush().map(|_| ())
    });
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::sled("removed sessions", dir, error)),
        Err(what) => Err(Error::Database { what }),
    }
}
