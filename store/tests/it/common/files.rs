//! File events.

use leftfold_events::event::{Change, Event, FileChange, Files, FilesFailure, Saved};

/// File events that were added later.
pub(super) fn later_files_events() -> Vec<Event> {
    let paths = vec![Saved { path: "src/ünïcödé.rs".into(), tree: "4b825dc6".into() }];
    vec![Files::CheckoutAsked { paths, by: "fork".into() }.into()]
}

pub(super) fn files_events() -> Vec<Event> {
    let (tree, by) = ("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned(), "cli".to_owned());
    let file =
        |change| FileChange {
            path: "src/ünïcödé.rs".into(), change, additions: 300, deletions: 1
        };
    let files = [Change::Added, Change::Modified, Change::Deleted].map(file).to_vec();
    let (left_out, message) = (vec!["data.bin".into()], "no".to_owned());
    let paths = vec![Saved { path: "a".into(), tree: tree.clone() }];
    let before = tree.clone();
    vec![
        Files::SnapshotStarted {}.into(),
        Files::Snapshotted { tree: tree.clone(), files: files.clone(), left_out }.into(),
        Files::SnapshotFailed { message: message.clone() }.into(),
        Files::RevertAsked { to: 3, by: by.clone() }.into(),
        Files::UnrevertAsked { by }.into(),
        Files::RestoreStarted { to: Some(3), before: before.clone(), paths }.into(),
        Files::RestoreStarted { to: None, before: before.clone(), paths: Vec::new() }.into(),
        Files::Restored { before, tree, files }.into(),
        Files::RestoreFailed { message }.into(),
    ]
}

/// Failures with each class.
pub(super) fn failures() -> impl Iterator<Item = Event> {
    use FilesFailure as F;
    let classes = [
        F::NoGit,
        F::NoProject,
        F::TooManyFiles,
        F::TooLarge,
        F::Io,
        F::Git,
        F::Path,
        F::Cancelled,
        F::Internal,
    ];
    classes.into_iter().flat_map(|class| {
        let message = "no".to_owned();
        let restore = Files::RestoreFailedAs { class, message: message.clone() };
        [Files::SnapshotFailedAs { class, message }.into(), restore.into()]
    })
}
