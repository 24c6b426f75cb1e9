//! The index: the state of each file at the last snapshot, so that the next snapshot reads only
//! changed files.
//!
//! The first line holds the tree, the last the count. Between them is one line a file: `SIZE MTIME
//! CTIME INODE MODE HASH PATH`, times in nanoseconds. A file that changed shortly before it was
//! read may change again without a new stamp, so its hash is kept and it is read once more.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leftfold_events::Sha256;

use super::scan::FoundFile;
use super::stamp::{Mode, Stamp};
use super::{Error, LARGEST, MOST_BYTES};

const VERSION: &str = "leftfold-index 1";
/// Approximate length of a line, in bytes.
const LINE: usize = 128;
/// Coarsest resolution of file times.
const TICK: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) tree: Option<String>,
    files: HashMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    stamp: Stamp,
    /// Hash of the content. `None` if the stamp alone can be trusted.
    hash: Option<Sha256>,
}

/// The difference from the last snapshot.
#[derive(Debug, Default)]
pub(super) struct IndexChanges {
    /// Files to write with the given mode. `None`: the file is no longer in the snapshot.
    pub(super) changes: Vec<(String, Option<Mode>)>,
    pub(super) left_out: Vec<String>,
    /// Whether the index has learned something, such as a trusted stamp, though no file changed.
    pub(super) index_changed: bool,
}

impl Index {
    /// Reads the index. A missing or damaged index reads as empty, so every file is read again.
    pub(super) fn read(path: &Path) -> Self {
        fs::read_to_string(path).ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let tree = lines.next()?.strip_prefix(VERSION)?.trim().to_owned();
        let mut files = HashMap::new();
        for line in lines {
            if let Some(count) = line.strip_prefix("end ") {
                return (count.parse() == Ok(files.len()))
                    .then_some(Self { tree: Some(tree), files });
            }
            let (path, entry) = Entry::parse(line)?;
            files.insert(path.to_owned(), entry);
        }
        None
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(self.files.len() * LINE);
        let tree = self.tree.as_deref().unwrap_or_default();
        // writing to memory cannot fail
        let _ = writeln!(text, "{VERSION} {tree}");
        for (path, Entry { stamp, hash }) in &self.files {
            let Stamp { size, changed, status, inode, mode } = stamp;
            let mode = mode.git();
            let _ = match hash {
                Some(hash) => {
                    writeln!(text, "{size} {changed} {status} {inode} {mode} {hash} {path}")
                }
                None => writeln!(text, "{size} {changed} {status} {inode} {mode} - {path}"),
            };
        }
        let _ = writeln!(text, "end {}", self.files.len());
        let fresh = path.with_extension("new");
        fs::write(&fresh, text)?;
        fs::rename(fresh, path)
    }

    /// Compares the index with the files found, and updates it.
    pub(super) fn compare(
        &mut self,
        worktree: &Path,
        found: &[FoundFile],
    ) -> Result<IndexChanges, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let then = i64::try_from(now.saturating_sub(TICK).as_nanos()).unwrap_or_default();
        let (mut changes_found, mut bytes) = (IndexChanges::default(), 0_u64);
        let mut before = std::mem::take(&mut self.files);
        self.files.reserve(found.len());
        for (name, stamp) in found {
            let name = match name {
                Ok(name) => name,
                Err(odd) => {
                    changes_found.left_out.push(odd.clone());
                    continue;
                }
            };
            // reuses the name that the index holds
            let (name, known) = match before.remove_entry(name) {
                Some((name, known)) => (name, Some(known)),
                None => (name.clone(), None),
            };
            bytes += self.look(worktree, name, *stamp, known, then, &mut changes_found);
            if bytes > MOST_BYTES {
                return Err(Error::TooLarge(worktree.to_owned()));
            }
        }
        // a file once kept stays in the snapshots, ignored or not
        for (name, known) in before {
            match Stamp::at(&worktree.join(&name)) {
                Some(stamp) => {
                    self.look(worktree, name, stamp, Some(known), then, &mut changes_found);
                }
                None => changes_found.changes.push((name, None)),
            }
        }
        // a file may have replaced a folder, or a folder a file
        changes_found.changes.sort_unstable_by(|(a, a_mode), (b, b_mode)| {
            (a_mode.is_some(), a).cmp(&(b_mode.is_some(), b))
        });
        changes_found.left_out.sort_unstable();
        Ok(changes_found)
    }

    /// Looks at one file. Returns the bytes to write for it.
    fn look(
        &mut self,
        worktree: &Path,
        name: String,
        stamp: Stamp,
        known: Option<Entry>,
        then: i64,
        changes_found: &mut IndexChanges,
    ) -> u64 {
        if let Some(known) = known.as_ref().filter(|e| e.hash.is_none() && e.stamp == stamp) {
            self.files.insert(name, known.clone());
            return 0;
        }
        let content = if stamp.size > LARGEST { None } else { read(&worktree.join(&name)) };
        let Some(content) = content else {
            // too large or unreadable: the snapshot keeps the old content
            changes_found.left_out.push(name.clone());
            self.files.extend(known.map(|known| (name, known)));
            return 0;
        };
        let hash = Sha256::of(&content);
        let same = |e: &Entry| e.hash == Some(hash) && e.stamp.mode == stamp.mode;
        if known.as_ref().is_some_and(same) {
            changes_found.index_changed = true;
        } else {
            changes_found.changes.push((name.clone(), Some(stamp.mode)));
        }
        let hash = stamp.is_young(then).then_some(hash);
        self.files.insert(name, Entry { stamp, hash });
        stamp.size
    }
}

impl Entry {
    fn parse(line: &str) -> Option<(&str, Self)> {
        let mut fields = line.splitn(7, ' ');
        let mut field = || fields.next();
        let (size, changed, status) = (field()?, field()?, field()?);
        let (inode, mode, hash, path) = (field()?, field()?, field()?, field()?);
        let stamp = Stamp {
            size: size.parse().ok()?,
            changed: changed.parse().ok()?,
            status: status.parse().ok()?,
            inode: inode.parse().ok()?,
            mode: Mode::of_git(mode)?,
        };
        let hash = if hash == "-" { None } else { Some(Sha256::from_hex(hash)?) };
        Some((path, Self { stamp, hash }))
    }
}

/// The content of a file, or the target of a link.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    match fs::read_link(path) {
        Ok(target) => Some(target.into_os_string().into_vec()),
        Err(_) => fs::read(path).ok(),
    }
}
