//! The engine that keeps a store in a folder, on sled: no server, nothing to set up. What concerns
//! only sled is here: records, the files beside them, copies for readers, and what sled leaves to its
//! caller (syncs, torn ends, lost threads, files that others remove).

mod claims;
mod copy;
mod database;
mod files;
mod folder;
pub(crate) mod frames;
mod head_files;
mod panics;
mod pending;
mod preallocate;
mod presence;
pub(crate) mod record;
mod records;
mod writer;

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use leftfold_events::SessionId;

pub(crate) use self::database::{copy as copy_files, empty, is_half_snapshot, open};
pub(crate) use self::files::{FOLDER as CONTENTS, get as content_file, list as content_files};
pub use self::folder::{
    StoreStamp, exists, has_begun, has_session, heads, in_use, owner, remove, used, written,
};
pub(crate) use self::panics::catch_panic;
pub(crate) use self::records::Records;

use crate::chain::place;
use crate::engine::{Append, Done, Engine, Epoch, ReadEngine, call};
use crate::error::Error;
use crate::{durable, fault, imported};
use claims::{Claim, Claims, End};
use pending::{Pending, Write};
use preallocate::Preallocation;
use presence::Presence;
use record::PAYLOADS;
use writer::Writer;

/// How long a node waits until another one releases the store.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long closing waits for the writer. The writer normally ends within milliseconds. If one of
/// sled's threads has died, it never ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A database whose lock this process holds, and its writer.
pub struct SledEngine {
    records: Records,
    identity: String,
    claims: Claims,
    hints: Arc<Mutex<Vec<SyncSender<SessionId>>>>,
    /// `None` only while the engine is being dropped.
    sender: Option<Sender<Write>>,
    writer: ThreadId,
    /// Whether all writes so far succeeded.
    sound: Arc<AtomicBool>,
    closed: Mutex<Receiver<()>>,
}

leftfold_events::debug_fields!(SledEngine { records });

impl SledEngine {
    /// Takes the lock of the store in `dir`, and creates it if it does not exist.
    ///
    /// # Errors
    /// As for [`Store::open`](crate::Store::open).
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let new = !dir.join("db").exists();
        if new {
            create(dir)?;
        } else {
            look_first(dir)?;
        }
        let db = lock(dir)?;
        if new {
            sync_folders(dir).map_err(|e| Error::io("cannot sync", dir, e))?;
        }
        Self::start(dir, db)
    }

    /// A private copy of the store in `dir` as it is now.
    ///
    /// # Errors
    /// As for [`Reader::open`](crate::Reader::open).
    pub fn copy(dir: &Path) -> Result<Box<dyn ReadEngine>, Error> {
        Ok(Box::new(Records::copy_of(dir)?))
    }

    /// Starts the writer of a database whose lock this process holds.
    fn start(dir: &Path, db: sled::Db) -> Result<Self, Error> {
        let path = dir.join("db");
        let failed = |e| Error::io("cannot open", &path, e);
        let file = File::options().write(true).open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let hints = Arc::new(Mutex::new(Vec::new()));
        let sound = Arc::new(AtomicBool::new(true));
        let writer = Writer {
            dir: dir.to_owned(),
            db: db.clone(),
            file,
            preallocation: Preallocation::new(&path).map_err(failed)?,
            presence: Presence::new(dir),
            hints: Arc::clone(&hints),
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
            .map_err(|error| Error::no_thread(dir, &error))?;
        Ok(Self {
            records: Records::new(db, dir),
            identity: format!("{}:{}", metadata.dev(), metadata.ino()),
            claims: Claims::default(),
            hints,
            sender: Some(sender),
            writer: thread.thread().id(),
            sound,
            closed: Mutex::new(closed),
        })
    }

    /// Waits until the writer has done what it was given before.
    fn settle(&self, claim: Arc<Claim>) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        // the receiver lives until the result has come
        let done = Box::new(move |result| drop(sender.send(result)));
        self.send(Write::new(claim, done)).map_err(|(_, error)| error)?;
        receiver.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Hands a batch to the writer. If that one has ended, the answer is why, and whom to tell.
    fn send(&self, write: Write) -> Result<(), (Done, Error)> {
        let unsent = match &self.sender {
            Some(sender) => sender.send(write).err().map(|unsent| unsent.0),
            None => Some(write),
        };
        unsent.map_or(Ok(()), |write| Err((write.done, ended())))
    }

    /// Checks a batch, and hands it to the writer.
    fn hand_on(&self, claim: &Arc<Claim>, append: Append) -> Result<(), (Done, Error)> {
        let mut end = claim.end();
        let followed = claim.poison.check().and_then(|()| self.follows(claim, *end, &append));
        if let Err(error) = followed {
            return Err((append.done, error));
        }
        *end = End::After(append.events.last().map(|event| event.seq));
        self.send(self.write(claim, append)?)
    }

    /// The records of a batch, and the files that they name.
    fn write(&self, claim: &Arc<Claim>, append: Append) -> Result<Write, (Done, Error)> {
        let Append { session, events, payloads, head, done, .. } = append;
        let mut write = Write { head, ..Write::new(Arc::clone(claim), done) };
        for (sha256, text) in payloads {
            match self.records.has_payload(sha256) {
                Ok(true) => {}
                Ok(false) => {
                    let key = record::payload_key(sha256);
                    write.add(fault::label(), &key, &[], text.as_bytes());
                }
                Err(what) => return Err((write.done, Error::Database { what })),
            }
        }
        for event in events {
            write.add(event.schema, &place(session, event.seq), &event.link, &event.body);
        }
        Ok(write)
    }

    /// Checks that the batch follows the session's last event.
    fn follows(&self, claim: &Claim, end: End, append: &Append) -> Result<(), Error> {
        let session = claim.session;
        let last = match end {
            End::Unknown => self.records.last(session).map_err(|what| Error::Database { what })?,
            End::After(last) => last,
            End::Over => return Err(claim.over()),
        };
        if last == append.expected {
            return Ok(());
        }
        let why = format!("its last event is {last:?}, not {:?}", append.expected);
        Err(Error::Fenced { session, why })
    }
}

fn ended() -> Error {
    Error::Database { what: "the writer has ended".into() }
}

impl Engine for SledEngine {
    fn reader(&self) -> &dyn ReadEngine {
        &self.records
    }

    fn claim(&self, session: SessionId, _: Option<SessionId>) -> Result<Epoch, Error> {
        if session.to_bytes() == PAYLOADS {
            return Err(Error::Unstorable { session, seq: 0, why: "the id is reserved".into() });
        }
        let claim = self.claims.add(session)?;
        let epoch = claim.epoch;
        self.settle(claim).inspect_err(|_| self.release(session, epoch))?;
        Ok(epoch)
    }

    fn release(&self, session: SessionId, epoch: Epoch) {
        self.claims.remove(session, epoch);
    }

    fn append(&self, append: Append) {
        let claim = match self.claims.get(append.session, append.epoch) {
            Ok(claim) => claim,
            Err(error) => return call(append.done, Err(error)),
        };
        if let Err((done, error)) = self.hand_on(&claim, append) {
            claim.poison.set(&error);
            call(done, Err(error));
        }
    }

    fn remove(&self, sessions: &[SessionId]) -> Result<(), Error> {
        self.records.remove(sessions)
    }

    fn note_imports(&self, notes: &[(SessionId, String)]) -> Result<(), Error> {
        imported::write_file(&self.records.dir, notes)
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn hints(&self, to: SyncSender<SessionId>) {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).push(to);
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        self.sender = None;
        // a callback on the writer's own thread may drop the engine
        if thread::current().id() != self.writer {
            let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
            if closed.recv_timeout(CLOSE_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // dropping the database would wait for the dead thread
                tracing::error!("{} does not close", self.records.dir.display());
                std::mem::forget(self.records.db.take());
                return;
            }
        }
        let db = self.records.db.take();
        if let Err(panic) = catch_panic(move || drop(db)) {
            tracing::warn!("closing {}: {panic}", self.records.dir.display());
        } else if self.sound.load(Ordering::Acquire) {
            database::note_closed(&self.records.dir);
        }
        database::give_back();
    }
}

fn create(dir: &Path) -> Result<(), Error> {
    if dir.join(head_files::FOLDER).read_dir().is_ok_and(|mut heads| heads.next().is_some()) {
        return Err(Error::NotAStore {
            dir: dir.to_owned(),
            why: "there are heads of sessions, but their database is gone".into(),
        });
    }
    // the files hold the user's prompts, replies and files, so only the user may read them
    let create = || DirBuilder::new().recursive(true).mode(0o700).create(dir);
    create().map_err(|e| Error::io("cannot create", dir, e))
}

/// Refuses a store that has lost events, before sled can repair the traces away.
fn look_first(dir: &Path) -> Result<(), Error> {
    let length = fs::metadata(dir.join("db")).map(|m| m.len()).unwrap_or_default();
    if length > database::LOOK_THROUGH {
        return Ok(());
    }
    let (heads, damage) = head_files::read_all(dir);
    if let Some(damage) = damage.into_iter().next() {
        return Err(Error::damaged(dir, damage));
    }
    if heads.is_empty() || database::is_as_closed(dir) {
        return Ok(());
    }
    match Records::copy_of(dir)?.lost() {
        Some(damage) => Err(Error::damaged(dir, damage)),
        None => Ok(()),
    }
}

fn lock(dir: &Path) -> Result<sled::Db, Error> {
    fs::create_dir_all(dir.join(head_files::FOLDER))
        .map_err(|e| Error::io("cannot create the heads in", dir, e))?;
    let start = Instant::now();
    loop {
        if let Some(db) = database::open(dir)? {
            return Ok(db);
        }
        if start.elapsed() >= LOCK_TIMEOUT {
            return Err(Error::Locked { dir: dir.to_owned() });
        }
        thread::sleep(LOCK_POLL_INTERVAL);
    }
}

/// Syncs the folders: the names of new files are durable only with them.
fn sync_folders(dir: &Path) -> std::io::Result<()> {
    // sled writes its settings once, never syncs them, and does not open without them
    durable::file(&dir.join("conf"))?;
    durable::folder(dir)?;
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => durable::folder(parent),
        None => Ok(()),
    }
}
