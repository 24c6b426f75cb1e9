//! A call's way through check, rules, questions and run, and how `tool.*` events move it on.

use serde::Serialize;

use super::heard::Shown;
use super::inquiry::Inquiry;
use super::message::ReplyPart;
use super::open::Wait;
use super::{State, Veto, repeat, words};
use crate::event::{Access, Attachment, Class, Envelope, Finished, Resolution, Tool};
use crate::id::Seq;
use crate::json::Json;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The seq of its `model.called`, which identifies it: the model's own ids repeat.
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
    pub inquiries: Vec<Inquiry>,
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

impl State {
    /// The open call whose `model.called` is `of`.
    pub(super) fn call_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        self.last_reply_mut()?.calls_mut().find(|call| Some(call.seq) == of && !call.is_done())
    }

    /// The call that waits for the outcome of the intent `of`; none once the turn is stopped.
    pub(super) fn waiting_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        if self.turn.as_ref().is_none_or(|turn| turn.stop.is_some()) {
            return None;
        }
        self.last_reply_mut()?.calls_mut().find(|call| match &call.phase {
            Phase::Checking(wait) | Phase::Asking { wait, .. } | Phase::Running { wait, .. } => {
                Some(wait.intent) == of
            }
            Phase::Called
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Allowed
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. }
            | Phase::Done(_) => false,
        })
    }

    pub(super) fn apply_tool(&mut self, envelope: &Envelope, event: &Tool) {
        let of = envelope.of;
        match event {
            Tool::Checked { .. } => {
                if let Some(call) = self.call_mut(of) {
                    call.phase = Phase::Checking(Wait::of(envelope));
                }
            }
            Tool::Resolved(resolution) => self.resolved(of, resolution),
            Tool::Started { attempt, class, .. } => {
                self.files.call_started(*class, self.turn.as_ref());
                if let Some(call) = self.call_mut(of) {
                    call.tail.clear();
                    call.inquiries.clear();
                    call.phase = Phase::Running { wait: Wait::of(envelope), attempt: *attempt };
                }
            }
            Tool::Progressed { tail } => {
                if let Some(call) = self.waiting_mut(of) {
                    call.tail.clone_from(tail);
                }
            }
            Tool::Batched { call } => {
                let made = Call::new(envelope.seq, call);
                if self.is_commissioned(of) {
                    return self.commissioned(made);
                }
                if let Some(reply) = self.last_reply_mut() {
                    reply.parts.push(ReplyPart::Call(Box::new(Call { within: of, ..made })));
                }
            }
            Tool::Inquired { inquiry, from, message, wanted } => {
                if let Some(call) = self.waiting_mut(of).filter(|call| call.is_running()) {
                    call.inquiries.push(Inquiry::new(*inquiry, from, message, wanted));
                }
            }
            Tool::Replied { inquiry, .. } => {
                if let Some(call) = self.call_mut(of) {
                    call.inquiries.retain(|open| open.id != *inquiry);
                }
            }
            Tool::Finished(finished) => self.finished(of, finished),
            Tool::Lost { attempt, .. } => {
                if let Some(call) = self.call_mut(of) {
                    let told = if *attempt == 0 { words::NEVER_STARTED } else { words::LOST };
                    call.done(told.to_owned(), true);
                }
            }
            Tool::Cancelled { .. } => {
                let stopped = self.turn.as_ref().is_none_or(|turn| turn.stop.is_some());
                if let Some(call) = self.call_mut(of) {
                    call.done(call.cancelled(stopped), true);
                }
            }
        }
    }

    /// A run has come to an end of its own.
    fn finished(&mut self, of: Option<Seq>, finished: &Finished) {
        self.seen.extend(seen(finished));
        self.instructed.extend(instructed(finished));
        let shown = self.shown(finished);
        if let Some(call) = self.waiting_mut(of).filter(|call| call.is_running()) {
            call.phase = Phase::Done(Box::new(Outcome {
                output: finished.output.clone(),
                is_error: finished.is_error,
                attachments: finished.attachments.clone(),
                shown,
            }));
            call.ran = true;
            let agent = call.switches_to().filter(|_| !finished.is_error);
            let costs = call.class() == Class::Child;
            self.take_over(agent);
            if costs {
                self.heed_cost();
            }
        }
    }

    fn resolved(&mut self, of: Option<Seq>, resolution: &Resolution) {
        let Some(call) = self.waiting_mut(of).filter(|c| matches!(c.phase, Phase::Checking(_)))
        else {
            return;
        };
        call.resolved = Some(Box::new(resolution.clone()));
        if let Some(error) = &resolution.error {
            call.done(error.clone(), true);
            return;
        }
        call.phase = Phase::Resolved;
        let seq = call.seq;
        if self.calls().any(|call| call.seq == seq && self.repeats(call))
            && let Some(resolved) = self.call_mut(Some(seq)).and_then(|call| call.resolved.as_mut())
        {
            resolved.access.insert(0, repeat::access(&resolution.name));
        }
    }

    /// The wait of a check, a question or a run is over.
    pub(super) fn call_elapsed(&mut self, of: Seq) {
        let now = self.at;
        if let Some(call) = self.inquiring_mut(Some(of)) {
            return call.unheard(now);
        }
        let Some(call) = self.waiting_mut(Some(of)) else { return };
        match call.phase {
            Phase::Checking(_) => call.done(words::check_timed_out(), true),
            Phase::Running { attempt, .. } => call.phase = Phase::TimedOut { attempt },
            Phase::Asking { access: at, .. } => {
                let Some(access) = call.access().get(at).cloned() else { return };
                let told = words::unanswered(&access.permission, &access.patterns);
                let denial = call.denial(&access, "nobody answered");
                call.done(told, true);
                self.deny(denial);
            }
            Phase::Called
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Allowed
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. }
            | Phase::Done(_) => {}
        }
    }
}

/// The files that a tool has told of with its result: metadata `seen`, from paths to stamps.
fn seen(finished: &Finished) -> Vec<(String, String)> {
    if !finished.metadata.as_str().contains("\"seen\"") {
        return Vec::new();
    }
    let metadata = finished.metadata.value();
    let stamps = metadata["seen"].as_object().into_iter().flatten();
    let texts = stamps.filter_map(|(path, stamp)| Some((path.clone(), stamp.as_str()?.to_owned())));
    texts.collect()
}

/// The files with instructions that a result has told of: metadata `instructions`, a list of paths.
fn instructed(finished: &Finished) -> Vec<String> {
    if !finished.metadata.as_str().contains("\"instructions\"") {
        return Vec::new();
    }
    let metadata = finished.metadata.value();
    let paths = metadata["instructions"].as_array().into_iter().flatten();
    paths.filter_map(|path| Some(path.as_str()?.to_owned())).collect()
}
