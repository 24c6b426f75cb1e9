//! Finds files by the patterns in settings.

use std::path::{Path, PathBuf};

use crate::pattern::{self, Pattern};

/// Most levels of folders that are searched.
const MAX_DEPTH: usize = 8;

/// Most entries that are examined for one pattern.
const MAX_ENTRIES: usize = 5_000;

/// The files that `pattern` matches, relative to `folder`, sorted by name. Does not follow links to
/// folders, and skips `.git` and `node_modules`.
///
/// # Errors
/// The reason why the pattern is invalid.
pub fn matching(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let whole = folder.join(pattern);
    if whole.is_file() {
        return Ok(vec![whole]);
    }
    let (start, rest) = apart(pattern);
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let compiled = Pattern::from_top(rest)?;
    let depth = if rest.contains("**") { MAX_DEPTH } else { rest.matches('/').count() + 1 };
    let top = folder.join(start);
    let mut found = Vec::new();
    let mut level = vec![top.clone()];
    let mut left = MAX_ENTRIES;
    for _ in 0..depth {
        let mut below = Vec::new();
        for path in level.iter().flat_map(|folder| entries(folder, &mut left)).collect::<Vec<_>>() {
            if path.strip_prefix(&top).is_ok_and(|path| compiled.matches(path)) && path.is_file() {
                found.push(path);
            } else if is_searched(&path) {
                below.push(path);
            }
        }
        level = below;
    }
    found.sort_unstable();
    Ok(found)
}

/// Splits a pattern into its leading folders without wildcards and the rest.
fn apart(pattern: &str) -> (&str, &str) {
    let Some(wild) = pattern.find(pattern::WILD) else { return (pattern, "") };
    let split = pattern.get(..wild).and_then(|start| start.rfind('/')).map_or(0, |at| at + 1);
    pattern.split_at(split)
}

fn entries(folder: &Path, left: &mut usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).take(*left).collect();
    *left -= entries.len();
    entries
}

fn is_searched(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder && name != ".git" && name != "node_modules"
}
