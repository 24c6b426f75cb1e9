use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_events::{Seq, SessionId};
use serde::Serialize;

use crate::chain;

/// A place in a store that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Path relative to the store's folder: `db`, `heads/ID`, `payloads/SHA256`, …
    pub file: Box<str>,
    /// Byte in `file`, if it is known: the place where the file ends too early or sled's log is
    /// torn.
    pub offset: Option<u64>,
    pub session: Option<SessionId>,
    pub seq: Option<Seq>,
    pub what: String,
    /// Nothing is known to be wrong: the place cannot be read now, because the database is away.
    #[serde(skip)]
    pub is_away: bool,
}

impl Damage {
    /// Damage of the whole database.
    pub fn db(what: impl Into<String>) -> Self {
        let (file, what) = ("db".into(), what.into());
        Self { file, offset: None, session: None, seq: None, what, is_away: false }
    }

    pub fn event(session: SessionId, seq: Seq, what: impl Into<String>) -> Self {
        Self { session: Some(session), seq: Some(seq), ..Self::db(what) }
    }

    pub(crate) fn head(session: Option<SessionId>, name: &str, what: impl Into<String>) -> Self {
        Self { file: format!("heads/{name}").into(), session, ..Self::db(what) }
    }
}

/// A fault of stored contents, and the file that it is in.
#[derive(Debug)]
pub struct ContentFault(Box<Damage>);

impl ContentFault {
    /// A fault of the database.
    pub fn db(what: impl Into<String>) -> Self {
        Self(Box::new(Damage::db(what)))
    }

    /// A fault of a file.
    pub fn file(file: String, offset: Option<u64>, what: impl Into<String>) -> Self {
        Self(Box::new(Damage { file: file.into(), offset, ..Damage::db(what) }))
    }

    /// The database is away; `what` is for people.
    pub fn away(what: impl Into<String>) -> Self {
        Self(Box::new(Damage { is_away: true, ..Damage::db(what) }))
    }

    pub(crate) fn into_damage(self, session: SessionId, seq: Seq) -> Damage {
        Damage { session: Some(session), seq: Some(seq), ..*self.0 }
    }

    pub(crate) fn into_error(self, dir: &Path) -> Error {
        Error::damaged(dir, *self.0)
    }
}

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)
    }
}

impl From<String> for ContentFault {
    fn from(what: String) -> Self {
        Self::db(what)
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
    #[error("the log of session {session} is already open for appending in {}", owner.as_deref().unwrap_or("this process"))]
    Taken {
        session: SessionId,
        /// The node that has it, for people; `None`: this process.
        owner: Option<String>,
    },
    #[error("session {session} is in the store already")]
    Exists { session: SessionId },
    #[error("{} is damaged: {damage}; `leftfold check` lists everything", dir.display())]
    Damaged { dir: PathBuf, damage: Box<Damage> },
    #[error("the database in {} {what}", dir.display())]
    Gone { dir: PathBuf, what: String },
    #[error("{} cannot be used now: {what}; {advice}. Nothing is damaged", dir.display())]
    Shortage { dir: PathBuf, what: String, advice: &'static str },
    #[error("session {session}, seq {seq}: {}", chain::other_schema(*found))]
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
    #[error(
        "the log of session {session} has another owner, or events that its owner has not written \
         ({why}): open it again"
    )]
    Fenced { session: SessionId, why: String },
    /// An error that only one engine has; the text says what to do.
    #[error("{what}")]
    Engine { what: String },
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

    /// A thread that the database needs does not start.
    pub(crate) fn no_thread(dir: &Path, error: &io::Error) -> Self {
        let what = format!("no thread can be started: {error}");
        let advice = shortage(&what).unwrap_or("look at the limits of the system");
        Self::Shortage { dir: dir.to_owned(), what, advice }
    }

    pub(crate) fn damaged(dir: &Path, damage: Damage) -> Self {
        if damage.is_away {
            return Self::Engine { what: damage.what };
        }
        if let Some(advice) = shortage(&damage.what) {
            return Self::Shortage { dir: dir.to_owned(), what: damage.to_string(), advice };
        }
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

/// The advice if an operation failed because the system ran out of a resource; `None` if it failed for another
/// reason. sled and its panics give the reason only as text.
fn shortage(what: &str) -> Option<&'static str> {
    let files = "raise the limit of open files (`ulimit -n`), or use fewer sessions at once";
    let table = [
        (24, files),
        (23, files),
        (12, "make room in memory, or use fewer sessions at once"),
        (11, "raise the limit of processes (`ulimit -u`, or `--pids-limit` of a container)"),
    ];
    let says = |code: i32| {
        what.contains(&format!("(os error {code})"))
            || what.contains(&format!("Os {{ code: {code},"))
    };
    table.into_iter().find(|(code, _)| says(*code)).map(|(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_has_run_out_of_something_is_no_damage() {
        let dir = Path::new("store");
        for code in [24, 23, 12, 11] {
            let error = io::Error::from_raw_os_error(code);
            for what in [format!("cannot be read: {error}"), format!("it panicked: {error:?}")] {
                let error = Error::damaged(dir, Damage::db(what));
                assert!(matches!(error, Error::Shortage { .. }), "{error}");
            }
        }
        for what in ["a checksum does not match", "cannot be read: is a directory (os error 21)"] {
            let error = Error::damaged(dir, Damage::db(what));
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
        }
    }
}
