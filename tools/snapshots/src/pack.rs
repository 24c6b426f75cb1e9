//! Writes new objects into a snapshot store as one git pack, without a process of git.
//!
//! The pack and its index are on the disk before git can see them, and the index comes last.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs;
use std::io::{self, BufWriter, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use miniz_oxide::deflate::compress_to_vec_zlib;
use serde::{Deserialize, Serialize};
use sha1_checked::{Digest, Sha1};
use tempfile::NamedTempFile;

use super::Error;

/// Bytes in front of the first object.
const HEAD: u64 = 12;
/// Git's own `core.compression` in these stores.
const COMPRESSION: u8 = 1;

/// The name of a git object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Object([u8; 20]);

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Tree,
    Blob,
}

impl Object {
    /// The name of this content. `None` if the content was made to have the name of another one: the
    /// two would seem equal.
    pub(super) fn from_content(kind: ObjectKind, content: &[u8]) -> Option<Self> {
        let name = match kind {
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
        };
        let mut hash = Sha1::new();
        hash.update(format!("{name} {}\0", content.len()));
        hash.update(content);
        let hash = hash.try_finalize();
        (!hash.has_collision()).then(|| Self((*hash.hash()).into()))
    }

    pub(super) fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A pack that is being written. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Pack {
    /// The store's folder of packs.
    folder: PathBuf,
    writer: Mutex<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    file: BufWriter<NamedTempFile>,
    size: u64,
    /// The checksum and the place of each object.
    objects: BTreeMap<Object, (u32, u64)>,
}

impl Pack {
    /// A pack for the store `store`. Its file is made with the first object.
    pub(super) fn new(store: &Path) -> Self {
        Self { folder: store.join("objects/pack"), writer: Mutex::new(None) }
    }

    /// Adds an object, whose name is that of its content.
    ///
    /// # Errors
    /// The pack cannot be written.
    pub(super) fn add(
        &self,
        kind: ObjectKind,
        object: Object,
        content: &[u8],
    ) -> Result<(), Error> {
        let mut bytes = head(kind, content.len());
        bytes.extend(compress_to_vec_zlib(content, COMPRESSION));
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let added = match &mut *writer {
            Some(writer) => writer.add(object, &bytes),
            none => Writer::new(&self.folder).and_then(|new| none.insert(new).add(object, &bytes)),
        };
        added.map_err(Error::io("write", &self.folder))
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Makes the pack durable and visible to git. Returns its name, if it has objects.
    ///
    /// # Errors
    /// The pack cannot be written.
    pub(super) fn finish(self) -> Result<Option<String>, Error> {
        let writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        let finished = writer.map(|writer| writer.finish(&self.folder)).transpose();
        finished.map_err(Error::io("write", &self.folder))
    }
}

impl Writer {
    fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut file = BufWriter::with_capacity(64 << 10, temporary(folder)?);
        // the count follows when it is known
        file.write_all(b"PACK\0\0\0\x02\0\0\0\0")?;
        Ok(Self { file, size: HEAD, objects: BTreeMap::new() })
    }

    fn add(&mut self, object: Object, bytes: &[u8]) -> io::Result<()> {
        if let Entry::Vacant(entry) = self.objects.entry(object) {
            self.file.write_all(bytes)?;
            entry.insert((crc32fast::hash(bytes), self.size));
            self.size += bytes.len() as u64;
        }
        Ok(())
    }

    fn finish(self, folder: &Path) -> io::Result<String> {
        let mut pack = self.file.into_inner().map_err(IntoInnerError::into_error)?;
        let count = u32::try_from(self.objects.len()).map_err(io::Error::other)?;
        pack.seek(SeekFrom::Start(HEAD - 4))?;
        pack.write_all(&count.to_be_bytes())?;
        pack.rewind()?;
        let sum = checksum(&mut pack)?;
        pack.write_all(&sum)?;
        let mut index = temporary(folder)?;
        index.write_all(&index_of(&self.objects, &sum)?)?;
        // both at once, as a disk flushes two files in hardly more time than one
        std::thread::scope(|scope| {
            let other = scope.spawn(|| index.as_file().sync_data());
            let written = pack.as_file().sync_data();
            written.and(other.join().unwrap_or_else(|_| Err(io::Error::other("no thread"))))
        })?;
        let name = format!("pack-{}", Object(sum));
        pack.persist(folder.join(format!("{name}.pack")))?;
        index.persist(folder.join(format!("{name}.idx")))?;
        Ok(name)
    }
}

/// A file that git removes if it is left behind.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix("tmp_pack_").tempfile_in(folder)
}

/// The kind and size in front of an object: 4 bits of the size, then 7 bits a byte.
fn head(kind: ObjectKind, size: usize) -> Vec<u8> {
    let number: u8 = match kind {
        ObjectKind::Tree => 2,
        ObjectKind::Blob => 3,
    };
    let low = |bits: usize, mask: usize| u8::try_from(bits & mask).unwrap_or_default();
    let (mut byte, mut rest) = (number << 4 | low(size, 0xf), size >> 4);
    let mut head = Vec::new();
    while rest > 0 {
        head.push(byte | 0x80);
        (byte, rest) = (low(rest, 0x7f), rest >> 7);
    }
    head.push(byte);
    head
}

fn checksum(file: &mut impl Read) -> io::Result<[u8; 20]> {
    let (mut hash, mut piece) = (Sha1::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            count => hash.update(&piece[..count]),
        }
    }
}

/// The index of a pack with this checksum, in version 2 of git's format.
fn index_of(objects: &BTreeMap<Object, (u32, u64)>, sum: &[u8; 20]) -> io::Result<Vec<u8>> {
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    let mut counts = [0_u32; 256];
    for object in objects.keys() {
        counts[usize::from(object.0[0])] += 1;
    }
    let mut up_to = 0;
    for count in counts {
        up_to += count;
        index.extend(up_to.to_be_bytes());
    }
    index.extend(objects.keys().flat_map(|object| object.0));
    index.extend(objects.values().flat_map(|(sum, _)| sum.to_be_bytes()));
    for (_, place) in objects.values() {
        // larger places, which have another form, do not occur: a snapshot adds at most 1 GiB
        index.extend(i32::try_from(*place).map_err(io::Error::other)?.to_be_bytes());
    }
    index.extend(sum);
    let own = Sha1::digest(&index);
    index.extend(own);
    Ok(index)
}
