//! A tool call of a reply, and its progress through resolution, rules, questions and run.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::elicitation::Elicitation;
use super::{Wait, words};
use crate::event::{Access, Attachment, CallKind, Class, HookPoint, Resolution};
use crate::id::Seq;
use crate::json::Json;
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The seq of its `tool.called`, which identifies it: the model's own ids can repeat.
    pub seq: Seq,
    /// The model's id of the call.
    pub id: String,
    pub name: String,
    pub input: Json,
    pub resolved: Option<Box<Resolution>>,
    pub phase: Phase,
    /// The last output of a running tool.
    pub tail: String,
    /// Whether its output is no longer sent.
    pub pruned: bool,
    /// The seq of the batch that created it. The model does not know it as a call.
    pub within: Option<Seq>,
    /// The answers of people to the questions about it, one for each of its accesses so far.
    pub answers: Vec<String>,
    /// The arguments as plugins have changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Json>,
    /// A plugin's veto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vetoed: Option<Veto>,
    /// The questions of its run to people; the first one is being asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elicitations: Vec<Elicitation>,
    /// The numbers of all questions of this run so far.
    #[serde(skip)]
    pub(crate) elicited: BTreeSet<u32>,
    /// When it last began to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended, whether it had run or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Whether it has run to its own end.
    #[serde(skip)]
    pub(crate) ran: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Called,
    Checking(Wait),
    Resolved,
    /// A person must be asked about the accesses from this index on.
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
    /// Its time limit has passed, and it must be stopped.
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
    /// The wait of the call for its next outcome.
    pub(crate) fn wait(&self) -> Option<Wait> {
        let (Self::Checking(wait) | Self::Asking { wait, .. } | Self::Running { wait, .. }) = self
        else {
            return None;
        };
        Some(*wait)
    }
}

/// The outcome of a call that the model gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub output: Arc<str>,
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
    /// The display for people of a call that has run, until its output is cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Box<CallDisplay>>,
}

/// The display for people of a call that has run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallDisplay {
    pub title: String,
    pub metadata: Json,
}

/// A plugin's veto of a call.
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

    /// The intent that started it, while it runs.
    pub fn run(&self) -> Option<Seq> {
        if let Phase::Running { wait, .. } = &self.phase { Some(wait.intent) } else { None }
    }

    /// The class. Before the resolution it is unknown and counts as the most dangerous one.
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

    /// The current or last attempt; 0 before the first.
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

    pub(super) fn done(&mut self, output: impl Into<Arc<str>>, is_error: bool) {
        let output = output.into();
        let (attachments, shown) = (Vec::new(), None);
        self.phase = Phase::Done(Box::new(Outcome { output, is_error, attachments, shown }));
    }

    /// The images of its result. Pruning does not change them: their number says which ones can be sent.
    pub(super) fn images(&self) -> impl Iterator<Item = &Attachment> {
        let outcome = if let Phase::Done(outcome) = &self.phase { Some(outcome) } else { None };
        outcome
            .map(|outcome| &outcome.attachments)
            .into_iter()
            .flatten()
            .filter(|file| file.mime.starts_with("image/"))
    }

    /// Replaces the images of its result by text.
    pub(super) fn drop_images(&mut self) {
        let Phase::Done(outcome) = &mut self.phase else { return };
        let (images, kept): (Vec<Attachment>, Vec<Attachment>) =
            std::mem::take(&mut outcome.attachments)
                .into_iter()
                .partition(|file| file.mime.starts_with("image/"));
        outcome.attachments = kept;
        for image in images {
            let words = words::media(&image.mime, &image.name);
            outcome.output = format!("{}\n{words}", outcome.output).into();
        }
    }

    /// Its output is no longer sent, and its display is not kept.
    pub(super) fn prune(&mut self) {
        self.pruned = true;
        if let Phase::Done(outcome) = &mut self.phase {
            outcome.shown = None;
        }
    }

    /// Changes the call after a crash: if it was running or being resolved, its outcome is unknown.
    /// If `asks` is false, the new node asks no questions, and an open question is ruled again.
    pub(super) fn forget(&mut self, close: bool, asks: bool) {
        let attempt = self.attempt();
        match &self.phase {
            Phase::Done(_) => {}
            _ if close => self.phase = Phase::Unknown { attempt },
            // its session has a log of its own and continues
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
