//! Encodes messages and their blocks.

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Value, json};

use crate::ids::{IdForm, SentIds};
use crate::openai_chat::REASONING;
use crate::shape::{self, NO_TEXT, missing_file, object};

const LONGEST_NAME: usize = 128;

/// A message of the body. Adjacent messages of one role become one turn.
#[derive(Debug)]
pub(super) struct Turn {
    role: &'static str,
    pub(super) blocks: Vec<Value>,
}

impl Turn {
    pub(super) fn into_value(self) -> Value {
        json!({ "role": self.role, "content": self.blocks })
    }

    /// The names of the tools that this turn calls.
    pub(super) fn called(&self) -> impl Iterator<Item = &str> {
        let calls = self.blocks.iter().filter(|block| block["type"] == "tool_use");
        calls.filter_map(|block| block["name"].as_str())
    }
}

/// All messages as turns. Roles alternate; the first and last turn are the user's.
pub(super) fn turns(messages: &[RequestMessage]) -> Vec<Turn> {
    let mut turns = Turns { done: Vec::new(), ids: SentIds::new(IdForm::Plain(usize::MAX)) };
    for message in messages {
        match message {
            RequestMessage::User { parts } => {
                let blocks: Vec<Value> = parts.iter().filter_map(prompt).collect();
                turns.push("user", if blocks.is_empty() { vec![text(NO_TEXT)] } else { blocks });
            }
            RequestMessage::Assistant { parts } => {
                turns.ids.forget();
                let mut blocks: Vec<Value> =
                    parts.iter().filter_map(|part| turns.assistant(part)).collect();
                // the API refuses thinking that is not followed by text or a call
                let useful = blocks.iter().rposition(|block| !is_thought(block));
                blocks.truncate(useful.map_or(0, |last| last + 1));
                turns.push("assistant", blocks);
            }
            RequestMessage::Tool { results } => {
                let blocks = results.iter().map(|result| turns.result(result)).collect();
                turns.push("user", blocks);
            }
        }
    }
    let mut turns = turns.done;
    for turn in &mut turns {
        // the sort is stable, so results keep the order of their calls
        turn.blocks.sort_by_key(|block| block["type"] != "tool_result");
    }
    turns
}

pub(super) fn is_thought(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

struct Turns {
    done: Vec<Turn>,
    ids: SentIds,
}

impl Turns {
    fn push(&mut self, role: &'static str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if self.done.is_empty() && role != "user" {
            self.done.push(Turn { role: "user", blocks: vec![text(NO_TEXT)] });
        }
        match self.done.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            Some(_) | None => self.done.push(Turn { role, blocks }),
        }
    }

    fn assistant(&mut self, part: &AssistantPart) -> Option<Value> {
        match part {
            AssistantPart::Text { text: words } => filled(words),
            AssistantPart::Reasoning { signature, .. } if !is_ours(signature) => None,
            AssistantPart::Reasoning { signature, redacted: true, .. } => {
                Some(json!({ "type": "redacted_thinking", "data": signature }))
            }
            AssistantPart::Reasoning { text, signature, redacted: false } => {
                Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
            }
            AssistantPart::Call { id, name, input } => Some(json!({
                "type": "tool_use",
                "id": self.ids.call(id),
                "name": tool_name(name),
                "input": object(input),
            })),
        }
    }

    fn result(&mut self, result: &ToolResult) -> Value {
        let id = self.ids.result(&result.call);
        let mut content: Vec<Value> = filled(&result.output).into_iter().collect();
        for file in &result.attachments {
            content.push(media(&file.mime, &file.name, &file.base64));
        }
        if content.is_empty() {
            content.push(text(NO_TEXT));
        }
        let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
        if result.is_error {
            block["is_error"] = true.into();
        }
        block
    }
}

/// Whether a signature may have come over this wire. Signatures of other wires are JSON or the name
/// of a member; a model can have the same name on two wires.
fn is_ours(signature: &str) -> bool {
    !signature.is_empty() && !signature.starts_with('{') && signature != REASONING
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn filled(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

fn prompt(part: &PromptPart) -> Option<Value> {
    match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => filled(&part.text),
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
    let mut block = json!({ "type": kind, "source": source });
    if kind == "document" && !name.is_empty() {
        block["title"] = name.into();
    }
    block
}

/// A tool's name in the form that the API accepts.
pub(super) fn tool_name(name: &str) -> String {
    shape::tool_name(name, LONGEST_NAME)
}
