//! Tracks which state of each file the model has seen, and refuses changes to a file that has
//! changed since.
//!
//! Results carry `"seen": { PATH: STAMP }` in their metadata; the stamps come back in
//! [`Context::seen`](crate::Context::seen). A stamp is the time of the last change and the size, so
//! a change that keeps both (within one tick of the file system's clock) goes unnoticed. A text
//! that only the host has is known by its hash, because the host may save it at any time.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;
use serde_json::json;

use crate::confined::stamp;
use crate::host::WrittenTo;
use crate::{Error, Output, protected, text};

/// Prefix of the stamp of a text that is not on disk.
const TEXT: &str = "text-";

/// The stamp of a text that is not on disk.
fn stamp_of_text(text: &str) -> String {
    format!("{TEXT}{}", Sha256::digest(text.as_bytes()))
}

/// Adds to the output the stamp of the text that the host shows for the file at `path`.
pub(crate) fn add_text_stamp(mut output: Output, path: &Path, text: &str) -> Output {
    output.mark("seen", json!({ path.to_string_lossy(): stamp_of_text(text) }));
    output
}

/// Adds to the output the stamp of the `text` written to `path`.
pub(crate) fn add_written_stamp(
    mut output: Output,
    path: &Path,
    text: &str,
    put: &WrittenTo,
) -> Output {
    // a person who allows the call has seen it
    if protected::is_protected(&path.to_string_lossy()) {
        let hash = Sha256::digest(text.as_bytes()).to_string();
        output.mark("written", json!({ path.to_string_lossy(): hash }));
    }
    match put {
        WrittenTo::Disk(file) => add_stamp(output, path, file),
        WrittenTo::Host => {
            output.output += "\nThe client has accepted it, but the file on disk is not the same: it may be unsaved or reformatted.";
            add_text_stamp(output, path, text)
        }
    }
}

/// Adds to the output the stamp of the file at `path`. `file` must come from the open file that was
/// read (taken before reading) or written (taken after writing).
pub(crate) fn add_stamp(mut output: Output, path: &Path, file: &Metadata) -> Output {
    output.mark("seen", json!({ path.to_string_lossy(): stamp(file) }));
    output
}

/// Adds the stamps of several files.
pub(crate) fn add_stamps(mut output: Output, files: &[(PathBuf, Metadata)]) -> Output {
    let stamps =
        files.iter().map(|(path, file)| (path.to_string_lossy().into(), stamp(file).into()));
    output.mark("seen", serde_json::Map::from_iter(stamps));
    output
}

/// Refuses a file that has changed since the model last saw it. A file that the model has not seen
/// passes.
///
/// # Errors
/// [`Error::ChangedOnDisk`].
pub(crate) fn check(
    path: &Path,
    file: &Metadata,
    seen: &BTreeMap<String, String>,
) -> Result<(), Error> {
    match seen.get(path.to_string_lossy().as_ref()) {
        // the text was not on disk then, and may be now
        Some(told) if told.starts_with(TEXT) => match text::load(path, file) {
            Ok(text) if *told == stamp_of_text(&text) => Ok(()),
            Ok(_) | Err(_) => Err(Error::changed(path)),
        },
        Some(told) if *told != stamp(file) => Err(Error::changed(path)),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a text that the host shows for the file at `path` if the model has last seen another.
///
/// # Errors
/// [`Error::ChangedOnDisk`].
pub(crate) fn check_unsaved(
    path: &Path,
    text: &str,
    seen: &BTreeMap<String, String>,
) -> Result<(), Error> {
    match seen.get(path.to_string_lossy().as_ref()) {
        Some(told) if *told != stamp_of_text(text) => Err(Error::ChangedOnDisk(format!(
            "{} has unsaved changes in the client that you have not read: read it again. Nothing was written.",
            path.display()
        ))),
        Some(_) | None => Ok(()),
    }
}
