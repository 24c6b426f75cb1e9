//! Reads any store from a private copy, without its lock.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, Seq, SessionId};

use crate::database;
use crate::engine::ReadEngine;
use crate::error::{Damage, Error};
use crate::head::{Head, Summary};
use crate::payloads::Cache;
use crate::read_ahead::ReadAhead;
use crate::scan::{EncodedEntry, EncodedScan, Scan, ScanFault, Source};
use crate::sled_engine::Records;

/// Databases larger than this are read by several threads.
const LARGE: u64 = 4 << 20;

/// The events of a session (for a fork, including the shared ones) up to and including seq `to`. It
/// does not look for damage after them.
///
/// # Errors
/// As for [`Reader::open`] and [`Reader::read`].
pub fn read(dir: &Path, session: SessionId, to: Seq) -> Result<Vec<Envelope>, Error> {
    Reader::open(dir)?.read_between(session, 1, to)
}

/// Calls back for each event that [`read`] would return, in order. It keeps none of them.
///
/// # Errors
/// As for [`read`]. The events before the first one that is not as written are passed on.
pub fn visit(
    dir: &Path,
    session: SessionId,
    to: Seq,
    each: impl FnMut(Envelope),
) -> Result<(), Error> {
    Reader::open(dir)?.visit(session, 1, to, each)
}

/// A view of a store as it is now. It takes no lock and changes nothing. It reads a private copy, or
/// what [`Reader::from_engine`] was given.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    engine: Arc<dyn ReadEngine>,
    cache: Cache,
}

impl Reader {
    /// # Errors
    /// [`Error::NotAStore`] if there is no database in `dir`, [`Error::Damaged`] if sled cannot
    /// open it, [`Error::Io`] if it cannot be copied.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        match database::reader(dir)? {
            Some(engine) => Ok(Self::from_engine(engine, dir)),
            None => Ok(Self::from_engine(Arc::new(Records::copy_of(dir)?), dir)),
        }
    }

    /// Reads what an engine keeps. `dir` has the files of the sessions: full texts and records.
    pub fn from_engine(engine: Arc<dyn ReadEngine>, dir: &Path) -> Self {
        Self { dir: dir.to_owned(), engine, cache: Cache::default() }
    }

    fn is_root(&self, session: SessionId) -> bool {
        let first = Scan::all(self.source(), session, None, 1).next();
        let Some(Ok(first)) = first else { return false };
        matches!(first.envelope.event, Event::Session(Session::Created { parent: None, .. }))
    }

    /// The sessions that have events: the root that the folder is named after, then other roots, then children
    /// and forks, each by id.
    ///
    /// # Errors
    /// [`Error::Damaged`], or the database is away.
    pub fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let name = self.dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let heads = self.heads()?.into_iter().map(|head| (head.session, head.summary));
        let heads: HashMap<SessionId, Option<Summary>> = heads.collect();
        let is_root = |session: &SessionId| match heads.get(session) {
            Some(Some(summary)) => summary.parent.is_none() && summary.fork_of.is_none(),
            Some(None) | None => self.is_root(*session),
        };
        let mut sessions = self.engine.sessions().map_err(|fault| fault.into_error(&self.dir))?;
        sessions.sort_by_cached_key(|session| {
            (name.as_deref() != Some(&session.to_string()), !is_root(session), *session)
        });
        Ok(sessions)
    }

    /// The folder that was read.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The heads; of a copy, as they were when it was made.
    ///
    /// # Errors
    /// The database is away.
    pub fn heads(&self) -> Result<Vec<Head>, Error> {
        self.engine.heads().map_err(|fault| fault.into_error(&self.dir))
    }

    /// The head of one session. `None`: it has none, or it is damaged.
    ///
    /// # Errors
    /// The database is away.
    pub fn head(&self, session: SessionId) -> Result<Option<Head>, Error> {
        self.head_to_compare(session).map_err(|damage| Error::damaged(&self.dir, damage))
    }

    fn head_to_compare(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        match self.engine.head(session) {
            Err(away) if away.is_away => Err(away),
            head => Ok(head.unwrap_or_default()),
        }
    }

    /// A session's events (for a fork, including the shared ones) from seq `from` on. Empty for a
    /// session that is not in the store.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::OtherSchema`] at the first event that is not as written, also
    /// if it is before `from`.
    pub fn read(&self, session: SessionId, from: Seq) -> Result<Vec<Envelope>, Error> {
        self.read_between(session, from, Seq::MAX)
    }

    fn read_between(&self, session: SessionId, from: Seq, to: Seq) -> Result<Vec<Envelope>, Error> {
        let mut events = Vec::new();
        self.visit(session, from, to, |event| events.push(event))?;
        Ok(events)
    }

    fn visit(
        &self,
        session: SessionId,
        from: Seq,
        to: Seq,
        each: impl FnMut(Envelope),
    ) -> Result<(), Error> {
        let found = self.visit_entries(session, from, to, each);
        let is_past = found.map_err(|wrong| wrong.into_error(&self.dir))?;
        match self.head_damage(session).filter(|_| !is_past) {
            Some(damage) => Err(Error::damaged(&self.dir, damage)),
            None => Ok(()),
        }
    }

    /// Calls back for the events up to `to` that are before the first one that is not as written.
    /// Returns whether there are events after `to`.
    fn visit_entries(
        &self,
        session: SessionId,
        from: Seq,
        to: Seq,
        mut each: impl FnMut(Envelope),
    ) -> Result<bool, ScanFault> {
        let source = self.source();
        let mut is_past = false;
        self.each_encoded(source, session, from, |entry| {
            let entry = entry?;
            is_past = entry.seq() > to;
            if !is_past {
                each(entry.decode(source)?.envelope);
            }
            Ok(!is_past)
        })?;
        Ok(is_past)
    }

    /// Calls back for the events of a session and for its damage, until `each` says that it has
    /// enough or fails. In a large database other threads read ahead.
    fn each_encoded(
        &self,
        source: Source<'_>,
        session: SessionId,
        from: Seq,
        mut each: impl FnMut(Result<EncodedEntry, ScanFault>) -> Result<bool, ScanFault>,
    ) -> Result<(), ScanFault> {
        // first: it is a lower bound, and the log may grow meanwhile
        let head = self.head_to_compare(session).map_err(ScanFault::Damage)?;
        let mut until_enough = |source: Source<'_>| {
            for entry in EncodedScan::history(source, session, head.clone(), (from, false)) {
                if !each(entry)? {
                    break;
                }
            }
            Ok(())
        };
        // what cannot be counted is read all the same
        if self.engine.size().unwrap_or_default() <= LARGE {
            return until_enough(source);
        }
        thread::scope(|scope| {
            let engine = ReadAhead { engine: source.engine, scope };
            until_enough(Source { engine: &engine, cache: source.cache })
        })
    }

    /// The events before the first one that is not as written, and the damage at that event.
    pub fn read_good(&self, session: SessionId) -> (Vec<Envelope>, Option<Damage>) {
        let mut events = Vec::new();
        match self.visit_entries(session, 1, Seq::MAX, |event| events.push(event)) {
            Ok(_) => (events, self.head_damage(session)),
            Err(wrong) => (events, Some(wrong.into_damage())),
        }
    }

    /// The source of the reader.
    pub(crate) fn engine(&self) -> &dyn ReadEngine {
        &*self.engine
    }

    fn head_damage(&self, session: SessionId) -> Option<Damage> {
        self.engine.head(session).err()
    }

    /// Calls back for every event of a session and for all its damage.
    pub(crate) fn walk(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = Result<Envelope, ScanFault>> + '_ {
        // if it cannot be read, neither can the events
        let head = self.head_to_compare(session).unwrap_or_default();
        Scan::all(self.source(), session, head, 1).map(|entry| entry.map(|entry| entry.envelope))
    }

    fn source(&self) -> Source<'_> {
        Source { engine: &*self.engine, cache: &self.cache }
    }
}
