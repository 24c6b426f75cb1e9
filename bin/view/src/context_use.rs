//! The use of the model's context: the next request, by kind of content.

use std::iter::Sum;
use std::ops::Add;

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Request, State, request_builder};

/// Bytes of text in a token, roughly.
const BYTES: usize = 4;
/// Tokens of a picture or a document, roughly: providers count them by their size.
const MEDIA: usize = 1_500;

/// Tokens of the next request, by what they are for. The parts are estimates from the lengths of the
/// texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextUse {
    /// The prompts of Leftfold and of the agent.
    pub system: u64,
    /// Files and pages with instructions, and the list of skills.
    pub instructions: u64,
    /// Descriptions of tools.
    pub tools: u64,
    /// Prompts, replies and calls.
    pub messages: u64,
    /// Results of tools.
    pub results: u64,
    /// The size of the context; 0 if unknown.
    pub size: u64,
}

impl ContextUse {
    pub fn from_state(state: &State) -> Self {
        Self::of_request(state, &request_builder::request(state))
    }

    /// The parts of the request that this state leads to.
    pub fn of_request(state: &State, request: &Request) -> Self {
        let messages = request.messages.iter().map(MessageBytes::from_message).sum();
        Self::of_parts(state, request, messages)
    }

    /// The parts of a request with these messages; those of `head` do not count.
    pub fn of_parts(state: &State, head: &Request, messages: MessageBytes) -> Self {
        let instructions: usize = state
            .config
            .options
            .sources
            .system
            .iter()
            .filter(|piece| matches!(piece.kind.as_str(), "instructions" | "page" | "skill"))
            .map(|piece| piece.to.saturating_sub(piece.from))
            .sum();
        let system: usize = head.system.iter().map(String::len).sum();
        let instructions = instructions.min(system);
        let MessageBytes { messages, results } = messages;
        Self {
            system: tokens(system - instructions),
            instructions: tokens(instructions),
            tools: tokens(head.tools.iter().map(of_tool).sum()),
            messages: tokens(messages),
            results: tokens(results),
            size: state.config.model.limit.context,
        }
    }

    /// The parts with their names.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("system", self.system),
            ("instructions", self.instructions),
            ("tools", self.tools),
            ("messages", self.messages),
            ("results", self.results),
        ]
    }

    pub fn used(&self) -> u64 {
        self.parts().iter().map(|(_, tokens)| tokens).sum()
    }
}

fn of_tool(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.schema.as_str().len()
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES)).unwrap_or(u64::MAX)
}

/// The bytes of a request's messages, and of the results in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageBytes {
    messages: usize,
    results: usize,
}

impl MessageBytes {
    pub fn from_message(message: &RequestMessage) -> Self {
        match message {
            RequestMessage::User { parts } => {
                Self { messages: parts.iter().map(of_prompt).sum(), results: 0 }
            }
            RequestMessage::Assistant { parts } => {
                Self { messages: parts.iter().map(of_reply).sum(), results: 0 }
            }
            RequestMessage::Tool { results } => {
                let bytes = results
                    .iter()
                    .map(|result| result.output.len() + result.attachments.len() * MEDIA * BYTES);
                Self { messages: 0, results: bytes.sum() }
            }
        }
    }
}

impl Add for MessageBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, results: self.results + other.results }
    }
}

impl Sum for MessageBytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

fn of_prompt(part: &PromptPart) -> usize {
    match part.kind {
        PromptKind::Media => MEDIA * BYTES,
        PromptKind::Text | PromptKind::Task | PromptKind::Command => part.text.len(),
    }
}

fn of_reply(part: &AssistantPart) -> usize {
    match part {
        AssistantPart::Text { text } | AssistantPart::Reasoning { text, .. } => text.len(),
        AssistantPart::Call { name, input, .. } => name.len() + input.as_str().len(),
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::Json;
    use leftfold_events::turn_config::PromptPiece;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_divided_by_what_it_is_for() {
        let mut state = State::default();
        state.config.system = vec!["s".repeat(400), "i".repeat(800)];
        let kind = "instructions".to_owned();
        state.config.options.sources.system =
            vec![PromptPiece { block: 1, from: 0, to: 800, kind, ..PromptPiece::default() }];
        state.config.tools = vec![ToolSpec {
            name: "bash".to_owned(),
            description: "d".repeat(34),
            schema: Json::from_value(&json!({})),
        }];
        state.config.model.limit.context = 1_000;
        let found = ContextUse::from_state(&state);
        let expected =
            ContextUse { system: 100, instructions: 200, tools: 10, size: 1_000, ..found };
        assert_eq!(found, expected);
        assert_eq!(found.used(), 310 + found.messages);
        let message = |value| serde_json::from_value(value).unwrap();
        let request = Request {
            messages: vec![
                message(json!({ "role": "user", "parts": [
                    { "type": "text", "text": "1234" }, { "type": "media", "text": "A".repeat(100_000) },
                ] })),
                message(json!({ "role": "assistant", "parts": [
                    { "type": "text", "text": "12" }, { "type": "call", "id": "1", "name": "read", "input": {} },
                ] })),
                message(json!({ "role": "tool", "results": [
                    { "call": "1", "name": "read", "output": "12345", "is_error": false, "attachments": [] },
                ] })),
            ],
            ..request_builder::request(&State::default())
        };
        let expected = MessageBytes { messages: 4 + MEDIA * BYTES + 2 + 4 + 2, results: 5 };
        assert_eq!(
            request.messages.iter().map(MessageBytes::from_message).sum::<MessageBytes>(),
            expected
        );
    }
}
