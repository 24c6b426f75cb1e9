//! A compaction in progress, and how `compaction.*` events change the state.

use serde::Serialize;

use super::message::{Message, Prompt, Reply};
use super::{Call, Failure, ModelStatus, State, Turn, Wait, words};
use crate::event::{Compaction, Envelope, FailureClass, Finish, PromptKind, Usage};
use crate::id::Seq;

/// The policy since which a summary that was cut off is refused.
const WHOLE_SUMMARY: u16 = 6;

/// The policy since which the prompt of the running turn stays as it was written.
const KEEPS_PROMPT: u16 = 7;

/// A compaction in progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compacting {
    /// Since `compaction.started`, and until the deadline of the current request.
    pub started: Wait,
    /// Everything up to and including this seq is to be replaced.
    pub through: Seq,
    /// Whether replies after `through` stay; otherwise only prompts do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_replies: bool,
    /// Whether it started without a person's request.
    pub auto: bool,
    /// A person's instructions for the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Requests for the summary so far.
    pub attempt: u32,
    pub writing: Writing,
    /// The number of these requests that did not fit the model's context.
    pub overflows: u32,
    /// The number of summaries that were cut off.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut: u32,
    /// Whether the provider refused the turn's own request because it did not fit.
    pub refused: bool,
    /// The model status to return to afterwards.
    pub then: Box<ModelStatus>,
}

/// The status of the request for a summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writing {
    Due,
    Waiting(Wait),
    /// The model has answered. The summary follows.
    Written,
    Failed(Failure),
    /// The reply ended in this way before the summary was complete.
    CutOff(Finish),
    /// A retry is scheduled.
    Backoff(Wait),
}

impl State {
    pub(super) fn apply_compaction(&mut self, envelope: &Envelope, event: &Compaction) {
        match event {
            Compaction::Asked { .. } => self.compaction_asked(envelope, None),
            Compaction::AskedWith { instructions, .. } => {
                self.compaction_asked(envelope, Some(instructions.clone()));
            }
            Compaction::Started { through, auto } => self.compacts(envelope, *through, *auto),
            Compaction::Finished { summary } => self.summarised(envelope.of, summary),
            Compaction::Failed { message } => self.not_summarised(envelope.of, message),
            Compaction::Pruned { calls } => {
                let pruned = |call: &Call| calls.contains(&call.seq);
                let of = |message: &Message| {
                    message.reply().is_some_and(|reply| reply.calls().any(pruned))
                };
                let replies = self.messages.change(of).filter_map(Message::reply_mut);
                for call in replies.flat_map(Reply::calls_mut) {
                    if pruned(call) {
                        call.prune();
                    }
                }
            }
        }
    }

    fn compaction_asked(&mut self, envelope: &Envelope, instructions: Option<String>) {
        self.files.turn_begins();
        let turn = self.turn.get_or_insert_with(|| Turn::for_compaction(envelope));
        turn.compact = true;
        turn.compact_with = instructions;
    }

    fn compacts(&mut self, envelope: &Envelope, through: Seq, auto: bool) {
        let answers = self.last_reply().filter(|reply| reply.has_calls()).map(|reply| reply.asked);
        let Some(turn) = &mut self.turn else { return };
        turn.compactions += u32::from(auto);
        turn.compact = false;
        let refused = matches!(turn.model_status, ModelStatus::Failed(_));
        let (before, known) = if let ModelStatus::Compacting(c) = &turn.model_status {
            (&*c.then, c.instructions.clone())
        } else {
            (&turn.model_status, None)
        };
        let instructions = turn.compact_with.take().or(known);
        // the model has not received these results yet, so the turn continues
        let owes = answers.is_some_and(|asked| asked > turn.prompted);
        let then = match before {
            ModelStatus::Failed(_) | ModelStatus::Again => ModelStatus::Again,
            ModelStatus::Answered { finish } if !auto && !owes => {
                ModelStatus::Answered { finish: *finish }
            }
            ModelStatus::Due
            | ModelStatus::Waiting(_)
            | ModelStatus::Answered { .. }
            | ModelStatus::Backoff(_)
            | ModelStatus::Compacting(_)
            | ModelStatus::CompactionFailed { .. } => ModelStatus::Due,
        };
        turn.model_status = ModelStatus::Compacting(Compacting {
            started: Wait::for_event(envelope),
            through,
            keeps_replies: self.config.options.tail.is_some(),
            auto,
            instructions,
            attempt: 0,
            writing: Writing::Due,
            overflows: 0,
            cut: 0,
            refused,
            then: Box::new(then),
        });
    }

    fn summing_up(&mut self, of: Option<Seq>) -> Option<(&mut Turn, Compacting)> {
        let turn = self.turn.as_mut().filter(|turn| turn.stop.is_none())?;
        let compacting = turn.compacting().filter(|c| Some(c.started.intent) == of)?.clone();
        Some((turn, compacting))
    }

    fn summarised(&mut self, of: Option<Seq>, summary: &str) {
        let said = self.answer();
        let Some((turn, compacting)) = self.summing_up(of) else { return };
        let (through, refused) = (compacting.through, compacting.refused);
        let asked = turn.asked;
        turn.said = said;
        turn.model_status = (*compacting.then).clone();
        let asks = !matches!(turn.model_status, ModelStatus::Answered { .. });
        self.files.summarised(through);
        let running = self.running_prompts(&compacting, asks);
        self.messages.retain(|message| !compacting.replaces(message));
        // they say how full the context was before
        let replies = self.messages.change(|message| message.reply().is_some());
        for reply in replies.filter_map(Message::reply_mut) {
            reply.usage = Usage::default();
        }
        if refused {
            // media may have been too large, so they are not sent again
            self.strip_media(asked);
        }
        let goes_on = asks && self.messages.is_empty();
        let reminder = self.reminder().filter(|_| self.planning);
        let text = summary.to_owned();
        let of = self.seq;
        let is_answer = |message: &Message| message.reply().is_some_and(|r| !r.has_calls());
        if asks && self.messages.iter().next_back().is_some_and(is_answer) {
            let text = words::GO_ON.to_owned();
            self.messages.push(Message::Note { text, of });
        }
        self.messages.insert(0, Message::Summary { text, goes_on, reminder, of });
        for prompt in running.into_iter().rev() {
            self.messages.insert(0, Message::User(prompt));
        }
        // the results that reported them are gone
        self.instructed.clear();
    }

    /// The prompts of the running turn among the summarised messages, if the turn goes on. Typed text stays as it was
    /// written, because a summary loses details; files are in the summary.
    fn running_prompts(&self, compacting: &Compacting, goes_on: bool) -> Vec<Prompt> {
        let since = self.turn.as_ref().map_or(Seq::MAX, |turn| turn.prompted);
        if !goes_on || self.policy < KEEPS_PROMPT {
            return Vec::new();
        }
        let prompts = self.messages.iter().filter(|message| compacting.replaces(message));
        let running = prompts.filter_map(Message::prompt).filter(|prompt| prompt.seq >= since);
        running.cloned().map(Prompt::without_files).collect()
    }

    /// The conversation stays unchanged. A turn with other work continues.
    fn not_summarised(&mut self, of: Option<Seq>, message: &str) {
        let Some((turn, compacting)) = self.summing_up(of) else { return };
        turn.model_status = if compacting.is_vital(turn) {
            ModelStatus::CompactionFailed { message: message.to_owned() }
        } else {
            *compacting.then
        };
    }

    /// Reduces prompts from before seq `asked` to their text.
    fn strip_media(&mut self, asked: Seq) {
        let sent = move |m: &Message| m.prompt().is_some_and(|prompt| prompt.seq < asked);
        let prompts = self.messages.change(sent).filter_map(Message::prompt_mut);
        let parts = prompts.flat_map(|prompt| &mut prompt.parts);
        for part in parts.filter(|part| part.kind == PromptKind::Media) {
            *part = words::media_part(part);
        }
    }

    /// Whether a summary whose reply was cut off is refused.
    pub fn wants_whole_summary(&self) -> bool {
        self.policy >= WHOLE_SUMMARY && !self.config.options.any_finish
    }

    /// Whether there is anything to summarise.
    pub fn has_past(&self) -> bool {
        self.messages.iter().any(|message| message.reply().is_some())
    }
}

/// For serde, which wants a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Compacting {
    /// Whether the summary takes the message's place.
    pub(crate) fn replaces(&self, message: &Message) -> bool {
        match message {
            Message::Summary { .. } => true,
            Message::User(prompt) => prompt.seq <= self.through,
            Message::Assistant(_) | Message::Note { .. } => {
                !self.keeps_replies || message.start() <= self.through
            }
        }
    }

    /// Whether the turn ends if there is no summary.
    pub(crate) fn is_vital(&self, turn: &Turn) -> bool {
        self.auto || turn.step == 0
    }

    /// The request for the summary is answered. Without `whole`, every end counts as complete.
    pub(super) fn written(&mut self, finish: Finish, whole: bool) {
        self.writing = Writing::Written;
        if whole && finish.is_cut_off() {
            self.cut += 1;
            self.writing = Writing::CutOff(finish);
        }
    }

    pub(super) fn failed(&mut self, failure: Failure) {
        self.overflows += u32::from(failure.class == FailureClass::Overflow);
        self.writing = Writing::Failed(failure);
    }

    /// A node has died: the current request is made again.
    pub(super) fn cut_off(&mut self) {
        if let Writing::Waiting(_) | Writing::Written = self.writing {
            self.writing = Writing::Due;
        }
    }

    pub(super) fn request(&self) -> Option<Wait> {
        if let Writing::Waiting(wait) = self.writing { Some(wait) } else { None }
    }

    /// The deadline of the intent `of` has passed.
    pub(super) fn elapsed(&mut self, of: Seq, silent: Failure) {
        let waits = matches!(self.writing, Writing::Waiting(_) | Writing::Written);
        match self.writing {
            Writing::Backoff(wait) if wait.intent == of => self.writing = Writing::Due,
            _ if waits && self.started.intent == of => self.failed(silent),
            Writing::Waiting(wait) if wait.intent == of => self.failed(silent),
            Writing::Due
            | Writing::Waiting(_)
            | Writing::Written
            | Writing::Failed(_)
            | Writing::CutOff(_)
            | Writing::Backoff(_) => {}
        }
    }
}

impl Turn {
    /// A turn that began only to write a summary.
    fn for_compaction(envelope: &Envelope) -> Self {
        let model_status = ModelStatus::Answered { finish: Finish::Stop };
        Self { asked: envelope.seq, model_status, ..Self::new(envelope) }
    }

    pub fn compacting(&self) -> Option<&Compacting> {
        if let ModelStatus::Compacting(compacting) = &self.model_status {
            Some(compacting)
        } else {
            None
        }
    }
}
