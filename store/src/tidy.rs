//! Removes files and records from a store that no event refers to.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use leftfold_events::event::Tool;
use leftfold_events::{Envelope, Event, Sha256};

use crate::database;
use crate::engine::ReadEngine;
use crate::error::Error;
use crate::payloads::{self, Cache};
use crate::scan::{Scan, Source};
use crate::sled_engine::{self, Records, catch_panic, content_files, record};
use crate::{check, durable, files};

/// The files that were removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Number of content files.
    pub payloads: usize,
    /// Number of full texts of tool outputs.
    pub spills: usize,
    /// Number of recorded exchanges with providers.
    pub records: usize,
    /// Number of files that a crash left half written.
    pub temporary: usize,
    /// Bytes that these files occupy on the disk.
    pub bytes: u64,
}

impl Tidied {
    pub fn is_empty(&self) -> bool {
        self.payloads + self.spills + self.records + self.temporary == 0
    }
}

/// Removes contents and full texts that no event of any session in the store names, and files that
/// a crash left half written. With `dry` it only counts them. A store that has no such files is not
/// opened: only its folder is read.
///
/// # Errors
/// [`Error::Damaged`]: a damaged log may name anything, so nothing is removed. [`Error::Locked`]
/// while a node has the store open, [`Error::Io`], [`Error::Database`].
pub fn tidy(dir: &Path, dry: bool) -> Result<Tidied, Error> {
    let nothing =
        "its own retention removes contents, and old files of this machine go by themselves";
    database::refuse(dir, nothing)?;
    let mut tidy = Tidy { dry, ..Tidy::default() };
    let contents = content_files(dir);
    let spills = listed(&dir.join(files::SPILLS), |name| name.ends_with(".txt"));
    let records = listed(&dir.join(files::WIRE), |name| name.ends_with(".jsonl"));
    let half = half_written(dir);
    if contents.is_empty() && spills.is_empty() && records.is_empty() && half.is_empty() {
        return Ok(tidy.done);
    }
    let held: Records;
    // opening may repair the database and hide lost events
    if let Some(damage) = check(dir)?.damage.into_iter().next() {
        return Err(Error::damaged(dir, damage));
    }
    let locked = || Error::Locked { dir: dir.to_owned() };
    let (named, files) = if dry {
        (!sled_engine::in_use(dir)).then_some(()).ok_or_else(locked)?;
        let copied = sled_engine::copy_files(dir)?.open(dir, Default::default());
        let copy = copied.map_err(|what| Error::Database { what })?;
        let named = References::of(&copy)?;
        let files = named.files(&copy)?;
        (named, files)
    } else {
        // the lock is held until the files are gone, so that no node opens the store meanwhile
        held = Records::new(sled_engine::open(dir)?.ok_or_else(locked)?, dir);
        let named = References::of(&held)?;
        remove_dead(&held, &named)?;
        let files = named.files(&held)?;
        (named, files)
    };
    for (_, path) in contents.into_iter().filter(|(sha256, _)| !files.contains(sha256)) {
        tidy.done.payloads += tidy.remove(&path)?;
    }
    let is_unnamed = |path: &&PathBuf| path.file_name().is_some_and(|n| !named.spills.contains(n));
    for path in spills.iter().filter(is_unnamed) {
        tidy.done.spills += tidy.remove(path)?;
    }
    let is_unnamed = |path: &&PathBuf| path.file_name().is_some_and(|n| !named.records.contains(n));
    for path in records.iter().filter(is_unnamed) {
        tidy.done.records += tidy.remove(path)?;
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
    /// Removes the file unless this is a dry run. Returns 1 if it was, or would be, removed.
    fn remove(&mut self, path: &Path) -> Result<usize, Error> {
        use std::os::unix::fs::MetadataExt;
        let size = path.symlink_metadata().map_or(0, |found| found.blocks() * 512);
        if !self.dry {
            match fs::remove_file(path) {
                // opening the store has already removed it
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| Error::io("cannot remove", path, e))?,
            }
        }
        self.done.bytes += size;
        Ok(1)
    }
}

/// The plain files in a folder whose names `is_one` accepts.
fn listed(folder: &Path, is_one: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let ours = files.filter(|entry| entry.file_name().to_str().is_some_and(&is_one));
    let mut paths: Vec<PathBuf> = ours.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Half-written content files and sled snapshots: such files get their final names when complete.
fn half_written(dir: &Path) -> Vec<PathBuf> {
    let mut found = listed(&dir.join(sled_engine::CONTENTS), |name| name.starts_with(".tmp"));
    found.extend(listed(&dir.join(files::WIRE), |name| name.ends_with(".new")));
    found.extend(listed(dir, sled_engine::is_half_snapshot));
    found
}

/// The contents and spill files that the events of a store name.
#[derive(Debug, Default)]
struct References {
    payloads: HashSet<Sha256>,
    /// File names only: the folder may have been moved.
    spills: HashSet<OsString>,
    /// File names of recorded exchanges.
    records: HashSet<OsString>,
}

impl References {
    fn of(records: &Records) -> Result<Self, Error> {
        let (mut named, cache) = (Self::default(), Cache::default());
        let source = Source { engine: records, cache: &cache };
        for session in
            records.sessions().map_err(|what| Error::Database { what: what.to_string() })?
        {
            for entry in Scan::all(source, session, None, 1) {
                named.add(&entry.map_err(|wrong| wrong.into_error(&records.dir))?.envelope);
            }
        }
        Ok(named)
    }

    fn add(&mut self, envelope: &Envelope) {
        let event = &envelope.event;
        let record = envelope.notes.exchange.as_ref().and_then(|exchange| exchange.record.as_ref());
        if let (Some(_), Some(requested)) = (record, envelope.of) {
            let path = files::wire_record(Path::new(""), envelope.session, requested);
            self.records.extend(path.file_name().map(ToOwned::to_owned));
        }
        let payloads = event.payloads().into_iter().filter(|payload| !payloads::is_unset(payload));
        self.payloads.extend(payloads.map(|payload| payload.sha256()));
        if let Event::Tool(Tool::Finished(finished)) = event {
            let path = finished.spill.as_ref().map(|spill| Path::new(&spill.path));
            self.spills.extend(path.and_then(Path::file_name).map(ToOwned::to_owned));
        }
    }

    /// The files that hold events and the contents that events name.
    fn files(&self, records: &Records) -> Result<HashSet<Sha256>, Error> {
        let mut files = HashSet::new();
        for entry in db(records)?.iter() {
            let (key, value) = entry.map_err(|e| Error::sled("read a record", &records.dir, e))?;
            let named = record::payload_of(&key).is_none_or(|hash| self.payloads.contains(&hash));
            files.extend(record::file_of(&key, &value).filter(|_| named));
        }
        Ok(files)
    }
}

/// Removes the records of contents that no event names. They go before their files, and in one pass
/// with them: a later event that names the same contents must find all of them or nothing.
fn remove_dead(records: &Records, named: &References) -> Result<(), Error> {
    let (db, dir) = (db(records)?, &records.dir);
    let mut dead = Vec::new();
    for key in db.range(record::PAYLOADS.to_vec()..).keys() {
        let key = key.map_err(|e| Error::sled("read a key", dir, e))?;
        if record::payload_of(&key).is_some_and(|hash| !named.payloads.contains(&hash)) {
            dead.push(key);
        }
    }
    if dead.is_empty() { Ok(()) } else { remove_records(db, dir, &dead) }
}

fn db(records: &Records) -> Result<&sled::Db, Error> {
    records.db().map_err(|what| Error::Database { what })
}

fn remove_records(db: &sled::Db, dir: &Path, keys: &[sled::IVec]) -> Result<(), Error> {
    let removed = catch_panic(|| {
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
