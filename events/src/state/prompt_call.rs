//! Calls that a prompt makes before its model answers: subtasks for other agents (SPEC L10), and command
//! lines whose output becomes part of the prompt's text.

use serde_json::json;

use super::message::{Message, Prompt, PromptCall, Reply, ReplyEnd, ReplyPart};
use super::{Call, Phase, State, words};
use crate::event::{CallSpec, Finish, PromptKind, PromptPart};
use crate::id::Seq;
use crate::json::Json;

/// Characters of the prompt that describe a subtask to people.
const DESCRIPTION: usize = 60;

impl PromptCall {
    /// The calls of the prompt at `prompt`: commands first, because a subtask's text may hold their output.
    pub(super) fn all_of(prompt: Seq, parts: &[PromptPart]) -> impl Iterator<Item = Self> {
        [PromptKind::Command, PromptKind::Task].into_iter().flat_map(move |kind| {
            let of_kind = parts.iter().enumerate().filter(move |(_, part)| part.kind == kind);
            of_kind.map(move |(part, _)| Self { prompt, part, kind })
        })
    }

    /// The call as the event at `seq` makes it; `None` if `prompt` is not the one that asks for it.
    pub(crate) fn spec(self, prompt: &Prompt, seq: Seq) -> Option<CallSpec> {
        let part = prompt.parts.get(self.part)?;
        let (name, input) = if self.kind == PromptKind::Task {
            let is_task = |part: &&PromptPart| part.kind == PromptKind::Task;
            let earlier = prompt.parts[..self.part].iter().filter(is_task).count();
            let task = prompt.filled().into_iter().filter(|part| is_task(&part)).nth(earlier)?;
            let typed = prompt.parts.iter().find(|part| part.kind == PromptKind::Text);
            let line = typed.and_then(|part| part.text.lines().next()).unwrap_or_default();
            let description: String = line.trim().chars().take(DESCRIPTION).collect();
            let agent = part.name.clone().unwrap_or_default();
            let input =
                json!({ "description": description, "prompt": task.text, "subagentType": agent });
            ("task", input)
        } else {
            ("bash", json!({ "command": part.text }))
        };
        let id = format!("{name}_{seq}");
        Some(CallSpec { id, name: name.to_owned(), input: Json::from_value(&input) })
    }
}

impl State {
    /// The next call that a prompt of this turn makes.
    pub(crate) fn prompt_call(&self) -> Option<(PromptCall, CallSpec)> {
        let due = *self.turn.as_ref()?.prompt_calls.first()?;
        let prompts = self.messages.iter().rev().filter_map(Message::prompt);
        let prompt = prompts.into_iter().find(|prompt| prompt.seq == due.prompt)?;
        Some((due, due.spec(prompt, self.seq + 1)?))
    }

    /// Whether a call at `of` is one that a prompt makes.
    pub(super) fn is_by_prompt(&self, of: Option<Seq>) -> bool {
        let due = self.turn.as_ref().and_then(|turn| turn.prompt_calls.first());
        due.is_some_and(|due| Some(due.prompt) == of)
    }

    /// Stands in the conversation as if the model had made the call.
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

    /// Keeps the outcome of a prompt's command with the prompt. After every event: plugins may revise the
    /// outcome, and calls are done for many reasons.
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
