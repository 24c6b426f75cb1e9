//! Stores whose logs a database keeps. Such a store is a folder, too: it has the files of the sessions that
//! ran on this machine, and the file `engine`, which names the database. The program brings the engine.
//!
//! Only a folder that this program made for a database is believed. A folder from elsewhere, as in a repository, could
//! name a server that asks for the user's password.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::FlockOperation;

use crate::engine::{Engine, ReadEngine};
use crate::error::Error;

const FILE: &str = "engine";

/// Bytes of an address at most.
const LONGEST: u64 = 64 << 10;

/// Opens engines by the address of their database. An address has no secrets in it.
pub trait Databases: std::fmt::Debug + Send + Sync {
    /// As a node.
    ///
    /// # Errors
    /// Everything that keeps it from the database or is wrong there.
    fn open(&self, address: &str) -> Result<Box<dyn Engine>, Error>;

    /// As a reader. Readers of one database may share it.
    ///
    /// # Errors
    /// As for [`Self::open`].
    fn reader(&self, address: &str) -> Result<Arc<dyn ReadEngine>, Error>;
}

static DATABASES: OnceLock<(PathBuf, Box<dyn Databases>)> = OnceLock::new();

/// From now on, stores that a database keeps can be opened, if their folders are in `parent`. Only the first call
/// counts.
pub fn use_databases(parent: PathBuf, databases: Box<dyn Databases>) {
    if DATABASES.set((parent, databases)).is_err() {
        tracing::warn!("the databases are known already");
    }
}

fn databases(dir: &Path) -> Result<&'static dyn Databases, Error> {
    let refused =
        |why: &str| Error::Engine { what: format!("{} names a database, {why}", dir.display()) };
    let (parent, databases) =
        DATABASES.get().ok_or_else(|| refused("which this program cannot open"))?;
    let real = dir.canonicalize().map_err(|error| Error::io("cannot read", dir, error))?;
    if real.parent() != parent.canonicalize().ok().as_deref() {
        let parent = parent.display();
        return Err(refused(&format!(
            "but is no folder of {parent}: name the database with --store URL"
        )));
    }
    Ok(&**databases)
}

/// The address of the database that keeps the logs of the store in `dir`. `None`: they are in `dir`.
///
/// # Errors
/// [`Error::Io`]
pub fn database_of(dir: &Path) -> Result<Option<String>, Error> {
    use std::io::Read;

    let path = dir.join(FILE);
    let failed = |error| Error::io("cannot read", &path, error);
    let file = match File::open(&path) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        file => file.map_err(failed)?,
    };
    let mut address = String::new();
    file.take(LONGEST).read_to_string(&mut address).map_err(failed)?;
    Ok(Some(address.trim_end().to_owned()))
}

/// Makes `dir` the store of this database.
///
/// # Errors
/// [`Error::NotAStore`] if it is another store, [`Error::Io`].
pub fn name_database(dir: &Path, address: &str) -> Result<(), Error> {
    match database_of(dir)? {
        Some(named) if named == address => return Ok(()),
        None if !dir.join("db").exists() => {}
        _ => {
            let why = "it is the folder of other sessions".into();
            return Err(Error::NotAStore { dir: dir.to_owned(), why });
        }
    }
    let write = || {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // whole or not at all: other processes may do the same now
        let part = dir.join(format!(".{FILE}-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        writeln!(file, "{address}")?;
        file.sync_all()?;
        fs::rename(part, dir.join(FILE))
    };
    write().map_err(|error| Error::io("cannot write to", dir, error))
}

/// The engine of the store in `dir`, if that names a database.
pub(crate) fn open(dir: &Path) -> Result<Option<Box<dyn Engine>>, Error> {
    database_of(dir)?.map(|address| databases(dir)?.open(&address)).transpose()
}

/// The reading half, if `dir` names a database.
pub(crate) fn reader(dir: &Path) -> Result<Option<Arc<dyn ReadEngine>>, Error> {
    database_of(dir)?.map(|address| databases(dir)?.reader(&address)).transpose()
}

pub(crate) fn is_named(dir: &Path) -> bool {
    dir.join(FILE).is_file()
}

/// The refusal of what only a folder of its own can have done to it.
pub(crate) fn refuse(dir: &Path, what: &str) -> Result<(), Error> {
    match database_of(dir)? {
        None => Ok(()),
        Some(address) => {
            Err(Error::Engine { what: format!("a database keeps these logs ({address}): {what}") })
        }
    }
}

/// The right to have the socket in the folder of a store that a database keeps, until it is dropped. Several
/// nodes of one machine may have such a store open; one of them has the socket.
#[derive(Debug)]
pub struct SocketLock {
    _file: Option<File>,
}

impl SocketLock {
    /// `None`: another node has it. A store without a database has its own lock.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn take(dir: &Path) -> io::Result<Option<Self>> {
        if !is_named(dir) {
            return Ok(Some(Self { _file: None }));
        }
        let file = File::open(dir.join(FILE))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The file whose lock a node holds.
pub(crate) fn lock_file(dir: &Path) -> PathBuf {
    dir.join(if is_named(dir) { FILE } else { "db" })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_names_one_database_and_one_node_has_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("store");
        assert_eq!(database_of(&dir).unwrap(), None);
        name_database(&dir, "postgresql://db/logs").unwrap();
        name_database(&dir, "postgresql://db/logs").unwrap();
        assert!(matches!(name_database(&dir, "other"), Err(Error::NotAStore { .. })));
        assert_eq!(database_of(&dir).unwrap().as_deref(), Some("postgresql://db/logs"));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(FILE))), (0o700, 0o600));
        assert!(crate::exists(&dir) && !crate::in_use(&dir));
        let lock = SocketLock::take(&dir).unwrap().unwrap();
        assert!(SocketLock::take(&dir).unwrap().is_none());
        assert!(crate::in_use(&dir));
        drop(lock);
        assert!(!crate::in_use(&dir));
        // without an engine, it says so
        assert!(matches!(crate::Store::open(&dir), Err(Error::Engine { .. })));
        assert!(matches!(crate::heads(&dir), Err(Error::Engine { .. })));
        let refused = crate::tidy(&dir, true).unwrap_err().to_string();
        assert!(refused.contains("postgresql://db/logs"), "{refused}");
    }

    #[test]
    fn a_folder_with_a_store_of_its_own_names_no_database() {
        let folder = tempfile::tempdir().unwrap();
        drop(crate::Store::open(folder.path()).unwrap());
        assert!(name_database(folder.path(), "postgresql://db/logs").is_err());
    }
}
