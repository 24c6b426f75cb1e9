//! Snapshots of the project's files (SPEC G10), and going back to one (SPEC G11).

use std::collections::BTreeMap;

use super::intent;
use crate::event::{Envelope, Files, Saved};
use crate::state::{Call, Restore, RestoreStep, State, Turn};

/// How long a snapshot is waited for, in milliseconds: the first of a large project takes longest.
const SNAPSHOT: u64 = 30_000;
/// How long putting files back may take, in milliseconds.
const RESTORE: u64 = 120_000;

/// The snapshot that the first call of a turn that may change files waits for.
pub(super) fn before(s: &State, c: &Call) -> Option<Envelope> {
    let wanted = awaited(s, c) && s.files.taking.is_none();
    wanted.then(|| snapshot(s))
}

/// Whether a call is not to start before there is a snapshot.
pub(super) fn awaited(s: &State, c: &Call) -> bool {
    takes_snapshots(s) && !s.files.fresh && c.class().changes()
}

/// The snapshot that follows a step whose calls may have changed files.
pub(super) fn after(s: &State, turn: &Turn) -> Option<Envelope> {
    let ours = s.files.dirty.is_some_and(|(prompted, _)| prompted == turn.prompted);
    (ours && takes_snapshots(s)).then(|| snapshot(s))
}

/// What a revert or its undoing does next. Files as they are now are kept first, so that what a
/// crash has left half done is done again from the same point.
pub(super) fn restore(s: &State, restore: &Restore) -> Option<Envelope> {
    if restore.step != RestoreStep::Due {
        return None;
    }
    let paths = restoration(s, restore);
    let anything = !paths.is_empty() || s.files.dirty.is_some() && s.files.tree.is_some();
    match &restore.before {
        None if anything => Some(snapshot(s)),
        before => {
            let before = before.clone().unwrap_or_default();
            let started = Files::RestoreStarted { to: restore.to, before, paths };
            Some(intent(s, None, Some(RESTORE), started))
        }
    }
}

/// The files that a restore puts back. In a revert each goes back to what it was before the first
/// step, of those that go, that changed it; what an earlier revert has changed is undone besides.
fn restoration(s: &State, restore: &Restore) -> Vec<Saved> {
    if let Some(wanted) = &restore.wanted {
        return wanted.clone();
    }
    let to = restore.to;
    let mut plan = BTreeMap::new();
    let pending = s.files.revert.as_ref();
    if let Some(to) = to {
        let hidden = pending.iter().flat_map(|revert| &revert.changes);
        let changes = s.files.changes.iter().chain(hidden);
        for changed in changes.filter(|changed| changed.step >= to) {
            for file in &changed.files {
                plan.entry(&file.path).or_insert(&changed.before);
            }
        }
    }
    if let Some(revert) = pending.filter(|revert| !revert.before.is_empty()) {
        for path in &revert.paths {
            plan.entry(path).or_insert(&revert.before);
        }
    }
    let saved = |(path, tree): (&String, &String)| Saved { path: path.clone(), tree: tree.clone() };
    plan.into_iter().map(saved).collect()
}

/// Whether snapshots are taken in the turn under way. Children change their parent's files, and it is
/// the parent that keeps them.
fn takes_snapshots(s: &State) -> bool {
    s.is_root() && s.config.options.snapshot && !s.files.off
}

fn snapshot(s: &State) -> Envelope {
    intent(s, None, Some(SNAPSHOT), Files::SnapshotStarted {})
}
