mod arbitrary;
mod lines;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::*;

/// A worktree without links, rules and variables.
struct Bare(PathBuf);

impl View for Bare {
    fn shell(&self) -> &str {
        "bash"
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn worktree(&self) -> &Path {
        &self.0
    }

    fn is_worktree(&self, folder: &Path) -> bool {
        folder == self.0
    }

    fn resolve(&self, path: &str) -> Option<Target> {
        let path = self.0.join(path);
        let shown = path.strip_prefix(&self.0).unwrap_or(&path).to_string_lossy().into_owned();
        let outside = (!path.starts_with(&self.0)).then(|| shown.clone());
        Some(Target { path, shown, outside, is_own_process: false })
    }

    fn resolve_for_command(&self, path: &str) -> Option<Target> {
        self.resolve(path)
    }

    fn is_spilled(&self, _: &Path) -> bool {
        false
    }

    fn is_guarded(&self, _: &str) -> bool {
        false
    }

    fn is_protected_name(&self, _: &str) -> bool {
        false
    }

    fn is_protected(&self, _: &str) -> bool {
        false
    }

    fn is_secret(&self, _: &Path) -> bool {
        false
    }
}
