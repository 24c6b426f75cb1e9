//! Snapshots, reverts and their outcomes.

use leftfold_events::event::{Change, FileChange, Files, FilesFailure, Saved};
use leftfold_events::state::PendingKind;
use leftfold_events::{Fact, TurnConfig};

use super::{Run, Step, Step::*, config};

/// [`turn configuration`] with snapshots.
pub(crate) fn snapshotting() -> TurnConfig {
    let mut config = config();
    config.options.snapshot = true;
    config
}

impl Run {
    /// The outcomes of file intents.
    pub(super) fn kept(&self, step: &Step) -> Fact {
        let snapshot = self.open(PendingKind::Snapshot).unwrap_or(0);
        let restore = self.open(PendingKind::Restore).unwrap_or(0);
        let (message, by) = ("no".to_owned(), "test".to_owned());
        match step {
            Snap(tree, files) => Fact::for_intent(snapshot, snapshotted(tree, files)),
            NoSnap => Fact::for_intent(
                snapshot,
                Files::SnapshotFailedAs { class: FilesFailure::Git, message },
            ),
            Revert(to) => Fact::new(Files::RevertAsked { to: *to, by }),
            Unrevert => Fact::new(Files::UnrevertAsked { by }),
            Checkout(files) => {
                let saved = |(path, tree): &(&str, &str)| Saved {
                    path: (*path).to_owned(),
                    tree: (*tree).to_owned(),
                };
                Fact::new(Files::CheckoutAsked { paths: files.iter().map(saved).collect(), by })
            }
            Restored(tree) => Fact::for_intent(restore, restored(tree)),
            NotRestored => Fact::for_intent(
                restore,
                Files::RestoreFailedAs { class: FilesFailure::Io, message },
            ),
            _ => panic!("{step:?} has nothing to do with files"),
        }
    }
}

pub(super) fn snapshotted(tree: &str, files: &[&str]) -> Files {
    let change = |path: &&str| FileChange {
        path: (*path).into(),
        change: Change::Modified,
        additions: 2,
        deletions: 1,
    };
    let files = files.iter().map(change).collect();
    Files::Snapshotted { tree: tree.into(), files, left_out: Vec::new() }
}

pub(super) fn restored(tree: &str) -> Files {
    Files::Restored { before: "before".into(), tree: tree.into(), files: Vec::new() }
}
