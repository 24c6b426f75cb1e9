//! Encodes messages.

use leftfold_events::Request;
use leftfold_events::event::{Attachment, PromptKind, PromptPart};
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};
use serde_json::{Map, Value};

use super::content::{self, Content};
use super::returned::{self, DETAILS, REASONING, Returned, reasoning_member};
use crate::history::History;
use crate::ids::SentIds;
use crate::shape::{self, NO_TEXT, members, object};
use crate::vendors::{MarkPlace, OPENAI, Vendor, needs_reasoning};

const LONGEST_NAME: usize = 64;

/// The cache mark of a message as a whole.
pub(super) const MESSAGE_MARK: &str = "copilot_cache_control";

/// The assistant's message between tool results and the next user message, for vendors that require
/// one.
const LOOP_CLOSED: &str = "Done.";

/// Replaces reasoning that is missing, for APIs that require some.
const NO_REASONING: &str = " ";

/// The most messages at the end that get marks.
const MARKED: usize = 2;

/// One message; `content` may be missing only if there are calls.
#[derive(Clone, Debug)]
struct Message {
    role: &'static str,
    content: Option<Content>,
    more: Map<String, Value>,
}

impl Message {
    fn new(role: &'static str, content: Content) -> Self {
        Self { role, content: Some(content), more: Map::new() }
    }

    /// Takes the shape that it has with a mark at this place, so that it keeps its shape when the mark is gone.
    fn shape(&mut self, place: Option<MarkPlace>) {
        if let Some(content) = self.content.as_mut().filter(|_| place == Some(MarkPlace::Part)) {
            content.set_apart();
        }
    }

    /// Puts a cache mark on the message itself, or on the last text of its content.
    fn mark(&mut self, place: Option<MarkPlace>) {
        match (place, &mut self.content) {
            (Some(MarkPlace::Part), Some(content)) => content.mark(),
            (Some(MarkPlace::Message), _) => {
                self.more.insert(MESSAGE_MARK.into(), content::ephemeral());
            }
            (Some(MarkPlace::Part), None) | (None, _) => {}
        }
    }

    fn into_value(self) -> Value {
        let content = self.content.map_or(Value::Null, Content::into_value);
        let mut message = Map::new();
        message.insert("role".into(), self.role.into());
        message.insert("content".into(), content);
        message.extend(self.more);
        Value::Object(message)
    }
}

/// All messages, the system prompt first.
#[derive(Clone)]
pub(super) struct Conversation {
    vendor: &'static Vendor,
    /// Where the prompt has marks: at the parts that the next request probably repeats, the system prompt and the last
    /// two messages.
    place: Option<MarkPlace>,
    /// The system prompt, until it is taken out.
    system: Option<Value>,
    done: Vec<Message>,
    ids: SentIds,
    /// Whether an answer must stand between results and a prompt.
    needs_answer: bool,
    /// Whether the model requires reasoning with calls once it has returned some.
    needs_reasoning: bool,
    /// The member in which the model returned its reasoning so far.
    reasoning: Option<&'static str>,
}

impl History for Conversation {
    fn add(&mut self, message: &RequestMessage) {
        match message {
            RequestMessage::User { parts } => self.user(parts),
            RequestMessage::Assistant { parts } => {
                self.ids.forget();
                self.assistant(parts);
            }
            RequestMessage::Tool { results } => self.results(results),
        }
    }

    fn settle(&mut self) -> Vec<Value> {
        // the last one may be extended, whether it gets a mark or not
        let settled = self.first_marked().min(self.done.len().saturating_sub(1));
        let done = self.done.drain(..settled).map(|mut message| {
            message.shape(self.place);
            message.into_value()
        });
        self.system.take().into_iter().chain(done).collect()
    }

    fn open(&self) -> Vec<Value> {
        let first_marked = self.first_marked();
        let open = |(at, message): (usize, &Message)| {
            let mut message = message.clone();
            message.shape(self.place);
            if at >= first_marked && message.content.is_some() {
                message.mark(self.place);
            }
            message.into_value()
        };
        self.done.iter().enumerate().map(open).collect()
    }

    fn fork(&self) -> Box<dyn History> {
        Box::new(self.clone())
    }
}

impl Conversation {
    pub(super) fn new(vendor: &'static Vendor, request: &Request) -> Self {
        let model = &request.model.id;
        let place = vendor.marks(model);
        let system = content::system(&request.system, place == Some(MarkPlace::Part));
        let system = system.map(|system| {
            let mut system = Message::new("system", system);
            if place == Some(MarkPlace::Message) {
                system.mark(place);
            }
            system.into_value()
        });
        Self {
            vendor,
            place,
            system,
            done: Vec::new(),
            ids: SentIds::new(vendor.ids(model)),
            needs_answer: vendor.needs_answer_after_results(model),
            needs_reasoning: vendor.returns_reasoning || needs_reasoning(model),
            reasoning: vendor.returns_reasoning.then_some(REASONING[0]),
        }
    }

    /// The index of the first message that has a mark. Only messages with content have one.
    fn first_marked(&self) -> usize {
        let mut filled = self.done.iter().rposition(|message| message.content.is_some());
        for _ in 1..MARKED {
            let before = &self.done[..filled.unwrap_or_default()];
            filled = before.iter().rposition(|message| message.content.is_some());
        }
        filled.unwrap_or_default()
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

    fn push_user(&mut self, mut content: Content) {
        if content.is_empty() {
            content.text(NO_TEXT);
        }
        match self.done.last_mut() {
            Some(last) if last.role == "user" && self.vendor.alternates => {
                last.content.get_or_insert_default().append(content);
                return;
            }
            Some(last) if last.role == "tool" && self.needs_answer => {
                self.done.push(Message::new("assistant", Content::from_text(LOOP_CLOSED)));
            }
            Some(_) | None => {}
        }
        self.done.push(Message::new("user", content));
    }

    fn assistant(&mut self, parts: &[AssistantPart]) {
        let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
        let (mut more, mut of_call) = (Map::new(), Map::new());
        for part in parts {
            match part {
                // the texts of one answer are joined without a separator
                AssistantPart::Text { text: words } => text.push_str(words),
                // OpenAI refuses members that it does not know
                AssistantPart::Reasoning { .. } if *self.vendor == OPENAI => {}
                AssistantPart::Reasoning { text, signature, .. } => {
                    match Returned::read(signature) {
                        Some(Returned::Call(members)) => of_call = members,
                        Some(Returned::Message(members)) => returned::add(&mut more, members),
                        None => {
                            if let Some(member) = reasoning_member(signature) {
                                if !self.vendor.returns_reasoning {
                                    self.reasoning = Some(member);
                                }
                                reasoning.push_str(text);
                            }
                        }
                    }
                }
                AssistantPart::Call { id, name, input } => {
                    let (name, arguments) = (tool_name(name), object(input).to_string());
                    let function =
                        members([("name", name.into()), ("arguments", arguments.into())]);
                    let mut call = Map::new();
                    call.insert("id".into(), self.ids.call(id).into());
                    call.insert("type".into(), "function".into());
                    call.insert("function".into(), function);
                    call.append(&mut of_call);
                    calls.push(Value::Object(call));
                }
            }
        }
        let content = (!text.trim().is_empty()).then(|| Content::from_text(&text));
        if content.is_none() && calls.is_empty() {
            return;
        }
        if self.done.is_empty() && self.vendor.alternates {
            self.push_user(Content::default());
        }
        if !calls.is_empty() {
            if let Some(member) = self
                .reasoning
                .filter(|_| self.vendor.returns_reasoning || !more.contains_key(DETAILS))
            {
                if !reasoning.trim().is_empty() {
                    more.insert(member.into(), reasoning.into());
                } else if self.needs_reasoning {
                    more.insert(member.into(), NO_REASONING.into());
                }
            }
            more.insert("tool_calls".into(), calls.into());
        }
        self.done.push(Message { role: "assistant", content, more });
    }

    /// Adds results. Tool messages accept only text, so files follow in a user message.
    fn results(&mut self, results: &[ToolResult]) {
        let mut files = Content::default();
        for result in results {
            let mut content = Content::default();
            content.text(&result.output);
            self.attach(result, &mut content, &mut files);
            if content.is_empty() {
                content.text(NO_TEXT);
            }
            let mut message = Message::new("tool", content);
            message.more.insert("tool_call_id".into(), self.ids.result(&result.call).into());
            self.done.push(message);
        }
        if !files.is_empty() {
            self.push_user(files);
        }
    }

    fn attach(&self, result: &ToolResult, content: &mut Content, files: &mut Content) {
        let media =
            |file: &Attachment| content::media(self.vendor, &file.mime, &file.name, &file.base64);
        let (good, missing): (Vec<_>, Vec<_>) =
            result.attachments.iter().map(media).partition(Result::is_ok);
        for words in missing.into_iter().filter_map(Result::err) {
            content.text(&words);
        }
        if !good.is_empty() {
            files.text(&format!("Attached to the result of `{}`:", tool_name(&result.name)));
            good.into_iter().for_each(|file| files.media(file));
            if content.is_empty() {
                content.text("(see the attached files)");
            }
        }
    }
}

/// A tool's name in the form that the API accepts.
pub(crate) fn tool_name(name: &str) -> String {
    shape::tool_name(name, LONGEST_NAME)
}
