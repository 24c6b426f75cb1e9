//! Private copies of a store, for readers: they take no lock and change nothing, and a node that
//! continues to write does not disturb them.

use std::path::Path;

use crate::engine::ReadEngine;
use crate::error::{Damage, Error};
use crate::head::Head;
use crate::lookup;
use crate::payloads::Cache;
use crate::scan::{Scan, Source};
use crate::sled_engine::database::{self, Files, Fingerprint};
use crate::sled_engine::head_files;
use crate::sled_engine::records::Records;

/// How often a store is copied while a node is writing to it. After that, events that are missing
/// in the copy count as lost.
const ATTEMPTS: u32 = 8;

impl Records {
    /// Copies the store in `dir` as it is now.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there is no database in `dir`, [`Error::Damaged`] if sled cannot
    /// open it, [`Error::Io`] if it cannot be copied.
    pub(crate) fn copy_of(dir: &Path) -> Result<Self, Error> {
        let mut before: Option<Fingerprint> = None;
        let mut attempt = 1;
        loop {
            let heads = head_files::read_all(dir);
            let files = database::copy(dir)?;
            // a copy of a database that is being written may be torn; a copy of an idle one is
            // reliable
            let still =
                before.replace(files.fingerprint) == Some(files.fingerprint) || attempt == ATTEMPTS;
            let moving = files.moving;
            match start(dir, files, heads) {
                Ok(copy) if still || copy.is_whole(moving) => return Ok(copy),
                Err(what) if still => return without_snapshot(dir, &what),
                Ok(_) | Err(_) => attempt += 1,
            }
        }
    }

    /// Whether everything that was acknowledged is in the copy. If the database was being written,
    /// every event is checked, because sled may have moved some of them during the copy.
    fn is_whole(&self, moving: bool) -> bool {
        self.lost().is_none() && (!moving || self.is_sound())
    }

    /// The first event that a head names and the database does not hold.
    pub(crate) fn lost(&self) -> Option<Damage> {
        self.heads().unwrap_or_default().iter().find_map(|head| lookup::holds(self, head).err())
    }

    fn is_sound(&self) -> bool {
        let cache = Cache::default();
        let source = Source { engine: self, cache: &cache };
        let is_sound = |session| {
            let head = self.head(session).unwrap_or_default();
            Scan::all(source, session, head, 1).all(|event| event.is_ok())
        };
        self.sessions().is_ok_and(|sessions| sessions.into_iter().all(is_sound))
    }
}

fn start(dir: &Path, files: Files, heads: (Vec<Head>, Vec<Damage>)) -> Result<Records, String> {
    let copy = files.open(dir, heads)?;
    copy.sessions().map_err(|fault| fault.to_string())?;
    Ok(copy)
}

/// Opens the store without sled's snapshot. The snapshot is a shortcut: if only it is broken, the
/// log still holds everything.
fn without_snapshot(dir: &Path, what: &str) -> Result<Records, Error> {
    let damaged = || Error::damaged(dir, Damage::db(format!("sled cannot open it: {what}")));
    let (heads, mut damage) = head_files::read_all(dir);
    let mut files = database::copy(dir)?;
    let Some(snapshot) = files.snapshot_name() else { return Err(damaged()) };
    files.without_snapshot();
    let what = format!("the database opens only without sled's snapshot: {what}");
    damage.push(Damage { file: snapshot.into(), ..Damage::db(what) });
    start(dir, files, (heads, damage)).map_err(|_| damaged())
}
