//! Head files: `heads/SESSION` in a store's folder.
//!
//! sled drops damaged tails silently. So after each flush, and before it acknowledges the flush, the
//! writer overwrites the head of each session whose log has grown. It is a plain write, in place.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leftfold_events::SessionId;

use crate::error::Damage;
use crate::head::{FIXED, Head};

pub(crate) const FOLDER: &str = "heads";

pub(crate) fn path(dir: &Path, session: SessionId) -> PathBuf {
    dir.join(FOLDER).join(session.to_string())
}

pub(crate) fn open(dir: &Path, session: SessionId) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path(dir, session))
}

/// Overwrites the head in place.
pub(crate) fn write(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)
}

/// Reads the head of one session. A file that holds the head of another session is damage.
pub(crate) fn read(dir: &Path, session: SessionId) -> Result<Option<Head>, Damage> {
    let name = session.to_string();
    let damage = |what: String| Damage::head(Some(session), &name, what);
    let bytes = match fs::read(path(dir, session)) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(damage(format!("cannot be read: {e}"))),
    };
    let cut = (bytes.len() < FIXED).then_some(bytes.len() as u64);
    match Head::decode(&bytes).map_err(|what| Damage { offset: cut, ..damage(what) })? {
        Some(head) if head.session != session => {
            Err(Damage::head(Some(session), &name, format!("it is the head of {}", head.session)))
        }
        head => Ok(head),
    }
}

/// All heads of a store, sorted by session, and the damage of those that cannot be read.
pub(crate) fn read_all(dir: &Path) -> (Vec<Head>, Vec<Damage>) {
    let (mut heads, mut damage) = (Vec::new(), Vec::new());
    let Ok(entries) = fs::read_dir(dir.join(FOLDER)) else { return (heads, damage) };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.parse::<SessionId>() {
            Ok(session) => match read(dir, session) {
                Ok(head) => heads.extend(head),
                Err(wrong) => damage.push(wrong),
            },
            Err(not) => damage.push(Damage::head(None, &name, not.to_string())),
        }
    }
    heads.sort_by_key(|head| head.session);
    damage.sort_by(|a, b| a.file.cmp(&b.file));
    (heads, damage)
}

/// The readable heads in a store's folder, sorted by session. It does not open the database. Empty
/// for a folder that is not a store.
///
/// A file that has not changed since this process read it is not read again, so lists of many stores are
/// cheap.
pub(crate) fn heads(dir: &Path) -> Vec<Head> {
    static READ: LazyLock<Mutex<HashMap<PathBuf, ReadHeads>>> = LazyLock::new(Mutex::default);
    let lock = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    // others do not wait while files are read
    let mut read = lock().remove(dir).unwrap_or_default();
    if !read.refresh(dir) {
        return Vec::new();
    }
    let heads = read.files.iter().filter_map(|file| file.head.clone()).collect();
    let mut all = lock();
    if all.len() >= MAX_STORES {
        all.clear();
    }
    all.insert(dir.to_owned(), read);
    heads
}

/// Stores whose heads are remembered.
const MAX_STORES: usize = 1 << 16;

/// A file that changed less than this ago, in seconds, may change again within the same tick of the file
/// system's clock.
const SETTLED: i64 = 3;

/// The heads of a store as they were read last.
#[derive(Debug, Default)]
struct ReadHeads {
    folder: Option<Stamp>,
    /// Sorted by session.
    files: Vec<ReadHead>,
}

#[derive(Debug)]
struct ReadHead {
    session: SessionId,
    path: PathBuf,
    stamp: Option<Stamp>,
    /// `None` if it cannot be read.
    head: Option<Head>,
}

impl ReadHeads {
    /// Reads what has changed. False: there is no such store.
    fn refresh(&mut self, dir: &Path) -> bool {
        let folder = dir.join(FOLDER);
        let stamp = Stamp::of(&folder);
        if stamp.is_none() || stamp != self.folder {
            let Ok(entries) = fs::read_dir(&folder) else { return false };
            let files = self.files.drain(..);
            let mut known: HashMap<_, _> = files.map(|file| (file.session, file)).collect();
            let names = entries.flatten().map(|entry| entry.file_name());
            let sessions = names.filter_map(|name| name.to_str()?.parse::<SessionId>().ok());
            self.files = sessions
                .map(|session| {
                    let path = folder.join(session.to_string());
                    let new = ReadHead { session, path, stamp: None, head: None };
                    known.remove(&session).unwrap_or(new)
                })
                .collect();
            self.files.sort_by_key(|file| file.session);
            self.folder = stamp;
        }
        for file in &mut self.files {
            // a change while it is read is newer than its stamp
            let stamp = Stamp::of(&file.path);
            if stamp.is_none() || stamp != file.stamp {
                file.head = read(dir, file.session).ok().flatten();
                file.stamp = stamp;
            }
        }
        true
    }
}

/// Tells two states of a file apart.
#[derive(Debug, PartialEq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// `None` if there is no such file, or if it changed a moment ago.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
        let is_settled = metadata.ctime().checked_add(SETTLED)? < i64::try_from(now).ok()?;
        is_settled.then(|| Self {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::Time;

    use super::*;
    use crate::head::Summary;

    fn head() -> Head {
        let session = SessionId::default().child(1, Time::from_millis(5));
        let summary = Some(Summary { title: Some("A title".into()), ..Summary::default() });
        Head { session, seq: 9, chain: [3; 16], at: Time::from_millis(7), summary }
    }

    /// Other processes write, add and remove heads, and a listing has them all: while the files are new and are
    /// read each time, and when they have settled.
    #[test]
    fn listed_heads_are_those_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let other = Head { session: SessionId::default().child(2, Time::from_millis(9)), ..head() };
        assert_eq!(heads(dir), []);
        fs::create_dir(dir.join(FOLDER)).unwrap();
        let put = |head: &Head| fs::write(path(dir, head.session), head.encode()).unwrap();
        for pause in [0, SETTLED as u64 + 1] {
            let wait = || std::thread::sleep(std::time::Duration::from_secs(pause));
            put(&head());
            wait();
            assert_eq!(heads(dir), [head()]);
            assert_eq!(heads(dir), [head()]);
            // of the same length
            let later = Head { seq: 10, ..head() };
            put(&later);
            put(&other);
            let mut both = [later, other.clone()];
            both.sort_by_key(|head| head.session);
            assert_eq!(heads(dir), both);
            fs::write(path(dir, other.session), b"torn").unwrap();
            assert_eq!(heads(dir), [Head { seq: 10, ..head() }]);
            fs::remove_file(path(dir, other.session)).unwrap();
            fs::remove_file(path(dir, head().session)).unwrap();
            assert_eq!(heads(dir), []);
        }
        fs::remove_dir_all(dir.join(FOLDER)).unwrap();
        assert_eq!(heads(dir), []);
    }
}
