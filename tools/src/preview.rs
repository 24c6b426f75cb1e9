//! What a call would change, for whoever is asked whether it may: worked out as the call itself would
//! do it, from the files as they are, with nothing written.
//!
//! It is a help and no promise: files may change until the call runs, which then works it out again.

use std::path::{Path, PathBuf};

use leftfold_events::event::Resolution;
use serde_json::{Map, Value};

use crate::{
    Error, Workspace, apply_patch, args, confined, diff, edit, multiedit, paths, registry, write,
};

/// Bytes of a file, before and after, above which nothing is worked out: somebody waits for it.
const MAX_FILE: u64 = 1024 * 1024;

/// Bytes of all diffs of a call.
const MAX_DIFFS: usize = 64 * 1024;

/// What a call would make of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePreview {
    /// As the call names it; of a file that is moved, the old name.
    pub name: String,
    /// Absolute, with links resolved; of a file that is moved, the new place.
    pub path: PathBuf,
    /// Lines.
    pub additions: u64,
    pub deletions: u64,
    /// A unified diff with whole lines, headers included.
    pub diff: String,
    /// Whether the diff is longer than that.
    pub cut: bool,
}

impl FilePreview {
    /// `fields` are those of [`diff::describe`].
    pub(crate) fn new(name: &str, path: &Path, fields: &Map<String, Value>) -> Self {
        let number = |name| fields.get(name).and_then(Value::as_u64).unwrap_or_default();
        let mut diff = fields.get("diff").and_then(Value::as_str).unwrap_or_default().to_owned();
        let cut = fields.contains_key("diff_truncated");
        if cut {
            diff.truncate(diff.rfind('\n').map_or(0, |end| end + 1));
        }
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            additions: number("additions"),
            deletions: number("deletions"),
            diff,
            cut,
        }
    }
}

/// A file as it is, `None` if there is none, and as a call would leave it.
pub(crate) struct WouldBe {
    /// As the call names it.
    pub(crate) name: String,
    pub(crate) before: Option<String>,
    pub(crate) after: String,
}

/// Whether calls of this tool can be previewed at all.
pub fn previews(tool: &str) -> bool {
    matches!(tool, "write" | "edit" | "multiedit" | "apply_patch")
}

/// The files that a call would change. Takes a moment (files are read and compared), and writes nothing.
///
/// `None` where nothing can be said: the call changes no files or would fail, a file is not text or
/// over 1 MiB, or it leads elsewhere than when it was resolved.
pub fn preview(resolved: &Resolution, cx: &Workspace) -> Option<Vec<FilePreview>> {
    if !previews(&resolved.name) {
        return None;
    }
    let mut files = planned(resolved, cx).ok()?;
    files.retain(|file| !file.diff.is_empty());
    let mut room = MAX_DIFFS;
    for file in &mut files {
        match room.checked_sub(file.diff.len()) {
            Some(left) => room = left,
            None => {
                file.diff.clear();
                file.cut = true;
            }
        }
    }
    (!files.is_empty()).then_some(files)
}

fn planned(resolved: &Resolution, cx: &Workspace) -> Result<Vec<FilePreview>, Error> {
    let (tool, plan) = registry::replan(resolved, cx)?;
    for path in &plan.paths {
        if confined::look(path)?.is_some_and(|found| found.len() > MAX_FILE) {
            return Err(Error::TooLarge(format!("{} is too large to show.", path.display())));
        }
    }
    let (name, input) = (tool.name(), &plan.input);
    if name == "apply_patch" {
        return args::parse::<apply_patch::Args>(name, input)?.would_be(&plan.paths, cx);
    }
    let path = paths::only(plan.paths)?;
    let would_be = match name {
        "write" => args::parse::<write::Args>(name, input)?.would_be(&path)?,
        "edit" => args::parse::<edit::Args>(name, input)?.would_be(&path)?,
        "multiedit" => args::parse::<multiedit::Args>(name, input)?.would_be(&path)?,
        _ => return Ok(Vec::new()),
    };
    let WouldBe { name, before, after } = would_be;
    if u64::try_from(after.len()).is_ok_and(|bytes| bytes > MAX_FILE) {
        return Err(Error::TooLarge(format!("{} would be too large to show.", path.display())));
    }
    Ok(vec![FilePreview::new(&name, &path, &diff::describe(&name, before.as_deref(), &after))])
}
