//! Contents too large for the database: `payloads/SHA256`, written once and never changed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;

use crate::durable;
use crate::error::{ContentFault, Error};

pub(crate) const FOLDER: &str = "payloads";

/// Writes `bytes` durably: data sync, rename, sync of the folder.
pub(crate) fn put(dir: &Path, sha256: Sha256, bytes: &[u8]) -> Result<(), Error> {
    let folder = dir.join(FOLDER);
    let path = folder.join(sha256.to_string());
    let put = || {
        fs::create_dir_all(&folder)?;
        if get(dir, sha256, bytes.len() as u64).is_err() {
            let mut new = tempfile::NamedTempFile::new_in(&folder)?;
            new.write_all(bytes)?;
            durable::contents(new.as_file(), &path)?;
            new.persist(&path)?;
        }
        durable::folder(&folder)?;
        durable::folder(dir)
    };
    put().map_err(|e: io::Error| Error::io("cannot write", &path, e))
}

/// Reads the contents and checks their length and hash.
pub(crate) fn get(dir: &Path, sha256: Sha256, length: u64) -> Result<Vec<u8>, ContentFault> {
    let path = dir.join(FOLDER).join(sha256.to_string());
    let flaw =
        |offset, what: String| ContentFault::file(format!("{FOLDER}/{sha256}"), offset, what);
    let unread = |e: io::Error| flaw(None, format!("cannot be read: {e}"));
    let found = fs::metadata(&path).map_err(unread)?.len();
    if found != length {
        let what = format!("has {found} bytes where {length} were written");
        return Err(flaw(Some(found.min(length)), what));
    }
    let bytes = fs::read(&path).map_err(unread)?;
    if Sha256::digest(&bytes) == sha256 {
        Ok(bytes)
    } else {
        Err(flaw(None, "is not what its name says: its SHA-256 differs".into()))
    }
}

/// All content files, each with the hash that is its name.
pub(crate) fn list(dir: &Path) -> Vec<(Sha256, PathBuf)> {
    let entries = fs::read_dir(dir.join(FOLDER)).into_iter().flatten().flatten();
    let named = entries
        .filter_map(|entry| Some((Sha256::from_hex(entry.file_name().to_str()?)?, entry.path())));
    named.collect()
}
