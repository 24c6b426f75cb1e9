//! Walks the files of a project that are not ignored.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use ignore::{DirEntry, WalkBuilder};

use crate::{IgnoreFiles, Rules};

/// A walk over everything below `root` but what ignore files leave out, and every `.git`; and these ignore files. Hidden files
/// are included. Links are not followed. Both paths are without links. The builder's own filters of ignore files stay off: they
/// would read whatever is there.
///
/// - In a repository, ignore files apply as in git. Elsewhere `.gitignore` applies too, because a project may have no commit
///   yet. Those of parent folders then apply only when a part of the worktree is walked: a stray one in the home folder must
///   not hide whole projects.
/// - `root` is walked even if it is ignored.
/// - `is_left_out` says what else is left out.
pub fn walk(
    root: &Path,
    worktree: &Path,
    is_left_out: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> (WalkBuilder, Arc<IgnoreFiles>) {
    let project = if root.starts_with(worktree) { worktree } else { root };
    let is_repository = root.ancestors().any(|folder| folder.join(".git").exists());
    let files = IgnoreFiles::of_search(project, is_repository);
    let levels = if is_repository || root != worktree { usize::MAX } else { 1 };
    let mut folders: Vec<&Path> = root.ancestors().take(levels).collect();
    folders.reverse();
    let rules = folders.into_iter().fold(files.outermost(), |above, folder| above.within(folder));
    let known = RwLock::new(HashMap::from([(key(root), rules)]));
    let noted = files.clone();
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(false).filter_entry(move |entry| {
        entry.depth() == 0
            || (entry.file_name() != ".git"
                && !is_left_out(entry)
                && !noted.note(is_ignored(entry, &known)))
    });
    (builder, files)
}

/// The folders of a walk that have rules of their own. They are bytes, because each entry is looked up, and taking a path apart
/// and hashing it is slow.
type Known = HashMap<Vec<u8>, Arc<Rules>>;

fn key(folder: &Path) -> Vec<u8> {
    let bytes = folder.as_os_str().as_encoded_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).to_vec()
}

/// The rules of the nearest folder above.
fn above<'a>(path: &Path, known: &'a Known) -> Option<&'a Arc<Rules>> {
    let mut folder = path.as_os_str().as_encoded_bytes();
    loop {
        let end = folder.iter().rposition(|byte| *byte == b'/')?;
        folder = folder.get(..end)?;
        if let Some(rules) = known.get(folder) {
            return Some(rules);
        }
    }
}

/// Whether the rules of the folders above leave out an entry.
fn is_ignored(entry: &DirEntry, known: &RwLock<Known>) -> bool {
    let (path, is_folder) = (entry.path(), entry.file_type().is_some_and(|kind| kind.is_dir()));
    let found = known.read().unwrap_or_else(PoisonError::into_inner);
    let Some(above) = above(path, &found) else { return false };
    let is_ignored = above.ignore(path, is_folder);
    if is_ignored || !is_folder {
        return is_ignored;
    }
    // a walk comes to a folder before it comes to what is in it
    let above = above.clone();
    drop(found);
    let rules = above.within(path);
    if !Arc::ptr_eq(&rules, &above) {
        known.write().unwrap_or_else(PoisonError::into_inner).insert(key(path), rules);
    }
    false
}
