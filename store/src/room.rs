//! Keeps zeros written ahead of sled in the `db` file.
//!
//! A sync of a file that has grown also commits the file system's journal; one of a file whose
//! blocks exist already does not. sled takes zeros for free space, at run time and when opening.
//!
//! Invariant: the file is open for *appending*, so no write from here can land on what sled has
//! written, whatever sled's own threads do meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes kept ahead, and written at a time.
const STEP: u64 = 128 << 10;

/// How much is looked at to see whether sled has come this far. Text and checksums hold no run of
/// zeros of this length; if one did, only speed would be lost.
const PROBE: usize = 64;

#[derive(Debug)]
pub(crate) struct Room {
    db: File,
}

impl Room {
    pub(crate) fn new(db: &Path) -> io::Result<Self> {
        Ok(Self { db: OpenOptions::new().read(true).append(true).open(db)? })
    }

    /// Extends the file if sled has come close to its end. Failing costs only speed: a full disk
    /// is sled's to report, when it needs the space.
    pub(crate) fn keep(&mut self) {
        if let Err(error) = self.try_keep() {
            tracing::debug!("no room ahead in the log: {error}");
        }
    }

    fn try_keep(&mut self) -> io::Result<()> {
        // not by `metadata`: a time that has been looked at must change with the next write, and
        // a sync of the log then takes half as long again
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
        let mut room = Room::new(&path).unwrap();
        room.keep();
        let first = std::fs::metadata(&path).unwrap().len();
        assert!(first > STEP);
        room.keep();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), first);
        let used = OpenOptions::new().write(true).open(&path).unwrap();
        used.write_all_at(&vec![1; usize::try_from(first - STEP + 1).unwrap()], 0).unwrap();
        room.keep();
        assert!(std::fs::metadata(&path).unwrap().len() > first);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes[..usize::try_from(first - STEP).unwrap()].iter().all(|b| *b == 1));
    }
}
