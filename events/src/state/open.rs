//! The open waits of a session: one list for the timer, `why`, repeated dispatch, and the check
//! whether an outcome is still wanted.

use serde::Serialize;

use super::call::{Call, Phase};
use super::compacting::Writing;
use super::{ModelStatus, State, Titling, Wait};
use crate::event::{Access, ModelRef};
use crate::id::{Seq, SessionId};
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
    /// The request for the session's title or summary. Only the end of the turn waits for it.
    Title,
    /// A session that a call started.
    Child,
    Snapshot,
    /// A restore of files in progress.
    Restore,
    /// A hook call of a plugin.
    Hook,
}

/// The party whose outcome ends a wait. If it stays silent, the deadline ends the wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The model that has the request.
    Model(ModelRef),
    /// The tool that a call uses.
    Tool,
    /// A person who answers a question.
    Person,
    /// The plugin that was called.
    Plugin(String),
    /// The subagent's session.
    Session(SessionId),
    /// The summary of the conversation, which the model writes.
    Summary,
    /// The snapshots of the project's files.
    Snapshots,
    /// Only time: the wait is over at its deadline.
    Clock,
}

/// One open wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    /// `None`: the turn's own time limit, which ends the turn even if nothing else waits for it.
    pub kind: Option<PendingKind>,
    pub wait: Wait,
    /// `None`: the state does not say. That would be an error of the state.
    pub ended_by: Option<EndedBy>,
}

impl State {
    /// Every open intent and the turn's time limit, each with the party that ends it.
    pub fn waits(&self) -> Vec<OpenWait> {
        let open = self.open().into_iter();
        let open = open.map(|(kind, wait)| {
            let ended_by = self.ended_by(kind, wait.intent);
            OpenWait { kind: Some(kind), wait, ended_by }
        });
        let limit = self.deadline().map(|wait| {
            let ended_by = Some(EndedBy::Clock);
            OpenWait { kind: None, wait, ended_by }
        });
        open.chain(limit).collect()
    }

    fn ended_by(&self, kind: PendingKind, intent: Seq) -> Option<EndedBy> {
        let options = &self.config.options;
        let other = match kind {
            PendingKind::Request if self.is_summarising() => options.summary_model.as_ref(),
            PendingKind::Request => None,
            PendingKind::Title if self.awaits_summary(intent) => {
                options.session_summary_model.as_ref().or(options.small_model.as_ref())
            }
            PendingKind::Title => options.small_model.as_ref(),
            PendingKind::Retry => return Some(EndedBy::Clock),
            PendingKind::Check | PendingKind::Tool => return Some(EndedBy::Tool),
            PendingKind::Question => return Some(EndedBy::Person),
            PendingKind::Compaction => return Some(EndedBy::Summary),
            PendingKind::Snapshot | PendingKind::Restore => return Some(EndedBy::Snapshots),
            PendingKind::Hook => {
                let hook = self.plugins.waiting(intent)?;
                return Some(EndedBy::Plugin(hook.plugin.clone()));
            }
            PendingKind::Child => {
                let child = self.children.iter().find(|child| child.wait.intent == intent)?;
                return Some(EndedBy::Session(child.session));
            }
        };
        let model = other.unwrap_or(&self.config.model);
        Some(EndedBy::Model(model.name()))
    }

    /// Whether `intent` is the pending request for the session's summary.
    fn awaits_summary(&self, intent: Seq) -> bool {
        let waits = self.turn.as_ref().map(|turn| turn.session_summary);
        matches!(waits, Some(Titling::Waiting(wait)) if wait.intent == intent)
    }

    fn is_summarising(&self) -> bool {
        let status = self.turn.as_ref().map(|turn| &turn.model_status);
        matches!(status, Some(ModelStatus::Compacting(_)))
    }

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
        for text in [turn.title, turn.session_summary] {
            if let Titling::Waiting(wait) = text {
                open.push((PendingKind::Title, wait));
            }
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
