//! The index: the state of each file at the last snapshot, so that the next snapshot reads only
//! changed files, and lists only changed folders.
//!
//! The file holds records, each with its length and checksum: first the whole index, then the folders
//! that each later snapshot has changed. A damaged record ends the index. An older index, or an empty
//! one, only makes the next snapshot read more files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use leftfold_events::Sha256;
use serde::{Deserialize, Serialize};

use super::Error;
use super::git::EMPTY;
use super::pack::{Object, ObjectKind, Pack};
use super::stamp::{FolderStamp, Stamp};

const VERSION: &[u8] = b"leftfold-index 2\n";

#[derive(Debug, Default)]
pub(super) struct Index {
    /// By their paths relative to the worktree, which is `""`.
    pub(super) folders: HashMap<String, Arc<Folder>>,
    /// The pack that was written last.
    pub(super) pack: String,
    /// The file, as it was when it was read or written.
    file: Option<FileStamp>,
    /// Bytes of the file up to the end of the first and of the last record.
    first: u64,
    size: u64,
}

/// Inode, size and time of the last change.
type FileStamp = (u64, u64, i64, i64);

#[derive(Serialize, Deserialize)]
struct Record {
    pack: String,
    /// `None`: the folder is gone.
    folders: Vec<(String, Option<Arc<Folder>>)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Folder {
    /// As long as the stamp stays, so do the entries. `None`: they are listed again.
    pub(super) stamp: Option<FolderStamp>,
    /// The hash of the rules that decided which entries are ignored. `None`: the folder is.
    pub(super) rules: Option<Sha256>,
    /// Whether the folder has ignore rules of its own.
    pub(super) has_rules: bool,
    /// Names of folders that are not ignored.
    pub(super) folders: BTreeSet<String>,
    /// Names of ignored folders with files that were kept before they were ignored.
    pub(super) ignored: BTreeSet<String>,
    pub(super) files: BTreeMap<String, Option<Kept>>,
    /// The git tree, if the snapshot holds a file of the folder or below it.
    pub(super) tree: Option<Object>,
}

/// A file in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) stamp: Stamp,
    /// Whether the file may have changed again without a new stamp, so that it is read once more.
    pub(super) is_young: bool,
    pub(super) object: Object,
}

impl Index {
    /// An index that is not in a file yet.
    pub(super) fn new(folders: HashMap<String, Arc<Folder>>, pack: String) -> Self {
        Self { folders, pack, ..Self::default() }
    }

    pub(super) fn read(path: &Path) -> Self {
        Self::open(path).unwrap_or_default()
    }

    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let stamp = stamp(&file.metadata()?);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self { file: Some(stamp), ..Self::parse(&bytes) })
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut index = Self::default();
        let Some(mut rest) = bytes.strip_prefix(VERSION) else { return index };
        while let Some((record, after)) = Record::parse(rest) {
            for (path, folder) in record.folders {
                match folder {
                    Some(folder) => index.folders.insert(path, folder),
                    None => index.folders.remove(&path),
                };
            }
            (index.pack, rest) = (record.pack, after);
            index.size = (bytes.len() - rest.len()) as u64;
            if index.first == 0 {
                index.first = index.size;
            }
        }
        index
    }

    /// Whether the file is still the one that was read or written.
    pub(super) fn is_current(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|file| Some(stamp(&file)) == self.file)
    }

    pub(super) fn is_equal(&self, other: &Self) -> bool {
        let is_known = |path: &String| self.folders.contains_key(path);
        self.pack == other.pack
            && self.changed(other).next().is_none()
            && other.folders.keys().all(is_known)
    }

    /// The paths of the folders that are not those of `before`.
    fn changed<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a String> {
        let is_same = move |(path, folder): &(&String, &Arc<Folder>)| {
            before.folders.get(*path).is_some_and(|known| Arc::ptr_eq(known, folder))
        };
        self.folders.iter().filter(move |entry| !is_same(entry)).map(|(path, _)| path)
    }

    /// Writes the difference from `before`, which is in the file, or all of the index if the
    /// differences have become as large as that.
    pub(super) fn write(&mut self, before: &Self, path: &Path) -> io::Result<()> {
        let gone = before.folders.keys().filter(|path| !self.folders.contains_key(*path));
        let record = self.record(self.changed(before).chain(gone))?;
        let size = before.size + record.len() as u64;
        if before.size > 0 && size <= 2 * before.first {
            let mut file = File::options().write(true).open(path)?;
            // after what was read, and over what was damaged
            file.set_len(before.size)?;
            file.seek(SeekFrom::End(0))?;
            file.write_all(&record)?;
            self.file = Some(stamp(&file.metadata()?));
            (self.first, self.size) = (before.first, size);
            return Ok(());
        }
        let all = [VERSION, &self.record(self.folders.keys())?].concat();
        let fresh = path.with_extension("new");
        fs::write(&fresh, &all)?;
        fs::rename(&fresh, path)?;
        self.file = Some(stamp(&fs::metadata(path)?));
        (self.first, self.size) = (all.len() as u64, all.len() as u64);
        Ok(())
    }

    fn record<'a>(&self, paths: impl Iterator<Item = &'a String>) -> io::Result<Vec<u8>> {
        let folder = |path: &String| (path.clone(), self.folders.get(path).cloned());
        let record = Record { pack: self.pack.clone(), folders: paths.map(folder).collect() };
        let config = bincode::config::standard();
        let body = bincode::serde::encode_to_vec(&record, config).map_err(io::Error::other)?;
        let size = u32::try_from(body.len()).map_err(io::Error::other)?;
        Ok([&size.to_le_bytes()[..], &crc32fast::hash(&body).to_le_bytes(), &body].concat())
    }

    /// The git tree of the worktree.
    pub(super) fn tree(&self) -> String {
        let tree = self.folders.get("").and_then(|folder| folder.tree);
        tree.map_or_else(|| EMPTY.to_owned(), |tree| tree.to_string())
    }

    /// Works out the trees of the folders that differ from those of `before`, and of all folders
    /// above them. Trees that are new are written to `pack`.
    pub(super) fn write_trees(&mut self, before: &Self, pack: &Pack) -> Result<(), Error> {
        let gone = before.folders.keys().filter(|path| !self.folders.contains_key(*path));
        let changed = self.changed(before).chain(gone);
        let changed: BTreeSet<&str> = changed.flat_map(|path| ancestors(path)).collect();
        let mut changed: Vec<String> = changed.into_iter().map(str::to_owned).collect();
        // a folder's path is longer than that of the folder that holds it
        changed.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in changed {
            let Some(folder) = self.folders.get(&path) else { continue };
            let content = self.tree_of(&path, folder);
            let old = folder.tree;
            let tree = if content.is_empty() {
                None
            } else {
                Object::from_content(ObjectKind::Tree, &content)
            };
            if let Some(tree) = tree.filter(|_| tree != old) {
                pack.add(ObjectKind::Tree, tree, &content)?;
            }
            if let Some(folder) = self.folders.get_mut(&path).filter(|_| tree != old) {
                Arc::make_mut(folder).tree = tree;
            }
        }
        Ok(())
    }

    /// The content of the git tree of a folder.
    fn tree_of(&self, path: &str, folder: &Folder) -> Vec<u8> {
        let files = folder.files.iter().filter_map(|(name, kept)| {
            let kept = kept.as_ref()?;
            Some((name.clone(), (kept.stamp.mode.git(), name, kept.object)))
        });
        let folders = folder.folders.iter().chain(&folder.ignored).filter_map(|name| {
            let tree = self.folders.get(&join(path, name))?.tree?;
            // git sorts folders as if their names ended so
            Some((format!("{name}/"), ("40000", name, tree)))
        });
        let entries: BTreeMap<_, _> = files.chain(folders).collect();
        let mut content = Vec::new();
        for (mode, name, object) in entries.values() {
            content.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            content.extend_from_slice(object.as_bytes());
        }
        content
    }
}

impl Record {
    /// The first record, and the bytes after it.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (size, rest) = bytes.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (body, rest) = rest.split_at_checked(size)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let config = bincode::config::standard();
        let (record, _) = bincode::serde::decode_from_slice(body, config).ok()?;
        Some((record, rest))
    }
}

fn stamp(file: &Metadata) -> FileStamp {
    (file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

/// The path of an entry of a folder.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// A folder's path and those of the folders that hold it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        (!path.is_empty()).then_some(parent)
    })
}
