//! Decides when to take snapshots of the project's files, and how to restore them.
//!
//! The first call of a step that may change files waits for a snapshot. A step whose calls may have
//! changed files is followed by a snapshot before the next model request. So the difference of two
//! trees shows the changes of a step, and changes that the user makes between steps are not
//! included. Children take no snapshots: the snapshots of their parent cover their changes. A
//! revert takes a snapshot first.

use std::collections::BTreeMap;

use super::intent;
use crate::event::{Envelope, Files, Saved};
use crate::state::{Call, Restore, RestoreStep, State, Turn};

/// The time limit of a snapshot, in milliseconds: the first one of a large project takes longest.
const SNAPSHOT: u64 = 30_000;
/// The time limit of a restore, in milliseconds.
const RESTORE: u64 = 120_000;

/// The snapshot that the first call of a step that may change files waits for.
pub(super) fn before(s: &State, c: &Call) -> Option<Envelope> {
    let wanted = awaited(s, c) && s.files.taking.is_none();
    wanted.then(|| snapshot(s))
}

/// Whether the call must not start before there is a snapshot.
pub(super) fn awaited(s: &State, c: &Call) -> bool {
    takes_snapshots(s) && !s.files.fresh && c.class().changes()
}

/// The snapshot after a step whose calls may have changed files.
pub(super) fn after(s: &State, turn: &Turn) -> Option<Envelope> {
    let ours = s.files.dirty.is_some_and(|(prompted, _)| prompted == turn.prompted);
    (ours && takes_snapshots(s)).then(|| snapshot(s))
}

/// The next intent of a revert or unrevert. It takes a snapshot of the current files first, so that
/// a restore that a crash interrupted is repeated from the same point.
pub(super) fn restore(s: &State, restore: &Restore) -> Option<Envelope> {
    if restore.step != RestoreStep::Due {
        return None;
    }
    let paths = files_to_restore(s, restore);
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

/// The files that a restore puts back. In a revert, each file goes back to its state before the
/// first removed step that changed it; changes of an earlier revert are undone too.
fn files_to_restore(s: &State, restore: &Restore) -> Vec<Saved> {
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

/// Whether the current turn takes snapshots. Children take none: their parent's snapshots cover the
/// changes.
fn takes_snapshots(s: &State) -> bool {
    s.is_root() && s.config.options.snapshot && !s.files.off
}

fn snapshot(s: &State) -> Envelope {
    intent(s, None, Some(SNAPSHOT), Files::SnapshotStarted {})
}
