//! The open waits of a session: one list for the timer, `why`, repeated dispatch, and the check
//! whether an outcome is still wanted.

use serde::Serialize;

use super::call::{Call, Phase};
use super::compacting::Writing;
use super::{ModelStatus, State, Titling, Wait};
use crate::event::Access;
use crate::id::Seq;
use crate::time::Time;

/// The kind of awaited outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    Request,
    Retry,
    Check,
    Question,
    Tool,
    Compaction,
    /// The request for the session's title. Only the end of the turn waits for it.
    Title,
    /// A session that a call started.
    Child,
    Snapshot,
    /// A restore of files in progress.
    Restore,
    /// A hook call of a plugin.
    Hook,
}

impl State {
    /// Every open intent. Once the turn is stopped, the only late outcomes that count are the ends
    /// of the session's children.
    pub fn open(&self) -> Vec<(PendingKind, Wait)> {
        let mut open = Vec::from_iter(self.files.restoring());
        let Some(turn) = &self.turn else { return open };
        open.extend(self.open_children().map(|child| (PendingKind::Child, child.wait)));
        if turn.stop.is_some() {
            return open;
        }
        open.extend(self.plugins.open().map(|wait| (PendingKind::Hook, wait)));
        open.extend(self.files.taking.map(|wait| (PendingKind::Snapshot, wait)));
        if let Titling::Waiting(wait) = turn.title {
            open.push((PendingKind::Title, wait));
        }
        match &turn.model_status {
            ModelStatus::Waiting(wait) => open.push((PendingKind::Request, *wait)),
            ModelStatus::Backoff(wait) => open.push((PendingKind::Retry, *wait)),
            ModelStatus::Compacting(c) => match c.writing {
                Writing::Waiting(wait) => {
                    open.extend([
                        (PendingKind::Compaction, c.started),
                        (PendingKind::Request, wait),
                    ]);
                }
                Writing::Written => open.push((PendingKind::Compaction, c.started)),
                Writing::Backoff(wait) => open.push((PendingKind::Retry, wait)),
                Writing::Due | Writing::Failed(_) | Writing::CutOff(_) => {}
            },
            ModelStatus::Due
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => {}
        }
        open.extend(self.calls().filter_map(|call| match &call.phase {
            Phase::Checking(wait) => Some((PendingKind::Check, *wait)),
            Phase::Asking { wait, .. } => Some((PendingKind::Question, *wait)),
            Phase::Running { wait, .. } => Some((PendingKind::Tool, *wait)),
            Phase::Called
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Allowed
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. }
            | Phase::Done(_) => None,
        }));
        open.extend(
            self.calls().filter_map(|call| Some((PendingKind::Question, call.eliciting()?))),
        );
        open
    }

    /// The questions that wait for an answer: their intents and accesses.
    pub fn questions(&self) -> Vec<(Seq, Access)> {
        let stopped = self.turn.as_ref().is_none_or(|turn| turn.stop.is_some());
        let asking = self.calls().filter(|_| !stopped).filter_map(|call| {
            let Phase::Asking { wait, access } = &call.phase else { return None };
            Some((wait.intent, call.access().get(*access)?))
        });
        let eliciting = self.calls().filter(|_| !stopped).filter_map(Call::elicits);
        asking.map(|(of, access)| (of, access.clone())).chain(eliciting).collect()
    }

    /// The earliest deadline of the open waits and the turn.
    pub fn due(&self) -> Option<Time> {
        let deadline = self.deadline().map(|wait| wait.until);
        self.open().iter().map(|(_, wait)| wait.until).chain(deadline).min()
    }

    /// The open intents whose deadlines have passed at `now`, and the prompt of a turn whose time
    /// has passed, the longest overdue first.
    pub fn overdue(&self, now: Time) -> Vec<Seq> {
        let open = self.open().into_iter().map(|(_, wait)| wait);
        let mut waits: Vec<Wait> = open.chain(self.deadline()).collect();
        waits.retain(|wait| wait.until <= now);
        waits.sort_by_key(|wait| (wait.until, wait.intent));
        waits.into_iter().map(|wait| wait.intent).collect()
    }
}
