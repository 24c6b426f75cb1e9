//! A store that this process has open as its node: opens and imports logs.

use std::path::Path;
use std::sync::{Arc, Weak};

use leftfold_events::{Envelope, Seq, SessionId};

use crate::copy_log::{self, Copied};
use crate::database;
use crate::engine::{Engine, Inboxes, Wake};
use crate::error::{Damage, Error};
use crate::head::Head;
use crate::imported::{self, Imports};
use crate::log::Log;
use crate::open_store::OpenStore;
use crate::reader::Reader;
use crate::scan::Scan;
use crate::sled_engine::SledEngine;

/// Events that an import writes at once.
const IMPORT_BATCH: usize = 500;

/// A store that this process has open as its node. Clones share it. It closes when the last clone
/// and the last [`Log`] are dropped; that drop waits until everything is on the disk and the lock
/// is free.
#[derive(Clone, Debug)]
pub struct Store(Arc<OpenStore>);

impl Store {
    /// Opens the store in `dir` as its node, and creates it if it does not exist.
    ///
    /// Opening may repair a torn end in place. So a database of up to 64 MiB that is not exactly as
    /// the last node left it is first checked in a copy. If that copy lacks acknowledged events,
    /// the store stays untouched.
    ///
    /// # Errors
    /// [`Error::Locked`] if another node still holds the store after two seconds,
    /// [`Error::Damaged`], [`Error::Full`] or [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let engine = match database::open(dir)? {
            Some(engine) => engine,
            None => Box::new(SledEngine::open(dir)?),
        };
        Ok(Self::with(engine, dir))
    }

    /// A store on an engine that is open. `dir` has the files of the sessions: full texts and records.
    pub fn with(engine: Box<dyn Engine>, dir: &Path) -> Self {
        Self(Arc::new(OpenStore::new(engine, dir)))
    }

    /// Opens the log of `session` for appending. It may be new: then it belongs to the family of `from`, the session
    /// that it comes from. It reads the end of the log. Only the Session actor may call this: `clippy.toml` forbids
    /// it everywhere else.
    ///
    /// # Errors
    /// [`Error::Taken`] while another [`Log`] of the session exists, [`Error::Damaged`] if the
    /// log's end is not as it was acknowledged, [`Error::OtherSchema`].
    pub fn log(&self, session: SessionId, from: Option<SessionId>) -> Result<Log, Error> {
        Log::open(&self.0, session, from)
    }

    /// Writes the log of a session that this store does not have yet: events that another store has
    /// exported, or that were converted. It decides nothing and has no effects. Only this function
    /// and the Session actor append to a log.
    ///
    /// The whole log is checked before anything is written: each event belongs to `session`, and
    /// seqs go from 1 without a gap; a fork continues from an event that is in this store. After
    /// writing, the log is read back through its checksums and its chain, and compared. The call
    /// blocks on the disk.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Order`], [`Error::Foreign`], [`Error::Unstorable`],
    /// [`Error::Full`], [`Error::Io`], [`Error::Database`]; [`Error::Damaged`] if the log that was
    /// written is not the one that was given. After an error the log may have been written in part.
    pub fn import(&self, session: SessionId, events: &[Envelope]) -> Result<(), Error> {
        let from = events.first().and_then(|first| first.event.comes_from());
        let mut log = Log::open(&self.0, session, from)?;
        if log.head() > 0 {
            return Err(Error::Exists { session });
        }
        log.check_order(events)?;
        for batch in events.chunks(IMPORT_BATCH) {
            log.append_wait(batch)?;
        }
        let written = log.read()?;
        let own = written.iter().filter(|event| event.session == session);
        if own.eq(events) {
            return Ok(());
        }
        let damage = Damage::event(session, log.head(), "it is not as it was imported");
        Err(Error::damaged(self.dir(), damage))
    }

    /// Copies the log of a session from another store, byte for byte: the same events, links and contents. If
    /// this store has the beginning of that log already, the rest follows. A fork needs the events that it
    /// shares to be here. The log is verified before, and read back after it was written.
    ///
    /// # Errors
    /// [`Error::Exists`] if this store has another log under the id, [`Error::Damaged`], and those of
    /// [`Self::import`].
    pub fn copy_log(&self, from: &Reader, session: SessionId) -> Result<Copied, Error> {
        copy_log::copy(&self.0, from, session)
    }

    /// Removes the own events of `sessions`, as [`forget`](crate::forget) does in a store that nobody
    /// has open. None of their logs may be open.
    ///
    /// # Errors
    /// [`Error::Taken`] if a log is open, [`Error::Io`], [`Error::Database`].
    pub fn forget(&self, sessions: &[SessionId]) -> Result<(), Error> {
        self.0.forget(sessions)
    }

    /// A reader of this store's sessions. It cannot write.
    pub fn reader(&self) -> LiveReader {
        LiveReader(Arc::clone(&self.0))
    }

    /// Distinguishes this store from every other one, including its copies. All nodes that share a store have
    /// the same.
    pub fn identity(&self) -> String {
        self.0.engine.identity()
    }

    /// Whether other nodes append to other sessions of this store at the same time.
    pub fn is_shared(&self) -> bool {
        self.0.engine.is_shared()
    }

    /// The sessions that want a node and that this one may go on with: those that nobody owns, and those that this node
    /// owns and that are not `at_work` in it. None once `most` are open here.
    ///
    /// # Errors
    /// The database is away.
    pub fn unowned(&self, at_work: &[SessionId], most: usize) -> Result<Vec<SessionId>, Error> {
        self.0.engine.unowned(at_work, most)
    }

    /// From now on, calls `wake` when another node has given back sessions that want one. A call may be lost.
    pub fn on_release(&self, wake: Wake) {
        self.0.engine.on_release(wake);
    }

    /// The inboxes of its sessions, if other nodes share the store.
    pub fn inbox(&self) -> Option<Inbox> {
        Inbox::of(&self.0)
    }

    /// Gives all sessions back and opens no more, so that other nodes of a shared store go on with them at once.
    pub fn leave(&self) {
        self.0.engine.leave();
    }

    /// Notes that these logs are imported, each as a whole, and which steps of the first one have snapshots
    /// that were checked. Call it before a log becomes visible: a crash then leaves no imported log without
    /// its note.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Database`]; [`Error::Unstorable`] if an event is too large.
    pub fn note_imported<'a>(
        &self,
        logs: impl IntoIterator<Item = (SessionId, &'a [Envelope])>,
        accepted: Vec<Seq>,
    ) -> Result<(), Error> {
        self.0.engine.note_imports(&imported::notes(logs, accepted)?)
    }

    /// Takes over the notes of another store about these sessions.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Database`], or the other store cannot be read.
    pub fn copy_notes(&self, from: &Path, sessions: &[SessionId]) -> Result<(), Error> {
        let notes = Imports::for_store(from)?.lines(sessions);
        if notes.is_empty() { Ok(()) } else { self.0.engine.note_imports(&notes) }
    }

    pub fn dir(&self) -> &Path {
        self.0.dir()
    }
}

/// The inboxes of a shared store that this process holds open: see [`Inboxes`]. It keeps the store open.
#[derive(Clone, Debug)]
pub struct Inbox(Arc<OpenStore>);

impl Inbox {
    fn of(store: &Arc<OpenStore>) -> Option<Self> {
        store.engine.inboxes().map(|_| Self(Arc::clone(store)))
    }

    /// Works with them. This waits for the database.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn with<T>(&self, work: impl FnOnce(&dyn Inboxes) -> Result<T, Error>) -> Result<T, Error> {
        let none = || Error::Engine { what: "nodes do not share this store".into() };
        work(self.0.engine.inboxes().ok_or_else(none)?)
    }

    /// A handle that does not keep the store open.
    pub fn downgrade(&self) -> WeakInbox {
        WeakInbox(Arc::downgrade(&self.0))
    }

    /// A reader of the sessions.
    pub fn reader(&self) -> LiveReader {
        LiveReader(Arc::clone(&self.0))
    }
}

/// An [`Inbox`] that does not keep the store open.
#[derive(Clone, Debug)]
pub struct WeakInbox(Weak<OpenStore>);

impl WeakInbox {
    /// `None`: the store is closed.
    pub fn upgrade(&self) -> Option<Inbox> {
        self.0.upgrade().map(Inbox)
    }
}

/// Reads a store that this process holds open, also while its logs are being written. It keeps the
/// store open, and cannot write.
#[derive(Clone, Debug)]
pub struct LiveReader(Arc<OpenStore>);

impl LiveReader {
    /// Up to `most` acknowledged events of `session` (for a fork, including the shared ones) from
    /// seq `from` on.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::OtherSchema`] at the first event that is not as written.
    pub fn read(&self, session: SessionId, from: Seq, most: usize) -> Result<Vec<Envelope>, Error> {
        let dir = self.dir();
        let Some(head) = self.0.head(session)? else { return Ok(Vec::new()) };
        // the engine shows a batch before it is durable; readers may see it only when the head
        // includes it
        Scan::history(self.0.source(), session, None, (from, true))
            .take_while(|entry| entry.as_ref().map_or(true, |e| e.envelope.seq <= head.seq))
            .take(most)
            .map(|entry| entry.map(|e| e.envelope).map_err(|wrong| wrong.into_error(dir)))
            .collect()
    }

    /// The readable heads of all sessions, sorted by session. If the node has the store alone, only the first
    /// call reads files.
    ///
    /// # Errors
    /// The database is away.
    pub fn heads(&self) -> Result<Vec<Head>, Error> {
        self.0.heads()
    }

    /// The head of one session; `None` if it cannot be read or there is none.
    pub fn head(&self, session: SessionId) -> Option<Head> {
        self.0.heads.one(self.0.engine.reader(), session)
    }

    /// The inboxes of the sessions, if other nodes share the store.
    pub fn inbox(&self) -> Option<Inbox> {
        Inbox::of(&self.0)
    }

    pub fn dir(&self) -> &Path {
        self.0.dir()
    }
}
