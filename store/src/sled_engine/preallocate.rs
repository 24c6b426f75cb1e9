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

    /// Extends the file if sled has come close to its end. Returns how long it must be from now on, in bytes:
    /// `known`, or more. A file that is shorter than `known` was cut, and stays as it is: zeros would hide the cut
    /// from [`Presence`](crate::sled_engine::presence::Presence). A failure costs only speed: sled itself reports a full disk
    /// when it needs the space.
    pub(crate) fn extend(&mut self, known: u64) -> u64 {
        self.try_extend(known).unwrap_or_else(|error| {
            tracing::debug!("cannot preallocate space for the log: {error}");
            known
        })
    }

    fn try_extend(&mut self, known: u64) -> io::Result<u64> {
        // not `metadata`: once a file's time was read, the next write must change it, and a sync of
        // the log then takes half as long again
        let length = self.db.seek(SeekFrom::End(0))?;
        if length < known {
            return Ok(known);
        }
        if length >= STEP {
            let mut probe = [0; PROBE];
            self.db.read_exact_at(&mut probe, length - STEP)?;
            if probe == [0; PROBE] {
                return Ok(length);
            }
        }
        let zeros = STEP - length % STEP + STEP;
        self.db.write_all(&vec![0; usize::try_from(zeros).unwrap_or(0)])?;
        // not the length that the file has now: somebody may have cut it before these zeros
        Ok(length + zeros)
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
        assert!(preallocation.extend(3) > STEP);
        let first = std::fs::metadata(&path).unwrap().len();
        assert!(first > STEP);
        assert_eq!(preallocation.extend(first), first);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), first);
        let used = OpenOptions::new().write(true).open(&path).unwrap();
        used.write_all_at(&vec![1; usize::try_from(first - STEP + 1).unwrap()], 0).unwrap();
        let second = preallocation.extend(first);
        assert!(second > first);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), second);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..usize::try_from(first - STEP).unwrap()].iter().all(|b| *b == 1));
    }

    #[test]
    fn does_not_hide_that_the_file_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, vec![1; 3 << 10]).unwrap();
        let mut preallocation = Preallocation::new(&path).unwrap();
        std::fs::write(&path, [1; 1_000]).unwrap();
        assert_eq!(preallocation.extend(3 << 10), 3 << 10);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 1_000);
    }
}
