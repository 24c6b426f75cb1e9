//! Opens and copies sled databases.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use crate::error::{Damage, Error};
use crate::head::Head;
use crate::sled_engine::frames::{self, SEGMENT};
use crate::sled_engine::head_files;
use crate::sled_engine::panics::catch_panic;
use crate::sled_engine::records::{Copied, Records};

/// Copies up to this many bytes are made in memory, where sled's own syncs cost nothing.
const IN_MEMORY: u64 = 256 << 20;

/// How often sled's own thread of a store cleans segments, and syncs the file whether it has changed or not, in
/// milliseconds. The writer syncs whatever it appends, so only the cleaning is needed.
const FLUSH_EVERY: u64 = 5_000;

fn config(dir: &Path) -> sled::Config {
    sled::Config::default().path(dir).segment_size(SEGMENT).cache_capacity(4 << 20)
}

/// Opens the database in `dir` and takes its lock. `None`: another process holds the lock.
pub(crate) fn open(dir: &Path) -> Result<Option<sled::Db>, Error> {
    clear_half_snapshots(dir);
    // `None` here would turn off sled's garbage collection along with its flushes
    can_start_threads().map_err(|e| Error::no_thread(dir, &e))?;
    match catch_panic(|| config(dir).flush_every_ms(Some(FLUSH_EVERY)).open()) {
        Ok(Ok(db)) => Ok(Some(db)),
        Ok(Err(sled::Error::Io(error))) if is_lock(&error) => Ok(None),
        Ok(Err(error)) => Err(Error::sled("opened the database", dir, error)),
        Err(what) => Err(Error::damaged(dir, Damage::db(format!("sled cannot open it: {what}")))),
    }
}

/// Threads that sled's pool starts when the first database is opened, and those of one open store: sled's
/// flusher and our writer.
const POOL: usize = 7;
const EACH: usize = 2;

/// Starts as many threads as an open database needs, and ends them again. sled takes no notice of a
/// thread that does not start, and waits for ever for what it should have written.
fn can_start_threads() -> io::Result<()> {
    static HAS_POOL: AtomicBool = AtomicBool::new(false);
    let count = if HAS_POOL.swap(true, Ordering::AcqRel) { EACH } else { POOL + EACH };
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let start = |_| {
        let gate = Arc::clone(&gate);
        thread::Builder::new().stack_size(64 << 10).spawn(move || drop(gate.lock()))
    };
    let started: Vec<_> = (0..count).map(start).collect();
    drop(closed);
    let mut outcome = Ok(());
    for thread in started {
        match thread {
            // it only waited, and cannot panic
            Ok(thread) => drop(thread.join()),
            Err(error) => {
                HAS_POOL.store(false, Ordering::Release);
                outcome = Err(error);
            }
        }
    }
    outcome
}

/// Removes the partial snapshot that a crash left while sled was writing it. sled takes the file
/// for a snapshot, and refuses to open a database whose newest snapshot is torn. Call this only
/// with the lock held: a node that is just opening the store completes its partial snapshot within
/// a moment.
fn clear_half_snapshots(dir: &Path) {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut half = names.filter(|name| name.to_str().is_some_and(is_half_snapshot)).peekable();
    if half.peek().is_none() {
        return;
    }
    let Ok(db) = File::open(dir.join("db")) else { return };
    if rustix::fs::flock(&db, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // if a file cannot be removed, opening the database reports it
        half.for_each(|name| drop(fs::remove_file(dir.join(name))));
    }
}

/// Rounds of [`give_back`]: each frees up to eight of the collector's bags of 64 values.
const ROUNDS: usize = 64;

/// Frees the memory of databases that were closed. sled leaves its pages to a collector that works only
/// while some database is in use, so a process whose sessions all rest would keep them.
pub(crate) fn give_back() {
    for _ in 0..ROUNDS {
        crossbeam_epoch::pin().flush();
    }
}

/// The names of snapshots that are being written.
pub(crate) fn is_half_snapshot(name: &str) -> bool {
    name.starts_with("snap.") && name.ends_with(".generating")
}

/// Whether the error means that the lock is taken. sled has no error of its own for this.
fn is_lock(error: &io::Error) -> bool {
    error.to_string().starts_with("could not acquire lock")
}

/// A new database that ends with the process, in place of the one in `dir`.
pub(crate) fn empty(dir: &Path) -> io::Result<Records> {
    let folder = folder_in(&std::env::temp_dir())?;
    can_start_threads()?;
    match catch_panic(|| config(folder.path()).flush_every_ms(None).open()) {
        Ok(Ok(db)) => {
            let heads = head_files::read_all(dir);
            let copied = Copied { heads, size: 0, folder: Some(folder) };
            Ok(Records::copied(db, dir, copied))
        }
        Ok(Err(error)) => Err(io::Error::other(error)),
        Err(panic) => Err(io::Error::other(panic)),
    }
}

/// A fingerprint of copied bytes. It distinguishes a database that is being written from one that
/// is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    crc: u32,
    bytes: u64,
}

impl Fingerprint {
    fn is_noted(self, dir: &Path) -> bool {
        fs::read_to_string(dir.join(CLOSED)).is_ok_and(|noted| noted == self.text())
    }

    fn text(self) -> String {
        format!("crc32 {:08x}, {} bytes\n", self.crc, self.bytes)
    }
}

/// The copied files of a database that is not opened yet.
#[derive(Debug)]
pub(crate) struct Files {
    folder: TempDir,
    pub(crate) fingerprint: Fingerprint,
    /// Whether another process may have written to the database while it was copied.
    pub(crate) moving: bool,
    snapshots: Vec<PathBuf>,
}

/// Copies the files of the database in `dir`. `db` is copied last, because a node may be writing: a
/// snapshot may be older than the log but never newer.
pub(crate) fn copy(dir: &Path) -> Result<Files, Error> {
    let db = dir.join("db");
    let length = fs::metadata(&db)
        .map_err(|e| Error::NotAStore { dir: dir.to_owned(), why: format!("`db`: {e}") })?
        .len();
    let memory = (length <= IN_MEMORY).then(|| in_memory(length)).flatten();
    if let Some(files) = memory.and_then(|folder| copy_into(dir, folder).ok()) {
        return Ok(files);
    }
    let failed = |e| Error::io("cannot copy for reading", dir, e);
    copy_into(dir, folder_in(&std::env::temp_dir()).map_err(failed)?).map_err(failed)
}

/// A temporary folder in memory, if there is room for `length` bytes and for what sled adds when it
/// opens them.
fn in_memory(length: u64) -> Option<TempDir> {
    let parent = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(parent).ok()?;
    (free.f_bavail.saturating_mul(free.f_frsize) > 2 * length + (16 << 20)).then_some(())?;
    folder_in(parent).ok()
}

/// Creates a folder that only its owner can read.
fn folder_in(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("leftfold-").tempdir_in(parent)
}

fn copy_into(dir: &Path, folder: TempDir) -> io::Result<Files> {
    let mut snapshots = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let snapshot = text.starts_with("snap.") && !is_half_snapshot(&text);
        if !snapshot && text != "conf" {
            continue;
        }
        let to = folder.path().join(&name);
        match fs::copy(dir.join(&name), &to) {
            Ok(_) if snapshot => snapshots.push(to),
            Ok(_) => {}
            // a node that has just opened the store removes the previous snapshot
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    copy_blobs(dir, folder.path())?;
    let db = dir.join("db");
    let before = fs::metadata(&db)?;
    let fingerprint = copy_db(&db, &folder.path().join("db"))?;
    let moving = may_have_changed(&before, &fs::metadata(&db)?) && !fingerprint.is_noted(dir);
    Ok(Files { folder, fingerprint, moving, snapshots })
}

/// File times advance in steps of some milliseconds, so a time younger than this can hide a change.
const FILE_TIME_GRANULARITY: Duration = Duration::from_millis(30);

fn may_have_changed(before: &fs::Metadata, after: &fs::Metadata) -> bool {
    let (Ok(then), Ok(now)) = (before.modified(), after.modified()) else { return true };
    then != now
        || before.len() != after.len()
        || now.elapsed().map_or(true, |age| age < FILE_TIME_GRANULARITY)
}

/// Copies `blobs/`. The folder is empty unless another program wrote to the store.
fn copy_blobs(dir: &Path, to: &Path) -> io::Result<()> {
    let Ok(blobs) = fs::read_dir(dir.join("blobs")) else { return Ok(()) };
    fs::create_dir_all(to.join("blobs"))?;
    for blob in blobs {
        let blob = blob?;
        fs::copy(blob.path(), to.join("blobs").join(blob.file_name()))?;
    }
    Ok(())
}

fn copy_db(from: &Path, to: &Path) -> io::Result<Fingerprint> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let fingerprint = read_all(&mut from, |piece| {
        // zeros are the space written ahead of the log: a hole reads as zeros too
        if piece.iter().all(|byte| *byte == 0) {
            let hole = i64::try_from(piece.len()).unwrap_or_default();
            return to.seek(SeekFrom::Current(hole)).map(|_| ());
        }
        to.write_all(piece)
    })?;
    to.set_len(fingerprint.bytes)?;
    Ok(fingerprint)
}

fn read_all(
    from: &mut File,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Fingerprint> {
    let mut buffer = vec![0; 64 << 10];
    let (mut crc, mut bytes) = (crc32fast::Hasher::new(), 0);
    loop {
        let read = from.read(&mut buffer)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
        crc.update(piece);
        each(piece)?;
        bytes += piece.len() as u64;
    }
    Ok(Fingerprint { crc: crc.finalize(), bytes })
}

/// The file in which a node notes the state of the database when it closes it.
const CLOSED: &str = "closed";

/// Databases larger than this are not inspected when they are opened and closed, because that takes
/// too long.
pub(crate) const LOOK_THROUGH: u64 = 64 << 20;

/// Notes the state of a database that was closed in good order. The note only makes the next
/// opening quicker, so it is not synced and may fail.
pub(crate) fn note_closed(dir: &Path) {
    if let Some(fingerprint) = fingerprint(dir) {
        let _ = fs::write(dir.join(CLOSED), fingerprint.text());
    }
}

/// Whether the database is byte for byte as a node left it when it closed it.
pub(crate) fn is_as_closed(dir: &Path) -> bool {
    dir.join(CLOSED).exists()
        && fingerprint(dir).is_some_and(|fingerprint| fingerprint.is_noted(dir))
}

fn fingerprint(dir: &Path) -> Option<Fingerprint> {
    let mut db = File::open(dir.join("db")).ok()?;
    (db.metadata().ok()?.len() <= LOOK_THROUGH).then_some(())?;
    read_all(&mut db, |_| Ok(())).ok()
}

impl Files {
    /// Opens the copy without sled's threads: a thread that panics would make closing hang.
    pub(crate) fn open(
        self,
        dir: &Path,
        heads: (Vec<Head>, Vec<Damage>),
    ) -> Result<Records, String> {
        let path = self.folder.path().to_owned();
        can_start_threads().map_err(|error| error.to_string())?;
        match catch_panic(|| config(&path).flush_every_ms(None).open()) {
            Ok(Ok(db)) => {
                let blobs = fs::read_dir(path.join("blobs")).is_ok_and(|mut b| b.next().is_some());
                let folder = blobs.then_some(self.folder);
                let copied = Copied { heads, size: self.fingerprint.bytes, folder };
                Ok(Records::copied(db, dir, copied))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(panic),
        }
    }

    /// The name of the snapshot that sled would start from.
    pub(crate) fn snapshot_name(&self) -> Option<String> {
        Some(self.snapshots.iter().max()?.file_name()?.to_string_lossy().into_owned())
    }

    /// Deletes sled's settings from the copy. They are equal in every store.
    pub(crate) fn without_settings(&mut self) {
        // if this fails, the copy still opens: sled writes the file only if it is missing
        let _ = fs::remove_file(self.folder.path().join("conf"));
    }

    /// Makes sled skip the parts that it cannot read.
    pub(crate) fn bridge(&mut self) -> io::Result<()> {
        let db = File::options().read(true).write(true).open(self.folder.path().join("db"))?;
        let inspection = frames::inspect(&db)?;
        frames::bridge(&db, &inspection)
    }

    /// Deletes sled's snapshot from the copy. A snapshot is only a shortcut: the log holds
    /// everything.
    pub(crate) fn without_snapshot(&mut self) {
        self.snapshots.drain(..).for_each(|path| {
            let _ = fs::remove_file(path);
        });
    }
}
