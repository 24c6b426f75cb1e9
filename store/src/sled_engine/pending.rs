//! Appends on their way to the disk, and how they fail if one of sled's threads dies.
//!
//! sled writes in its own threads. If one of them panics, the flush that waits for it never
//! returns, and every session waits for ever. So after such a panic (which the hook in `panics`
//! sees) a timer checks which groups are waiting, and fails those that still wait some seconds
//! later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use leftfold_events::Sha256;

use crate::engine::{Done, call};
use crate::error::Error;
use crate::sled_engine::claims::Claim;
use crate::sled_engine::record::{self, MAX_INLINE, Pair};

/// A flush takes milliseconds, or a second on a very busy disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// A file that must be on the disk before the records that name it.
pub(crate) struct Content {
    pub(crate) sha256: Sha256,
    pub(crate) bytes: Vec<u8>,
}

/// One append as records, on its way to the writer.
pub(crate) struct Write {
    pub(crate) claim: Arc<Claim>,
    pub(crate) records: Vec<Pair>,
    pub(crate) files: Vec<Content>,
    /// The head file's new contents.
    pub(crate) head: Vec<u8>,
    pub(crate) done: Done,
}

impl Write {
    pub(crate) fn new(claim: Arc<Claim>, done: Done) -> Self {
        Self { claim, records: Vec::new(), files: Vec::new(), head: Vec::new(), done }
    }

    /// Adds contents as records, or as a file and a record that names it.
    pub(crate) fn add(&mut self, schema: u8, key: &[u8], lead: &[u8], body: &[u8]) {
        if body.len() <= MAX_INLINE {
            self.records.extend(record::to_records(schema, key, lead, body));
        } else {
            let (sha256, length) = (Sha256::digest(body), body.len() as u64);
            self.records.extend(record::to_file_record(schema, key, lead, sha256, length));
            self.files.push(Content { sha256, bytes: body.to_vec() });
        }
    }

    pub(crate) fn fail(self, error: &Error) {
        self.claim.poison.set(error);
        call(self.done, Err(error.clone()));
    }
}

/// The group of appends that one writer has handed to sled.
#[derive(Default)]
pub(crate) struct Pending(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Counts groups, so that a group that still waits is not mistaken for the next one.
    number: u64,
    group: Option<Vec<Write>>,
}

static ALL: Mutex<Vec<Weak<Pending>>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Weak<Pending>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    pub(crate) fn new() -> Arc<Self> {
        let pending = Arc::new(Self::default());
        let mut all = all();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&pending));
        pending
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, group: Vec<Write>) {
        let mut waiting = self.waiting();
        waiting.number += 1;
        waiting.group = Some(group);
    }

    /// Takes the group out. `None`: it was already failed.
    pub(crate) fn take(&self) -> Option<Vec<Write>> {
        self.waiting().group.take()
    }

    /// The number of the waiting group.
    fn number(&self) -> Option<u64> {
        let waiting = self.waiting();
        waiting.group.as_ref().map(|_| waiting.number)
    }

    fn take_if(&self, number: u64) -> Option<Vec<Write>> {
        let mut waiting = self.waiting();
        if waiting.number == number { waiting.group.take() } else { None }
    }
}

/// Fails the waiting groups after one of sled's threads has died. It runs inside the panic hook, so
/// it waits in a new thread. If no thread can be started, the groups do not fail.
pub(crate) fn thread_died(what: String) {
    let watch = thread::Builder::new().name("leftfold-watch".into());
    let pending = || all().iter().filter_map(Weak::upgrade).collect();
    drop(watch.spawn(move || fail_stuck(pending(), &what, FLUSH_TIMEOUT)));
}

/// Fails the groups that are waiting now and are still waiting after `patience`.
fn fail_stuck(pending: Vec<Arc<Pending>>, what: &str, patience: Duration) {
    let stuck = pending.into_iter().filter_map(|pending| Some((pending.number()?, pending)));
    let stuck: Vec<_> = stuck.collect();
    thread::sleep(patience);
    for (number, pending) in stuck {
        let error = Error::Database { what: format!("a thread of sled's died: {what}") };
        for append in pending.take_if(number).into_iter().flatten() {
            append.fail(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use leftfold_events::SessionId;

    use super::*;

    fn append(sender: &mpsc::Sender<bool>) -> Write {
        let sender = sender.clone();
        let claim = Arc::new(Claim::new(SessionId::default(), 1));
        Write::new(claim, Box::new(move |result| sender.send(result.is_ok()).unwrap()))
    }

    #[test]
    fn appends_that_wait_for_a_dead_thread_fail() {
        let (sender, receiver) = mpsc::channel();
        let pending = Pending::new();
        pending.put(vec![append(&sender), append(&sender)]);
        let claim = Arc::clone(&pending.waiting().group.as_ref().unwrap()[0].claim);
        fail_stuck(vec![Arc::clone(&pending)], "test", Duration::ZERO);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [false, false]);
        assert!(claim.poison.check().is_err());
        assert!(pending.take().is_none());
    }

    #[test]
    fn a_group_that_sled_finishes_is_left_alone() {
        let (sender, receiver) = mpsc::channel();
        let pending = Pending::new();
        pending.put(vec![append(&sender)]);
        let before = pending.number().unwrap();
        assert!(pending.take().is_some());
        pending.put(vec![append(&sender)]);
        assert!(pending.take_if(before).is_none());
        assert!(pending.take().is_some());
        assert_eq!(receiver.try_iter().count(), 0);
    }
}
