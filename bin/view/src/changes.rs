//! What is said of files that calls have changed, or that were put back.

use leftfold_events::event::{Change, Event, FileChange, Files, Turn};
use leftfold_events::state::Figures;
use leftfold_events::{Envelope, Seq, State};
use serde_json::{Value, json};

/// Files that are named one by one.
const NAMED: usize = 50;

/// Lines about an event, for people.
pub fn lines(event: &Files) -> Vec<String> {
    match event {
        Files::SnapshotFailed { message } => vec![format!("[no snapshot of files: {message}]")],
        Files::RestoreFailed { message } => {
            vec![format!("[the files are as they were: {message}]")]
        }
        Files::Restored { files, .. } => {
            let named = files.iter().take(NAMED).map(|file| format!("  {}", line(file)));
            let more = files.len().saturating_sub(NAMED);
            let more = (more > 0).then(|| format!("  and {more} more"));
            let sum = match files.len() {
                0 => "[done: no file had to be changed]".to_owned(),
                _ => format!("[done: {}]", sum(&Figures::of(files.iter()))),
            };
            named.chain(more).chain([sum]).collect()
        }
        Files::SnapshotStarted {}
        | Files::Snapshotted { .. }
        | Files::RevertAsked { .. }
        | Files::UnrevertAsked { .. }
        | Files::CheckoutAsked { .. }
        | Files::RestoreStarted { .. } => Vec::new(),
    }
}

/// The same in a few words, for lists of events.
pub fn detail(event: &Files) -> String {
    match event {
        Files::SnapshotStarted {} => String::new(),
        Files::Snapshotted { files, .. } | Files::Restored { files, .. } => {
            sum(&Figures::of(files.iter()))
        }
        Files::SnapshotFailed { message } | Files::RestoreFailed { message } => message.clone(),
        Files::RevertAsked { to, by } => format!("to {to}, by {by}"),
        Files::UnrevertAsked { by } => format!("by {by}"),
        Files::RestoreStarted { paths, .. } => format!("{} files", paths.len()),
        Files::CheckoutAsked { paths, by } => format!("{} files, by {by}", paths.len()),
    }
}

fn line(file: &FileChange) -> String {
    let FileChange { path, change, additions, deletions } = file;
    let letter = match change {
        Change::Added => 'A',
        Change::Modified => 'M',
        Change::Deleted => 'D',
    };
    // whatever is in its name
    let path = path.replace(char::is_control, "?");
    format!("{letter} {path} +{additions} -{deletions}")
}

/// `3 files changed, +10 -2`
pub fn sum(figures: &Figures) -> String {
    let Figures { additions, deletions, files } = figures;
    let s = if *files == 1 { "" } else { "s" };
    format!("{files} file{s} changed, +{additions} -{deletions}")
}

/// What a session and each of its turns has changed that was not reverted, as fields of an object.
pub fn described(state: &State) -> Vec<(&'static str, Value)> {
    let mut turns: Vec<Seq> = state.files.changes.iter().map(|changed| changed.turn).collect();
    turns.dedup();
    let of_turn = |turn: Seq| {
        let Figures { additions, deletions, files } = state.figures(Some(turn));
        json!({ "turn": turn, "additions": additions, "deletions": deletions, "files": files })
    };
    vec![
        ("changes", json!(state.figures(None))),
        ("changes_by_turn", turns.into_iter().map(of_turn).collect()),
    ]
}

/// Gathers what the calls of a turn have changed.
#[derive(Debug, Default)]
pub struct Tally(Vec<FileChange>);

impl Tally {
    /// Takes an event in: what there is to be said of it.
    pub fn follow(&mut self, event: &Envelope) -> Vec<String> {
        match &event.event {
            Event::Files(files) => {
                if let Files::Snapshotted { files, .. } = files {
                    self.0.extend(files.iter().cloned());
                }
                lines(files)
            }
            Event::Turn(Turn::Ended(_)) => {
                let files = std::mem::take(&mut self.0);
                let any = !files.is_empty();
                any.then(|| sum(&Figures::of(files.iter()))).into_iter().collect()
            }
            Event::Plugin(_) => crate::consulted::lines(&event.event),
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_) => Vec::new(),
        }
    }
}
