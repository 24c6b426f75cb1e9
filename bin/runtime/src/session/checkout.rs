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
/// `imported` event, and a later step is not `accepted`: snapshots that an imported log names may be
/// anybody's.
pub(crate) fn plan(
    events: &[Envelope],
    at: Seq,
    imported: Seq,
    accepted: &BTreeSet<Seq>,
) -> Result<Vec<Saved>, Usage> {
    let mut plan = Plan {
        at,
        imported,
        accepted,
        changed_steps: BTreeSet::new(),
        tree: None,
        files: BTreeMap::new(),
    };
    if at <= imported && accepted.is_empty() {
        return Err(plan.unknown());
    }
    let mut state = State::default();
    for event in events {
        if event.seq <= imported && at > imported {
            state.apply(event);
            continue;
        }
        plan.before(event, &state)?;
        let known = state.files.changes.len();
        state.apply(event);
        plan.after(event, &state, known)?;
    }
    let saved = |(path, tree)| Saved { path, tree };
    Ok(plan.files.into_iter().map(saved).collect())
}

struct Plan<'a> {
    at: Seq,
    /// The last imported event.
    imported: Seq,
    /// The imported steps whose snapshots count.
    accepted: &'a BTreeSet<Seq>,
    /// The steps whose calls had reported changes by then.
    changed_steps: BTreeSet<Seq>,
    /// The last snapshot of the files by then.
    tree: Option<String>,
    files: BTreeMap<String, String>,
}

impl Plan<'_> {
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
            // the files of `at` may be those of a snapshot that does not count
            if self.at <= self.imported && (event.seq <= self.imported || self.tree.is_none()) {
                return Err(self.unknown());
            }
            for path in state.files.restore.iter().flat_map(|restore| &restore.paths) {
                self.files.extend(missing(&self.files, path, self.tree.as_ref()));
            }
        }
        Ok(())
    }

    fn after(&mut self, event: &Envelope, state: &State, known: usize) -> Result<(), Usage> {
        let Event::Files(Files::Snapshotted { tree, .. }) = &event.event else { return Ok(()) };
        let new = state.files.changes.get(known);
        if event.seq <= self.imported
            && !new.is_some_and(|changed| self.accepted.contains(&changed.step))
        {
            self.tree = None;
            return if new.is_some() && event.seq > self.at { Err(self.unknown()) } else { Ok(()) };
        }
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
        Ok(())
    }

    /// The error for a point of an imported log whose files are not known.
    fn unknown(&self) -> Usage {
        Usage(format!(
            "the session was imported up to event {}, without snapshots of event {} that count. Without \
             --files they are left as they are",
            self.imported, self.at
        ))
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
