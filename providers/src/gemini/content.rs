//! The contents of a conversation.

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Map, Value, json};

use super::calls::is_made_up;
use super::sign::Seal;
use super::{is_from, media};
use crate::history::History;
use crate::ids::{IdForm, SentIds};
use crate::shape::{self, NO_TEXT, members, missing_file, object};

const LONGEST_NAME: usize = 64;
const LONGEST_ID: usize = 64;

/// The first generation that checks signatures of calls and accepts files within results.
pub(super) const SIGNS_CALLS: f32 = 3.0;

/// Google's documented placeholder for the signature of a call that the model did not write.
/// Without a signature the API refuses the request.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// All contents. The first is the user's.
#[derive(Clone)]
pub(super) struct Contents {
    signs: bool,
    done: Vec<Value>,
    ids: SentIds,
}

impl History for Contents {
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
        self.done.drain(..settled).collect()
    }

    fn open(&self) -> Vec<Value> {
        self.done.clone()
    }

    fn fork(&self) -> Box<dyn History> {
        Box::new(self.clone())
    }
}

impl Contents {
    pub(super) fn new(model: &str) -> Self {
        let ids = SentIds::new(IdForm::Plain(LONGEST_ID));
        Self { signs: is_from(model, SIGNS_CALLS), done: Vec::new(), ids }
    }

    fn push(&mut self, role: &str, parts: Vec<Value>) {
        if !parts.is_empty() {
            self.done.push(members([("role", role.into()), ("parts", parts.into())]));
        }
    }

    fn user(&mut self, parts: &[PromptPart]) {
        let mut sent: Vec<Value> = parts.iter().filter_map(prompt).collect();
        if sent.is_empty() {
            sent.push(text(NO_TEXT));
        }
        self.push("user", sent);
    }

    /// Adds the parts of an answer in their order.
    fn assistant(&mut self, parts: &[AssistantPart]) {
        self.ids.forget();
        let mut sent = Vec::new();
        let mut seal = None;
        for part in parts {
            match part {
                AssistantPart::Text { text: words } if words.trim().is_empty() => {}
                AssistantPart::Text { text: words } => {
                    let mut part = text(words);
                    if let Some(Seal::Text(signature)) = seal.take() {
                        sign(&mut part, signature);
                    }
                    sent.push(part);
                }
                AssistantPart::Reasoning { text, signature, .. } => match Seal::read(signature) {
                    Some(Seal::Part(part)) => sent.push(part),
                    Some(Seal::Thought(signature)) => {
                        let mut part = json!({ "text": text, "thought": true });
                        sign(&mut part, signature);
                        sent.push(part);
                    }
                    of_next @ (Some(Seal::Call(_) | Seal::Text(_)) | None) => seal = of_next,
                },
                AssistantPart::Call { id, name, input } => {
                    let mut part = self.call(id, name, object(input));
                    if let Some(Seal::Call(signature)) = seal.take() {
                        sign(&mut part, signature);
                    }
                    sent.push(part);
                }
            }
        }
        self.push_model(sent);
    }

    fn call(&mut self, id: &str, name: &str, args: Value) -> Value {
        let mut call = Map::new();
        let sent = self.ids.call(id);
        if !is_made_up(id) {
            call.insert("id".into(), sent.into());
        }
        call.insert("name".into(), tool_name(name).into());
        call.insert("args".into(), args);
        members([("functionCall", call.into())])
    }

    /// Appends to the previous content if it is also the model's, because calls must come directly
    /// after the user.
    fn push_model(&mut self, mut parts: Vec<Value>) {
        let first = parts.iter_mut().find(|part| part.get("functionCall").is_some());
        if let Some(call) = first.filter(|call| self.signs && call.get(SIGNATURE).is_none()) {
            sign(call, UNSIGNED.to_owned());
        }
        if self.done.is_empty() && !parts.is_empty() {
            self.push("user", vec![text(NO_TEXT)]);
        }
        let last = self.done.last_mut().filter(|last| last["role"] == "model");
        match last.and_then(|last| last["parts"].as_array_mut()) {
            Some(before) => before.extend(parts),
            None => self.push("model", parts),
        }
    }

    /// Adds all results of a reply as one content with nothing else in it.
    fn results(&mut self, results: &[ToolResult]) {
        let mut files = Vec::new();
        let responses: Vec<Value> =
            results.iter().map(|result| self.result(result, &mut files)).collect();
        self.push("user", responses);
        self.push("user", files);
    }

    fn result(&mut self, result: &ToolResult, files: &mut Vec<Value>) -> Value {
        let mut output = result.output.to_string();
        let (mut within, mut is_first) = (Vec::new(), true);
        for file in &result.attachments {
            let (mime, name, data) = (&file.mime, &file.name, &file.base64);
            if !media::is_readable(mime, data) {
                if !output.is_empty() {
                    output.push_str("\n\n");
                }
                output.push_str(&missing_file(name, &shape::mime(mime), data));
            } else if self.signs {
                within.extend(media::within_result(mime, name, data));
            } else {
                if std::mem::take(&mut is_first) {
                    let name = tool_name(&result.name);
                    files.push(text(&format!("Attached to the result of `{name}`:")));
                }
                files.push(media::prompt(mime, name, data));
            }
        }
        if output.trim().is_empty() {
            NO_TEXT.clone_into(&mut output);
        }
        let key = if result.is_error { "error" } else { "output" };
        let mut response = Map::new();
        let id = self.ids.result(&result.call);
        if !is_made_up(&result.call) {
            response.insert("id".into(), id.into());
        }
        response.insert("name".into(), tool_name(&result.name).into());
        response.insert("response".into(), json!({ key: output }));
        if !within.is_empty() {
            response.insert("parts".into(), within.into());
        }
        members([("functionResponse", response.into())])
    }
}

const SIGNATURE: &str = "thoughtSignature";

fn sign(part: &mut Value, signature: String) {
    part[SIGNATURE] = signature.into();
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// A part of a prompt. Blank texts are omitted, because the API refuses them.
fn prompt(part: &PromptPart) -> Option<Value> {
    match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => {
            (!part.text.trim().is_empty()).then(|| text(&part.text))
        }
        PromptKind::Media => {
            let (mime, name) = shape::file_of(part);
            Some(media::prompt(mime, name, &part.text))
        }
    }
}

/// A tool's name in the form that the API accepts: it begins with a letter or an underscore.
pub(super) fn tool_name(name: &str) -> String {
    let name = shape::tool_name(name, LONGEST_NAME);
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return name;
    }
    shape::tool_name(&format!("_{name}"), LONGEST_NAME)
}
