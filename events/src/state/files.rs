//! Snapshots of the project's files, what calls have changed between them, and reverts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::message::Message;
use super::messages::Messages;
use super::open::PendingKind;
use super::{State, Turn, Wait};
use crate::event::{Change, Class, Envelope, FileChange, Files as Event, Saved};
use crate::id::Seq;

#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Files {
    /// The last snapshot.
    pub tree: Option<String>,
    /// Whether that was taken in the turn under way.
    pub fresh: bool,
    /// Prompt and step since whose calls the files may no longer be those of `tree`.
    pub dirty: Option<(Seq, Seq)>,
    /// A snapshot is being taken.
    pub taking: Option<Wait>,
    /// No more snapshots in this turn: one has failed.
    pub off: bool,
    /// What the last snapshot does not hold.
    pub left_out: BTreeSet<String>,
    /// What the steps that still count have changed, in order.
    pub changes: Vec<Changed>,
    /// A restore that was asked for and is not over.
    pub restore: Option<Restore>,
    /// A revert that the next prompt makes final.
    pub revert: Option<Revert>,
    /// Where one message ends and another may begin: each `model.requested` and `turn.ended`.
    borders: Vec<Seq>,
    /// A summary has taken the place of everything up to here.
    summarised: Seq,
}

/// What the calls of a step have changed.
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
    /// The seq of the fact that asked for it.
    pub asked: Seq,
    /// The first message that is to go; none does in an unrevert or a checkout.
    pub to: Option<Seq>,
    /// The files that a checkout is about.
    pub wanted: Option<Vec<Saved>>,
    /// The snapshot from before, once there is one.
    pub before: Option<String>,
    pub step: RestoreStep,
    /// The files that are put back.
    pub paths: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreStep {
    Due,
    Snapshot(Wait),
    Files(Wait),
}

/// What a revert has taken away.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Revert {
    pub to: Seq,
    /// The tree of the files as they were; empty if none were put back.
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
    /// Each counts once.
    pub files: usize,
}

/// Why there is no going back, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRevert {
    #[error("a turn is under way: wait for its end, or interrupt it")]
    Busy,
    #[error("files are being put back right now: wait for that to end")]
    Restoring,
    #[error(
        "a summary has taken the place of everything up to {0}: only what came after it can be reverted"
    )]
    Summarised(Seq),
    #[error("there is no prompt and no step at {0} or after it that could be reverted")]
    Nothing(Seq),
    #[error("no revert is pending: there is nothing to take back")]
    NotReverted,
}

impl Class {
    /// Whether a call of this kind may change files.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Command | Self::Child)
    }
}

impl Message {
    /// The seq that it begins with; 0 for a summary.
    fn start(&self) -> Seq {
        match self {
            Self::User(prompt) => prompt.seq,
            Self::Assistant(reply) => reply.asked,
            Self::Summary { .. } => 0,
        }
    }
}

impl State {
    /// Where going back to `to` begins: with the message that holds this event, or else the next.
    ///
    /// # Errors
    /// There is no going back there, or not now.
    pub fn revert_to(&self, to: Seq) -> Result<Seq, NoRevert> {
        self.may_restore()?;
        if to <= self.files.summarised {
            return Err(NoRevert::Summarised(self.files.summarised));
        }
        let hidden = self.files.revert.iter().flat_map(|revert| revert.messages.iter());
        let starts = self.messages.iter().chain(hidden).map(Message::start);
        let starts: Vec<Seq> = starts.filter(|start| *start > 0).collect();
        let over = |start: Seq| self.files.borders.iter().any(|seq| start < *seq && *seq <= to);
        let within = starts.iter().rfind(|start| **start <= to).filter(|start| !over(**start));
        let found = within.or_else(|| starts.iter().find(|start| **start > to));
        found.copied().ok_or(NoRevert::Nothing(to))
    }

    /// Whether there is something that an unrevert would bring back.
    ///
    /// # Errors
    /// There is not, or not now.
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

    /// What calls have changed, and not been reverted: all of it, or what one turn has.
    pub fn figures(&self, turn: Option<Seq>) -> Figures {
        let of_turn = |changed: &&Changed| turn.is_none_or(|turn| changed.turn == turn);
        let changes = self.files.changes.iter().filter(of_turn);
        Figures::of(changes.flat_map(|changed| &changed.files))
    }

    pub(super) fn apply_files(&mut self, envelope: &Envelope, event: &Event) {
        let wait = Wait::of(envelope);
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
            Event::SnapshotFailed { .. } => {
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
            Event::RestoreFailed { .. } => {
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
        // the results that told of them may be gone
        self.instructed.clear();
    }
}

impl Figures {
    pub fn of<'a>(files: impl Iterator<Item = &'a FileChange>) -> Self {
        let (mut figures, mut paths) = (Self::default(), BTreeSet::new());
        for file in files {
            figures.additions += file.additions;
            figures.deletions += file.deletions;
            paths.insert(&file.path);
        }
        Self { files: paths.len(), ..figures }
    }
}

impl Files {
    /// A call of the last step has been started.
    pub(super) fn call_started(&mut self, class: Class, turn: Option<&Turn>) {
        if let Some(turn) = turn.filter(|_| class.changes()) {
            self.dirty.get_or_insert((turn.prompted, turn.asked));
        }
    }

    /// A turn begins: what was reverted is gone for good, but for what is being put back.
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

    /// A node has died: what was in hand is to be done again.
    pub(super) fn forget(&mut self) {
        self.taking = None;
        if let Some(restore) = &mut self.restore {
            restore.step = RestoreStep::Due;
        }
    }

    /// Whether the wait that is over was one of these. What was asked for is given up.
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

    /// A restore, which goes on whatever becomes of a turn.
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
            // a file that no snapshot kept was there all the same
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
            // what has changed since can not be told from what others change
            *self =
                Self { tree: None, dirty: None, taking: None, off: true, ..std::mem::take(self) };
        }
    }
}
