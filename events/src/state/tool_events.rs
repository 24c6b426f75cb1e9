//! How `tool.*` events change a call.

use std::sync::Arc;

use super::call::{Call, CallDisplay, Outcome, Phase};
use super::elicitation::Elicitation;
use super::message::{Reply, ReplyPart};
use super::{State, Wait, doom_loop, words};
use crate::event::{Class, DenialClass, Envelope, Finished, Resolution, Tool};
use crate::id::Seq;

impl State {
    /// The open call whose `tool.called` is `of`.
    pub(super) fn call_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        self.last_reply_mut()?.calls_mut().find(|call| Some(call.seq) == of && !call.is_done())
    }

    /// The call that waits for the outcome of the intent `of`; none once the turn is stopped.
    pub(super) fn waiting_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        if self.turn.as_ref().is_none_or(|turn| turn.stop.is_some()) {
            return None;
        }
        let waits =
            |call: &&mut Call| call.phase.wait().is_some_and(|wait| Some(wait.intent) == of);
        self.last_reply_mut()?.calls_mut().find(waits)
    }

    pub(super) fn apply_tool(&mut self, envelope: &Envelope, event: &Tool) {
        let of = envelope.of;
        match event {
            Tool::ResolveStarted { .. } => {
                if let Some(call) = self.call_mut(of) {
                    call.phase = Phase::Checking(Wait::for_event(envelope));
                }
            }
            Tool::Resolved(resolution) => self.resolved(of, resolution),
            Tool::Started { attempt, class, .. } => self.started(envelope, *class, *attempt),
            Tool::StartedSandboxed(started) => {
                self.started(envelope, started.class, started.attempt);
            }
            Tool::Progressed { tail } => {
                if let Some(call) = self.waiting_mut(of) {
                    call.tail.clone_from(tail);
                }
            }
            Tool::InputStreamed { calls } => {
                if self.streaming(envelope).is_some()
                    && let Some(turn) = &mut self.turn
                {
                    turn.writing.clone_from(calls);
                }
            }
            Tool::Called { call } => {
                if let Some(reply) = self.streaming(envelope) {
                    reply.parts.push(ReplyPart::Call(Box::new(Call::new(envelope.seq, call))));
                }
                if let Some(turn) = &mut self.turn {
                    turn.writing.retain(|writing| writing.id != call.id);
                }
            }
            Tool::Batched { call } => {
                let made = Call::new(envelope.seq, call);
                if self.is_by_prompt(of) {
                    return self.called_by_prompt(made);
                }
                if let Some(reply) = self.last_reply_mut() {
                    reply.parts.push(ReplyPart::Call(Box::new(Call { within: of, ..made })));
                }
            }
            Tool::ElicitationRequested { elicitation, from, message, wanted } => {
                if let Some(call) = self.waiting_mut(of).filter(|call| call.is_running()) {
                    call.elicitations.push(Elicitation::new(*elicitation, from, message, wanted));
                    call.elicited.insert(*elicitation);
                }
            }
            Tool::ElicitationAnswered { elicitation, .. } => {
                if let Some(call) = self.call_mut(of) {
                    call.elicitations.retain(|open| open.id != *elicitation);
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

    /// Dates the calls that the last event has ended.
    pub(super) fn date_ended_calls(&mut self) {
        let ends = |call: &Call| call.is_done() && call.ended.is_none();
        if !self.calls().any(ends) {
            return;
        }
        let at = self.at;
        let calls = self.last_reply_mut().into_iter().flat_map(Reply::calls_mut);
        for call in calls.filter(|call| ends(call)) {
            call.ended = Some(at);
        }
    }

    fn started(&mut self, envelope: &Envelope, class: Class, attempt: u32) {
        self.files.call_started(class, self.turn.as_ref());
        if let Some(call) = self.call_mut(envelope.of) {
            call.tail.clear();
            call.elicitations.clear();
            call.elicited.clear();
            call.started = Some(envelope.at);
            call.phase = Phase::Running { wait: Wait::for_event(envelope), attempt };
        }
    }

    /// A run has ended by itself.
    fn finished(&mut self, of: Option<Seq>, finished: &Finished) {
        self.seen.extend(seen(finished));
        self.instructed.extend(instructed(finished));
        let display =
            CallDisplay { title: finished.title.clone(), metadata: finished.metadata.clone() };
        if let Some(call) = self.waiting_mut(of).filter(|call| call.is_running()) {
            call.phase = Phase::Done(Box::new(Outcome {
                output: Arc::clone(&finished.output),
                is_error: finished.is_error,
                attachments: finished.attachments.clone(),
                shown: Some(Box::new(display)),
            }));
            call.ran = true;
            let agent = call.switches_to().filter(|_| !finished.is_error).map(str::to_owned);
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
        if self.calls().any(|call| call.seq == seq && self.is_doom_loop(call))
            && let Some(resolved) = self.call_mut(Some(seq)).and_then(|call| call.resolved.as_mut())
        {
            resolved.access.insert(0, doom_loop::access(&resolution.name));
        }
    }

    /// The deadline of a resolution, a question or a run has passed.
    pub(super) fn call_elapsed(&mut self, of: Seq) {
        let now = self.at;
        if let Some(call) = self.eliciting_mut(Some(of)) {
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
                self.deny(denial, DenialClass::Unanswered);
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

/// The files in a result's metadata `seen`, a map from paths to version stamps.
fn seen(finished: &Finished) -> Vec<(String, String)> {
    if !finished.metadata.as_str().contains("\"seen\"") {
        return Vec::new();
    }
    let metadata = finished.metadata.value();
    let stamps = metadata["seen"].as_object().into_iter().flatten();
    let texts = stamps.filter_map(|(path, stamp)| Some((path.clone(), stamp.as_str()?.to_owned())));
    texts.collect()
}

/// The instruction files in a result's metadata `instructions`, a list of paths.
fn instructed(finished: &Finished) -> Vec<String> {
    if !finished.metadata.as_str().contains("\"instructions\"") {
        return Vec::new();
    }
    let metadata = finished.metadata.value();
    let paths = metadata["instructions"].as_array().into_iter().flatten();
    paths.filter_map(|path| Some(path.as_str()?.to_owned())).collect()
}
