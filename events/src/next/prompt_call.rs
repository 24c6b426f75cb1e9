//! The calls that a prompt makes before a model answers it: subtasks for other agents, and command lines
//! whose output becomes part of the prompt's text.

use serde_json::json;

use super::intent;
use crate::event::{CallSpec, Envelope, PromptKind, PromptPart, Tool};
use crate::id::Seq;
use crate::json::Json;
use crate::state::{Message, Prompt, PromptCall, State, Turn};

/// The number of characters of the prompt that describe a subtask to people.
const DESCRIPTION: usize = 60;
/// The tools that perform a prompt's parts.
const TASK: &str = "task";
const SHELL: &str = "bash";

/// The next call that a prompt of this turn makes. It comes before the answer.
pub(super) fn prompt_call(s: &State, turn: &Turn) -> Option<Envelope> {
    let due = *turn.prompt_calls.first().filter(|_| turn.compacting().is_none())?;
    let mut prompts = s.messages.iter().rev().filter_map(Message::prompt);
    let prompt = prompts.find(|prompt| prompt.seq == due.prompt)?;
    let call = spec(due, prompt, s.seq + 1)?;
    Some(intent(s, Some(due.prompt), None, Tool::Batched { call }))
}

/// The call as the event at `seq` makes it; `None` if `prompt` does not request it.
fn spec(due: PromptCall, prompt: &Prompt, seq: Seq) -> Option<CallSpec> {
    let part = prompt.parts.get(due.part)?;
    let (name, input) = if due.kind == PromptKind::Task {
        let is_task = |part: &&PromptPart| part.kind == PromptKind::Task;
        let earlier = prompt.parts[..due.part].iter().filter(is_task).count();
        let task = prompt.filled().into_iter().filter(|part| is_task(&part)).nth(earlier)?;
        let typed = prompt.parts.iter().find(|part| part.kind == PromptKind::Text);
        let line = typed.and_then(|part| part.text.lines().next()).unwrap_or_default();
        let description: String = line.trim().chars().take(DESCRIPTION).collect();
        let agent = part.name.clone().unwrap_or_default();
        let input =
            json!({ "description": description, "prompt": task.text, "subagentType": agent });
        (TASK, input)
    } else {
        (SHELL, json!({ "command": part.text }))
    };
    let id = format!("{name}_{seq}");
    Some(CallSpec { id, name: name.to_owned(), input: Json::from_value(&input) })
}
