use serde::{Deserialize, Serialize};

use crate::id::Seq;

/// The project's files as they were at some point, and going back there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// Keep the files as they are now.
    SnapshotStarted {},
    Snapshotted {
        /// The git tree, in the store of snapshots that the worktree has.
        tree: String,
        /// What the calls since the snapshot before it have changed.
        files: Vec<FileChange>,
        /// Files that no snapshot keeps: too large, unreadable, or oddly named.
        left_out: Vec<String>,
    },
    SnapshotFailed {
        message: String,
    },
    /// Somebody wants messages and files back as they were before the step or prompt of `to`.
    RevertAsked {
        to: Seq,
        by: String,
    },
    /// Somebody wants back what the last revert has taken away.
    UnrevertAsked {
        by: String,
    },
    /// Put each of `paths` back. `to` is the first message that goes; none does in an unrevert.
    RestoreStarted {
        to: Option<Seq>,
        /// The tree of the files as they are now; empty where `paths` is.
        before: String,
        paths: Vec<Saved>,
    },
    Restored {
        before: String,
        /// The tree of the files as they are afterwards.
        tree: String,
        /// From `before` to `tree`.
        files: Vec<FileChange>,
    },
    /// The files are as they were, as far as possible.
    RestoreFailed {
        message: String,
    },
    /// Somebody wants these files as they were at the point where the session begins, as a fork.
    CheckoutAsked {
        paths: Vec<Saved>,
        by: String,
    },
}

/// One file in two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to the worktree.
    pub path: String,
    pub change: Change,
    /// Lines; 0 for what is not text.
    pub additions: u64,
    pub deletions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// Where a file's former content is: a file that is not in the tree was not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Relative to the worktree.
    pub path: String,
    pub tree: String,
}
