//! Encodes messages and their blocks. A block is an object with one member, which is its kind.

use std::collections::HashSet;

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Value, json};

use super::family::Family;
use crate::ids::SentIds;
use crate::openai_chat::REASONING;
use crate::shape::{self, NO_TEXT, missing_file, object};

pub(super) const LONGEST_NAME: usize = 64;

/// The longest name of a document, in characters.
const LONGEST_DOCUMENT: usize = 100;

/// The model's message between tool results and the next user message, for models that require one.
const LOOP_CLOSED: &str = "Done.";

const IMAGES: [(&str, &str); 4] =
    [("image/png", "png"), ("image/jpeg", "jpeg"), ("image/gif", "gif"), ("image/webp", "webp")];

const DOCUMENTS: [(&str, &str); 5] = [
    ("application/pdf", "pdf"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
];

/// A message of the body. Adjacent messages of one role become one turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) role: &'static str,
    pub(super) blocks: Vec<Value>,
}

impl Turn {
    pub(super) fn into_value(self) -> Value {
        json!({ "role": self.role, "content": self.blocks })
    }

    /// The names of the tools that this turn calls.
    pub(super) fn called(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().filter_map(|block| block["toolUse"]["name"].as_str())
    }
}

/// All messages as turns. Roles alternate; the first and last turn are the user's.
pub(super) fn turns(messages: &[RequestMessage], family: Family) -> Vec<Turn> {
    let ids = SentIds::new(family.ids());
    let mut turns = Turns { family, done: Vec::new(), ids, documents: HashSet::new() };
    for message in messages {
        match message {
            RequestMessage::User { parts } => turns.user(parts),
            RequestMessage::Assistant { parts } => {
                turns.ids.forget();
                let mut blocks: Vec<Value> =
                    parts.iter().filter_map(|part| turns.assistant(part)).collect();
                // the API refuses thinking that is not followed by text or a call
                let useful = blocks.iter().rposition(|block| !is_thought(block));
                blocks.truncate(useful.map_or(0, |last| last + 1));
                turns.push("assistant", blocks);
            }
            RequestMessage::Tool { results } => turns.results(results),
        }
    }
    let mut turns = turns.done;
    for turn in &mut turns {
        // the sort is stable, so results keep the order of their calls
        turn.blocks.sort_by_key(|block| !is_result(block));
    }
    turns
}

pub(super) fn is_thought(block: &Value) -> bool {
    block.get("reasoningContent").is_some()
}

pub(super) fn is_result(block: &Value) -> bool {
    block.get("toolResult").is_some()
}

struct Turns {
    family: Family,
    done: Vec<Turn>,
    ids: SentIds,
    /// The names of documents so far: the API refuses a name that comes again.
    documents: HashSet<String>,
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

    fn user(&mut self, parts: &[PromptPart]) {
        let mut blocks: Vec<Value> = parts.iter().filter_map(|part| self.prompt(part)).collect();
        if blocks.is_empty() {
            blocks.push(text(NO_TEXT));
        }
        name_documents(&mut blocks);
        let follows_results =
            self.done.last().is_some_and(|last| last.blocks.iter().any(is_result));
        if follows_results && self.family.needs_answer_after_results() {
            self.push("assistant", vec![text(LOOP_CLOSED)]);
        }
        self.push("user", blocks);
    }

    fn results(&mut self, results: &[ToolResult]) {
        let (mut blocks, mut files) = (Vec::new(), Vec::new());
        for result in results {
            let id = self.ids.result(&result.call);
            let mut content: Vec<Value> = filled(&result.output).into_iter().collect();
            for file in &result.attachments {
                let block = self.media(&file.mime, &file.name, &file.base64);
                // only some models read files within results
                if self.family.has_rich_results() || block.get("text").is_some() {
                    content.push(block);
                } else {
                    files.push(block);
                }
            }
            if content.is_empty() {
                content.push(text(NO_TEXT));
            }
            let mut block = json!({ "toolUseId": id, "content": content });
            if result.is_error && self.family.has_rich_results() {
                block["status"] = "error".into();
            }
            blocks.push(json!({ "toolResult": block }));
        }
        name_documents(&mut files);
        blocks.extend(files);
        self.push("user", blocks);
    }

    fn assistant(&mut self, part: &AssistantPart) -> Option<Value> {
        match part {
            AssistantPart::Text { text: words } => filled(words),
            AssistantPart::Reasoning { signature, .. } if !is_ours(signature) => None,
            AssistantPart::Reasoning { signature, redacted: true, .. } => {
                Some(json!({ "reasoningContent": { "redactedContent": signature } }))
            }
            AssistantPart::Reasoning { text, signature, redacted: false } => Some(json!({
                "reasoningContent": { "reasoningText": { "text": text, "signature": signature } }
            })),
            AssistantPart::Call { id, name, input } => Some(json!({
                "toolUse": {
                    "toolUseId": self.ids.call(id),
                    "name": shape::tool_name(name, LONGEST_NAME),
                    "input": object(input),
                }
            })),
        }
    }

    fn prompt(&mut self, part: &PromptPart) -> Option<Value> {
        match part.kind {
            PromptKind::Text | PromptKind::Task | PromptKind::Command => filled(&part.text),
            PromptKind::Media => {
                let (mime, name) = shape::file_of(part);
                Some(self.media(mime, name, &part.text))
            }
        }
    }

    /// A file as a block, or a text that says why it is missing.
    fn media(&mut self, mime: &str, name: &str, base64: &str) -> Value {
        let mime = shape::mime(mime);
        let format = |table: &[(&str, &'static str)]| {
            table.iter().find(|(known, _)| *known == mime).map(|(_, format)| *format)
        };
        let source = json!({ "bytes": base64 });
        if base64.is_empty() {
            text(&missing_file(name, &mime, base64))
        } else if let Some(format) = format(&IMAGES) {
            json!({ "image": { "format": format, "source": source } })
        } else if let Some(format) = format(&DOCUMENTS) {
            let name = self.document(name);
            json!({ "document": { "format": format, "name": name, "source": source } })
        } else {
            text(&missing_file(name, &mime, base64))
        }
    }

    /// A document's name in the form that the API accepts. It depends only on the documents before it.
    fn document(&mut self, name: &str) -> String {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let keep = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
        let name: String = stem.chars().take(LONGEST_DOCUMENT).map(keep).collect();
        let words: Vec<&str> = name.split_whitespace().collect();
        let name = if words.is_empty() { "document".to_owned() } else { words.join(" ") };
        let mut unique = name.clone();
        let mut count = 1;
        while !self.documents.insert(unique.clone()) {
            count += 1;
            unique = format!("{name} ({count})");
        }
        unique
    }
}

/// Whether a signature may have come over this wire. Signatures of other wires are JSON or the name
/// of a member; a model can have the same name on two wires.
fn is_ours(signature: &str) -> bool {
    !signature.is_empty() && !signature.starts_with('{') && signature != REASONING
}

/// Adds a text before documents that have none beside them, which the API refuses.
fn name_documents(blocks: &mut Vec<Value>) {
    let has_text = blocks.iter().any(|block| block.get("text").is_some());
    let names: Vec<&str> =
        blocks.iter().filter_map(|block| block["document"]["name"].as_str()).collect();
    if !has_text && !names.is_empty() {
        let words = format!("[{}]", names.join(", "));
        blocks.insert(0, text(&words));
    }
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn filled(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}
