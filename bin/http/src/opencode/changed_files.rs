//! Files that a session has changed, as events of the feed.

use std::path::Path;

use leftfold_events::SessionId;
use leftfold_events::event::{Change, Class, FileChange, Finished};
use leftfold_view::Call;
use leftfold_view::clean::visible_line;
use serde_json::{Value, json};

use super::frame::Frame;

/// A change of a file, which has an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangedPath {
    pub(super) path: String,
    change: Change,
}

impl ChangedPath {
    fn new(path: impl AsRef<Path>, change: Change) -> Self {
        Self { path: path.as_ref().display().to_string(), change }
    }

    /// The change between two snapshots.
    pub(super) fn of_snapshot(file: &FileChange, worktree: &str) -> Self {
        Self::new(Path::new(worktree).join(&file.path), file.change)
    }

    /// The event for a file that a call has edited itself. A file that is gone has none.
    pub(super) fn edited(&self, session: SessionId) -> Option<Frame> {
        let is_there = self.change != Change::Deleted;
        is_there.then(|| Frame::new(session, "file.edited", json!({ "file": self.path })))
    }

    pub(super) fn updated(&self, session: SessionId) -> Frame {
        let event = match self.change {
            Change::Added => "add",
            Change::Modified => "change",
            Change::Deleted => "unlink",
        };
        let properties = json!({ "file": self.path, "event": event });
        Frame::new(session, "file.watcher.updated", properties)
    }
}

/// The files that a call has edited, by its result. Those that a command changes are in no result.
pub(super) fn of_call(call: &Call, finished: &Finished, directory: &str) -> Vec<ChangedPath> {
    if call.class != Some(Class::Write) || finished.is_error {
        return Vec::new();
    }
    let metadata = finished.metadata.value();
    let absolute = |path: &Value| Path::new(directory).join(path.as_str().unwrap_or_default());
    let Some(patched) = metadata["files"].as_array() else {
        let path = call.paths.first().filter(|_| metadata["changed"] != false);
        let is_new = metadata["created"] == true;
        let change = if is_new { Change::Added } else { Change::Modified };
        return path.map(|path| ChangedPath::new(path, change)).into_iter().collect();
    };
    let of_file = |file: &Value| {
        let path = absolute(&file["path"]);
        match file["kind"].as_str() {
            Some("add") => vec![ChangedPath::new(path, Change::Added)],
            Some("delete") => vec![ChangedPath::new(path, Change::Deleted)],
            Some("move") => vec![
                ChangedPath::new(path, Change::Deleted),
                ChangedPath::new(absolute(&file["moved_to"]), Change::Added),
            ],
            Some(_) | None => vec![ChangedPath::new(path, Change::Modified)],
        }
    };
    patched.iter().flat_map(of_file).collect()
}

/// A diff that names the files of a revert. Their lines are in no event.
pub(super) fn named(files: &[FileChange]) -> String {
    let of_file = |file: &FileChange| {
        let path = visible_line(&file.path);
        let (before, after) = (format!("a/{path}"), format!("b/{path}"));
        let nothing = "/dev/null".to_owned();
        let (old, new) = match file.change {
            Change::Added => (nothing, after.clone()),
            Change::Modified => (before.clone(), after.clone()),
            Change::Deleted => (before.clone(), nothing),
        };
        format!("diff --git {before} {after}\n--- {old}\n+++ {new}\n")
    };
    files.iter().map(of_file).collect()
}
