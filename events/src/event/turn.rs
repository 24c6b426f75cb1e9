use serde::{Deserialize, Serialize};

use super::model::{Cost, Finish, ModelRef, Usage};
use crate::payload::Payload;

events! {
    /// From a prompt to its answer.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Turn {
        fact Prompted {
            parts: Vec<PromptPart>,
            agent: String,
            model: ModelRef,
            /// The client that prompted, and its machine.
            by: String,
        } texts [parts],
        fact Configured(TurnConfigPayloads) texts [0],
        fact Interrupted { by: String },
        intent Ended(Box<Ended>) texts [0],
        /// Another agent takes over within the turn, because a person has agreed to it.
        intent Switched { agent: String, model: ModelRef },
        /// The turn goes on by itself after a reply that the provider did not complete.
        intent Continued {
            /// How the provider ended that reply.
            finish: Finish,
            /// The text for the model that follows the reply.
            note: String,
        } texts [note],
        /// A message for the model that starts no turn and asks for no answer. The next request has it.
        fact Noted {
            parts: Vec<PromptPart>,
            /// The client that sent it, and its machine.
            by: String,
        } texts [parts],
    }
}

/// All that the core needs to know of the world for a turn. [`TurnConfig`](crate::TurnConfig)
/// decodes it. Each payload is JSON text.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnConfigPayloads {
    pub system: Payload,
    pub tools: Payload,
    pub rules: Payload,
    pub model: Payload,
    pub options: Payload,
    /// Name of the base prompt that `system` begins with.
    pub prompt: String,
}

impl TurnConfigPayloads {
    pub fn payloads(&self) -> [&Payload; 5] {
        [&self.system, &self.tools, &self.rules, &self.model, &self.options]
    }

    pub fn payloads_mut(&mut self) -> [&mut Payload; 5] {
        [&mut self.system, &mut self.tools, &mut self.rules, &mut self.model, &mut self.options]
    }
}

/// A part of the user's prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptPart {
    #[serde(rename = "type")]
    pub kind: PromptKind,
    /// The text. For `media` it is the bytes in base64.
    pub text: String,
    #[serde(default)]
    pub mime: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
}

/// The `mime` of a text that nobody typed as a prompt.
const QUOTED: &str = "text/x-quoted";

impl PromptPart {
    pub fn text(text: impl Into<String>) -> Self {
        Self { kind: PromptKind::Text, text: text.into(), mime: None, name: None }
    }

    /// A text without a name of its own that goes with a prompt: of a command's template, a skill, a server, a file.
    pub fn quoted(text: impl Into<String>) -> Self {
        Self { mime: Some(QUOTED.to_owned()), ..Self::text(text) }
    }

    /// Whether a person has typed it. Other texts have a name, or are [quoted](Self::quoted).
    pub fn is_typed(&self) -> bool {
        self.kind == PromptKind::Text && self.mime.is_none() && self.name.is_none()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    Text,
    Media,
    /// A task for the agent `name`: the whole description as text. It runs in a session of its own
    /// before the model answers.
    Task,
    /// A command line that runs before the model answers. Its output replaces it in the text that
    /// the adjacent parts form.
    Command,
}

/// Replaces each command of `parts` by `output` of its index and its line, and joins it with the
/// text before and after it into one part.
pub fn join_commands(
    parts: &[PromptPart],
    output: impl Fn(usize, &str) -> String,
) -> Vec<PromptPart> {
    let mut joined: Vec<PromptPart> = Vec::with_capacity(parts.len());
    let mut behind_command = false;
    for (index, part) in parts.iter().enumerate() {
        let is_command = part.kind == PromptKind::Command;
        let text = if is_command { output(index, &part.text) } else { part.text.clone() };
        let goes_on = part.kind == PromptKind::Text && part.name.is_none() && behind_command;
        match joined.last_mut().filter(|before| before.kind != PromptKind::Media) {
            Some(before) if is_command || goes_on => before.text.push_str(&text),
            _ if is_command => joined.push(PromptPart::text(text)),
            _ => joined.push(part.clone()),
        }
        behind_command = is_command;
    }
    joined
}

/// A prompt as its author sees it: commands as they stand in the template, without subtasks.
pub fn as_typed(parts: &[PromptPart]) -> Vec<PromptPart> {
    let mut typed = join_commands(parts, |_, line| format!("!`{line}`"));
    typed.retain(|part| part.kind != PromptKind::Task);
    typed
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub reason: EndReason,
    /// The text of the last reply.
    pub text: String,
    pub usage: Usage,
    pub cost: Cost,
    pub steps: u32,
    pub permission_denials: Vec<Denial>,
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Completed,
    /// A person rejected a call.
    Blocked,
    Error,
    Aborted,
    MaxSteps,
    /// A limit of cost or time was reached.
    Limit,
    /// The provider cut the answer off, and the turn could not complete it.
    Incomplete,
    /// The model gave no answer that fits the schema which the turn asks for.
    InvalidOutput,
}

/// A call that permission rules or a person did not allow, or that no one was there to allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub call: String,
    pub tool: String,
    pub permission: String,
    pub patterns: Vec<String>,
    pub reason: String,
}

crate::named! {
    /// The party that did not allow a call. In lines it stands beside each [`Denial`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DenialClass {
        /// A rule, or the sandbox's lack of a network.
        Rule = "rule",
        /// A person rejected it.
        Person = "person",
        /// Rules ask, but there is nobody to ask.
        NoTerminal = "no_terminal",
        /// Nobody answered in time.
        Unanswered = "unanswered",
        /// A plugin vetoed it.
        Plugin = "plugin",
        /// The model repeated a call without success.
        DoomLoop = "doom_loop",
        /// Subagents are nested too deeply.
        Depth = "depth",
    }
}
