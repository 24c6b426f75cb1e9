//! Calls that a prompt makes before its model answers: subtasks for other agents, and
//! command lines whose output becomes part of the prompt's text.

use super::message::{Message, PromptCall, Reply, ReplyEnd, ReplyPart};
use super::{Call, Phase, State, words};
use crate::event::{Finish, PromptKind, PromptPart};
use crate::id::Seq;

impl PromptCall {
    /// The calls of the prompt at `prompt`: commands first, because a subtask's text may contain
    /// their output.
    pub(super) fn all_of(prompt: Seq, parts: &[PromptPart]) -> impl Iterator<Item = Self> {
        [PromptKind::Command, PromptKind::Task].into_iter().flat_map(move |kind| {
            let of_kind = parts.iter().enumerate().filter(move |(_, part)| part.kind == kind);
            of_kind.map(move |(part, _)| Self { prompt, part, kind })
        })
    }
}

impl State {
    /// Whether a call at `of` is one that a prompt makes.
    pub(super) fn is_by_prompt(&self, of: Option<Seq>) -> bool {
        let due = self.turn.as_ref().and_then(|turn| turn.prompt_calls.first());
        due.is_some_and(|due| Some(due.prompt) == of)
    }

    /// Whether a prompt has made the call, and no model.
    pub fn has_prompt_made(&self, call: &Call) -> bool {
        let mut replies = self.messages.iter().rev().filter_map(Message::reply);
        let reply = replies.find(|reply| reply.calls().any(|own| own.seq == call.seq));
        reply.is_some_and(|reply| reply.by_prompt.is_some())
    }

    /// Adds the call to the conversation as if the model had made it.
    pub(super) fn called_by_prompt(&mut self, call: Call) {
        let by_prompt = self.turn.as_mut().map(|turn| turn.prompt_calls.remove(0));
        let usage = self.last_reply().map(|reply| reply.usage).unwrap_or_default();
        let reply = Reply {
            end: ReplyEnd::Whole(Finish::ToolCalls),
            usage,
            by_prompt,
            parts: vec![ReplyPart::Call(Box::new(call))],
            ..Reply::new(self.seq, self.config.model.name(), false)
        };
        self.messages.push(Message::Assistant(reply));
    }

    /// Stores the output of a prompt's command with the prompt. It runs after every event, because
    /// plugins may change the outcome and calls end for many reasons.
    pub(super) fn keep_command_output(&mut self) {
        let Some(reply) = self.last_reply() else { return };
        let Some(of) = reply.by_prompt.filter(|of| of.kind == PromptKind::Command) else { return };
        let Some(Phase::Done(outcome)) = reply.calls().next().map(|call| &call.phase) else {
            return;
        };
        let output = match outcome.output.trim_end() {
            words::NO_OUTPUT => String::new(),
            output => output.to_owned(),
        };
        let is_prompt = |message: &Message| message.prompt().is_some_and(|p| p.seq == of.prompt);
        let known = self.messages.iter().rev().filter_map(Message::prompt);
        let known = known.into_iter().find(|prompt| prompt.seq == of.prompt);
        if known.is_some_and(|prompt| prompt.outputs.get(&of.part) == Some(&output)) {
            return;
        }
        for prompt in self.messages.change(is_prompt).filter_map(Message::prompt_mut) {
            prompt.outputs.insert(of.part, output.clone());
        }
    }
}
