//! Writes zeros ahead of sled's position in the `db` file.
//!
//! A sync of a file that has grown also commits the file system's journal. A sync of a file whose
//! blocks already exist does not. sled takes zeros for free space, at run time and when it opens.
//!
//! Invariant: the file is open for *appending*, so no write from here can overwrite what sled has
//! written, whatever sled's own threads do meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are written ahead at a time.
const STEP: u64 = 128 << 10;

/// The number of bytes that are read to see whether sled has come this far. Text and checksums
/// contain no run of zeros of this length; if they did, only speed would be lost.
const PROBE: usize = 64;

#[derive(Debug)]
pub(crate) struct Preallocation {
    db: File,
}

impl Preallocation {
    pub(crate) fn new(db: &Path) -> io::Result<Self> {
        Ok(Self { db: OpenOptions::new().read(true).append(true).open(db)? })
    }

    /// Extends the file if sled has come close to its end. A failure costs only speed: sled itself
    /// reports a full disk when it needs the space.
    pub(crate) fn extend(&mut self) {
        if let Err(error) = self.try_extend() {
            tracing::debug!("cannot preallocate space for the log: {error}");
        }
    }

    fn try_extend(&mut self) -> io::Result<()> {
        // not `metadata`: once a file's time was read, the next write must change it, and a sync of
        // the log then takes half as long again
        let length = self.db.seek(SeekFrom::End(0))?;
        if length >= STEP {
            let mut probe = [0; PROBE];
            self.db.read_exact_at(&mut probe, length - STEP)?;
            if probe == [0; PROBE] {
                return Ok(());
            }
        }
        let zeros = vec![0; usize::try_from(STEP - length % STEP + STEP).unwrap_or(0)];
        self.db.write_all(&zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_only_when_what_it_gave_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, b"log").unwrap();
        let mut preallocation = Preallocation::new(&path).unwrap();
        preallocation.extend();
        let first = std::fs::metadata(&path).unwrap().len();
        assert!(first > STEP);
        preallocation.extend();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), first);
        let used = OpenOptions::new().write(true).open(&path).unwrap();
        used.write_all_at(&vec![1; usize::try_from(first - STEP + 1).unwrap()], 0).unwrap();
        preallocation.extend();
        assert!(std::fs::metadata(&path).unwrap().len() > first);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..usize::try_from(first - STEP).unwrap()].iter().all(|b| *b == 1));
    }
}
