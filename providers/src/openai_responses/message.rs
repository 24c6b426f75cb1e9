//! Encodes the items of a conversation.

use leftfold_events::Request;
use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Value, json};

use super::content::{self, Content};
use super::reasoning;
use crate::history::History;
use crate::ids::{IdForm, SentIds};
use crate::openai_chat::tool_name;
use crate::shape::{self, members, object};
use crate::vendors::Vendor;

/// The longest id that links a result to its call, in characters.
const LONGEST_ID: usize = 64;

/// The system prompt for vendors that have it apart from the conversation.
pub(super) fn instructions(request: &Request) -> String {
    request.system.join("\n\n")
}

/// The system prompt as one message: templates of many models accept only one, and only at the
/// beginning.
fn system(blocks: &[String]) -> Option<Value> {
    let mut content = Content::default();
    blocks.iter().for_each(|block| content.text(block));
    (!content.is_empty()).then(|| message("system", content.into_parts()))
}

fn message(role: &str, content: impl Into<Value>) -> Value {
    members([("type", "message".into()), ("role", role.into()), ("content", content.into())])
}

/// All items, the system prompt first.
#[derive(Clone)]
pub(super) struct Items {
    vendor: &'static Vendor,
    /// The system prompt, until it is taken out.
    system: Option<Value>,
    done: Vec<Value>,
    ids: SentIds,
}

impl History for Items {
    fn add(&mut self, message: &RequestMessage) {
        match message {
            RequestMessage::User { parts } => self.user(parts),
            RequestMessage::Assistant { parts } => self.assistant(parts),
            RequestMessage::Tool { results } => self.results(results),
        }
    }

    fn settle(&mut self) -> Vec<Value> {
        // the last one may be extended
        let settled = self.done.len().saturating_sub(1);
        self.system.take().into_iter().chain(self.done.drain(..settled)).collect()
    }

    fn open(&self) -> Vec<Value> {
        self.done.clone()
    }

    fn fork(&self) -> Box<dyn History> {
        Box::new(self.clone())
    }
}

impl Items {
    pub(super) fn new(vendor: &'static Vendor, request: &Request) -> Self {
        let system = if vendor.instructions { None } else { system(&request.system) };
        Self { vendor, system, done: Vec::new(), ids: SentIds::new(IdForm::Plain(LONGEST_ID)) }
    }

    fn user(&mut self, parts: &[PromptPart]) {
        let mut content = Content::default();
        for part in parts {
            match part.kind {
                PromptKind::Text | PromptKind::Task | PromptKind::Command => {
                    content.text(&part.text);
                }
                PromptKind::Media => {
                    let (mime, name) = shape::file_of(part);
                    content.media(content::media(self.vendor, mime, name, &part.text));
                }
            }
        }
        self.push_user(content);
    }

    fn push_user(&mut self, content: Content) {
        let parts = content.into_parts();
        let last = self.done.last_mut().filter(|last| last["role"] == "user");
        match last.and_then(|last| last["content"].as_array_mut()) {
            Some(before) if self.vendor.alternates => before.extend(parts),
            Some(_) | None => self.done.push(message("user", parts)),
        }
    }

    /// Adds the parts of an answer in their order: reasoning belongs to the item that follows it.
    fn assistant(&mut self, parts: &[AssistantPart]) {
        self.ids.forget();
        let mut items = Vec::new();
        let mut said = PendingText::default();
        for part in parts {
            let item = match part {
                // the texts of one answer are joined without a separator
                AssistantPart::Text { text } => {
                    said.text.push_str(text);
                    continue;
                }
                AssistantPart::Reasoning { signature, .. } => {
                    let phase = reasoning::unseal_phase(signature);
                    // a phase splits the text into two messages of one role
                    if let Some(phase) = phase.filter(|_| !self.vendor.alternates) {
                        items.extend(said.take());
                        said.phase = Some(phase);
                    }
                    reasoning::unseal(signature)
                }
                AssistantPart::Call { id, name, input } => Some(json!({
                    "type": "function_call",
                    "call_id": self.ids.call(id),
                    "name": tool_name(name),
                    "arguments": object(input).to_string(),
                })),
            };
            if let Some(item) = item {
                items.extend(said.take());
                items.push(item);
            }
        }
        items.extend(said.take());
        // the API refuses reasoning that no text or call follows
        let useful = items.iter().rposition(|item| item["type"] != "reasoning");
        items.truncate(useful.map_or(0, |last| last + 1));
        if self.done.is_empty() && !items.is_empty() && self.vendor.alternates {
            self.push_user(Content::default());
        }
        self.done.extend(items);
    }

    fn results(&mut self, results: &[ToolResult]) {
        let mut files = Content::default();
        for result in results {
            let mut content = Content::default();
            content.text(&result.output);
            self.attach(result, &mut content, &mut files);
            self.done.push(members([
                ("type", "function_call_output".into()),
                ("call_id", self.ids.result(&result.call).into()),
                ("output", content.into_output()),
            ]));
        }
        if !files.is_empty() {
            self.push_user(files);
        }
    }

    /// Adds files to the result itself, or to the user message that follows.
    fn attach(&self, result: &ToolResult, content: &mut Content, files: &mut Content) {
        let mut is_first = true;
        for file in &result.attachments {
            let media = content::media(self.vendor, &file.mime, &file.name, &file.base64);
            if media.is_err() || content::results_take_files(self.vendor) {
                content.media(media);
                continue;
            }
            if std::mem::take(&mut is_first) {
                files.text(&format!("Attached to the result of `{}`:", tool_name(&result.name)));
            }
            files.media(media);
        }
        if content.is_empty() && !is_first {
            content.text("(see the attached files)");
        }
    }
}

/// The text of an answer so far.
#[derive(Default)]
struct PendingText {
    text: String,
    phase: Option<String>,
}

impl PendingText {
    /// The text as a message. Its content is a string, which every server accepts; a list of parts
    /// would need the id of the message.
    fn take(&mut self) -> Option<Value> {
        let Self { text, phase } = std::mem::take(self);
        if text.trim().is_empty() {
            return None;
        }
        let mut message = message("assistant", text);
        if let Some(phase) = phase {
            message["phase"] = phase.into();
        }
        Some(message)
    }
}
