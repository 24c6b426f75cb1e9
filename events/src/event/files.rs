use serde::{Deserialize, Serialize};

use crate::id::Seq;

events! {
    /// Snapshots of the project's files, and restoring them.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Files {
        /// Take a snapshot of the files as they are now.
        intent SnapshotStarted {},
        fact Snapshotted {
            /// The git tree, in the worktree's store of snapshots.
            tree: String,
            /// The files that calls have changed since the previous snapshot.
            files: Vec<FileChange>,
            /// Files that no snapshot contains: too large, unreadable, or with an unsupported name.
            left_out: Vec<String>,
        },
        fact SnapshotFailed { message: String } texts [message],
        /// A person wants messages and files back as they were before the step or prompt of `to`.
        fact RevertAsked { to: Seq, by: String },
        /// A person wants to undo the last revert.
        fact UnrevertAsked { by: String },
        /// Restore each of `paths`. `to` is the first message to be removed; an unrevert removes none.
        intent RestoreStarted {
            to: Option<Seq>,
            /// The tree of the files before the restore; empty if `paths` is empty.
            before: String,
            paths: Vec<Saved>,
        },
        fact Restored {
            before: String,
            /// The tree of the files after the restore.
            tree: String,
            /// The changes from `before` to `tree`.
            files: Vec<FileChange>,
        },
        /// The restore failed. Files that it had changed are put back as far as possible.
        fact RestoreFailed { message: String } texts [message],
        /// A person wants these files as they were at the point where the session begins as a fork.
        fact CheckoutAsked { paths: Vec<Saved>, by: String },
        /// The form of `SnapshotFailed` that names the kind of failure. Its public name is that of `SnapshotFailed`; its
        /// field `class` tells the two apart.
        #[serde(rename(serialize = "snapshot_failed", deserialize = "snapshot_failed_as"))]
        fact SnapshotFailedAs { class: FilesFailure, message: String } texts [message],
        /// The form of `RestoreFailed` that names the kind of failure, with the public name of `RestoreFailed`.
        #[serde(rename(serialize = "restore_failed", deserialize = "restore_failed_as"))]
        fact RestoreFailedAs { class: FilesFailure, message: String } texts [message],
        /// The log was imported with its snapshots, and those of `steps` show the changes that the log
        /// claims: these changes count, and can be reverted.
        fact SnapshotsAccepted {
            /// The `model.requested` of each step.
            steps: Vec<Seq>,
        },
    }
}

impl Files {
    /// Why a snapshot or a restore failed; `None` for any other event.
    pub fn failure(&self) -> Option<&str> {
        if let Self::SnapshotFailed { message }
        | Self::SnapshotFailedAs { message, .. }
        | Self::RestoreFailed { message }
        | Self::RestoreFailedAs { message, .. } = self
        {
            return Some(message);
        }
        None
    }
}

/// Why files were not kept or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesFailure {
    /// `git` is not installed.
    NoGit,
    /// The folder is a home folder, or there is no place for snapshots.
    NoProject,
    TooManyFiles,
    TooLarge,
    /// The operating system refused to read or write a file.
    Io,
    /// A command of git failed.
    Git,
    /// A path is not restored, because that would change a file outside the project.
    Path,
    /// It took too long, or its session no longer waited for it.
    Cancelled,
    /// The worker died.
    Internal,
}

/// The difference of one file between two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to the worktree.
    pub path: String,
    pub change: Change,
    /// Lines; 0 for files that are not text.
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

/// The earlier content of a file. A file that is not in the tree did not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Relative to the worktree.
    pub path: String,
    pub tree: String,
}
