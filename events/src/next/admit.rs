//! Decides which facts a session accepts. A refused fact is not appended: it is late, a duplicate,
//! or not allowed now.

use super::approval::may_approve;
use crate::event::{
    Compaction, Event, Fact, Files, Hook, Model, Permission, Session, Subagent, Todo, Tool, Turn,
};
use crate::id::Seq;
use crate::state::{PendingKind, State};

/// Whether a fact still has a meaning. Late and duplicate outcomes have none; they must not be
/// appended.
pub fn admits(s: &State, fact: &Fact) -> bool {
    let born = s.origin.is_some();
    let awaits = |kinds: &[PendingKind]| {
        s.open().iter().any(|(kind, wait)| Some(wait.intent) == fact.of && kinds.contains(kind))
    };
    match &fact.event {
        Event::Session(event) => admits_session(s, event, fact.of),
        Event::Turn(event) => match event {
            Turn::Prompted { .. } | Turn::Noted { .. } => born && s.repeated_prompt(fact).is_none(),
            Turn::Configured(_) => born,
            Turn::Interrupted { .. } => s.turn.is_some(),
            Turn::Ended(_) | Turn::Switched { .. } | Turn::Continued { .. } => false,
        },
        Event::Model(event) => match event {
            Model::Streamed { .. } => awaits(&[PendingKind::Request]),
            Model::Finished { .. } | Model::Failed { .. } => {
                awaits(&[PendingKind::Request, PendingKind::Title])
            }
            Model::Requested { .. } | Model::RetryScheduled { .. } => false,
        },
        Event::Tool(event) => match event {
            Tool::Called { .. } | Tool::InputStreamed { .. } => {
                awaits(&[PendingKind::Request]) && !is_compacting(s)
            }
            Tool::Resolved(_) => awaits(&[PendingKind::Check]),
            Tool::Progressed { .. } | Tool::Finished(_) => awaits(&[PendingKind::Tool]),
            Tool::ElicitationRequested { elicitation, .. } => {
                let mut runs = s.calls().filter(|call| {
                    call.phase.wait().is_some_and(|wait| Some(wait.intent) == fact.of)
                });
                let is_repeated = runs.any(|call| call.elicited.contains(elicitation));
                awaits(&[PendingKind::Tool]) && !is_repeated
            }
            Tool::ResolveStarted { .. }
            | Tool::Started { .. }
            | Tool::StartedSandboxed(_)
            | Tool::Lost { .. }
            | Tool::Cancelled { .. }
            | Tool::Batched { .. }
            | Tool::ElicitationAnswered { .. } => false,
        },
        Event::Permission(event) => match event {
            Permission::Answered { .. } => awaits(&[PendingKind::Question]),
            Permission::AnsweredFor { reply, always, .. } => {
                fact.of.is_some_and(|of| may_approve(s, of, *reply, always).is_ok())
            }
            Permission::Ruled { .. }
            | Permission::Asked { .. }
            | Permission::RejectedWith { .. } => false,
        },
        Event::Compaction(event) => match event {
            Compaction::Finished { .. } | Compaction::Failed { .. } => {
                awaits(&[PendingKind::Compaction])
            }
            Compaction::Asked { .. } | Compaction::AskedWith { .. } => {
                born && s.has_past() && !is_compacting(s)
            }
            Compaction::Started { .. } | Compaction::Pruned { .. } => false,
        },
        Event::Subagent(event) => match event {
            Subagent::Ended { .. } | Subagent::EndedUncounted { .. } => {
                awaits(&[PendingKind::Child])
            }
            Subagent::Spawned { .. } => false,
        },
        Event::Todo(Todo::Updated { .. }) => awaits(&[PendingKind::Tool]),
        Event::Files(event) => match event {
            Files::Snapshotted { .. }
            | Files::SnapshotFailed { .. }
            | Files::SnapshotFailedAs { .. } => awaits(&[PendingKind::Snapshot]),
            Files::Restored { .. }
            | Files::RestoreFailed { .. }
            | Files::RestoreFailedAs { .. } => awaits(&[PendingKind::Restore]),
            Files::RevertAsked { to, .. } => born && s.revert_to(*to).is_ok(),
            Files::UnrevertAsked { .. } => born && s.may_unrevert().is_ok(),
            Files::CheckoutAsked { .. } => born && s.may_restore().is_ok(),
            Files::SnapshotsAccepted { .. } => s.files.claims_changes(),
            Files::SnapshotStarted {} | Files::RestoreStarted { .. } => false,
        },
        Event::Hook(event) => match event {
            Hook::Returned { .. } => awaits(&[PendingKind::Hook]),
            Hook::Called { .. } => false,
        },
    }
}

fn admits_session(s: &State, event: &Session, of: Option<Seq>) -> bool {
    let born = s.origin.is_some();
    let mut waits = s.open().into_iter().filter(|(_, wait)| Some(wait.intent) == of);
    match event {
        Session::Created { .. } => !born,
        // it begins a log, directly after the shared events
        Session::Forked { from, at } => s.session == *from && s.seq == *at,
        // it begins a log, and is not a fact for an existing one
        Session::Imported { .. } => false,
        Session::Configured { choices, .. } => born && s.choices != *choices,
        Session::RulesSet { rules, .. } => born && s.rules != *rules,
        Session::Archived { archived, .. } => born && s.archived != *archived,
        Session::Adopted { .. } => s.is_root(),
        Session::Titled { .. } => {
            born && (of.is_none() || waits.any(|(kind, _)| kind == PendingKind::Title))
        }
        Session::Summarised { .. } => waits.any(|(kind, _)| kind == PendingKind::Title),
        Session::Resumed { .. } | Session::ResumedImported { .. } => born,
        Session::DeadlinePassed {} => {
            waits.next().is_some() || s.deadline().is_some_and(|wait| Some(wait.intent) == of)
        }
    }
}

fn is_compacting(s: &State) -> bool {
    s.turn.as_ref().is_some_and(|turn| turn.compacting().is_some())
}
