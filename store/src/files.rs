//! Contents too large for the database: `payloads/SHA256`, written once and never changed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use leftfold_events::Sha256;

use crate::Error;

pub(crate) const FOLDER: &str = "payloads";

/// Puts `bytes` down durably: data sync, rename, sync of the folder.
pub(crate) fn put(dir: &Path, sha256: Sha256, bytes: &[u8]) -> Result<(), Error> {
    let folder = dir.join(FOLDER);
    let path = folder.join(sha256.to_string());
    let put = || {
        fs::create_dir_all(&folder)?;
        if get(dir, sha256, bytes.len() as u64).is_err() {
            let mut new = tempfile::NamedTempFile::new_in(&folder)?;
            new.write_all(bytes)?;
            new.as_file().sync_data()?;
            new.persist(&path)?;
        }
        File::open(&folder)?.sync_all()?;
        File::open(dir)?.sync_all()
    };
    put().map_err(|e: io::Error| Error::io("cannot write", &path, e))
}

/// The contents, if they are what was written.
pub(crate) fn get(dir: &Path, sha256: Sha256, length: u64) -> Result<Vec<u8>, String> {
    let path = dir.join(FOLDER).join(sha256.to_string());
    let found = fs::metadata(&path).map_err(|e| format!("cannot be read: {e}"))?.len();
    if found != length {
        return Err(format!("has {found} bytes where {length} were written"));
    }
    let bytes = fs::read(&path).map_err(|e| format!("cannot be read: {e}"))?;
    if Sha256::of(&bytes) == sha256 {
        Ok(bytes)
    } else {
        Err("is not what its name says: its SHA-256 differs".into())
    }
}
