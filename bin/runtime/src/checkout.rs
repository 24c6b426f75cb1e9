//! Computes the project's files as they were at a point of a session, for a fork with `--files`.
//!
//! It reads the whole log: each file that steps after the point have changed, as the snapshot
//! before the first of them has it. `next` decides the snapshot and the restore as for a revert,
//! the session's worker performs them, and `unrevert` undoes them.

use std::collections::{BTreeMap, BTreeSet};

use leftfold_events::event::{Event, FileChange, Files, Saved, Started, Tool};
use leftfold_events::state::{Call, Phase};
use leftfold_events::{Envelope, Seq, State};

use crate::Usage;

/// The files to restore so that they are as they were after event `at`: files that later steps have
/// changed, and files that a later revert has restored. A step that was running at `at` counts as
/// done if one of its calls that may have changed files had reported its outcome.
///
/// # Errors
/// A call has run since then whose changes no snapshot shows. Or `at` is not after the last
/// `imported` event: snapshots that an imported log names may be anybody's.
pub(crate) fn plan(events: &[Envelope], at: Seq, imported: Seq) -> Result<Vec<Saved>, Usage> {
    if at <= imported {
        return Err(Usage(format!(
            "the session was imported up to event {imported}: files can only be restored to how they were \
             after a later event. Without --files they are left as they are"
        )));
    }
    let mut plan = Plan { at, ..Plan::default() };
    let mut state = State::default();
    for event in events {
        if event.seq <= imported {
            state.apply(event);
            continue;
        }
        plan.before(event, &state)?;
        let known = state.files.changes.len();
        state.apply(event);
        plan.after(event, &state, known);
    }
    let saved = |(path, tree)| Saved { path, tree };
    Ok(plan.files.into_iter().map(saved).collect())
}

#[derive(Default)]
struct Plan {
    at: Seq,
    /// The steps whose calls had reported changes by then.
    changed_steps: BTreeSet<Seq>,
    /// The last snapshot of the files by then.
    tree: Option<String>,
    files: BTreeMap<String, String>,
}

impl Plan {
    fn before(&mut self, event: &Envelope, state: &State) -> Result<(), Usage> {
        let late = event.seq > self.at;
        let turn = state.turn.as_ref();
        if let (Event::Tool(Tool::Finished(_)), false) = (&event.event, late) {
            let changes = |call: &Call| is_outcome(event, call) && call.class().changes();
            let changed = state.calls().any(changes);
            self.changed_steps.extend(turn.filter(|_| changed).map(|turn| turn.asked));
        }
        if let (Event::Tool(tool), true) = (&event.event, late)
            && let Some(Started { name, class, .. }) = tool.started()
            && class.changes()
            && !state.files.fresh
        {
            return Err(Usage(format!(
                "no snapshot was taken before event {}, where `{name}` began: nobody knows what the \
                 files were at {}. Without --files they are left as they are",
                event.seq, self.at
            )));
        }
        if let (Event::Files(Files::Restored { .. }), true) = (&event.event, late) {
            for path in state.files.restore.iter().flat_map(|restore| &restore.paths) {
                self.files.extend(missing(&self.files, path, self.tree.as_ref()));
            }
        }
        Ok(())
    }

    fn after(&mut self, event: &Envelope, state: &State, known: usize) {
        let Event::Files(Files::Snapshotted { tree, .. }) = &event.event else { return };
        let new = state.files.changes.get(known);
        let goes = new.is_some_and(|changed| {
            event.seq > self.at && !self.changed_steps.contains(&changed.step)
        });
        match new.filter(|_| goes) {
            Some(changed) => {
                for FileChange { path, .. } in &changed.files {
                    self.files.extend(missing(&self.files, path, Some(&changed.before)));
                }
            }
            None if event.seq <= self.at || new.is_some() => self.tree = Some(tree.clone()),
            None => {}
        }
    }
}

/// Finds the snapshot that `path` comes from, unless it is known.
fn missing(
    known: &BTreeMap<String, String>,
    path: &str,
    tree: Option<&String>,
) -> Option<(String, String)> {
    tree.filter(|_| !known.contains_key(path)).map(|tree| (path.to_owned(), tree.clone()))
}

fn is_outcome(event: &Envelope, call: &Call) -> bool {
    matches!(&call.phase, Phase::Running { wait, .. } if Some(wait.intent) == event.of)
}
