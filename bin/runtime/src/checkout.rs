//! The project's files as they were at a point of a session: what a fork with `--files` begins with.

use std::collections::{BTreeMap, BTreeSet};

use leftfold_events::event::{Event, FileChange, Files, Saved, Tool};
use leftfold_events::state::{Call, Phase};
use leftfold_events::{Envelope, Seq, State};

use crate::Usage;

/// What has to be put back, so that the files are as they were after event `at`: what steps have
/// changed since, and what a revert has taken back since. A step that was under way there counts as
/// done if a call of it that may have changed files had told its outcome.
///
/// # Errors
/// Calls have run since then of which no snapshot tells what they changed.
pub(crate) fn plan(events: &[Envelope], at: Seq) -> Result<Vec<Saved>, Usage> {
    let mut plan = Plan { at, ..Plan::default() };
    let mut state = State::default();
    for event in events {
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
    /// The steps whose calls have told of changes by then.
    told: BTreeSet<Seq>,
    /// The last snapshot of the files as they were then.
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
            self.told.extend(turn.filter(|_| changed).map(|turn| turn.asked));
        }
        if let (Event::Tool(Tool::Started { class, name, .. }), true) = (&event.event, late)
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
        let goes =
            new.is_some_and(|changed| event.seq > self.at && !self.told.contains(&changed.step));
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

/// Where `path` is from, unless that is known.
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
