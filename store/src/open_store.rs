//! A store that this process holds open: its database, its writer, and the set of its logs in use.
//! A [`Store`](crate::Store) and its logs share one `OpenStore`; the last of them to be dropped
//! closes it.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use leftfold_events::SessionId;

use crate::database;
use crate::error::Error;
use crate::forget;
use crate::head::HeldHeads;
use crate::payloads::Cache;
use crate::pending::{Append, Pending};
use crate::preallocate::Preallocation;
use crate::presence::Presence;
use crate::scan::Source;
use crate::writer::Writer;

/// How long closing waits for the writer. The writer normally ends within milliseconds. If one of
/// sled's threads has died, it never ends.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct OpenStore {
    dir: PathBuf,
    identity: String,
    db: Option<sled::Db>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) heads: Arc<HeldHeads>,
    taken: Mutex<HashSet<SessionId>>,
    /// `None` only while the store is being dropped.
    sender: Option<Sender<Append>>,
    writer: ThreadId,
    /// Whether all writes so far succeeded.
    sound: Arc<AtomicBool>,
    closed: Mutex<Receiver<()>>,
}

impl std::fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl OpenStore {
    /// Starts the writer of a database whose lock this process holds.
    pub(crate) fn start(dir: &Path, db: sled::Db) -> Result<Self, Error> {
        let path = dir.join("db");
        let failed = |e| Error::io("cannot open", &path, e);
        let file = File::options().write(true).open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let cache = Arc::new(Cache::default());
        let heads = Arc::new(HeldHeads::default());
        let sound = Arc::new(AtomicBool::new(true));
        let writer = Writer {
            dir: dir.to_owned(),
            db: db.clone(),
            file,
            preallocation: Preallocation::new(&path).map_err(failed)?,
            presence: Presence::new(dir),
            cache: Arc::clone(&cache),
            heads: Arc::clone(&heads),
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
            dir: dir.to_owned(),
            identity: format!("{}:{}", metadata.dev(), metadata.ino()),
            db: Some(db),
            cache,
            heads,
            taken: Mutex::new(HashSet::new()),
            sender: Some(sender),
            writer: thread.thread().id(),
            sound,
            closed: Mutex::new(closed),
        })
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn source(&self) -> Option<Source<'_>> {
        let db = self.db.as_ref()?;
        Some(Source { db, dir: &self.dir, cache: &self.cache })
    }

    /// Marks the session's log as in use. False if it already is.
    pub(crate) fn take(&self, session: SessionId) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(session)
    }

    pub(crate) fn give_back(&self, session: SessionId) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    /// Removes the own events of sessions whose logs are not in use.
    pub(crate) fn forget(&self, sessions: &[SessionId]) -> Result<(), Error> {
        let closed = || Error::Database { what: "it is closed".into() };
        let db = self.db.as_ref().ok_or_else(closed)?;
        let mut taken = Vec::new();
        let removed = loop {
            match sessions.get(taken.len()) {
                Some(session) if self.take(*session) => taken.push(*session),
                Some(session) => break Err(Error::Taken { session: *session }),
                None => {
                    let removed = forget::remove_events(&self.dir, db, sessions);
                    self.heads.remove(sessions);
                    break removed;
                }
            }
        };
        taken.into_iter().for_each(|session| self.give_back(session));
        removed
    }

    /// Returns the append if the writer has ended.
    pub(crate) fn send(&self, append: Append) -> Result<(), Append> {
        match &self.sender {
            Some(sender) => sender.send(append).map_err(|unsent| unsent.0),
            None => Err(append),
        }
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.sender = None;
        // a callback on the writer's own thread may drop the last clone
        if thread::current().id() != self.writer {
            let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
            if closed.recv_timeout(CLOSE_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // dropping the database would wait for the dead thread
                tracing::error!("{} does not close", self.dir.display());
                std::mem::forget(self.db.take());
                return;
            }
        }
        let db = self.db.take();
        if let Err(panic) = database::catch_panic(move || drop(db)) {
            tracing::warn!("closing {}: {panic}", self.dir.display());
        } else if self.sound.load(Ordering::Acquire) {
            database::note_closed(&self.dir);
        }
        database::give_back();
    }
}
