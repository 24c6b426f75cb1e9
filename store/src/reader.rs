use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, Seq, SessionId};

use crate::database::{self, Copy, Fingerprint};
use crate::error::{Damage, Error};
use crate::head::{self, Head};
use crate::lookup;
use crate::payloads::Cache;
use crate::scan::{EncodedEntry, EncodedScan, Scan, ScanFault, Source};

/// How often a store is copied while a node is writing to it. After that, events that are missing
/// in the copy count as lost.
const ATTEMPTS: u32 = 8;

/// Databases larger than this are read by two threads: one verifies the records, one decodes them.
const LARGE: u64 = 4 << 20;
/// The most events and bytes that one thread hands to the other at a time, and how many such batches
/// may wait.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
const BATCHES: usize = 4;

/// The events of a session (for a fork, including the shared ones) up to and including seq `to`. It
/// does not look for damage behind them.
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

/// A view of a store as it is now. It reads a private copy: it takes no lock, changes nothing, and
/// a node that continues to write does not disturb it.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    copy: Copy,
    cache: Cache,
    heads: Vec<Head>,
    sessions: Vec<SessionId>,
    /// Damage of head files and of sled's snapshot.
    damage: Vec<Damage>,
}

impl Reader {
    /// # Errors
    /// [`Error::NotAStore`] if there is no database in `dir`, [`Error::Damaged`] if sled cannot
    /// open it, [`Error::Io`] if it cannot be copied.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let mut before: Option<Fingerprint> = None;
        let mut attempt = 1;
        loop {
            // heads first: they are lower bounds, and the log may grow meanwhile
            let heads = head::read_all(dir);
            let files = database::copy(dir)?;
            // a copy of a database that is being written may be torn; a copy of an idle one is
            // reliable
            let still =
                before.replace(files.fingerprint) == Some(files.fingerprint) || attempt == ATTEMPTS;
            let moving = files.moving;
            let opened = files.open().and_then(|copy| Self::start(dir, copy, heads));
            match opened {
                Ok(reader) if still || reader.is_whole(moving) => return Ok(reader),
                Err(what) if still => return Self::without_snapshot(dir, &what),
                Ok(_) | Err(_) => attempt += 1,
            }
        }
    }

    /// Whether everything that was acknowledged is in the copy. If the database was being written,
    /// every event is checked, because sled may have moved some of them during the copy.
    fn is_whole(&self, moving: bool) -> bool {
        self.lost().is_none()
            && (!moving || self.sessions.iter().all(|id| self.walk(*id).all(|event| event.is_ok())))
    }

    fn start(
        dir: &Path,
        copy: Copy,
        (heads, damage): (Vec<Head>, Vec<Damage>),
    ) -> Result<Self, String> {
        let (dir, cache) = (dir.to_owned(), Cache::default());
        let mut reader = Self { dir, copy, cache, heads, sessions: Vec::new(), damage };
        let sessions = match reader.source() {
            Some(source) => lookup::sessions(source.db)?,
            None => Vec::new(),
        };
        reader.sessions = sessions;
        reader.sort();
        Ok(reader)
    }

    /// Opens the store without sled's snapshot. The snapshot is a shortcut: if only it is broken,
    /// the log still holds everything.
    fn without_snapshot(dir: &Path, what: &str) -> Result<Self, Error> {
        let damaged = || Error::damaged(dir, Damage::db(format!("sled cannot open it: {what}")));
        let heads = head::read_all(dir);
        let mut files = database::copy(dir)?;
        let Some(snapshot) = files.snapshot_name() else { return Err(damaged()) };
        files.without_snapshot();
        let copy = files.open().map_err(|_| damaged())?;
        let mut reader = Self::start(dir, copy, heads).map_err(|_| damaged())?;
        let what = format!("the database opens only without sled's snapshot: {what}");
        reader.damage.push(Damage { file: snapshot, ..Damage::db(what) });
        Ok(reader)
    }

    /// Sorts roots before children and forks, and the root that the folder is named after before
    /// all.
    fn sort(&mut self) {
        let name = self.dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut sessions = std::mem::take(&mut self.sessions);
        sessions.sort_by_cached_key(|session| {
            (name.as_deref() != Some(&session.to_string()), !self.is_root(*session), *session)
        });
        self.sessions = sessions;
    }

    fn is_root(&self, session: SessionId) -> bool {
        let first = self.scan(session, None, 1).and_then(|mut scan| scan.next());
        let Some(Ok(first)) = first else { return false };
        matches!(first.envelope.event, Event::Session(Session::Created { parent: None, .. }))
    }

    /// The sessions that have events: the root first, the others by id.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.sessions.clone()
    }

    /// The folder that was read.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The heads as they were when the copy was made.
    pub fn heads(&self) -> &[Head] {
        &self.heads
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
            Some(damage) => Err(Error::damaged(&self.dir, damage.clone())),
            None => Ok(()),
        }
    }

    /// Calls back for the events up to `to` that are before the first one that is not as written.
    /// Answers whether there are events behind `to`.
    fn visit_entries(
        &self,
        session: SessionId,
        from: Seq,
        to: Seq,
        mut each: impl FnMut(Envelope),
    ) -> Result<bool, ScanFault> {
        let Some(source) = self.source() else { return Ok(false) };
        let mut is_past = false;
        self.each_encoded(source, session, from, |entry| {
            let entry = entry?;
            is_past = entry.seq > to;
            if !is_past {
                each(entry.decode(source)?.envelope);
            }
            Ok(!is_past)
        })?;
        Ok(is_past)
    }

    /// Calls back for the events of a session and for its damage, until `each` says that it has
    /// enough or fails. In a large database another thread reads ahead.
    fn each_encoded(
        &self,
        source: Source<'_>,
        session: SessionId,
        from: Seq,
        mut each: impl FnMut(Result<EncodedEntry, ScanFault>) -> Result<bool, ScanFault>,
    ) -> Result<(), ScanFault> {
        let head = self.heads.iter().find(|head| head.session == session);
        let scan = || EncodedScan::history(source, session, head.cloned(), (from, false));
        let mut until_enough = |entries: &mut dyn Iterator<Item = _>| {
            for entry in entries {
                if !each(entry)? {
                    break;
                }
            }
            Ok(())
        };
        if self.copy.size() <= LARGE {
            return until_enough(&mut scan());
        }
        thread::scope(|scope| {
            let (sender, batches) = mpsc::sync_channel::<Vec<_>>(BATCHES);
            let read_ahead = move || {
                let (mut batch, mut bytes) = (Vec::new(), 0);
                for entry in scan() {
                    bytes += entry.as_ref().map_or(0, EncodedEntry::size);
                    batch.push(entry);
                    if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                        bytes = 0;
                        // the receiver is gone once it has enough
                        if sender.send(std::mem::take(&mut batch)).is_err() {
                            return;
                        }
                    }
                }
                let _ = sender.send(batch);
            };
            match thread::Builder::new().spawn_scoped(scope, read_ahead) {
                Ok(_) => until_enough(&mut batches.into_iter().flatten()),
                Err(_) => until_enough(&mut scan()),
            }
        })
    }

    /// The events before the first one that is not as written, and the damage at that event.
    pub fn read_good(&self, session: SessionId) -> (Vec<Envelope>, Option<Damage>) {
        let mut events = Vec::new();
        match self.visit_entries(session, 1, Seq::MAX, |event| events.push(event)) {
            Ok(_) => (events, self.head_damage(session).cloned()),
            Err(wrong) => (events, Some(wrong.into_damage())),
        }
    }

    fn head_damage(&self, session: SessionId) -> Option<&Damage> {
        self.damage.iter().find(|damage| damage.session == Some(session))
    }

    /// Damage that does not belong to a single event.
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The first event that a head names and the log does not hold.
    pub(crate) fn lost(&self) -> Option<Damage> {
        let source = self.source()?;
        self.heads.iter().find_map(|head| lookup::holds(source.db, head).err())
    }

    /// Calls back for every event of a session and for all its damage.
    pub(crate) fn walk(
        &self,
        session: SessionId,
    ) -> impl Iterator<Item = Result<Envelope, ScanFault>> + '_ {
        let scan = self.scan_with_head(session, 1);
        scan.into_iter().flatten().map(|entry| entry.map(|entry| entry.envelope))
    }

    fn scan_with_head(&self, session: SessionId, from: Seq) -> Option<Scan<'_>> {
        let head = self.heads.iter().find(|head| head.session == session).cloned();
        self.scan(session, head, from)
    }

    fn scan(&self, session: SessionId, head: Option<Head>, from: Seq) -> Option<Scan<'_>> {
        Some(Scan::all(self.source()?, session, head, from))
    }

    fn source(&self) -> Option<Source<'_>> {
        Some(Source { db: self.copy.db()?, dir: &self.dir, cache: &self.cache })
    }
}
