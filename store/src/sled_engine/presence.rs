//! Notices that another program has removed the database, or cut it short, while this process writes it.
//!
//! Writes to a file without a name succeed, and so do writes after the end of one that was cut: without
//! this check everything would be acknowledged and nothing would be there afterwards.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::ReadEngine;
use crate::error::Error;
use crate::sled_engine::records::Records;

/// The known attributes of the `db` file.
#[derive(Debug)]
pub(crate) struct Presence {
    dir: PathBuf,
    /// Its greatest length since the last check, in bytes.
    pub(crate) length: u64,
}

impl Presence {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), length: 0 }
    }

    /// Remembers how long the file is now. Call it before anybody learns that something was written: somebody may cut
    /// the file from then on.
    pub(crate) fn remember(&mut self, db: &File) {
        // where this fails, the next check fails as well
        self.length = look(db).map_or(self.length, |(_, length)| length.max(self.length));
    }

    /// Call it before a write: the write would make the file long enough again.
    ///
    /// # Errors
    /// [`Error::Gone`] if the file was removed or cut.
    pub(crate) fn check(&mut self, db: &File) -> Result<(), Error> {
        let (links, length) = self.look(db)?;
        if links == 0 {
            return Err(self.gone("was removed while it was in use: what was in it is lost".into()));
        }
        if length >= self.length || self.is_shortened_by_sled(length) {
            self.length = length;
            return Ok(());
        }
        let before = self.length;
        Err(self.gone(format!(
            "was cut from {before} to {length} bytes while it was in use: events are lost, and \
             `leftfold check` lists what is left"
        )))
    }

    /// Call it after a write.
    ///
    /// # Errors
    /// [`Error::Gone`] if the file was removed meanwhile.
    pub(crate) fn check_name(&self, db: &File) -> Result<(), Error> {
        let (links, _) = self.look(db)?;
        if links > 0 {
            return Ok(());
        }
        Err(self.gone("was removed while it was in use: what was in it is lost".into()))
    }

    fn look(&self, db: &File) -> Result<(u64, u64), Error> {
        look(db).map_err(|e| Error::io("cannot look at", &self.dir.join("db"), e))
    }

    /// sled drops free segments at the end of the file by itself. Then everything is still there.
    fn is_shortened_by_sled(&self, length: u64) -> bool {
        let is_whole = |copy: Records| {
            copy.heads().is_ok_and(|heads| !heads.is_empty()) && copy.lost().is_none()
        };
        length > 0 && Records::copy_of(&self.dir).is_ok_and(is_whole)
    }

    fn gone(&self, what: String) -> Error {
        Error::Gone { dir: self.dir.clone(), what }
    }
}

/// How many names the file has, and its length. It does not ask for times: once a file's time was read,
/// the next write must change it, and a sync of the log then takes half as long again.
#[cfg(target_os = "linux")]
fn look(db: &File) -> io::Result<(u64, u64)> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let wanted = StatxFlags::NLINK | StatxFlags::SIZE;
    let found = statx(db, c"", AtFlags::EMPTY_PATH, wanted)?;
    Ok((found.stx_nlink.into(), found.stx_size))
}

#[cfg(not(target_os = "linux"))]
fn look(db: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = db.metadata()?;
    Ok((found.nlink(), found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_removed_or_cut_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, vec![1; 1_000]).unwrap();
        let db = File::options().write(true).open(&path).unwrap();
        let mut presence = Presence::new(dir.path());
        presence.remember(&db);
        presence.check(&db).unwrap();
        db.set_len(2_000).unwrap();
        presence.check(&db).unwrap();
        presence.remember(&db);
        for length in [1_999, 1_000, 0] {
            db.set_len(length).unwrap();
            // as a commit does that was under way
            presence.remember(&db);
            let error = presence.check(&db).unwrap_err().to_string();
            assert!(error.contains(&format!("cut from 2000 to {length} bytes")), "{error}");
            presence.check_name(&db).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        for error in [presence.check(&db), presence.check_name(&db)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("was removed while it was in use"), "{error}");
        }
    }
}
