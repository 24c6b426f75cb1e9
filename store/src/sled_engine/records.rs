//! Reads the records of an open database, and the files beside it.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use leftfold_events::{Seq, SessionId, Sha256};
use tempfile::TempDir;

use crate::chain::{Link, PLACE, START};
use crate::engine::{EventFault, EventsOf, Owner, ReadEngine, StoredEvent};
use crate::error::{ContentFault, Damage, Error};
use crate::head::Head;
use crate::imported;
use crate::sled_engine::panics::catch_panic;
use crate::sled_engine::record::{self, Body, First, RecordError};
use crate::sled_engine::{files, head_files};

/// The records of a database and the files of the store that it belongs to. The database may be a
/// private copy.
pub(crate) struct Records {
    /// `None` once it is closed.
    pub(crate) db: Option<sled::Db>,
    /// The store's own folder, also if `db` is a copy.
    pub(crate) dir: PathBuf,
    /// `None` if `db` is the store's own database.
    pub(crate) copied: Option<Copied>,
}

/// A database that was copied.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The heads, and the damage of those that cannot be read, as they were before the database was
    /// copied: they are lower bounds, and the log may grow meanwhile.
    pub(crate) heads: (Vec<Head>, Vec<Damage>),
    /// Bytes of the database.
    pub(crate) size: u64,
    /// The copied files. `None` if they are deleted already, so that a killed process leaves nothing
    /// behind.
    pub(crate) folder: Option<TempDir>,
}

/// Freeing the pages of a copy larger than this takes so long that a thread of its own does it.
const SLOW_TO_FREE: u64 = 4 << 20;

impl Drop for Records {
    fn drop(&mut self) {
        let Some(db) = self.db.take() else { return };
        // errors that sled reports while it closes a damaged copy do not matter
        let close = move || drop(catch_panic(move || drop(db)));
        match &self.copied {
            // a folder must be gone when the process ends, which does not wait for the thread
            Some(Copied { size: SLOW_TO_FREE.., folder: None, .. }) => {
                // without a thread the closure is dropped here, which closes the copy too
                let start = || thread::Builder::new().name("leftfold-close".into()).spawn(close);
                let _ = catch_panic(start);
            }
            Some(_) | None => close(),
        }
    }
}

leftfold_events::debug_fields!(Records { dir });

impl Records {
    pub(crate) fn new(db: sled::Db, dir: &Path) -> Self {
        Self { db: Some(db), dir: dir.to_owned(), copied: None }
    }

    /// A copy of the database in `dir`.
    pub(crate) fn copied(db: sled::Db, dir: &Path, copied: Copied) -> Self {
        Self { db: Some(db), dir: dir.to_owned(), copied: Some(copied) }
    }

    pub(crate) fn db(&self) -> Result<&sled::Db, String> {
        self.db.as_ref().ok_or_else(|| format!("{} is closed", self.dir.display()))
    }

    /// Whether there is a record for the contents. It does not check them.
    pub(crate) fn has_payload(&self, sha256: Sha256) -> Result<bool, String> {
        let (db, key) = (self.db()?, record::part(&record::payload_key(sha256), 0));
        catch_panic(|| db.contains_key(key))?.map_err(|e| e.to_string())
    }

    /// The seq of the session's last event.
    pub(crate) fn last(&self, session: SessionId) -> Result<Option<Seq>, String> {
        let db = self.db()?;
        let last = catch_panic(|| db.range(record::range(session, 0)).next_back())?;
        let last = last.transpose().map_err(|e| e.to_string())?;
        Ok(last.and_then(|(key, _)| record::seq_of(&key)))
    }

    /// Removes the sessions' own events and their heads.
    pub(crate) fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        // heads first: a log that ends before its head counts as damaged
        for session in sessions {
            let path = head_files::path(&self.dir, *session);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("cannot remove", &path, error));
                }
                _ => {}
            }
        }
        let db = self.db().map_err(|what| Error::Database { what })?;
        let removed = catch_panic(|| {
            let mut batch = sled::Batch::default();
            for session in sessions {
                for record in db.range(record::range(*session, 0)) {
                    batch.remove(record?.0);
                }
            }
            db.apply_batch(batch)?;
            db.flush().map(|_| ())
        });
        match removed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::sled("removed sessions", &self.dir, error)),
            Err(what) => Err(Error::Database { what }),
        }
    }

    fn content(&self, body: Body) -> Result<Vec<u8>, ContentFault> {
        match body {
            Body::Inline(bytes) => Ok(bytes),
            Body::File { sha256, length } => files::get(&self.dir, sha256, length),
        }
    }
}

impl ReadEngine for Records {
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_> {
        let mut events = Events { of: self, records: None, ahead: None, out: VecDeque::new() };
        let opened =
            self.db().and_then(|db| catch_panic(|| db.range(record::range(session, from))));
        match opened {
            Ok(records) => events.records = Some(records),
            Err(what) => events.lost(&what),
        }
        Box::new(events)
    }

    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
        let db = self.db()?;
        let found = catch_panic(|| db.range(record::range(session, from)).next())?;
        let Some(found) = found else { return Ok(None) };
        let (key, value) = found.map_err(|e| e.to_string())?;
        let Some(seq) = record::seq_of(&key) else { return Ok(None) };
        match record::first(&key, &value, START.len()) {
            Ok(First { schema, lead, bytes }) => {
                let link = Link::try_from(lead).unwrap_or_default();
                Ok(Some(StoredEvent { seq, schema, link, body: bytes.to_vec() }))
            }
            Err(wrong) => Err(ContentFault::db(wrong.to_string())),
        }
    }

    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
        let db = self.db()?;
        let (mut found, mut low) = (Vec::new(), Vec::new());
        while let Some(record) =
            catch_panic(|| db.range(low.clone()..record::PAYLOADS.to_vec()).next())?
        {
            let (key, _) = record.map_err(|e| e.to_string())?;
            let mut id = [0; 16];
            let known = key.len().min(16);
            id[..known].copy_from_slice(&key[..known]);
            let session = SessionId::from_bytes(id);
            found.push(session);
            // after every key of this session
            low = record::range(session, 0).into_inner().1;
            low.push(0);
        }
        Ok(found)
    }

    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
        let db = self.db().map_err(ContentFault::db)?;
        let records = catch_panic(|| {
            db.scan_prefix(record::payload_key(sha256)).collect::<Result<Vec<_>, sled::Error>>()
        });
        let records =
            records.map_err(ContentFault::db)?.map_err(|e| ContentFault::db(e.to_string()))?;
        if records.is_empty() {
            return Ok(None);
        }
        let decoded = record::from_records(&records, 0)
            .map_err(|wrong| ContentFault::db(wrong.to_string()))?;
        self.content(decoded.body).map(Some)
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        match &self.copied {
            Some(Copied { heads: (heads, damage), .. }) => {
                match damage.iter().find(|damage| damage.session == Some(session)) {
                    Some(damage) => Err(damage.clone()),
                    None => Ok(heads.iter().find(|head| head.session == session).cloned()),
                }
            }
            None => head_files::read(&self.dir, session),
        }
    }

    fn heads(&self) -> Result<Vec<Head>, ContentFault> {
        Ok(match &self.copied {
            Some(copied) => copied.heads.0.clone(),
            None => head_files::heads(&self.dir),
        })
    }

    fn damage(&self) -> Vec<Damage> {
        match &self.copied {
            Some(copied) => copied.heads.1.clone(),
            None => head_files::read_all(&self.dir).1,
        }
    }

    fn owner(&self, _: SessionId) -> Result<Owner, ContentFault> {
        Ok(Owner::default())
    }

    fn size(&self) -> Result<u64, ContentFault> {
        Ok(match &self.copied {
            Some(copied) => copied.size,
            None => fs::metadata(self.dir.join("db")).map_or(0, |found| found.len()),
        })
    }

    fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
        imported::read_file(&self.dir)
            .map_err(|error| ContentFault::file(imported::FILE.into(), None, error.to_string()))
    }
}

type Record = (sled::IVec, sled::IVec);

/// Joins the events of one session from their records.
struct Events<'a> {
    of: &'a Records,
    records: Option<sled::Iter>,
    ahead: Option<Record>,
    out: VecDeque<Result<StoredEvent, EventFault>>,
}

impl Events<'_> {
    /// Ends, because sled cannot read on.
    fn lost(&mut self, what: &str) {
        self.records = None;
        let what = format!("the database cannot be read from here on: {what}");
        self.out.push_back(Err(EventFault::Unplaced(ContentFault::db(what))));
    }

    fn record(&mut self) -> Option<Record> {
        if let Some(record) = self.ahead.take() {
            return Some(record);
        }
        let records = self.records.as_mut()?;
        match catch_panic(|| records.next()) {
            Ok(Some(Ok(record))) => return Some(record),
            Ok(None) => self.records = None,
            Ok(Some(Err(error))) => self.lost(&error.to_string()),
            Err(panic) => self.lost(&panic),
        }
        None
    }

    /// The records of the next event.
    fn event(&mut self) -> Option<Vec<Record>> {
        let first = self.record()?;
        let mut records = vec![first];
        while let Some(next) = self.record() {
            if next.0.get(..PLACE) != records[0].0.get(..PLACE) {
                self.ahead = Some(next);
                break;
            }
            records.push(next);
        }
        Some(records)
    }

    fn join(&self, records: &[Record]) -> Result<StoredEvent, EventFault> {
        let Some(seq) = record::seq_of(&records[0].0) else {
            let what = "a key that does not belong to an event";
            return Err(EventFault::Unplaced(ContentFault::db(what)));
        };
        let decoded = record::from_records(records, START.len()).map_err(|wrong| match wrong {
            RecordError::Schema(found) => EventFault::OtherSchema { seq, found },
            RecordError::Bad(what) => {
                EventFault::Damage { seq, link: None, what: ContentFault::db(what) }
            }
        })?;
        let (schema, link) = (decoded.schema, Link::try_from(decoded.lead).unwrap_or_default());
        match self.of.content(decoded.body) {
            Ok(body) => Ok(StoredEvent { seq, schema, link, body }),
            Err(what) => Err(EventFault::Damage { seq, link: Some(link), what }),
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<StoredEvent, EventFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.out.is_empty()
            && let Some(records) = self.event()
        {
            // after the fault that ended the reading of its records
            self.out.push_back(self.join(&records));
        }
        self.out.pop_front()
    }
}
