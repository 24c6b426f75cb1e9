//! Encodes messages and their blocks. A block is an object with one member, which is its kind.

use std::collections::HashSet;

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Value, json};

use super::family::{self, Family};
use crate::history::History;
use crate::ids::SentIds;
use crate::shape::{self, members, missing_file, object};
use crate::turns::{Blocks, Turns, is_ours};

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

pub(super) const BLOCKS: Blocks = Blocks {
    text,
    is_result: |block| block.get("toolResult").is_some(),
    is_thought: |block| block.get("reasoningContent").is_some(),
};

/// Messages as turns. Roles alternate; the first and last turn are the user's.
#[derive(Clone)]
pub(super) struct Conversation {
    family: Family,
    /// Whether the model has a cache, so that messages get marks.
    caches: bool,
    turns: Turns,
    ids: SentIds,
    /// The names of documents so far: the API refuses a name that comes again.
    documents: HashSet<String>,
}

impl History for Conversation {
    fn add(&mut self, message: &RequestMessage) {
        match message {
            RequestMessage::User { parts } => self.user(parts),
            RequestMessage::Assistant { parts } => {
                self.ids.forget();
                let blocks = parts.iter().filter_map(|part| self.reply(part)).collect();
                self.turns.push_reply(blocks);
            }
            RequestMessage::Tool { results } => self.results(results),
        }
    }

    fn settle(&mut self) -> Vec<Value> {
        self.turns.settle()
    }

    /// A mark is on the last message for the next request, and on the one before it to read what the previous request
    /// wrote to the cache.
    fn open(&self) -> Vec<Value> {
        self.turns.open(|turn| turn.blocks.extend(self.caches.then(cache_point)))
    }

    fn lacks_thinking(&self) -> bool {
        self.turns.lacks_thinking()
    }

    fn fork(&self) -> Box<dyn History> {
        Box::new(self.clone())
    }
}

pub(super) fn cache_point() -> Value {
    json!({ "cachePoint": { "type": "default" } })
}

impl Conversation {
    pub(super) fn new(model: &str) -> Self {
        let family = Family::for_model(model);
        let (ids, turns) = (SentIds::new(family.ids()), Turns::new(BLOCKS));
        Self { family, caches: family::caches(model), turns, ids, documents: HashSet::new() }
    }

    fn user(&mut self, parts: &[PromptPart]) {
        let blocks = parts.iter().filter_map(|part| self.prompt(part)).collect();
        let mut blocks = BLOCKS.or_no_text(blocks);
        name_documents(&mut blocks);
        if self.turns.ends_in_results() && self.family.needs_answer_after_results() {
            self.turns.push("assistant", vec![text(LOOP_CLOSED)]);
        }
        self.turns.push("user", blocks);
    }

    fn results(&mut self, results: &[ToolResult]) {
        let (mut blocks, mut files) = (Vec::new(), Vec::new());
        for result in results {
            let id = self.ids.result(&result.call);
            let mut content: Vec<Value> = BLOCKS.filled(&result.output).into_iter().collect();
            for file in &result.attachments {
                let block = self.media(&file.mime, &file.name, &file.base64);
                // only some models read files within results
                if self.family.has_rich_results() || block.get("text").is_some() {
                    content.push(block);
                } else {
                    files.push(block);
                }
            }
            let content = BLOCKS.or_no_text(content);
            let mut block = members([("toolUseId", id.into()), ("content", content.into())]);
            if result.is_error && self.family.has_rich_results() {
                block["status"] = "error".into();
            }
            blocks.push(members([("toolResult", block)]));
        }
        name_documents(&mut files);
        blocks.extend(files);
        self.turns.push("user", blocks);
    }

    fn reply(&mut self, part: &AssistantPart) -> Option<Value> {
        match part {
            AssistantPart::Text { text: words } => BLOCKS.filled(words),
            AssistantPart::Reasoning { signature, .. } if !is_ours(signature) => None,
            AssistantPart::Reasoning { signature, redacted: true, .. } => {
                Some(json!({ "reasoningContent": { "redactedContent": signature } }))
            }
            AssistantPart::Reasoning { text, signature, redacted: false } => Some(json!({
                "reasoningContent": { "reasoningText": { "text": text, "signature": signature } }
            })),
            AssistantPart::Call { id, name, input } => {
                let call = members([
                    ("toolUseId", self.ids.call(id).into()),
                    ("name", shape::tool_name(name, LONGEST_NAME).into()),
                    ("input", object(input)),
                ]);
                Some(members([("toolUse", call)]))
            }
        }
    }

    fn prompt(&mut self, part: &PromptPart) -> Option<Value> {
        match part.kind {
            PromptKind::Text | PromptKind::Task | PromptKind::Command => BLOCKS.filled(&part.text),
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
