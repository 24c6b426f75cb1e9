use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_events::{Seq, SessionId};
use serde::Serialize;

use crate::record;

/// A place in a store that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Path relative to the store's folder: `db`, `heads/ID`, `payloads/SHA256`, …
    pub file: String,
    /// Byte in `file`, if it is known: the place where the file ends too early or sled's log is
    /// torn.
    pub offset: Option<u64>,
    pub session: Option<SessionId>,
    pub seq: Option<Seq>,
    pub what: String,
}

impl Damage {
    /// Damage of the whole database.
    pub(crate) fn db(what: impl Into<String>) -> Self {
        Self { file: "db".into(), offset: None, session: None, seq: None, what: what.into() }
    }

    pub(crate) fn event(session: SessionId, seq: Seq, what: impl Into<String>) -> Self {
        Self { session: Some(session), seq: Some(seq), ..Self::db(what) }
    }

    pub(crate) fn head(session: Option<SessionId>, name: &str, what: impl Into<String>) -> Self {
        Self { file: format!("heads/{name}"), session, ..Self::db(what) }
    }
}

/// A fault of stored contents, and the file that it is in.
#[derive(Debug)]
pub(crate) struct ContentFault {
    file: String,
    offset: Option<u64>,
    what: String,
}

impl ContentFault {
    pub(crate) fn db(what: impl Into<String>) -> Self {
        Self { file: "db".into(), offset: None, what: what.into() }
    }

    pub(crate) fn file(file: String, offset: Option<u64>, what: impl Into<String>) -> Self {
        Self { file, offset, what: what.into() }
    }

    pub(crate) fn of(self, session: SessionId, seq: Seq) -> Damage {
        let Self { file, offset, what } = self;
        Damage { file, offset, ..Damage::event(session, seq, what) }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        if let Some(session) = self.session {
            write!(f, ", session {session}")?;
        }
        if let Some(seq) = self.seq {
            write!(f, ", seq {seq}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The errors of a store. Cheap to clone: every session that waited for a failed flush gets a copy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{} is in use by another node: end that one, or read the store without becoming its node",
        dir.display()
    )]
    Locked { dir: PathBuf },
    #[error("{} is not a store: {why}; a store is a folder with a sled database (`db`)", dir.display())]
    NotAStore { dir: PathBuf, why: String },
    #[error("the log of session {session} is already open for appending in this process")]
    Taken { session: SessionId },
    #[error("session {session} is in the store already")]
    Exists { session: SessionId },
    #[error("{} is damaged: {damage}; `leftfold check` lists everything", dir.display())]
    Damaged { dir: PathBuf, damage: Box<Damage> },
    #[error("session {session}, seq {seq}: {}", record::other_schema(*found))]
    OtherSchema { session: SessionId, seq: Seq, found: u8 },
    #[error(
        "the disk is full ({what}): what was not acknowledged may or may not be in the log; \
         make room and resume"
    )]
    Full { what: String },
    #[error("{what}: {source}")]
    Io { what: String, source: Arc<io::Error> },
    #[error("the database failed ({what}): what was not acknowledged may or may not be in the log")]
    Database { what: String },
    #[error(
        "the log of session {session} takes no more events since an append failed ({why}): \
         open the store again to see how far it reaches"
    )]
    Poisoned { session: SessionId, why: String },
    #[error("session {session}: event with seq {found} where seq {expected} comes next")]
    Order { session: SessionId, expected: Seq, found: Seq },
    #[error("session {session}: an event of session {found} does not belong into this log")]
    Foreign { session: SessionId, found: SessionId },
    #[error("session {session}, seq {seq} cannot be stored: {why}")]
    Unstorable { session: SessionId, seq: Seq, why: String },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, path: &Path, error: io::Error) -> Self {
        let what = format!("{} {}", what.into(), path.display());
        if error.kind() == io::ErrorKind::StorageFull {
            Self::Full { what }
        } else {
            Self::Io { what, source: Arc::new(error) }
        }
    }

    pub(crate) fn damaged(dir: &Path, damage: Damage) -> Self {
        Self::Damaged { dir: dir.to_owned(), damage: Box::new(damage) }
    }

    /// Sorts sled's errors into those that a caller can act on.
    pub(crate) fn sled(what: &str, dir: &Path, error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => Self::io(what, &dir.join("db"), error),
            sled::Error::Corruption { .. } => {
                Self::damaged(dir, Damage::db(format!("sled found corruption while it {what}")))
            }
            other @ (sled::Error::CollectionNotFound(_)
            | sled::Error::Unsupported(_)
            | sled::Error::ReportableBug(_)) => Self::Database { what: format!("{what}: {other}") },
        }
    }
}
