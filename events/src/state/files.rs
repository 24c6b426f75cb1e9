//! Snapshots of the project's files, the changes of calls between them, and reverts.
//!
//! A revert restores each file to its state before the first removed step that changed it.
//! `files.restored` moves the removed messages from `State::messages` to `State::files`, where they
//! stay until the next turn begins.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::message::Message;
use super::messages::Messages;
use super::open::PendingKind;
use super::{State, Turn, Wait};
use crate::event::{Change, Class, Envelope, FileChange, Files as Event, Saved};
use crate::id::Seq;

/// The policy since which each step that may change files begins with a snapshot. Earlier ones took
/// one before the first such step of a turn only, so what the user changed between two steps counted
/// as a change of the second.
pub(super) const SNAPSHOT_EACH_STEP: u16 = 5;

#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Files {
    /// The last snapshot.
    pub tree: Option<String>,
    /// Whether it was taken in the current step.
    pub fresh: bool,
    /// The prompt and step since whose calls the files may differ from `tree`.
    pub dirty: Option<(Seq, Seq)>,
    /// A snapshot in progress.
    pub taking: Option<Wait>,
    /// Whether snapshots are off for the rest of this turn, because one has failed.
    pub off: bool,
    /// The files that the last snapshot does not contain.
    pub left_out: BTreeSet<String>,
    /// The changes of the steps that still count, in order.
    pub changes: Vec<Changed>,
    /// The changes that the imported part of the log claims, until it is known whether they count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claimed: Vec<Changed>,
    /// A restore that was requested and is not finished.
    pub restore: Option<Restore>,
    /// A revert that the next prompt makes final.
    pub revert: Option<Revert>,
    /// The boundaries between messages: each `model.requested` and `turn.ended`.
    borders: Vec<Seq>,
    /// A summary has replaced everything up to here.
    summarised: Seq,
}

/// The changes by the calls of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The seq of the turn's `turn.prompted`.
    pub turn: Seq,
    /// The seq of the step's `model.requested`.
    pub step: Seq,
    /// The tree of the snapshot before it.
    pub before: String,
    pub files: Vec<FileChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Restore {
    /// The seq of the fact that requested it.
    pub asked: Seq,
    /// The first message to remove; an unrevert or a checkout removes none.
    pub to: Option<Seq>,
    /// The files of a checkout.
    pub wanted: Option<Vec<Saved>>,
    /// The snapshot from before the restore, once it is taken.
    pub before: Option<String>,
    pub step: RestoreStep,
    /// The files to restore.
    pub paths: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreStep {
    Due,
    Snapshot(Wait),
    Files(Wait),
}

/// The messages and changes that a revert has removed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Revert {
    pub to: Seq,
    /// The tree of the files before the revert; empty if no files were restored.
    pub before: String,
    pub paths: BTreeSet<String>,
    pub messages: Messages,
    pub changes: Vec<Changed>,
}

/// Lines and files that calls have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Figures {
    pub additions: u64,
    pub deletions: u64,
    /// Number of files; each counts once.
    pub files: usize,
}

/// Why a revert or unrevert is not possible, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRevert {
    #[error("a turn is under way: wait for its end, or interrupt it")]
    Busy,
    #[error("files are being put back right now: wait for that to end")]
    Restoring,
    #[error("a summary has replaced everything up to {0}: only later messages can be reverted")]
    Summarised(Seq),
    #[error("there is no prompt and no step at or after {0} to revert")]
    Nothing(Seq),
    #[error("no revert is pending: there is nothing to undo")]
    NotReverted,
}

impl Class {
    /// Whether a call of this class may change files.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Command | Self::Child)
    }
}

impl Message {
    /// The seq of its first event; 0 for a summary.
    pub(crate) fn start(&self) -> Seq {
        match self {
            Self::User(prompt) => prompt.seq,
            Self::Assistant(reply) => reply.asked,
            Self::Summary { .. } => 0,
            Self::Note { of, .. } => *of,
        }
    }
}

impl State {
    /// The first message that a revert to `to` removes: the message that holds this event, or the
    /// next one.
    ///
    /// # Errors
    /// A revert to that point is not possible, or not now.
    pub fn revert_to(&self, to: Seq) -> Result<Seq, NoRevert> {
        self.may_restore()?;
        if to <= self.files.summarised {
            return Err(NoRevert::Summarised(self.files.summarised));
        }
        let hidden = self.files.revert.iter().flat_map(|revert| revert.messages.iter());
        let starts = self.messages.iter().chain(hidden).map(Message::start);
        // a summary, and a prompt that it has left as it was
        let starts: Vec<Seq> = starts.filter(|start| *start > self.files.summarised).collect();
        let over = |start: Seq| self.files.borders.iter().any(|seq| start < *seq && *seq <= to);
        let within = starts.iter().rfind(|start| **start <= to).filter(|start| !over(**start));
        let found = within.or_else(|| starts.iter().find(|start| **start > to));
        found.copied().ok_or(NoRevert::Nothing(to))
    }

    /// Checks whether an unrevert would restore something.
    ///
    /// # Errors
    /// There is nothing to restore, or it is not possible now.
    pub fn may_unrevert(&self) -> Result<(), NoRevert> {
        self.may_restore()?;
        self.files.revert.as_ref().map(|_| ()).ok_or(NoRevert::NotReverted)
    }

    pub(crate) fn may_restore(&self) -> Result<(), NoRevert> {
        match (&self.turn, &self.files.restore) {
            (Some(_), _) => Err(NoRevert::Busy),
            (None, Some(_)) => Err(NoRevert::Restoring),
            (None, None) => Ok(()),
        }
    }

    /// The changes of calls that were not reverted: all of them, or those of one turn.
    pub fn figures(&self, turn: Option<Seq>) -> Figures {
        let of_turn = |changed: &&Changed| turn.is_none_or(|turn| changed.turn == turn);
        let changes = self.files.changes.iter().filter(of_turn);
        Figures::from_files(changes.flat_map(|changed| &changed.files))
    }

    /// The lines that calls have added to each file and deleted from it: all that were not reverted, or
    /// those of one turn.
    pub fn figures_by_file(&self, turn: Option<Seq>) -> BTreeMap<&str, Figures> {
        let of_turn = |changed: &&Changed| turn.is_none_or(|turn| changed.turn == turn);
        let mut by_file: BTreeMap<&str, Vec<&FileChange>> = BTreeMap::new();
        for file in self.files.changes.iter().filter(of_turn).flat_map(|changed| &changed.files) {
            by_file.entry(&file.path).or_default().push(file);
        }
        by_file
            .into_iter()
            .map(|(path, files)| (path, Figures::from_files(files.into_iter())))
            .collect()
    }

    /// The changes of these steps count, though the log was imported: the import has compared them
    /// with the snapshots that came with it.
    pub fn accept_snapshots(&mut self, steps: &[Seq]) {
        let steps: BTreeSet<Seq> = steps.iter().copied().collect();
        let claimed = std::mem::take(&mut self.files.claimed).into_iter();
        let accepted = claimed.filter(|changed| steps.contains(&changed.step));
        self.files.changes.splice(0..0, accepted);
    }

    pub(super) fn apply_files(&mut self, envelope: &Envelope, event: &Event) {
        let wait = Wait::for_event(envelope);
        match event {
            Event::SnapshotStarted {} => match &mut self.files.restore {
                Some(restore) => restore.step = RestoreStep::Snapshot(wait),
                None => self.files.taking = Some(wait),
            },
            Event::Snapshotted { tree, files, left_out } => {
                if self.files.awaits_snapshot(envelope.of) {
                    self.files.snapshotted(tree, files, left_out);
                }
            }
            Event::SnapshotFailed { .. } | Event::SnapshotFailedAs { .. } => {
                if self.files.awaits_snapshot(envelope.of) {
                    self.files.not_snapshotted();
                }
            }
            Event::RevertAsked { to, .. } => {
                let to = self.revert_to(*to).ok();
                self.files.restore = to.map(|to| Restore::new(envelope.seq, Some(to)));
            }
            Event::UnrevertAsked { .. } => {
                self.files.restore = Some(Restore::new(envelope.seq, None));
            }
            Event::CheckoutAsked { paths, .. } => self.checks_out(envelope.seq, paths),
            Event::SnapshotsAccepted { steps } => self.accept_snapshots(steps),
            Event::RestoreStarted { before, paths, .. } => {
                if let Some(restore) = &mut self.files.restore {
                    restore.step = RestoreStep::Files(wait);
                    restore.before = Some(before.clone());
                    restore.paths = paths.iter().map(|saved| saved.path.clone()).collect();
                }
            }
            Event::Restored { tree, .. } => {
                if self.files.awaits_restore(envelope.of) {
                    self.restored(tree);
                }
            }
            Event::RestoreFailed { .. } | Event::RestoreFailedAs { .. } => {
                if self.files.awaits_restore(envelope.of) {
                    self.files.restore = None;
                }
            }
        }
    }

    fn restored(&mut self, tree: &str) {
        let Some(restore) = self.files.restore.take() else { return };
        if !tree.is_empty() {
            self.files.tree = Some(tree.to_owned());
            self.files.dirty = None;
        }
        self.files.fresh = false;
        if restore.wanted.is_some() {
            return self.checked_out(restore);
        }
        // a prompt that came meanwhile stays
        let late = self.messages.iter().position(|message| message.start() > restore.asked);
        let late = self.messages.split_off(late.unwrap_or(self.messages.len()));
        let earlier = self.files.revert.take();
        let mut before = restore.before.unwrap_or_default();
        if let Some(earlier) = earlier {
            self.messages.extend(earlier.messages);
            self.files.changes.extend(earlier.changes);
            before = if earlier.before.is_empty() { before } else { earlier.before };
        }
        if let Some(to) = restore.to {
            let at = self.messages.iter().position(|message| message.start() >= to);
            let messages = self.messages.split_off(at.unwrap_or(self.messages.len()));
            let at = self.files.changes.iter().position(|changed| changed.step >= to);
            let changes = self.files.changes.split_off(at.unwrap_or(self.files.changes.len()));
            let revert = Revert { to, before, paths: restore.paths, messages, changes };
            self.files.revert = self.turn.is_none().then_some(revert);
        }
        self.messages.extend(late);
        // the results that reported them may be gone
        self.instructed.clear();
    }
}

impl Figures {
    pub fn from_files<'a>(files: impl Iterator<Item = &'a FileChange>) -> Self {
        let (mut figures, mut paths) = (Self::default(), BTreeSet::new());
        for file in files {
            // an imported log may claim any number
            figures.additions = figures.additions.saturating_add(file.additions);
            figures.deletions = figures.deletions.saturating_add(file.deletions);
            paths.insert(&file.path);
        }
        Self { files: paths.len(), ..figures }
    }
}

impl Files {
    /// A call of the last step has started.
    pub(super) fn call_started(&mut self, class: Class, turn: Option<&Turn>) {
        if let Some(turn) = turn.filter(|_| class.changes()) {
            self.dirty.get_or_insert((turn.prompted, turn.asked));
        }
    }

    /// A turn begins: reverted messages are gone for good, except while a restore is in progress.
    pub(super) fn turn_begins(&mut self) {
        if self.restore.is_none() {
            self.revert = None;
        }
    }

    pub(super) fn turn_ended(&mut self, seq: Seq) {
        (self.fresh, self.off, self.taking) = (false, false, None);
        self.border(seq);
    }

    pub(super) fn border(&mut self, seq: Seq) {
        self.borders.push(seq);
    }

    pub(super) fn summarised(&mut self, through: Seq) {
        self.summarised = self.summarised.max(through);
    }

    /// A node has died: the snapshot or restore in progress is repeated.
    pub(super) fn forget(&mut self) {
        self.taking = None;
        if let Some(restore) = &mut self.restore {
            restore.step = RestoreStep::Due;
        }
    }

    /// The log is imported: its snapshots may be anybody's, so nothing is restored from them unless
    /// the import has checked them.
    pub(super) fn distrust(&mut self) {
        let Self { borders, summarised, changes: claimed, .. } = std::mem::take(self);
        *self = Self { borders, summarised, claimed, ..Self::default() };
    }

    pub(crate) fn claims_changes(&self) -> bool {
        !self.claimed.is_empty()
    }

    /// Whether the deadline that passed belonged to a snapshot or restore. If so, it is given up.
    pub(super) fn elapsed(&mut self, of: Seq) -> bool {
        if self.awaits_snapshot(Some(of)) {
            self.not_snapshotted();
        } else if self.awaits_restore(Some(of)) {
            self.restore = None;
        } else {
            return false;
        }
        true
    }

    /// A restore, which continues independently of turns.
    pub(super) fn restoring(&self) -> Option<(PendingKind, Wait)> {
        match self.restore.as_ref()?.step {
            RestoreStep::Due => None,
            RestoreStep::Snapshot(wait) => Some((PendingKind::Snapshot, wait)),
            RestoreStep::Files(wait) => Some((PendingKind::Restore, wait)),
        }
    }

    fn awaits_snapshot(&self, of: Option<Seq>) -> bool {
        let restoring = self.restoring().filter(|(open, _)| *open == PendingKind::Snapshot);
        let waits = self.taking.into_iter().chain(restoring.map(|(_, wait)| wait));
        waits.map(|wait| wait.intent).any(|intent| Some(intent) == of)
    }

    fn awaits_restore(&self, of: Option<Seq>) -> bool {
        let restoring = self.restoring().filter(|(open, _)| *open == PendingKind::Restore);
        restoring.is_some_and(|(_, wait)| Some(wait.intent) == of)
    }

    fn snapshotted(&mut self, tree: &str, files: &[FileChange], left_out: &[String]) {
        let before = self.tree.replace(tree.to_owned());
        if let (Some((turn, step)), Some(before)) = (self.dirty.take(), before) {
            // a file that no snapshot contained existed nevertheless
            let made = |file: &&FileChange| {
                file.change != Change::Added || !self.left_out.contains(&file.path)
            };
            let files: Vec<FileChange> = files.iter().filter(made).cloned().collect();
            if !files.is_empty() {
                self.changes.push(Changed { turn, step, before, files });
            }
        }
        self.left_out = left_out.iter().cloned().collect();
        match &mut self.restore {
            Some(restore) => {
                (restore.before, restore.step) = (Some(tree.to_owned()), RestoreStep::Due);
            }
            None => (self.taking, self.fresh) = (None, true),
        }
    }

    fn not_snapshotted(&mut self) {
        if self.restore.take().is_none() {
            // later changes by calls cannot be distinguished from changes by others
            *self =
                Self { tree: None, dirty: None, taking: None, off: true, ..std::mem::take(self) };
        }
    }
}
