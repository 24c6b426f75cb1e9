//! Taking out of a store what nothing in it refers to any more.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use leftfold_events::event::Tool;
use leftfold_events::{Event, Sha256};

use crate::database::{self, quiet};
use crate::error::Error;
use crate::payloads::{self, Cache};
use crate::probe::in_use;
use crate::scan::{Scan, Source};
use crate::{check, durable, files, lookup, record};

/// What is removed from a store, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Files with contents.
    pub payloads: usize,
    /// Full texts of outputs.
    pub spills: usize,
    /// What a crash has left half written.
    pub temporary: usize,
    /// That these files take up on the disk.
    pub bytes: u64,
}

impl Tidied {
    pub fn is_empty(&self) -> bool {
        self.payloads + self.spills + self.temporary == 0
    }
}

/// Removes contents and full texts that no event of any session in the store names, and what a
/// crash has left half written; with `dry`, only counts them. A store that has no file of the kind
/// costs a look at its folder.
///
/// # Errors
/// [`Error::Damaged`]: a log that is not whole may name anything, so nothing is removed.
/// [`Error::Locked`] while a node has the store open, [`Error::Io`], [`Error::Database`].
pub fn tidy(dir: &Path, dry: bool) -> Result<Tidied, Error> {
    let mut tidy = Tidy { dry, ..Tidy::default() };
    let contents = files::list(dir);
    let spills = listed(&dir.join(files::SPILLS), |name| name.ends_with(".txt"));
    let half = half_written(dir);
    if contents.is_empty() && spills.is_empty() && half.is_empty() {
        return Ok(tidy.done);
    }
    let held: sled::Db;
    // opening may repair what has been lost out of sight
    if let Some(damage) = check(dir)?.damage.into_iter().next() {
        return Err(Error::damaged(dir, damage));
    }
    let locked = || Error::Locked { dir: dir.to_owned() };
    let (named, files) = if dry {
        (!in_use(dir)).then_some(()).ok_or_else(locked)?;
        let copy = database::copy(dir)?.open().map_err(|what| Error::Database { what })?;
        let db = copy.db().ok_or_else(locked)?;
        let named = Named::of(db, dir)?;
        let files = named.files(db, dir)?;
        (named, files)
    } else {
        // held until the files are gone, so that no node begins in the middle
        held = database::open(dir)?.ok_or_else(locked)?;
        let named = Named::of(&held, dir)?;
        remove_dead(&held, dir, &named)?;
        let files = named.files(&held, dir)?;
        (named, files)
    };
    for (_, path) in contents.into_iter().filter(|(sha256, _)| !files.contains(sha256)) {
        tidy.done.payloads += tidy.remove(&path)?;
    }
    let is_unnamed = |path: &&PathBuf| path.file_name().is_some_and(|n| !named.spills.contains(n));
    for path in spills.iter().filter(is_unnamed) {
        tidy.done.spills += tidy.remove(path)?;
    }
    for path in half {
        tidy.done.temporary += tidy.remove(&path)?;
    }
    Ok(tidy.done)
}

#[derive(Debug, Default)]
struct Tidy {
    dry: bool,
    done: Tidied,
}

impl Tidy {
    /// How many files were, or would be, removed.
    fn remove(&mut self, path: &Path) -> Result<usize, Error> {
        use std::os::unix::fs::MetadataExt;
        let size = path.symlink_metadata().map_or(0, |found| found.blocks() * 512);
        if !self.dry {
            match fs::remove_file(path) {
                // opening the store has done it
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| Error::io("cannot remove", path, e))?,
            }
        }
        self.done.bytes += size;
        Ok(1)
    }
}

/// The plain files in a folder with names of a kind.
fn listed(folder: &Path, is_one: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let ours = files.filter(|entry| entry.file_name().to_str().is_some_and(&is_one));
    let mut paths: Vec<PathBuf> = ours.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Contents get their name when they are complete, and so do sled's snapshots.
fn half_written(dir: &Path) -> Vec<PathBuf> {
    let mut found = listed(&dir.join(files::FOLDER), |name| name.starts_with(".tmp"));
    found.extend(listed(dir, database::is_half_snapshot));
    found
}

/// What the events of a store name.
#[derive(Debug, Default)]
struct Named {
    payloads: HashSet<Sha256>,
    /// By name alone: the folder may have been moved since.
    spills: HashSet<OsString>,
}

impl Named {
    fn of(db: &sled::Db, dir: &Path) -> Result<Self, Error> {
        let (mut named, cache) = (Self::default(), Cache::default());
        let source = Source { db, dir, cache: &cache };
        let failed = |what| Error::Database { what };
        for session in lookup::sessions(db).map_err(failed)? {
            for entry in Scan::all(source, session, None, 1) {
                named.add(&entry.map_err(|wrong| wrong.into_error(dir))?.envelope.event);
            }
        }
        Ok(named)
    }

    fn add(&mut self, event: &Event) {
        let payloads = event.payloads().into_iter().filter(|payload| !payloads::is_unset(payload));
        self.payloads.extend(payloads.map(|payload| payload.sha256()));
        if let Event::Tool(Tool::Finished(finished)) = event {
            let path = finished.spill.as_ref().map(|spill| Path::new(&spill.path));
            self.spills.extend(path.and_then(Path::file_name).map(ToOwned::to_owned));
        }
    }

    /// The files that events and the contents they name are in.
    fn files(&self, db: &sled::Db, dir: &Path) -> Result<HashSet<Sha256>, Error> {
        let mut files = HashSet::new();
        for entry in db.iter() {
            let (key, value) = entry.map_err(|e| Error::sled("read a record", dir, e))?;
            let named = record::payload_of(&key).is_none_or(|hash| self.payloads.contains(&hash));
            files.extend(record::file_of(&key, &value).filter(|_| named));
        }
        Ok(files)
    }
}

/// The records of contents that no event names. They go before their files, and with them: an event
/// to come that names the same contents must find all of them or nothing.
fn remove_dead(db: &sled::Db, dir: &Path, named: &Named) -> Result<(), Error> {
    let mut dead = Vec::new();
    for key in db.range(record::PAYLOADS.to_vec()..).keys() {
        let key = key.map_err(|e| Error::sled("read a key", dir, e))?;
        if record::payload_of(&key).is_some_and(|hash| !named.payloads.contains(&hash)) {
            dead.push(key);
        }
    }
    if dead.is_empty() { Ok(()) } else { remove_records(db, dir, &dead) }
}

fn remove_records(db: &sled::Db, dir: &Path, keys: &[sled::IVec]) -> Result<(), Error> {
    let removed = quiet(|| {
        let mut batch = sled::Batch::default();
        keys.iter().for_each(|key| batch.remove(key));
        db.apply_batch(batch)?;
        db.flush()
    });
    match removed {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(Error::sled("removed contents", dir, error)),
        Err(what) => return Err(Error::Database { what }),
    }
    let path = dir.join("db");
    let synced = fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| durable::contents(&file, &path));
    synced.map_err(|e| Error::io("cannot sync", &path, e))
}
