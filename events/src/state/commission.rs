//! Work that a prompt has another agent do before its own model answers: a call of `task` that no
//! model has made (SPEC L10).

use serde::Serialize;
use serde_json::json;

use super::message::{Message, Reply, ReplyEnd, ReplyPart};
use super::{Call, State};
use crate::event::{CallSpec, Finish, PromptKind, PromptPart};
use crate::id::Seq;
use crate::json::Json;

/// The tool that does it.
const TASK: &str = "task";
/// Characters of what was typed that name the task.
const ABOUT: usize = 60;

/// One such piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commission {
    pub prompt: Seq,
    pub agent: String,
    pub task: String,
    /// For people.
    pub about: String,
}

impl Commission {
    /// What the prompt at `seq` asks for.
    pub(super) fn all_of(seq: Seq, parts: &[PromptPart]) -> impl Iterator<Item = Self> {
        let typed = parts.iter().find(|part| part.kind == PromptKind::Text);
        let line = typed.and_then(|part| part.text.lines().next()).unwrap_or_default();
        let about: String = line.trim().chars().take(ABOUT).collect();
        parts.iter().filter(|part| part.kind == PromptKind::Task).map(move |part| Self {
            prompt: seq,
            agent: part.name.clone().unwrap_or_default(),
            task: part.text.clone(),
            about: about.clone(),
        })
    }

    /// The call that has it done, as the event at `seq`.
    pub(crate) fn call(&self, seq: Seq) -> CallSpec {
        let Self { agent, task, about, .. } = self;
        let input = json!({ "description": about, "prompt": task, "subagentType": agent });
        CallSpec {
            id: format!("{TASK}_{seq}"),
            name: TASK.to_owned(),
            input: Json::from_value(&input),
        }
    }
}

impl State {
    /// Whether a call at `of` is one that a prompt brings forth.
    pub(super) fn is_commissioned(&self, of: Option<Seq>) -> bool {
        let next = self.turn.as_ref().and_then(|turn| turn.commissions.first());
        next.is_some_and(|commission| Some(commission.prompt) == of)
    }

    /// Stands in the conversation as if the model had made the call.
    pub(super) fn commissioned(&mut self, call: Call) {
        if let Some(turn) = &mut self.turn {
            turn.commissions.remove(0);
        }
        let usage = self.last_reply().map(|reply| reply.usage).unwrap_or_default();
        let reply = Reply {
            end: ReplyEnd::Whole(Finish::ToolCalls),
            usage,
            by_prompt: true,
            parts: vec![ReplyPart::Call(Box::new(call))],
            ..Reply::new(self.seq, self.kit.model.name(), false)
        };
        self.messages.push(Message::Assistant(reply));
    }
}
