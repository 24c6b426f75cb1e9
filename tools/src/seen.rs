//! Whether a file is still as the model was last told.
//!
//! Results carry `"seen": { PATH: STAMP }` in their metadata; the stamps come back in
//! [`Context::seen`](crate::Context::seen). A stamp is the time of the last change and the size, so a
//! change that keeps both (within one tick of the file system's clock) goes unnoticed.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{Error, Output};

/// Nanoseconds since 1970 of the last change, and bytes.
fn stamp(file: &Metadata) -> String {
    let changed = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    format!("{changed}-{}", file.len())
}

/// The output with word of the file at `path` as it is now. `file` has to come from the open file
/// that was read (taken before reading) or written (taken after writing).
pub(crate) fn told(mut output: Output, path: &Path, file: &Metadata) -> Output {
    output.mark("seen", json!({ path.to_string_lossy(): stamp(file) }));
    output
}

/// The same for several files.
pub(crate) fn told_all(mut output: Output, files: &[(PathBuf, Metadata)]) -> Output {
    let stamps =
        files.iter().map(|(path, file)| (path.to_string_lossy().into(), stamp(file).into()));
    output.mark("seen", serde_json::Map::from_iter(stamps));
    output
}

/// Refuses a file that is not as the model was last told. One that it was never told of passes.
///
/// # Errors
/// [`Error::ChangedOnDisk`].
pub(crate) fn check(
    path: &Path,
    file: &Metadata,
    seen: &BTreeMap<String, String>,
) -> Result<(), Error> {
    match seen.get(path.to_string_lossy().as_ref()) {
        Some(told) if *told != stamp(file) => Err(changed(path)),
        Some(_) | None => Ok(()),
    }
}

/// Whether both are the same file with the same content, as far as its stamp can say.
pub(crate) fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino()) && stamp(one) == stamp(other)
}

pub(crate) fn changed(path: &Path) -> Error {
    Error::ChangedOnDisk(format!(
        "{} has changed on disk since you read it: read it again. Nothing was written.",
        path.display()
    ))
}
