//! The events of a log, one file per concern.
//!
//! Invariant: every variant is always a **fact** (the session was told it) or always an **intent**
//! (the session decided it); [`Event::is_intent`] does not depend on fields. Enums grow at the end,
//! because the log stores variants by position.

/// Defines the events of one concern. The word before a variant says whether it is a `fact` or an `intent`. `texts` lists
/// its fields that people, models or tools wrote, in which secrets are replaced and tokens masked.
macro_rules! events {
    (
        $(#[$of_concern:meta])*
        pub enum $concern:ident {$(
            $(#[$of_event:meta])*
            $kind:ident $event:ident $({ $($fields:tt)* })? $(( $content:ty ))? $(texts [ $($text:tt),+ ])?,
        )+}
    ) => {
        $(#[$of_concern])*
        pub enum $concern {$(
            $(#[$of_event])*
            $event $({ $($fields)* })? $(( $content ))?,
        )+}

        impl $concern {
            pub(crate) fn is_intent(&self) -> bool {
                match self {$( Self::$event { .. } => events!(@$kind), )+}
            }
        }

        impl $crate::rewrite::Texts for $concern {
            #[allow(irrefutable_let_patterns, reason = "a concern may have one event")]
            fn rewrite(&mut self, how: &impl $crate::rewrite::Rewrite) {
                $($($(
                    if let Self::$event { $text: text, .. } = self {
                        text.rewrite(how);
                    }
                )+)?)+
            }
        }
    };
    (@fact) => { false };
    (@intent) => { true };
}

mod compaction;
mod files;
mod hook;
mod model;
mod notes;
mod permission;
mod sandbox;
mod session;
mod subagent;
mod texts;
mod todo;
mod tool;
mod turn;

pub use compaction::Compaction;
pub use files::{Change, FileChange, Files, FilesFailure, Saved};
pub use hook::{Hook, HookOutcome, HookPoint};
pub use model::{
    CallSpec, Cost, FailureClass, Finish, Model, ModelRef, PartKind, Purpose, StreamedPart, Usage,
};
pub use notes::{Exchange, NoteMembers, NoteTooLarge, Notes, Owner, Record, SlashCommand};
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
use crate::rewrite::{Rewrite, Texts};
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
    /// The event that this one answers or concerns. An event that concerns no other stands for itself.
    pub fn concerned(&self) -> Seq {
        self.of.unwrap_or(self.seq)
    }

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
    pub fn for_intent(of: Seq, event: impl Into<Event>) -> Self {
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
    ($($concern:ident),*) => {
        impl Event {
            /// Whether this is an intent, decided by [`next`](crate::next()), rather than a fact.
            pub fn is_intent(&self) -> bool {
                match self {$( Self::$concern(event) => event.is_intent(), )*}
            }
        }

        impl Texts for Event {
            fn rewrite(&mut self, how: &impl Rewrite) {
                match self {$( Self::$concern(event) => event.rewrite(how), )*}
            }
        }

        $(impl From<$concern> for Event {
            fn from(event: $concern) -> Self {
                Self::$concern(event)
            }
        })*
    };
}
concerns!(Session, Turn, Model, Tool, Permission, Compaction, Subagent, Todo, Files, Hook);
