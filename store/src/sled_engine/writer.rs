//! Group commit: one thread per store makes all waiting appends durable with one flush.

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::SessionId;

use crate::durable;
use crate::engine::call;
use crate::error::Error;
use crate::fault::{self, Boundary};
use crate::sled_engine::panics::catch_panic;
use crate::sled_engine::pending::{Pending, Write};
use crate::sled_engine::preallocate::Preallocation;
use crate::sled_engine::presence::Presence;
use crate::sled_engine::record::Pair;
use crate::sled_engine::{files, head_files};

/// Bytes of records in one group; further waiting appends form the next group.
const MAX_GROUP: usize = 1 << 20;

/// How long the thread polls for work before it sleeps: waking a thread costs about as much as a
/// small write, and a session often appends again as soon as an append is acknowledged.
const SPIN_TIMEOUT: Duration = Duration::from_micros(30);

pub(crate) struct Writer {
    pub(crate) dir: PathBuf,
    pub(crate) db: sled::Db,
    /// The `db` file, for syncs: sled's own flush stops at `sync_file_range`, which does not cover
    /// file length and the disk's cache.
    pub(crate) file: File,
    pub(crate) preallocation: Preallocation,
    pub(crate) presence: Presence,
    pub(crate) hints: Arc<Mutex<Vec<SyncSender<SessionId>>>>,
    pub(crate) pending: Arc<Pending>,
    /// Set after a write or sync has failed. The state of the disk is then unknown, and a later
    /// successful sync does not cover it.
    pub(crate) failed: Option<Error>,
    /// Whether all writes succeeded, for the code that closes the store.
    pub(crate) sound: Arc<AtomicBool>,
}

impl Writer {
    /// Runs until the last sender is dropped.
    pub(crate) fn run(mut self, inbox: &Receiver<Write>) {
        self.presence.remember(&self.file);
        self.preallocate();
        while let Some(first) = receive(inbox) {
            let mut size = bytes(&first);
            let mut group = vec![first];
            while size < MAX_GROUP {
                let Ok(next) = inbox.try_recv() else { break };
                size += bytes(&next);
                group.push(next);
            }
            self.commit(group);
        }
        if let Err(panic) = catch_panic(move || drop(self)) {
            tracing::warn!("closing the store: {panic}");
        }
    }

    fn commit(&mut self, group: Vec<Write>) {
        let mut sound = Vec::with_capacity(group.len());
        for append in group {
            // an earlier append of this log has failed, so this one would leave a gap
            match (append.claim.poison.check(), &self.failed) {
                (Ok(()), None) => sound.push(append),
                (Ok(()), Some(error)) => call(append.done, Err(error.clone())),
                (Err(error), _) => call(append.done, Err(error)),
            }
        }
        match self.write_files(&sound) {
            Ok(()) => self.make_durable(sound),
            Err(error) => sound.into_iter().for_each(|append| append.fail(&error)),
        }
        self.preallocate();
    }

    fn preallocate(&mut self) {
        self.presence.length = self.preallocation.extend(self.presence.length);
    }

    fn write_files(&self, group: &[Write]) -> Result<(), Error> {
        let mut files = group.iter().flat_map(|append| &append.files);
        files.try_for_each(|file| files::put(&self.dir, file.sha256, &file.bytes))
    }

    fn make_durable(&mut self, mut group: Vec<Write>) {
        let records = group.iter_mut().flat_map(|append| std::mem::take(&mut append.records));
        let records: Vec<Pair> = records.collect();
        self.pending.put(group);
        let any = !records.is_empty();
        let result = if any { self.sync(records) } else { Ok(()) };
        let group = self.pending.take();
        let gone = || Error::Database { what: "it did not answer in time".into() };
        // a head is a promise, so it waits for the sync
        let result = result.and_then(|()| match group.as_deref() {
            Some(group) => self.write_heads(group),
            None => Err(gone()),
        });
        if let Err(error) = &result {
            // the failure is permanent: no later success makes up for it
            self.failed.get_or_insert_with(|| error.clone());
            self.sound.store(false, Ordering::Release);
        }
        if any {
            fault::crash_if_planned(Boundary::Headed);
        }
        let group = group.unwrap_or_default();
        if result.is_ok() {
            self.hint(&group);
        }
        for append in group {
            match &result {
                Ok(()) => call(append.done, Ok(())),
                Err(error) => append.fail(error),
            }
        }
    }

    fn hint(&self, group: &[Write]) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        let hinted = |to: &SyncSender<SessionId>| {
            let grown = group.iter().filter(|append| !append.head.is_empty());
            let mut sent = grown.map(|append| to.try_send(append.claim.session));
            !sent.any(|sent| matches!(sent, Err(TrySendError::Disconnected(_))))
        };
        hints.retain(hinted);
    }

    fn sync(&mut self, records: Vec<Pair>) -> Result<(), Error> {
        fault::crash_if_planned(Boundary::Before);
        self.presence.check(&self.file)?;
        self.apply(records)?;
        let path = self.dir.join("db");
        durable::contents(&self.file, &path).map_err(|e| Error::io("cannot sync", &path, e))?;
        self.presence.check_name(&self.file)?;
        self.presence.remember(&self.file);
        fault::crash_if_planned(Boundary::Synced);
        Ok(())
    }

    fn apply(&self, records: Vec<Pair>) -> Result<(), Error> {
        let applied = catch_panic(|| {
            // a single record is atomic by itself, and a batch costs sled a second write
            if records.len() == 1 {
                for (key, value) in records {
                    self.db.insert(key, value)?;
                }
            } else {
                let mut batch = sled::Batch::default();
                records.into_iter().for_each(|(key, value)| batch.insert(key, value));
                self.db.apply_batch(batch)?;
            }
            self.db.flush()
        });
        match applied {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::sled("wrote to the database", &self.dir, error)),
            Err(panic) => Err(Error::Database { what: panic }),
        }
    }

    /// Writes the head of each session once: the head of its last append in the group.
    fn write_heads(&self, group: &[Write]) -> Result<(), Error> {
        let mut written = HashSet::new();
        for append in group.iter().rev().filter(|append| !append.head.is_empty()) {
            if !written.insert(append.claim.session) {
                continue;
            }
            let claim = &append.claim;
            let path = || head_files::path(&self.dir, claim.session);
            let failed = |e| Error::io("cannot write", &path(), e);
            let file = match claim.head.get() {
                Some(file) => file,
                None => {
                    let file = head_files::open(&self.dir, claim.session).map_err(failed)?;
                    claim.head.get_or_init(|| file)
                }
            };
            head_files::write(file, &append.head).map_err(failed)?;
        }
        Ok(())
    }
}

/// The next append: polls for a moment, then sleeps. `None` when no sender is left.
fn receive(inbox: &Receiver<Write>) -> Option<Write> {
    let start = Instant::now();
    while start.elapsed() < SPIN_TIMEOUT {
        match inbox.try_recv() {
            Ok(append) => return Some(append),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    inbox.recv().ok()
}

fn bytes(append: &Write) -> usize {
    append.records.iter().map(|(key, value)| key.len() + value.len()).sum()
}
