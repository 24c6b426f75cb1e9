//! One event of the feed, in the words of the API.

use leftfold_events::{SessionId, Sha256};
use serde_json::Value;

/// The directory that an event is about, and its project. Empty: it is about all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventPlace {
    pub(crate) directory: String,
    pub(crate) project: String,
}

impl EventPlace {
    pub(crate) fn from_folders(directory: &str, worktree: &str) -> Self {
        let project = if worktree.is_empty() { String::new() } else { project_id(worktree) };
        Self { directory: directory.to_owned(), project }
    }
}

/// The id of a project: the hash of its root's path.
pub(crate) fn project_id(worktree: &str) -> String {
    Sha256::digest(worktree.as_bytes()).to_string().chars().take(40).collect()
}

/// An event for clients, without its place in the feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) session: SessionId,
    pub(crate) kind: &'static str,
    pub(crate) properties: Value,
}

impl Frame {
    pub(crate) fn new(session: SessionId, kind: &'static str, properties: Value) -> Self {
        Self { session, kind, properties }
    }
}
