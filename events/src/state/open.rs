//! What the session waits for: one list that serves the timer, `why`, re-dispatch and the
//! question whether an outcome is still wanted.

use serde::Serialize;

use super::call::{Call, Phase};
use super::compacting::Writing;
use super::{Ask, State, Titling, Wait};
use crate::event::{
    Access, Compaction, Event, Fact, Files, Model, Permission, Plugin, Session, Subagent, Todo,
    Tool, Turn,
};
use crate::id::Seq;
use crate::time::Time;

/// What kind of outcome is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Open {
    Request,
    Retry,
    Check,
    Question,
    Tool,
    Compaction,
    /// The request for the session's title, on which nothing waits but the turn's end.
    Title,
    /// A session that a call started.
    Child,
    Snapshot,
    /// Files that are being put back.
    Restore,
    /// A plugin is asked something.
    Plugin,
}

impl State {
    /// Every open intent. Once the turn is stopped nothing that comes late counts, but that the
    /// children of the session have ended too.
    pub fn open(&self) -> Vec<(Open, Wait)> {
        let mut open = Vec::from_iter(self.files.restoring());
        let Some(turn) = &self.turn else { return open };
        open.extend(self.open_children().map(|child| (Open::Child, child.wait)));
        if turn.stop.is_some() {
            return open;
        }
        open.extend(self.plugins.open().map(|wait| (Open::Plugin, wait)));
        open.extend(self.files.taking.map(|wait| (Open::Snapshot, wait)));
        if let Titling::Waiting(wait) = turn.title {
            open.push((Open::Title, wait));
        }
        match &turn.ask {
            Ask::Waiting(wait) => open.push((Open::Request, *wait)),
            Ask::Backoff(wait) => open.push((Open::Retry, *wait)),
            Ask::Compacting(c) => match c.writing {
                Writing::Waiting(wait) => {
                    open.extend([(Open::Compaction, c.started), (Open::Request, wait)]);
                }
                Writing::Written => open.push((Open::Compaction, c.started)),
                Writing::Backoff(wait) => open.push((Open::Retry, wait)),
                Writing::Due | Writing::Failed(_) => {}
            },
            Ask::Due
            | Ask::Answered { .. }
            | Ask::Failed(_)
            | Ask::Again
            | Ask::CompactionFailed { .. } => {}
        }
        open.extend(self.calls().filter_map(|call| match &call.phase {
            Phase::Checking(wait) => Some((Open::Check, *wait)),
            Phase::Asking { wait, .. } => Some((Open::Question, *wait)),
            Phase::Running { wait, .. } => Some((Open::Tool, *wait)),
            Phase::Called
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Allowed
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. }
            | Phase::Done(_) => None,
        }));
        open.extend(self.calls().filter_map(|call| Some((Open::Question, call.inquiring()?))));
        open
    }

    /// The questions that wait for an answer: the intents that asked, and what about.
    pub fn questions(&self) -> Vec<(Seq, Access)> {
        let stopped = self.turn.as_ref().is_none_or(|turn| turn.stop.is_some());
        let asking = self.calls().filter(|_| !stopped).filter_map(|call| {
            let Phase::Asking { wait, access } = &call.phase else { return None };
            Some((wait.intent, call.access().get(*access)?))
        });
        let inquiring = self.calls().filter(|_| !stopped).filter_map(Call::inquires);
        asking.map(|(of, access)| (of, access.clone())).chain(inquiring).collect()
    }

    /// When the first open wait, or the time of the turn, is over.
    pub fn due(&self) -> Option<Time> {
        let deadline = self.deadline().map(|wait| wait.until);
        self.open().iter().map(|(_, wait)| wait.until).chain(deadline).min()
    }

    /// The open intents whose wait is over at `now`, and the prompt of a turn whose time is over,
    /// the longest overdue first.
    pub fn overdue(&self, now: Time) -> Vec<Seq> {
        let open = self.open().into_iter().map(|(_, wait)| wait);
        let mut waits: Vec<Wait> = open.chain(self.deadline()).collect();
        waits.retain(|wait| wait.until <= now);
        waits.sort_by_key(|wait| (wait.until, wait.intent));
        waits.into_iter().map(|wait| wait.intent).collect()
    }

    /// Whether a fact still means anything. Late and doubled outcomes do not; they are not to be
    /// appended.
    pub fn admits(&self, fact: &Fact) -> bool {
        let born = self.origin.is_some();
        let awaits = |kinds: &[Open]| {
            self.open()
                .iter()
                .any(|(kind, wait)| Some(wait.intent) == fact.of && kinds.contains(kind))
        };
        match &fact.event {
            Event::Session(event) => self.admits_session(event, fact.of),
            Event::Turn(event) => match event {
                Turn::Prompted { .. } | Turn::Equipped(_) => born,
                Turn::Interrupted { .. } => self.turn.is_some(),
                Turn::Ended(_) | Turn::Switched { .. } => false,
            },
            Event::Model(event) => match event {
                Model::Called { .. } => awaits(&[Open::Request]) && !self.compacting(),
                Model::Streamed { .. } => awaits(&[Open::Request]),
                Model::Replied { .. } | Model::Failed { .. } => {
                    awaits(&[Open::Request, Open::Title])
                }
                Model::Requested { .. } | Model::RetryScheduled { .. } => false,
            },
            Event::Tool(event) => match event {
                Tool::Resolved(_) => awaits(&[Open::Check]),
                Tool::Progressed { .. } | Tool::Finished(_) | Tool::Inquired { .. } => {
                    awaits(&[Open::Tool])
                }
                Tool::Checked { .. }
                | Tool::Started { .. }
                | Tool::Lost { .. }
                | Tool::Cancelled { .. }
                | Tool::Batched { .. }
                | Tool::Replied { .. } => false,
            },
            Event::Permission(event) => match event {
                Permission::Answered { .. } => awaits(&[Open::Question]),
                Permission::Ruled { .. } | Permission::Asked { .. } => false,
            },
            Event::Compaction(event) => match event {
                Compaction::Finished { .. } | Compaction::Failed { .. } => {
                    awaits(&[Open::Compaction])
                }
                Compaction::Asked { .. } => born && self.has_past() && !self.compacting(),
                Compaction::Started { .. } | Compaction::Pruned { .. } => false,
            },
            Event::Subagent(event) => match event {
                Subagent::Ended { .. } | Subagent::EndedUncounted { .. } => awaits(&[Open::Child]),
                Subagent::Spawned { .. } => false,
            },
            Event::Todo(Todo::Updated { .. }) => awaits(&[Open::Tool]),
            Event::Files(event) => match event {
                Files::Snapshotted { .. } | Files::SnapshotFailed { .. } => {
                    awaits(&[Open::Snapshot])
                }
                Files::Restored { .. } | Files::RestoreFailed { .. } => awaits(&[Open::Restore]),
                Files::RevertAsked { to, .. } => born && self.revert_to(*to).is_ok(),
                Files::UnrevertAsked { .. } => born && self.may_unrevert().is_ok(),
                Files::CheckoutAsked { .. } => born && self.may_restore().is_ok(),
                Files::SnapshotStarted {} | Files::RestoreStarted { .. } => false,
            },
            Event::Plugin(event) => match event {
                Plugin::Answered { .. } => awaits(&[Open::Plugin]),
                Plugin::Asked { .. } => false,
            },
        }
    }

    fn admits_session(&self, event: &Session, of: Option<Seq>) -> bool {
        let born = self.origin.is_some();
        let mut waits = self.open().into_iter().filter(|(_, wait)| Some(wait.intent) == of);
        match event {
            Session::Created { .. } => !born,
            // it begins a log, right behind what that shares
            Session::Forked { from, at } => self.session == *from && self.seq == *at,
            // it begins a log, and is no news to one
            Session::Imported { .. } => false,
            Session::Configured { config, .. } => born && self.config != *config,
            Session::Adopted { .. } => self.is_root(),
            Session::Titled { .. } => {
                born && (of.is_none() || waits.any(|(kind, _)| kind == Open::Title))
            }
            Session::Resumed { .. } => born,
            Session::Elapsed {} => {
                waits.next().is_some()
                    || self.deadline().is_some_and(|wait| Some(wait.intent) == of)
            }
        }
    }

    fn compacting(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.compacting().is_some())
    }
}
