//! The past: all events of a log, one file per concern.
//!
//! Invariant: every variant is always a **fact** (the session was told it) or always an **intent**
//! (the session decided it); [`Event::is_intent`] does not depend on fields. Enums grow at the end,
//! because the log stores variants by position.

mod compaction;
mod files;
mod hook;
mod model;
mod notes;
mod permission;
mod sandbox;
mod session;
mod subagent;
mod todo;
mod tool;
mod turn;

pub use compaction::Compaction;
pub use files::{Change, FileChange, Files, FilesFailure, Saved};
pub use hook::{Hook, HookOutcome, HookPoint};
pub use model::{
    CallSpec, Cost, FailureClass, Finish, Model, ModelRef, PartKind, Purpose, StreamedPart, Usage,
};
pub use notes::{Exchange, NoteMembers, NoteTooLarge, Notes, Owner, Record};
pub use permission::{Answer, Permission};
pub use sandbox::{Backend, Profile, WorktreeAccess};
pub use session::{Session, SessionChoices};
pub use subagent::Subagent;
pub use todo::{Todo, TodoItem, TodoPriority, TodoStatus};
pub use tool::{
    Access, Attachment, BatchCall, CallKind, Class, Consent, Finished, Resolution, Spill, Started,
    StartedSandboxed, StreamedInput, Tool, Wanted,
};
pub use turn::{
    Denial, DenialClass, EndReason, Ended, PromptKind, PromptPart, Turn, TurnConfigPayloads,
    as_typed, join_commands,
};

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, Seq, SessionId};
use crate::payload::Payload;
use crate::time::Time;

/// One event and its place in a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub session: SessionId,
    pub seq: Seq,
    pub at: Time,
    /// For an outcome, the seq of its intent. For an intent about a call, the seq of the call's
    /// `tool.called`.
    pub of: Option<Seq>,
    /// The deadline of an intent that waits for an outcome.
    pub until: Option<Time>,
    pub event: Event,
    /// Additions that `event` has no fields for. No decision reads them.
    pub notes: Notes,
}

impl Envelope {
    /// The subagent's session that this event starts or continues.
    pub fn spawned(&self) -> Option<SessionId> {
        let Event::Subagent(Subagent::Spawned { session, .. }) = &self.event else { return None };
        Some(*session)
    }
}

/// A fact that is not yet in a log: it has no seq and no time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub of: Option<Seq>,
    pub event: Event,
    pub notes: Notes,
    /// The message of another node that asks for this. It is deleted when the fact becomes durable, and is not logged.
    pub settles: Option<MessageId>,
}

impl Fact {
    pub fn new(event: impl Into<Event>) -> Self {
        Self { of: None, event: event.into(), notes: Notes::default(), settles: None }
    }

    /// An outcome of the intent at `of`.
    pub fn of(of: Seq, event: impl Into<Event>) -> Self {
        Self { of: Some(of), event: event.into(), notes: Notes::default(), settles: None }
    }

    pub fn settling(self, settles: Option<MessageId>) -> Self {
        Self { settles, ..self }
    }

    pub fn with_notes(self, notes: Notes) -> Self {
        Self { notes, ..self }
    }
}

/// All events, by concern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Session(Session),
    Turn(Turn),
    Model(Model),
    Tool(Tool),
    Permission(Permission),
    Compaction(Compaction),
    Subagent(Subagent),
    Todo(Todo),
    Files(Files),
    Hook(Hook),
}

impl Event {
    /// The session from which a session with this first event comes: a subagent from its parent, a fork from the
    /// session that it shares events with.
    pub fn comes_from(&self) -> Option<SessionId> {
        if let Self::Session(event) = self { event.comes_from() } else { None }
    }

    /// Whether this is an intent, decided by [`next`](crate::next()), rather than a fact. Every
    /// variant is named here, so that a new one does not compile before it is classified.
    pub fn is_intent(&self) -> bool {
        match self {
            Self::Session(event) => match event {
                Session::Created { .. }
                | Session::Titled { .. }
                | Session::Summarised { .. }
                | Session::Resumed { .. }
                | Session::ResumedImported { .. }
                | Session::Forked { .. }
                | Session::DeadlinePassed {}
                | Session::Adopted { .. }
                | Session::Imported { .. }
                | Session::Configured { .. }
                | Session::RulesSet { .. } => false,
            },
            Self::Turn(event) => match event {
                Turn::Ended(_) | Turn::Switched { .. } | Turn::Continued { .. } => true,
                Turn::Prompted { .. }
                | Turn::Configured(_)
                | Turn::Interrupted { .. }
                | Turn::Noted { .. } => false,
            },
            Self::Model(event) => match event {
                Model::Requested { .. } | Model::RetryScheduled { .. } => true,
                Model::Streamed { .. } | Model::Finished { .. } | Model::Failed { .. } => false,
            },
            Self::Tool(event) => match event {
                Tool::ResolveStarted { .. }
                | Tool::Started { .. }
                | Tool::StartedSandboxed(_)
                | Tool::Lost { .. }
                | Tool::Cancelled { .. }
                | Tool::Batched { .. }
                | Tool::ElicitationAnswered { .. } => true,
                Tool::Called { .. }
                | Tool::Resolved(_)
                | Tool::Progressed { .. }
                | Tool::Finished(_)
                | Tool::ElicitationRequested { .. }
                | Tool::InputStreamed { .. } => false,
            },
            Self::Permission(event) => match event {
                Permission::Ruled { .. } | Permission::Asked { .. } => true,
                Permission::Answered { .. } | Permission::AnsweredFor { .. } => false,
                Permission::RejectedWith { .. } => true,
            },
            Self::Compaction(event) => match event {
                Compaction::Started { .. } | Compaction::Pruned { .. } => true,
                Compaction::Finished { .. }
                | Compaction::Failed { .. }
                | Compaction::Asked { .. }
                | Compaction::AskedWith { .. } => false,
            },
            Self::Subagent(event) => match event {
                Subagent::Spawned { .. } => true,
                Subagent::EndedUncounted { .. } | Subagent::Ended { .. } => false,
            },
            Self::Todo(event) => match event {
                Todo::Updated { .. } => false,
            },
            Self::Files(event) => match event {
                Files::SnapshotStarted {} | Files::RestoreStarted { .. } => true,
                Files::Snapshotted { .. }
                | Files::SnapshotFailed { .. }
                | Files::SnapshotFailedAs { .. }
                | Files::RevertAsked { .. }
                | Files::UnrevertAsked { .. }
                | Files::Restored { .. }
                | Files::RestoreFailed { .. }
                | Files::RestoreFailedAs { .. }
                | Files::CheckoutAsked { .. }
                | Files::SnapshotsAccepted { .. } => false,
            },
            Self::Hook(event) => match event {
                Hook::Called { .. } => true,
                Hook::Returned { .. } => false,
            },
        }
    }

    /// The contents that this event names by hash. Stores and exports keep them beside it.
    pub fn payloads(&self) -> Vec<&Payload> {
        if let Self::Turn(Turn::Configured(configured)) = self {
            configured.payloads().to_vec()
        } else {
            Vec::new()
        }
    }

    /// The contents that this event names by hash, to be filled after decoding.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        if let Self::Turn(Turn::Configured(configured)) = self {
            configured.payloads_mut().into()
        } else {
            Vec::new()
        }
    }
}

macro_rules! concerns {
    ($($concern:ident),*) => {$(
        impl From<$concern> for Event {
            fn from(event: $concern) -> Self {
                Self::$concern(event)
            }
        }
    )*};
}
concerns!(Session, Turn, Model, Tool, Permission, Compaction, Subagent, Todo, Files, Hook);
