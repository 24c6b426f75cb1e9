//! Finds out what files of a repository say, without git.

use std::path::{Path, PathBuf};

use crate::text;

/// Most bytes of a file that holds one line.
const LINE: u64 = 64 * 1024;

/// The git directory of a worktree: the folder `.git`, or the one that a file of this name leads to.
pub fn git_folder(worktree: &Path) -> Option<PathBuf> {
    let git = worktree.join(".git");
    if git.is_dir() {
        return git.canonicalize().ok();
    }
    let named = line(&git, worktree)?;
    worktree.join(named.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// The folder that a git directory shares with those of other worktrees. It holds `info/exclude`.
pub fn common_folder(git: PathBuf) -> PathBuf {
    let common = line(&git.join("commondir"), &git);
    common.and_then(|common| git.join(common).canonicalize().ok()).unwrap_or(git)
}

/// The branch that is checked out in a worktree.
pub fn branch(worktree: &Path) -> Option<String> {
    let git = git_folder(worktree)?;
    line(&git.join("HEAD"), &git)?.strip_prefix("ref: refs/heads/").map(str::to_owned)
}

/// The text of a file that holds one line. No link of it leads out of `root`.
pub fn line(path: &Path, root: &Path) -> Option<String> {
    text(path, Some(root), LINE).map(|text| text.trim().to_owned())
}
