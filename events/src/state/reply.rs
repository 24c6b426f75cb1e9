//! How `model.*` events change the state.

use std::collections::BTreeSet;

use super::message::{Message, Reply, ReplyEnd, ReplyPart};
use super::{Call, Failure, ModelStatus, State, Titling, Turn, Wait, Writing, files, words};
use crate::event::{
    CallSpec, Cost, Envelope, FailureClass, Finish, Model, ModelRef, PartKind, Purpose,
    StreamedPart, Usage,
};
use crate::id::Seq;

/// The policy since which text is trimmed at its end.
pub(crate) const TRIMS: u16 = 6;

/// The policy since which the text of an interrupted reply stays in later requests.
pub(super) const KEEPS_INTERRUPTED: u16 = 5;

impl State {
    pub(super) fn apply_model(&mut self, envelope: &Envelope, event: &Model) {
        match event {
            Model::Requested { model, step, attempt, purpose, .. } => {
                self.requested(envelope, model, (*step, *attempt), *purpose);
            }
            Model::RetryScheduled { .. } => {
                self.retries(Wait::for_event(envelope));
            }
            Model::Streamed { parts } => {
                if let Some(reply) = self.streaming(envelope) {
                    parts.iter().for_each(|part| reply.append(part));
                }
            }
            Model::Finished { finish, usage, cost, .. } => {
                self.replied(envelope.of, *finish, *usage, *cost);
                self.heed_cost();
            }
            Model::Failed { class, message, retryable, retry_after, .. } => {
                let failure = Failure {
                    class: *class,
                    message: message.clone(),
                    retryable: *retryable,
                    retry_after: *retry_after,
                };
                self.request_failed(envelope.of, failure);
            }
        }
    }

    fn retries(&mut self, wait: Wait) {
        let Some(turn) = &mut self.turn else { return };
        if let ModelStatus::Compacting(c) = &mut turn.model_status {
            c.writing = Writing::Backoff(wait);
            return;
        }
        let answered = matches!(turn.model_status, ModelStatus::Answered { .. });
        turn.model_status = ModelStatus::Backoff(wait);
        if answered {
            // a reply without the calls that it announced is abandoned, as a failed attempt is
            turn.uncalled += 1;
            self.drop_reply();
        }
    }

    /// The turn goes on by itself after the last reply.
    pub(super) fn continued(&mut self, seq: Seq, finish: Finish, note: &str) {
        let has_calls = self.calls().next().is_some();
        // a complete text instead of a structured answer is not continued
        let is_complete = finish == Finish::Stop && self.config.options.output.is_some();
        let cut = if has_calls || is_complete { String::new() } else { self.answer() };
        let Some(turn) = &mut self.turn else { return };
        if is_complete {
            turn.output_failures += 1;
        } else if has_calls {
            turn.cut_calls += 1;
        } else {
            turn.continued += 1;
        }
        turn.cut = cut;
        turn.model_status = ModelStatus::Due;
        self.messages.push(Message::Note { text: note.to_owned(), of: seq });
    }

    fn requested(
        &mut self,
        envelope: &Envelope,
        model: &ModelRef,
        count: (u32, u32),
        purpose: Purpose,
    ) {
        let last = self.on_last_step();
        if purpose == Purpose::Turn && count.1 == 1 {
            self.count_refused_output();
        }
        let Some(turn) = &mut self.turn else { return };
        let wait = Wait::for_event(envelope);
        match (purpose, &mut turn.model_status) {
            (Purpose::Compaction, ModelStatus::Compacting(c)) => {
                c.attempt = count.1;
                c.started.until = wait.until;
                c.writing = Writing::Waiting(wait);
            }
            (Purpose::Title, _) => turn.title = Titling::Waiting(wait),
            (Purpose::SessionSummary, _) => turn.session_summary = Titling::Waiting(wait),
            (Purpose::Turn, _) => {
                (turn.step, turn.attempt) = count;
                self.plugins.requested(turn.asked, envelope.seq);
                turn.asked = envelope.seq;
                self.files.border(envelope.seq);
                if self.policy >= files::SNAPSHOT_EACH_STEP {
                    self.files.fresh = false;
                }
                turn.model_status = ModelStatus::Waiting(wait);
                let mut reply = Reply::new(envelope.seq, model.clone(), last);
                reply.continues.clone_from(&turn.cut);
                self.messages.push(Message::Assistant(reply));
            }
            (Purpose::Compaction, _) => {}
        }
    }

    /// The reply that a piece belongs to. A piece extends the request's deadline.
    pub(super) fn streaming(&mut self, envelope: &Envelope) -> Option<&mut Reply> {
        let until = self.at.plus(self.config.options.timeout);
        let turn = self.turn.as_mut().filter(|turn| turn.awaits_reply(envelope.of))?;
        match &mut turn.model_status {
            ModelStatus::Waiting(wait) => wait.until = until,
            ModelStatus::Compacting(c) => {
                if let Writing::Waiting(request) = &mut c.writing {
                    (c.started.until, request.until) = (until, until);
                }
                return None;
            }
            ModelStatus::Due
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Backoff(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => return None,
        }
        self.last_reply_mut()
    }

    fn replied(&mut self, of: Option<Seq>, finish: Finish, usage: Usage, cost: Cost) {
        let whole = self.wants_whole_summary();
        let wanted = |turn: &&mut Turn| turn.awaits_reply(of) || turn.awaits_text_about_session(of);
        let Some(turn) = self.turn.as_mut().filter(wanted) else { return };
        turn.usage += usage;
        turn.cost += cost;
        self.usage += usage;
        self.cost += cost;
        if turn.end_text_about_session(of) {
            return;
        }
        if let ModelStatus::Compacting(c) = &mut turn.model_status {
            c.written(finish, whole);
            return;
        }
        turn.model_status = ModelStatus::Answered { finish };
        turn.writing.clear();
        turn.cut.clear();
        let has_calls = self.calls().next().is_some();
        let is_answer = !self.last_reply().is_some_and(Reply::is_reasoning_alone);
        if let Some(turn) = &mut self.turn {
            turn.counts(finish, has_calls, is_answer);
        }
        let trims = self.policy >= TRIMS && !finish.is_cut_off();
        if let Some(reply) = self.last_reply_mut() {
            reply.end = ReplyEnd::Whole(finish);
            reply.usage = usage;
            if trims {
                reply.trim();
            }
        }
        if !self.overflows()
            && let Some(turn) = &mut self.turn
        {
            turn.compactions = 0;
        }
    }

    /// The request at `of` has failed. Calls that are already logged remain.
    pub(super) fn request_failed(&mut self, of: Option<Seq>, failure: Failure) {
        let wanted = |turn: &&mut Turn| turn.awaits_reply(of) || turn.awaits_text_about_session(of);
        let Some(turn) = self.turn.as_mut().filter(wanted) else { return };
        if turn.end_text_about_session(of) {
            return;
        }
        if let ModelStatus::Compacting(c) = &mut turn.model_status {
            c.failed(failure);
            return;
        }
        turn.writing.clear();
        turn.model_status = ModelStatus::Failed(failure);
        self.close_reply();
        self.heed_refused_image();
    }

    /// After a refused image, no image of the conversation is sent again. If there was one, the request is worth a retry
    /// at once.
    fn heed_refused_image(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let ModelStatus::Failed(failure) = &mut turn.model_status else { return };
        if failure.class != FailureClass::Image {
            return;
        }
        let has_images = |message: &Message| message.images() > 0;
        failure.retryable = self.messages.iter().any(has_images);
        if failure.retryable {
            failure.retry_after = Some(0);
            failure.message = words::refused_image(&failure.message);
        }
        self.messages.change(has_images).for_each(Message::drop_images);
    }

    /// Ends a streaming reply. With calls, its complete parts stay. Without calls, the attempt is
    /// abandoned.
    pub(super) fn close_reply(&mut self) {
        let Some(at) = self.messages.iter().rposition(|m| m.reply().is_some()) else { return };
        let Some(reply) = self.messages[at].reply_mut().filter(|r| r.end == ReplyEnd::Open) else {
            return;
        };
        if reply.has_calls() {
            reply.cut();
        } else {
            self.messages.remove(at);
        }
    }

    /// Ends a streaming reply because its turn ends. With calls, its complete parts stay. Without,
    /// its text stays, and the model learns that it was interrupted there.
    pub(super) fn interrupt_reply(&mut self) {
        let keeps = self.policy >= KEEPS_INTERRUPTED;
        let Some(at) = self.messages.iter().rposition(|m| m.reply().is_some()) else { return };
        let Some(reply) = self.messages[at].reply().filter(|r| r.end == ReplyEnd::Open) else {
            return;
        };
        let (has_calls, has_text) = (reply.has_calls(), !reply.text().trim().is_empty());
        let Some(reply) = self.last_reply_mut() else { return };
        if has_calls {
            reply.cut();
        } else if keeps && has_text {
            reply.end = ReplyEnd::Interrupted;
            reply.parts.retain(|part| matches!(part, ReplyPart::Text { .. }));
            let text = words::INTERRUPTED_REPLY.to_owned();
            self.messages.insert(at + 1, Message::Note { text, of: self.seq });
        } else {
            // kept for the turn's answer, omitted from every request
            reply.end = ReplyEnd::Cut;
        }
    }

    /// Removes the last reply.
    fn drop_reply(&mut self) {
        let Some(at) = self.messages.iter().rposition(|m| m.reply().is_some()) else { return };
        self.messages.remove(at);
    }

    pub(super) fn request_elapsed(&mut self, of: Seq) {
        let silent = Failure::silent(self.config.options.timeout);
        self.request_failed(Some(of), silent);
    }
}

impl Titling {
    fn waits_for(&self, of: Option<Seq>) -> bool {
        matches!(self, Self::Waiting(wait) if Some(wait.intent) == of)
    }
}

impl Failure {
    /// The provider has sent nothing for `millis` milliseconds.
    pub(super) fn silent(millis: u64) -> Self {
        Self {
            class: FailureClass::Stalled,
            message: words::silent(millis),
            retryable: true,
            retry_after: None,
        }
    }
}

impl Turn {
    /// A reply is complete: it begins the counts anew that it does not continue.
    fn counts(&mut self, finish: Finish, has_calls: bool, is_answer: bool) {
        let is_incomplete = matches!(finish, Finish::Length | Finish::Other) || !is_answer;
        if has_calls || !is_incomplete {
            self.continued = 0;
        }
        if !is_incomplete {
            self.cut_calls = 0;
        }
        if has_calls || finish != Finish::ToolCalls {
            self.uncalled = 0;
        }
    }

    /// Whether a reply is being written, so that more calls may come.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.model_status, ModelStatus::Waiting(_))
    }

    /// Whether `of` is the pending request for the session's title or summary.
    fn awaits_text_about_session(&self, of: Option<Seq>) -> bool {
        self.stop.is_none() && (self.title.waits_for(of) || self.session_summary.waits_for(of))
    }

    /// Ends the request `of` for the session's title or summary. False if it is another request.
    pub(super) fn end_text_about_session(&mut self, of: Option<Seq>) -> bool {
        if !self.awaits_text_about_session(of) {
            return false;
        }
        for text in [&mut self.title, &mut self.session_summary] {
            if text.waits_for(of) {
                *text = Titling::Over;
            }
        }
        true
    }

    fn awaits_reply(&self, of: Option<Seq>) -> bool {
        let waiting = match &self.model_status {
            ModelStatus::Waiting(wait) => Some(wait.intent),
            ModelStatus::Compacting(c) => c.request().map(|wait| wait.intent),
            ModelStatus::Due
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Backoff(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => None,
        };
        self.stop.is_none() && waiting.is_some() && waiting == of
    }
}

impl Reply {
    fn append(&mut self, piece: &StreamedPart) {
        let known = self.parts.iter_mut().rev().find(|part| part.is(piece));
        match known {
            Some(ReplyPart::Text { text, .. }) => text.push_str(&piece.text),
            Some(ReplyPart::Reasoning { text, signature, redacted, .. }) => {
                text.push_str(&piece.text);
                *redacted |= piece.redacted;
                if piece.signature.is_some() {
                    signature.clone_from(&piece.signature);
                }
            }
            Some(ReplyPart::Call(_)) | None => self.parts.push(ReplyPart::begin(piece)),
        }
    }

    /// Removes white space at the end of its last text.
    fn trim(&mut self) {
        let last = self.parts.iter_mut().rev().find_map(|part| match part {
            ReplyPart::Text { text, .. } => Some(text),
            ReplyPart::Reasoning { .. } | ReplyPart::Call(_) => None,
        });
        if let Some(text) = last {
            text.truncate(text.trim_end().len());
        }
    }

    /// Keeps the complete parts: text before a call, signed reasoning, calls.
    pub(super) fn cut(&mut self) {
        self.end = ReplyEnd::Cut;
        let calls = self.parts.iter().rposition(|part| matches!(part, ReplyPart::Call(_)));
        self.parts.truncate(calls.map_or(0, |last| last + 1));
        self.parts.retain(|part| !matches!(part, ReplyPart::Reasoning { signature: None, .. }));
    }
}

impl ReplyPart {
    fn begin(piece: &StreamedPart) -> Self {
        let (id, text) = (piece.id.clone(), piece.text.clone());
        match piece.kind {
            PartKind::Text => Self::Text { id, text },
            PartKind::Reasoning => Self::Reasoning {
                id,
                text,
                signature: piece.signature.clone(),
                redacted: piece.redacted,
            },
        }
    }

    fn is(&self, piece: &StreamedPart) -> bool {
        match self {
            Self::Text { id, .. } => piece.kind == PartKind::Text && *id == piece.id,
            Self::Reasoning { id, .. } => piece.kind == PartKind::Reasoning && *id == piece.id,
            Self::Call(_) => false,
        }
    }
}

impl Call {
    pub(super) fn new(seq: Seq, spec: &CallSpec) -> Self {
        Self {
            seq,
            id: spec.id.clone(),
            name: spec.name.clone(),
            input: spec.input.clone(),
            resolved: None,
            phase: super::Phase::Called,
            tail: String::new(),
            pruned: false,
            within: None,
            answers: Vec::new(),
            changed: None,
            vetoed: None,
            elicitations: Vec::new(),
            elicited: BTreeSet::new(),
            started: None,
            ended: None,
            ran: false,
        }
    }
}
