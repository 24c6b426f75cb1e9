//! A tool call of a reply, and how far it has come through check, rules, questions and run.

use serde::Serialize;

use super::Wait;
use super::elicitation::Elicitation;
use crate::event::{Access, Attachment, CallKind, Class, HookPoint, Resolution};
use crate::id::Seq;
use crate::json::Json;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The seq of its `tool.called`, which identifies it: the model's own ids repeat.
    pub seq: Seq,
    /// The model's id for it.
    pub id: String,
    pub name: String,
    pub input: Json,
    pub resolved: Option<Box<Resolution>>,
    pub phase: Phase,
    /// The last that a running tool has shown.
    pub tail: String,
    /// Its output is no longer sent.
    pub pruned: bool,
    /// The seq of the batch that brought it forth; the model does not know it as a call.
    pub within: Option<Seq>,
    /// What people said when they were asked about it, one for each of its accesses so far.
    pub answers: Vec<String>,
    /// What plugins have made of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Json>,
    /// A plugin has said that it is not to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vetoed: Option<Veto>,
    /// What it asks people while it runs; the first is being asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elicitations: Vec<Elicitation>,
    /// It has run to an end of its own.
    #[serde(skip)]
    pub(crate) ran: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Called,
    Checking(Wait),
    Resolved,
    /// A person is to be asked about the accesses from this one on.
    MustAsk {
        access: usize,
    },
    Asking {
        wait: Wait,
        access: usize,
    },
    Allowed,
    Running {
        wait: Wait,
        attempt: u32,
    },
    /// Its time is up and it is to be stopped.
    TimedOut {
        attempt: u32,
    },
    /// A crash came between start and outcome; attempt 0 never started.
    Unknown {
        attempt: u32,
    },
    Done(Box<Outcome>),
}

impl Phase {
    /// What the call waits for.
    pub(super) fn wait(&self) -> Option<Wait> {
        let (Self::Checking(wait) | Self::Asking { wait, .. } | Self::Running { wait, .. }) = self
        else {
            return None;
        };
        Some(*wait)
    }
}

/// What the model is told of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub output: String,
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
    /// Where plugins have a say in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Box<Shown>>,
}

/// What people are shown of a call that has run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shown {
    pub title: String,
    pub metadata: Json,
}

/// A call that a plugin will not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Veto {
    pub plugin: String,
    pub hook: HookPoint,
    pub reason: String,
}

impl Call {
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }

    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// Unknown before the check: then as dangerous as can be.
    pub fn class(&self) -> Class {
        self.resolved.as_ref().map_or(Class::Command, |resolved| resolved.class)
    }

    /// Plain before the check.
    pub fn kind(&self) -> &CallKind {
        self.resolved.as_ref().map_or(&CallKind::Plain, |resolved| &resolved.kind)
    }

    pub fn access(&self) -> &[Access] {
        self.resolved.as_ref().map_or(&[], |resolved| &resolved.access)
    }

    /// The attempt that is or was under way; 0 before the first.
    pub fn attempt(&self) -> u32 {
        match &self.phase {
            Phase::Running { attempt, .. }
            | Phase::TimedOut { attempt }
            | Phase::Unknown { attempt } => *attempt,
            Phase::Called
            | Phase::Checking(_)
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Asking { .. }
            | Phase::Allowed
            | Phase::Done(_) => 0,
        }
    }

    pub(super) fn done(&mut self, output: String, is_error: bool) {
        let (attachments, shown) = (Vec::new(), None);
        self.phase = Phase::Done(Box::new(Outcome { output, is_error, attachments, shown }));
    }

    /// The crash-time view of a call: running and checking are as good as unknown. A question that
    /// the new node asks nobody (`asks` is false) is ruled anew.
    pub(super) fn forget(&mut self, close: bool, asks: bool) {
        let attempt = self.attempt();
        match &self.phase {
            Phase::Done(_) => {}
            _ if close => self.phase = Phase::Unknown { attempt },
            // its session has a log of its own, and goes on
            Phase::Running { .. } if self.class() == Class::Child => {}
            Phase::Running { .. } => self.phase = Phase::Unknown { attempt },
            Phase::Checking(_) => self.phase = Phase::Called,
            Phase::Asking { .. } if !asks => self.phase = Phase::Resolved,
            Phase::Called
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Asking { .. }
            | Phase::Allowed
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. } => {}
        }
    }
}
