//! Describes changed and restored files.

use leftfold_events::event::{Change, FileChange, Files};
use leftfold_events::state::Figures;
use leftfold_events::{Seq, State};
use serde_json::{Value, json};

use crate::clean::visible_line;
use crate::words::counted;

/// The number of files to name one by one.
const NAMED: usize = 50;

/// The number of files to name in one line.
const FEW: usize = 3;

/// Why files were not restored if the deadline of the restore, or of the snapshot before it, passed.
pub const TIMED_OUT: &str = "the snapshot or the restore took too long";

/// The lines to show people for an event.
pub fn notices(event: &Files) -> Vec<String> {
    match event {
        Files::SnapshotFailed { message } | Files::SnapshotFailedAs { message, .. } => {
            vec![format!("[no snapshot of files: {message}]")]
        }
        Files::RestoreFailed { message } | Files::RestoreFailedAs { message, .. } => {
            vec![format!("[the files are as they were: {message}]")]
        }
        Files::Restored { files, .. } => {
            let named = files.iter().take(NAMED).map(|file| format!("  {}", line(file)));
            let more = files.len().saturating_sub(NAMED);
            let more = (more > 0).then(|| format!("  and {more} more"));
            let sum = match files.len() {
                0 => "[no file had to be restored]".to_owned(),
                _ => format!("[restored: {}]", sum(&Figures::from_files(files.iter()))),
            };
            named.chain(more).chain([sum]).collect()
        }
        _ => Vec::new(),
    }
}

/// An event in a few words, for lists of events.
pub fn detail(event: &Files) -> String {
    match event {
        Files::Snapshotted { files, .. } | Files::Restored { files, .. } => named(files),
        Files::RevertAsked { to, by } => format!("to {to}, by {by}"),
        Files::UnrevertAsked { by } => format!("by {by}"),
        Files::RestoreStarted { paths, .. } => counted(paths.len(), "file"),
        Files::CheckoutAsked { paths, by } => format!("{}, by {by}", counted(paths.len(), "file")),
        Files::SnapshotsAccepted { steps } => counted(steps.len(), "step"),
        _ => event.failure().unwrap_or_default().to_owned(),
    }
}

/// `2 files changed, +10 -2: M src/main.rs +9 -2, A notes.md +1 -0`
pub fn named(files: &[FileChange]) -> String {
    let mut names: Vec<String> = files.iter().take(FEW).map(line).collect();
    if files.len() > FEW {
        names.push(format!("and {} more", files.len() - FEW));
    }
    let sum = sum(&Figures::from_files(files.iter()));
    if names.is_empty() { sum } else { format!("{sum}: {}", names.join(", ")) }
}

fn line(file: &FileChange) -> String {
    let FileChange { path, change, additions, deletions } = file;
    let letter = match change {
        Change::Added => 'A',
        Change::Modified => 'M',
        Change::Deleted => 'D',
    };
    format!("{letter} {} +{additions} -{deletions}", visible_line(path))
}

/// `3 files changed, +10 -2`
pub fn sum(figures: &Figures) -> String {
    let Figures { additions, deletions, files } = figures;
    format!("{} changed, +{additions} -{deletions}", counted(files, "file"))
}

/// The changes of a session, of each of its turns and of each file, except reverted ones, as fields of
/// an object.
pub fn described(state: &State) -> Vec<(&'static str, Value)> {
    let mut turns: Vec<Seq> = state.files.changes.iter().map(|changed| changed.turn).collect();
    turns.dedup();
    let of_turn = |turn: Seq| {
        let Figures { additions, deletions, files } = state.figures(Some(turn));
        json!({ "turn": turn, "additions": additions, "deletions": deletions, "files": files })
    };
    let of_file = |(path, figures): (&str, Figures)| {
        let Figures { additions, deletions, .. } = figures;
        json!({ "path": path, "additions": additions, "deletions": deletions })
    };
    vec![
        ("changes", json!(state.figures(None))),
        ("changes_by_turn", turns.into_iter().map(of_turn).collect()),
        ("changes_by_file", state.figures_by_file(None).into_iter().map(of_file).collect()),
    ]
}
