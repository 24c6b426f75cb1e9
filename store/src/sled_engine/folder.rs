//! Facts about a store that its folder shows while the database stays closed.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use leftfold_events::{Seq, SessionId};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::database;
use crate::day::Day;
use crate::engine::Owner;
use crate::error::Error;
use crate::head::Head;
use crate::sled_engine::head_files;
use crate::usage::Used;

/// Whether there is a store in `dir`.
pub fn exists(dir: &Path) -> bool {
    dir.join("db").is_file() || database::is_named(dir)
}

/// Whether events of the session were acknowledged in the store in `dir`.
///
/// # Errors
/// The database of the store is away.
pub fn has_session(dir: &Path, session: SessionId) -> Result<bool, Error> {
    match database::reader(dir)? {
        Some(engine) => {
            let head = engine.head(session).map_err(|damage| Error::damaged(dir, damage));
            Ok(head?.is_some())
        }
        None => Ok(exists(dir) && head_files::path(dir, session).is_file()),
    }
}

/// The readable heads in the store in `dir`, sorted by session. Empty for a folder that is not a store.
///
/// # Errors
/// The database of the store is away.
pub fn heads(dir: &Path) -> Result<Vec<Head>, Error> {
    match database::reader(dir)? {
        Some(engine) => engine.heads().map_err(|fault| fault.into_error(dir)),
        None => Ok(head_files::heads(dir)),
    }
}

/// The use of a project's quota on a day, by the sessions in the store in `dir`.
///
/// # Errors
/// The database of the store is away.
pub fn used(dir: &Path, worktree: &str, day: Day) -> Result<Used, Error> {
    match database::reader(dir)? {
        Some(engine) => engine.used(worktree, day).map_err(|fault| fault.into_error(dir)),
        None => Ok(Used::by(&heads(dir)?, worktree, day)),
    }
}

/// Whether a session in the store in `dir` has had a prompt of its own.
///
/// # Errors
/// The database of the store is away.
pub fn has_begun(dir: &Path, session: SessionId) -> Result<bool, Error> {
    let head = match database::reader(dir)? {
        Some(engine) => engine.head(session).map_err(|damage| Error::damaged(dir, damage))?,
        None => heads(dir)?.into_iter().find(|head| head.session == session),
    };
    let summary = head.and_then(|head| head.summary);
    Ok(summary.is_some_and(|summary| summary.has_begun()))
}

/// When the database file of the store in `dir` was written last. `None`: there is none.
pub fn written(dir: &Path) -> Option<SystemTime> {
    look(&dir.join("db")).map(|(at, _)| at)
}

/// Differs whenever logs of a store may have new events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStamp {
    heads: Vec<Option<(SystemTime, u64)>>,
    db: Option<(SystemTime, u64)>,
    /// Of a store that a database keeps: its sessions, and the seqs of their last events.
    rows: Vec<(SessionId, Seq)>,
}

impl StoreStamp {
    /// The stamp of some sessions of the store in `dir`.
    pub fn for_sessions(dir: &Path, sessions: &[SessionId]) -> Self {
        // if the database is away, nothing can be seen to change
        if let Ok(Some(engine)) = database::reader(dir) {
            let heads = sessions.iter().filter_map(|session| engine.head(*session).ok()?);
            return Self::of_heads(heads);
        }
        let head = |session: &SessionId| look(&head_files::path(dir, *session));
        let heads = sessions.iter().map(head).collect();
        Self { heads, db: look(&dir.join("db")), rows: Vec::new() }
    }

    fn of_heads(heads: impl Iterator<Item = Head>) -> Self {
        let rows = heads.map(|head| (head.session, head.seq)).collect();
        Self { heads: Vec::new(), db: None, rows }
    }

    /// The stamp of all sessions; with `by_heads` only as their heads show it.
    pub fn of_all(dir: &Path, by_heads: bool) -> Self {
        if let Ok(Some(engine)) = database::reader(dir) {
            return Self::of_heads(engine.heads().unwrap_or_default().into_iter());
        }
        let heads = fs::read_dir(dir.join(head_files::FOLDER)).into_iter().flatten().flatten();
        let mut heads: Vec<_> = heads.map(|head| (head.file_name(), look(&head.path()))).collect();
        heads.sort_unstable();
        Self {
            heads: heads.into_iter().map(|(_, head)| head).collect(),
            db: if by_heads { None } else { look(&dir.join("db")) },
            rows: Vec::new(),
        }
    }
}

fn look(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Whether a node has the store in `dir` open right now; if a database keeps it, whether a node has its socket here. It takes a shared lock for an instant; a
/// node that fails to open the store because of it tries again.
pub fn in_use(dir: &Path) -> bool {
    let Ok(file) = File::open(database::lock_file(dir)) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// The node on any machine that owns the session of a store that a database keeps, for people. `None`: no database
/// keeps the store, and [`in_use`] says more.
///
/// # Errors
/// The database of the store is away.
pub fn owner(dir: &Path, session: SessionId) -> Result<Option<Owner>, Error> {
    let engine = database::reader(dir)?;
    let owner = engine.map(|engine| engine.owner(session)).transpose();
    owner.map_err(|fault| fault.into_error(dir))
}

/// Removes a store with all its sessions.
///
/// # Errors
/// [`Error::Locked`] while a node has it open, [`Error::NotAStore`] if there is no database in
/// `dir` (then nothing is removed), [`Error::Io`].
pub fn remove(dir: &Path) -> Result<(), Error> {
    database::refuse(dir, "drop its schema to remove them all")?;
    let path = dir.join("db");
    let file = File::open(&path).map_err(|error| Error::NotAStore {
        dir: dir.to_owned(),
        why: format!("{} cannot be opened: {error}", path.display()),
    })?;
    // the lock is held until the files are gone, so that no node opens the store meanwhile
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => remove_all(dir).map_err(|e| Error::io("cannot remove", dir, e)),
        Err(_) => Err(Error::Locked { dir: dir.to_owned() }),
    }
}

/// How often the removal is repeated while another process still writes into the folder.
const ATTEMPTS: usize = 20;

/// Removes the folder. A node that has just released the store may still write one last file into
/// it.
fn remove_all(dir: &Path) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    fs::remove_dir_all(dir)
}

#[cfg(test)]
mod tests {
    use leftfold_events::{Envelope, Event, Notes, Time};

    use super::*;
    use crate::store::Store;

    #[test]
    fn a_store_is_in_use_while_it_is_open_and_can_then_not_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        assert!(!in_use(&dir));
        let store = Store::open(&dir).unwrap();
        assert!(in_use(&dir));
        assert!(matches!(remove(&dir), Err(Error::Locked { .. })));
        drop(store);
        assert!(!in_use(&dir));
        remove(&dir).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn a_folder_shows_its_sessions_and_that_they_have_grown() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let session = SessionId::default().child(1, Time::from_millis(1));
        let stamps = || {
            let some = StoreStamp::for_sessions(dir, &[session]);
            [some, StoreStamp::of_all(dir, true), StoreStamp::of_all(dir, false)]
        };
        let shows = |is_there| {
            assert_eq!(has_session(dir, session).unwrap(), is_there);
            assert_eq!((exists(dir), written(dir).is_some()), (is_there, is_there));
        };
        shows(false);
        let before = stamps();
        let store = Store::open(dir).unwrap();
        let (of, until, notes) = (None, None, Notes::default());
        let event = Event::from(leftfold_events::event::Session::DeadlinePassed {});
        let event = Envelope { session, seq: 1, at: Time::default(), of, until, event, notes };
        store.import(session, &[event]).unwrap();
        shows(true);
        let after = stamps();
        assert!(before.iter().zip(&after).all(|(before, after)| before != after));
        drop(store);
        assert_eq!(StoreStamp::of_all(dir, true), after[1]);
    }

    #[test]
    fn only_stores_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years").unwrap();
        assert!(matches!(remove(folder.path()), Err(Error::NotAStore { .. })));
        assert!(folder.path().join("thesis.txt").exists());
    }
}
