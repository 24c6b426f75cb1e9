use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use leftfold_events::{Envelope, Seq, SessionId};

use crate::payloads::Cache;
use crate::pending::Pending;
use crate::room::Room;
use crate::scan::{Scan, Source};
use crate::writer::{Append, Writer};
use crate::{Error, Log, Reader, database, durable, head};

/// How long a node waits for another one to let go of a store.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// How long closing waits for the writer. It is done in milliseconds, unless a thread of sled's
/// has died, and then it would never be.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// A node's hold on a store's folder. Clones share it; it ends with the last clone and the last
/// [`Log`], whose drop waits until everything is on the disk and the lock is free.
#[derive(Clone, Debug)]
pub struct Store(Arc<Inner>);

pub(crate) struct Inner {
    dir: PathBuf,
    identity: String,
    db: Option<sled::Db>,
    pub(crate) cache: Arc<Cache>,
    taken: Mutex<HashSet<SessionId>>,
    /// `None` only while this is dropped.
    sender: Option<Sender<Append>>,
    writer: ThreadId,
    /// No write has failed.
    sound: Arc<AtomicBool>,
    closed: Mutex<Receiver<()>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in `dir` as its node, creating it if there is none.
    ///
    /// Opening may repair a torn end in place, so a database of up to 64 MiB that is not exactly
    /// what the last node left when it closed it is first looked at in a copy, and one that has
    /// lost acknowledged events is left untouched.
    ///
    /// # Errors
    /// [`Error::Locked`] if another node holds the store for two more seconds, [`Error::Damaged`],
    /// [`Error::Full`] or [`Error::Io`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let new = !dir.join("db").exists();
        if new {
            create(dir)?;
        } else {
            look_first(dir)?;
        }
        let db = lock(dir)?;
        let path = dir.join("db");
        let failed = |e| Error::io("cannot open", &path, e);
        let file = File::options().write(true).open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if new {
            sync_folders(dir).map_err(|e| Error::io("cannot sync", dir, e))?;
        }
        let cache = Arc::new(Cache::default());
        let sound = Arc::new(AtomicBool::new(true));
        let writer = Writer {
            dir: dir.to_owned(),
            db: db.clone(),
            file,
            room: Room::new(&path).map_err(failed)?,
            cache: Arc::clone(&cache),
            pending: Pending::new(),
            failed: None,
            sound: Arc::clone(&sound),
        };
        let (sender, inbox) = mpsc::channel();
        let (closing, closed) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("leftfold-log".into())
            .spawn(move || {
                writer.run(&inbox);
                let _ = closing.send(());
            })
            .map_err(|e| Error::io("cannot start the writer of", dir, e))?;
        Ok(Self(Arc::new(Inner {
            dir: dir.to_owned(),
            identity: format!("{}:{}", metadata.dev(), metadata.ino()),
            db: Some(db),
            cache,
            taken: Mutex::new(HashSet::new()),
            sender: Some(sender),
            writer: thread.thread().id(),
            sound,
            closed: Mutex::new(closed),
        })))
    }

    /// The right to append to `session`, which may be new. Reads where the log ends.
    ///
    /// # Errors
    /// [`Error::Taken`] while another [`Log`] of it lives, [`Error::Damaged`] if its end is not
    /// what was acknowledged, [`Error::NewerSchema`].
    pub fn log(&self, session: SessionId) -> Result<Log, Error> {
        Log::open(&self.0, session)
    }

    /// Up to `most` acknowledged events of `session` (of a fork, with those it shares) from seq `from`
    /// on, also while its log is being written.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::NewerSchema`] at the first event that is not as written.
    pub fn read(&self, session: SessionId, from: Seq, most: usize) -> Result<Vec<Envelope>, Error> {
        let dir = self.dir();
        let source =
            self.0.source().ok_or_else(|| Error::Database { what: "it is closed".into() })?;
        let Some(head) = head::read(dir, session).map_err(|d| Error::damaged(dir, d))? else {
            return Ok(Vec::new());
        };
        // the database shows a batch before its flush; nobody may see it before the head says so
        Scan::history(source, session, None, (from, true))
            .take_while(|entry| entry.as_ref().map_or(true, |e| e.envelope.seq <= head.seq))
            .take(most)
            .map(|entry| entry.map(|e| e.envelope).map_err(|wrong| wrong.into_error(dir)))
            .collect()
    }

    /// `DEVICE:INODE` of the `db` file: tells this store from every other one on the machine, and
    /// from a copy of it.
    pub fn identity(&self) -> String {
        self.0.identity.clone()
    }

    pub fn dir(&self) -> &Path {
        &self.0.dir
    }
}

impl Inner {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn source(&self) -> Option<Source<'_>> {
        let db = self.db.as_ref()?;
        Some(Source { db, dir: &self.dir, cache: &self.cache })
    }

    /// False if it is taken already.
    pub(crate) fn take(&self, session: SessionId) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(session)
    }

    pub(crate) fn give_back(&self, session: SessionId) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    /// Gives the append back if the writer is gone.
    pub(crate) fn send(&self, append: Append) -> Result<(), Append> {
        match &self.sender {
            Some(sender) => sender.send(append).map_err(|unsent| unsent.0),
            None => Err(append),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sender = None;
        // the last clone may have been dropped by a callback on the writer itself
        if thread::current().id() != self.writer {
            let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
            if closed.recv_timeout(CLOSE_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // dropping the database would wait for the same dead thread
                tracing::error!("{} does not close", self.dir.display());
                std::mem::forget(self.db.take());
                return;
            }
        }
        let db = self.db.take();
        if let Err(panic) = database::quiet(move || drop(db)) {
            tracing::warn!("closing {}: {panic}", self.dir.display());
        } else if self.sound.load(Ordering::Acquire) {
            database::note_closed(&self.dir);
        }
    }
}

fn create(dir: &Path) -> Result<(), Error> {
    if dir.join(head::FOLDER).read_dir().is_ok_and(|mut heads| heads.next().is_some()) {
        return Err(Error::NotAStore {
            dir: dir.to_owned(),
            why: "there are heads of sessions, but their database is gone".into(),
        });
    }
    // prompts, replies and files of the user's: nobody else's business
    let create = || DirBuilder::new().recursive(true).mode(0o700).create(dir);
    create().map_err(|e| Error::io("cannot create", dir, e))
}

/// Refuses a store that has lost events, before sled can repair anything away.
fn look_first(dir: &Path) -> Result<(), Error> {
    let length = fs::metadata(dir.join("db")).map(|m| m.len()).unwrap_or_default();
    if length > database::LOOK_THROUGH {
        return Ok(());
    }
    let (heads, damage) = head::read_all(dir);
    if let Some(damage) = damage.into_iter().next() {
        return Err(Error::damaged(dir, damage));
    }
    if heads.is_empty() || database::is_as_closed(dir) {
        return Ok(());
    }
    let reader = Reader::open(dir)?;
    match reader.lost() {
        Some(damage) => Err(Error::damaged(dir, damage)),
        None => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<sled::Db, Error> {
    fs::create_dir_all(dir.join(head::FOLDER))
        .map_err(|e| Error::io("cannot create the heads in", dir, e))?;
    let start = Instant::now();
    loop {
        if let Some(db) = database::open(dir)? {
            return Ok(db);
        }
        if start.elapsed() >= LOCK_PATIENCE {
            return Err(Error::Locked { dir: dir.to_owned() });
        }
        thread::sleep(LOCK_POLL);
    }
}

/// The names of new files are durable only with their folders.
fn sync_folders(dir: &Path) -> std::io::Result<()> {
    // sled writes its settings once and never syncs them, and does not open without them
    durable::file(&dir.join("conf"))?;
    durable::folder(dir)?;
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => durable::folder(parent),
        None => Ok(()),
    }
}
