//! The state of an executor that survives a crash: the epoch of each family of sessions, which runs have begun, and the
//! outcomes that no node has acknowledged. Every file is synced before anybody is told what it says.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use leftfold_events::{SessionId, Sha256};
use leftfold_tools::RunKey;
use serde::{Deserialize, Serialize};

use crate::protocol::Outcome;

/// How long outcomes are kept that no node asks for.
const OUTCOME_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The folder with the state of one executor. Only one process at a time has it.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// The beginning of the marks of its processes, the same in each life.
    pub(crate) mark: String,
    /// One change at a time.
    changing: Mutex<()>,
    _lock: File,
}

/// A run, whoever wants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunId {
    /// The hash of the store's identity.
    pub(crate) store: String,
    pub(crate) session: SessionId,
    pub(crate) seq: u64,
}

impl RunId {
    pub(crate) fn from_key(key: &RunKey) -> Self {
        let store = short_hash(&key.owner.store);
        Self { store, session: key.owner.session, seq: key.seq }
    }
}

/// A hash that names a store in files and marks.
pub(crate) fn short_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).to_string().chars().take(16).collect()
}

/// The state of a run in the journal.
#[derive(Debug)]
pub(crate) enum Known {
    Nothing,
    /// It began in this life or an earlier one.
    Begun,
    Ended(Box<Outcome>),
    /// Another call has this name.
    Other,
}

#[derive(Serialize, Deserialize)]
struct Record {
    /// The hash of the call.
    call: String,
    /// `None`: it has begun.
    outcome: Option<Outcome>,
}

impl Journal {
    /// Opens the state in `folder`, which it makes if there is none.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        private_folder(folder)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))?;
        lock.try_lock().map_err(|_| io::Error::other("another executor uses this folder"))?;
        let named = folder.join("id");
        let id = match fs::read_to_string(&named) {
            Ok(id) if !id.trim().is_empty() => id.trim().to_owned(),
            Ok(_) | Err(_) => {
                let id = ulid::Ulid::new().to_string();
                write_synced(&named, id.as_bytes())?;
                id
            }
        };
        let mark = format!("executor-{id}");
        let journal =
            Self { folder: folder.to_owned(), mark, changing: Mutex::new(()), _lock: lock };
        journal.prune(SystemTime::now());
        Ok(journal)
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch_file(&self, store: &str, family: SessionId) -> PathBuf {
        self.folder.join("epochs").join(format!("{store}-{family}"))
    }

    /// The epoch of a family. 0: none has been here.
    pub(crate) fn epoch(&self, store: &str, family: SessionId) -> io::Result<u64> {
        match fs::read_to_string(self.epoch_file(store, family)) {
            Ok(text) => text.trim().parse().map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn set_epoch(&self, store: &str, family: SessionId, epoch: u64) -> io::Result<()> {
        let _change = self.change();
        write_synced(&self.epoch_file(store, family), epoch.to_string().as_bytes())
    }

    /// The folder of a session, also for what its calls leave.
    pub(crate) fn session_folder(&self, store: &str, session: SessionId) -> PathBuf {
        self.folder.join("sessions").join(format!("{store}-{session}"))
    }

    fn run_file(&self, run: &RunId) -> PathBuf {
        let folder = self.session_folder(&run.store, run.session).join("calls");
        folder.join(format!("{}.json", run.seq))
    }

    /// Looks up the run of this `call` (a hash).
    pub(crate) fn look(&self, run: &RunId, call: &str) -> io::Result<Known> {
        let bytes = match fs::read(self.run_file(run)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::Nothing),
            Err(error) => return Err(error),
        };
        let record: Record = serde_json::from_slice(&bytes)?;
        Ok(match record.outcome {
            _ if record.call != call => Known::Other,
            Some(outcome) => Known::Ended(Box::new(outcome)),
            None => Known::Begun,
        })
    }

    pub(crate) fn begin(&self, run: &RunId, call: &str) -> io::Result<()> {
        self.write(run, &Record { call: call.to_owned(), outcome: None })
    }

    pub(crate) fn end(&self, run: &RunId, call: &str, outcome: &Outcome) -> io::Result<()> {
        self.write(run, &Record { call: call.to_owned(), outcome: Some(outcome.clone()) })
    }

    fn write(&self, run: &RunId, record: &Record) -> io::Result<()> {
        let _change = self.change();
        write_synced(&self.run_file(run), &serde_json::to_vec(record)?)
    }

    /// The outcome of a run, if it has ended.
    pub(crate) fn outcome(&self, run: &RunId) -> Option<Outcome> {
        let bytes = fs::read(self.run_file(run)).ok()?;
        serde_json::from_slice::<Record>(&bytes).ok()?.outcome
    }

    pub(crate) fn forget(&self, run: &RunId) {
        let _change = self.change();
        // what stays is pruned
        let _ = fs::remove_file(self.run_file(run));
    }

    /// Forgets the runs of a session except `kept`.
    pub(crate) fn forget_others(&self, store: &str, session: SessionId, kept: &[RunId]) {
        let _change = self.change();
        let kept: Vec<PathBuf> = kept.iter().map(|run| self.run_file(run)).collect();
        let calls = fs::read_dir(self.session_folder(store, session).join("calls"));
        let files = calls.into_iter().flatten().filter_map(Result::ok).map(|call| call.path());
        for file in files.filter(|file| !kept.contains(file)) {
            // what stays is pruned
            let _ = fs::remove_file(file);
        }
    }

    /// Removes records that nobody will ask for, and full texts of outputs that have expired.
    fn prune(&self, now: SystemTime) {
        let Ok(sessions) = fs::read_dir(self.folder.join("sessions")) else { return };
        for session in sessions.filter_map(Result::ok).map(|session| session.path()) {
            leftfold_tools::prune(&session.join("spill"), now);
            let calls = session.join("calls");
            for call in fs::read_dir(&calls).into_iter().flatten().filter_map(Result::ok) {
                let changed = call.metadata().and_then(|found| found.modified());
                let age = changed.ok().and_then(|changed| now.duration_since(changed).ok());
                if age.is_some_and(|age| age > OUTCOME_LIFETIME) {
                    // a file that cannot be removed stays
                    let _ = fs::remove_file(call.path());
                }
            }
        }
    }
}

fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Replaces a file as a whole, and waits until that would survive a power cut.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let is_new = !folder.exists();
    private_folder(folder)?;
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()?;
    // a folder that is new has to be found too; no file is deeper than this below the state
    for above in folder.ancestors().skip(1).take(if is_new { 4 } else { 0 }) {
        if let Ok(above) = File::open(above) {
            above.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use leftfold_tools::Output;

    use super::*;

    fn run(seq: u64) -> RunId {
        RunId { store: "s".into(), session: SessionId::default(), seq }
    }

    #[test]
    fn epochs_and_outcomes_survive_the_process() {
        let site = tempfile::tempdir().unwrap();
        let folder = site.path().join("state");
        let journal = Journal::open(&folder).unwrap();
        let mark = journal.mark.clone();
        assert!(Journal::open(&folder).is_err(), "two executors in one folder");
        assert_eq!(journal.epoch("s", SessionId::default()).unwrap(), 0);
        journal.set_epoch("s", SessionId::default(), 7).unwrap();
        journal.begin(&run(1), "a").unwrap();
        journal.begin(&run(2), "b").unwrap();
        let outcome = Outcome::from(Output { output: "done".into(), ..Output::default() });
        journal.end(&run(2), "b", &outcome).unwrap();
        drop(journal);
        let journal = Journal::open(&folder).unwrap();
        assert_eq!(
            (journal.mark.clone(), journal.epoch("s", SessionId::default()).unwrap()),
            (mark, 7)
        );
        assert!(matches!(journal.look(&run(1), "a").unwrap(), Known::Begun));
        assert!(matches!(journal.look(&run(2), "b").unwrap(), Known::Ended(_)));
        assert!(matches!(journal.look(&run(2), "other").unwrap(), Known::Other));
        assert!(matches!(journal.look(&run(3), "c").unwrap(), Known::Nothing));
        assert!(journal.outcome(&run(1)).is_none() && journal.outcome(&run(2)).is_some());
        journal.forget(&run(2));
        assert!(matches!(journal.look(&run(2), "b").unwrap(), Known::Nothing));
    }
}
