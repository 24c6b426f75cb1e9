//! Encodes messages and their blocks.

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Value, json};

use crate::history::History;
use crate::ids::{IdForm, SentIds};
use crate::shape::{self, members, missing_file, object};
use crate::turns::{Blocks, Turn, Turns, is_ours};

const LONGEST_NAME: usize = 128;

const BLOCKS: Blocks =
    Blocks { text, is_result: |block| block["type"] == "tool_result", is_thought };

/// Messages as turns. Roles alternate; the first and last turn are the user's.
#[derive(Clone)]
pub(super) struct Conversation {
    turns: Turns,
    ids: SentIds,
}

impl Conversation {
    pub(super) fn new() -> Self {
        Self { turns: Turns::new(BLOCKS), ids: SentIds::new(IdForm::Plain(usize::MAX)) }
    }
}

impl History for Conversation {
    fn add(&mut self, message: &RequestMessage) {
        let Self { turns, ids } = self;
        match message {
            RequestMessage::User { parts } => {
                turns.push("user", BLOCKS.or_no_text(parts.iter().filter_map(prompt).collect()));
            }
            RequestMessage::Assistant { parts } => {
                ids.forget();
                turns.push_reply(parts.iter().filter_map(|part| reply(part, ids)).collect());
            }
            RequestMessage::Tool { results } => {
                turns.push("user", results.iter().map(|it| result(it, ids)).collect());
            }
        }
    }

    fn settle(&mut self) -> Vec<Value> {
        self.turns.settle()
    }

    fn open(&self) -> Vec<Value> {
        self.turns.open(mark)
    }

    fn lacks_thinking(&self) -> bool {
        self.turns.lacks_thinking()
    }

    fn fork(&self) -> Box<dyn History> {
        Box::new(self.clone())
    }
}

/// Marks a message that the next request probably repeats: the last one for the next request, the one before it to read what
/// the previous request wrote to the cache.
fn mark(turn: &mut Turn) {
    if let Some(block) = turn.blocks.iter_mut().rev().find(|block| !is_thought(block)) {
        block["cache_control"] = ephemeral();
    }
}

pub(super) fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

fn is_thought(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn reply(part: &AssistantPart, ids: &mut SentIds) -> Option<Value> {
    match part {
        AssistantPart::Text { text: words } => BLOCKS.filled(words),
        AssistantPart::Reasoning { signature, .. } if !is_ours(signature) => None,
        AssistantPart::Reasoning { signature, redacted: true, .. } => {
            Some(json!({ "type": "redacted_thinking", "data": signature }))
        }
        AssistantPart::Reasoning { text, signature, redacted: false } => {
            Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
        }
        AssistantPart::Call { id, name, input } => Some(members([
            ("type", "tool_use".into()),
            ("id", ids.call(id).into()),
            ("name", tool_name(name).into()),
            ("input", object(input)),
        ])),
    }
}

fn result(result: &ToolResult, ids: &mut SentIds) -> Value {
    let id = ids.result(&result.call);
    let mut content: Vec<Value> = BLOCKS.filled(&result.output).into_iter().collect();
    for file in &result.attachments {
        content.push(media(&file.mime, &file.name, &file.base64));
    }
    let content = BLOCKS.or_no_text(content);
    let mut block = members([
        ("type", "tool_result".into()),
        ("tool_use_id", id.into()),
        ("content", content.into()),
    ]);
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn prompt(part: &PromptPart) -> Option<Value> {
    match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => BLOCKS.filled(&part.text),
        PromptKind::Media => {
            let (mime, name) = shape::file_of(part);
            Some(media(mime, name, &part.text))
        }
    }
}

/// A file as a block, or a text that says why it is missing.
fn media(mime: &str, name: &str, base64: &str) -> Value {
    let mime = shape::mime(mime);
    let kind = match mime.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "image",
        "application/pdf" => "document",
        _ => return text(&missing_file(name, &mime, base64)),
    };
    if base64.is_empty() {
        return text(&missing_file(name, &mime, base64));
    }
    let source = json!({ "type": "base64", "media_type": mime, "data": base64 });
    let mut block = members([("type", kind.into()), ("source", source)]);
    if kind == "document" && !name.is_empty() {
        block["title"] = name.into();
    }
    block
}

/// A tool's name in the form that the API accepts.
pub(super) fn tool_name(name: &str) -> String {
    shape::tool_name(name, LONGEST_NAME)
}
