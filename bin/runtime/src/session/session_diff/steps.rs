//! Finds the steps of a session that may have changed files, and the snapshots before and after them.
//! It is computed from the log alone, and reads no snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use leftfold_events::event::{Class, Event, Files, Finished, Started, Subagent, Tool};
use leftfold_events::state::Changed;
use leftfold_events::{Envelope, Seq, SessionId, State};

/// A step: one request to the model with the calls of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StepId {
    /// The seq of the turn's first `turn.prompted`.
    pub(super) turn: Seq,
    /// The seq of its `model.requested`; 0 for calls of the prompt itself.
    pub(super) step: Seq,
}

/// The part of a step that concerns files.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Whether one of its calls may have changed files.
    pub(super) changes: bool,
    /// Whether it was imported without snapshots that count.
    pub(super) imported: bool,
    /// Whether snapshots were taken before and after it.
    pub(super) has_snapshots: bool,
    /// The changes between two snapshots, and the tree of the second one.
    pub(super) snapshots: Vec<(Changed, String)>,
    /// The diffs in the results of its calls.
    pub(super) logged: Vec<LoggedDiff>,
    /// The sessions that its calls have started or continued.
    pub(super) children: Vec<SessionId>,
}

/// A diff in the result of a call.
#[derive(Debug)]
pub(super) struct LoggedDiff {
    pub(super) text: String,
    /// Whether its end is missing.
    pub(super) cut: bool,
}

/// The imported part of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct ImportedPart {
    /// Its last event; 0: nothing is imported.
    pub(super) through: Seq,
    /// The `model.requested` of the steps whose snapshots count.
    pub(super) accepted: BTreeSet<Seq>,
}

/// The steps of a session.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) all: BTreeMap<StepId, Step>,
    /// The first prompt of each turn.
    pub(super) turns: Vec<Seq>,
    /// The step of each event in a turn.
    by_event: HashMap<Seq, StepId>,
    /// The state after the last event.
    pub(super) state: State,
}

impl ImportedPart {
    /// Whether snapshots of the step count that this event of the log names.
    fn counts(&self, event: &Envelope, step: Seq) -> bool {
        event.seq > self.through || self.accepted.contains(&step)
    }
}

impl Steps {
    /// The steps in these events. Snapshots of imported steps are left out, unless the import has
    /// accepted them: the log may name anybody's.
    pub(super) fn from_events(events: &[Envelope], imported: &ImportedPart) -> Self {
        let mut steps = Self::default();
        for event in events {
            steps.add(event, imported);
        }
        steps
    }

    /// The step that holds an event.
    pub(super) fn at(&self, seq: Seq) -> Option<StepId> {
        self.by_event.get(&seq).copied()
    }

    /// Whether a change still counts, so no revert has undone it.
    pub(super) fn counts(&self, changed: &Changed) -> bool {
        let same = |other: &Changed| (other.step, &other.before) == (changed.step, &changed.before);
        self.state.files.changes.iter().any(same)
    }

    fn add(&mut self, event: &Envelope, imported: &ImportedPart) {
        let before = current(&self.state);
        if let Some(id) = before {
            self.in_step(event, id, !imported.counts(event, id.step));
        }
        let files = &self.state.files;
        let dirty = files.dirty.filter(|_| files.tree.is_some());
        let known = files.changes.len();
        self.state.apply(event);
        let files = &self.state.files;
        if let (Event::Files(Files::Snapshotted { tree, .. }), Some((turn, step)), None) =
            (&event.event, dirty, files.dirty)
            && imported.counts(event, step)
        {
            let of_step = self.all.entry(StepId { turn, step }).or_default();
            of_step.has_snapshots = true;
            let new = files.changes.get(known).cloned();
            of_step.snapshots.extend(new.map(|changed| (changed, tree.clone())));
        }
        let after = current(&self.state);
        if let (None, Some(id)) = (before, after) {
            self.turns.push(id.turn);
        }
        self.by_event.extend(after.or(before).map(|id| (event.seq, id)));
    }

    fn in_step(&mut self, event: &Envelope, id: StepId, imported: bool) {
        match &event.event {
            Event::Tool(Tool::Finished(finished)) => {
                if let Some(diff) = LoggedDiff::of(finished) {
                    self.all.entry(id).or_default().logged.push(diff);
                }
            }
            Event::Tool(tool) => {
                let started = tool.started().filter(|started| may_change(&self.state, started));
                if started.is_some() {
                    let step = self.all.entry(id).or_default();
                    (step.changes, step.imported) = (true, imported);
                }
            }
            Event::Subagent(Subagent::Spawned { session, .. }) => {
                self.all.entry(id).or_default().children.push(*session);
            }
            _ => {}
        }
    }
}

/// The step that is under way.
fn current(state: &State) -> Option<StepId> {
    state.turn.as_ref().map(|turn| StepId { turn: turn.prompted, step: turn.asked })
}

/// Whether the call that starts may change files. A call that writes and names no path, such as
/// `todowrite`, changes none.
fn may_change(state: &State, started: &Started<'_>) -> bool {
    let names_path = || {
        let mut calls = state.calls().filter(|call| call.id == started.call);
        calls.any(|call| call.resolved.as_ref().is_none_or(|found| !found.paths.is_empty()))
    };
    started.class.changes() && (started.class != Class::Write || names_path())
}

impl LoggedDiff {
    fn of(finished: &Finished) -> Option<Self> {
        if finished.is_error || !finished.metadata.as_str().contains("\"diff\"") {
            return None;
        }
        let metadata = finished.metadata.value();
        let text = metadata.get("diff")?.as_str().filter(|text| !text.is_empty())?.to_owned();
        Some(Self { text, cut: metadata.get("diff_truncated").is_some() })
    }
}
