//! The neutral request, built from the state alone.
//!
//! Invariant: from any prefix of any log that holds a prompt, the request ends in a user or tool
//! message, each call has exactly one result in place, and no block is empty.

use std::collections::HashSet;

use crate::Json;
use crate::event::{Attachment, ModelRef, PromptKind, PromptPart, Purpose};
use crate::request::{AssistantPart, Request, RequestMessage, ToolResult};
use crate::state::{Call, Compacting, Message, Phase, Reply, ReplyEnd, ReplyPart, State, words};

/// The request for the next step of the turn.
pub fn request(s: &State) -> Request {
    let mut builder = Builder::new(s.kit.model.name());
    s.messages.iter().for_each(|message| builder.message(message));
    builder.drop_trailing_answers();
    if s.on_last_step() {
        // at the end, and beside the tools, so that what a provider has cached stays of use
        builder.add(PromptPart::text(words::LAST_STEP));
    }
    builder.finish(s, Purpose::Turn)
}

/// Characters of a prompt that a title is made from.
const TITLED: usize = 4_000;
/// Tokens for a title, with room for a model that has to think first.
const TITLE_OUTPUT: u64 = 2_000;

/// The request for the session's title, from the first prompt alone.
pub fn title_request(s: &State) -> Request {
    let kit = &s.kit;
    let model = kit.options.small_model.as_ref().unwrap_or(&kit.model);
    let prompt = s.messages.iter().find_map(Message::prompt);
    let texts = prompt.iter().flat_map(|prompt| &prompt.parts);
    let texts = texts.filter(|part| part.kind == PromptKind::Text).map(|part| part.text.trim());
    let text: String = texts.collect::<Vec<_>>().join("\n").chars().take(TITLED).collect();
    Request {
        purpose: Purpose::Title,
        model: model.name(),
        max_output: model.limit.output.min(TITLE_OUTPUT),
        // a small call: neither thinking nor whatever else the session's model was set up for
        options: Json::parse(r#"{"temperature":0.5}"#).unwrap_or_default(),
        cache_key: s.session.to_string(),
        system: vec![kit.options.title_prompt.clone()],
        tools: Vec::new(),
        messages: vec![RequestMessage::User {
            parts: vec![PromptPart::text(words::to_title(&text))],
        }],
    }
}

/// Characters of a tool's output in the request for a summary, if whole ones did not fit.
const SHORTENED: usize = 1_000;

/// The request that asks for a summary of everything that `compacting` is to replace, in words:
/// media have been seen. One that did not fit is made again with long tool output cut short.
pub fn summary_request(s: &State, compacting: &Compacting) -> Request {
    let mut builder = Builder::new(s.kit.model.name());
    builder.media = false;
    builder.output = (compacting.overflows > 0).then_some(SHORTENED);
    let past = |m: &&Message| m.prompt().is_none_or(|prompt| prompt.seq <= compacting.through);
    s.messages.iter().filter(past).for_each(|message| builder.message(message));
    builder.user(vec![PromptPart::text(s.kit.options.summary_prompt.clone())]);
    builder.finish(s, Purpose::Compaction)
}

struct Builder {
    model: ModelRef,
    messages: Vec<RequestMessage>,
    /// Ids given to calls so far: providers want them unique, models do not always oblige.
    ids: HashSet<String>,
    /// Whether media are sent, or words in their place.
    media: bool,
    /// Characters of a tool's output at most.
    output: Option<usize>,
}

impl Builder {
    fn new(model: ModelRef) -> Self {
        Self { model, messages: Vec::new(), ids: HashSet::new(), media: true, output: None }
    }

    fn finish(mut self, s: &State, purpose: Purpose) -> Request {
        self.drop_trailing_answers();
        let kit = &s.kit;
        Request {
            purpose,
            model: self.model,
            max_output: kit.model.limit.output.min(kit.options.max_output),
            options: kit.options.request.clone(),
            cache_key: s.session.to_string(),
            system: kit.system.iter().filter(|block| !block.is_empty()).cloned().collect(),
            tools: if purpose == Purpose::Turn { kit.tools.clone() } else { Vec::new() },
            messages: self.messages,
        }
    }

    /// An assistant message at the end would be one to continue, and no API takes that for granted.
    fn drop_trailing_answers(&mut self) {
        while matches!(self.messages.last(), Some(RequestMessage::Assistant { .. })) {
            self.messages.pop();
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(prompt) => {
                let reminder = prompt.reminder.iter().map(PromptPart::text);
                self.user(prompt.parts.iter().cloned().chain(reminder).collect());
            }
            Message::Assistant(reply) => self.reply(reply),
            Message::Summary { text, goes_on, reminder } => {
                let goes_on = goes_on.then(|| words::GO_ON.to_owned());
                let parts = [Some(words::summary(text)), reminder.clone(), goes_on];
                self.user(parts.into_iter().flatten().map(PromptPart::text).collect());
            }
        }
    }

    fn user(&mut self, mut parts: Vec<PromptPart>) {
        for part in parts.iter_mut().filter(|part| part.kind == PromptKind::Task) {
            *part = PromptPart::text(words::commissioned(part.name.as_deref().unwrap_or_default()));
        }
        parts.retain(|part| part.kind != PromptKind::Text || !part.text.trim().is_empty());
        if !self.media {
            let media = parts.iter_mut().filter(|part| part.kind == PromptKind::Media);
            media.for_each(|part| *part = words::media_part(part));
        }
        if parts.is_empty() {
            parts.push(PromptPart::text(words::EMPTY_PROMPT));
        }
        self.messages.push(RequestMessage::User { parts });
    }

    /// Says something more to the model, in the user's last message if nothing has come since.
    fn add(&mut self, part: PromptPart) {
        if let Some(RequestMessage::User { parts }) = self.messages.last_mut() {
            parts.push(part);
        } else {
            self.user(vec![part]);
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if !reply.has_calls() && !matches!(reply.end, ReplyEnd::Whole(_)) {
            return;
        }
        let mut parts = Vec::new();
        let mut results = Vec::new();
        for part in &reply.parts {
            match part {
                ReplyPart::Text { text, .. } if text.trim().is_empty() => {}
                ReplyPart::Text { text, .. } => {
                    parts.push(AssistantPart::Text { text: text.clone() });
                }
                ReplyPart::Reasoning { text, signature: Some(signature), redacted, .. }
                    if reply.model == self.model =>
                {
                    let (text, signature) = (text.clone(), signature.clone());
                    parts.push(AssistantPart::Reasoning { text, signature, redacted: *redacted });
                }
                ReplyPart::Reasoning { .. } => {}
                // the model is told by the batch
                ReplyPart::Call(call) if call.within.is_some() => {}
                ReplyPart::Call(call) => {
                    let (id, name) = (self.unique_id(call), usable_name(call));
                    let input = call.input.clone();
                    results.push(self.brief(result(call, id.clone(), name.clone())));
                    parts.push(AssistantPart::Call { id, name, input });
                }
            }
        }
        // reasoning alone says nothing that a provider would take back
        if parts.iter().all(|part| matches!(part, AssistantPart::Reasoning { .. })) {
            return;
        }
        self.messages.push(RequestMessage::Assistant { parts });
        if !results.is_empty() {
            self.messages.push(RequestMessage::Tool { results });
        }
        if reply.by_prompt {
            self.user(vec![PromptPart::text(words::TELL_OF_IT)]);
        }
    }

    /// The result as this request is to hold it.
    fn brief(&self, mut result: ToolResult) -> ToolResult {
        if let Some(chars) = self.output {
            result.output = words::shortened(&result.output, chars);
        }
        if !self.media {
            for Attachment { mime, name, .. } in std::mem::take(&mut result.attachments) {
                result.output.push('\n');
                result.output.push_str(&words::media(&mime, &name));
            }
        }
        result
    }

    fn unique_id(&mut self, call: &Call) -> String {
        let mut id =
            if call.id.is_empty() { format!("call_{}", call.seq) } else { call.id.clone() };
        if !self.ids.insert(id.clone()) {
            id = format!("{id}_{}", call.seq);
            self.ids.insert(id.clone());
        }
        id
    }
}

/// The tool's name in the form that every API takes: at most 64 of `[A-Za-z0-9_-]`.
fn usable_name(call: &Call) -> String {
    let name = call.resolved.as_ref().map_or(&call.name, |resolved| &resolved.name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(plain).collect();
    if name.is_empty() { "invalid".to_owned() } else { name }
}

fn result(call: &Call, id: String, name: String) -> ToolResult {
    let (output, is_error, attachments) = match &call.phase {
        Phase::Done(_) if call.pruned => (words::CLEARED.to_owned(), false, Vec::new()),
        Phase::Done(outcome) => {
            let output = match outcome.output.trim() {
                "" => words::NO_OUTPUT.to_owned(),
                _ => outcome.output.clone(),
            };
            (output, outcome.is_error, outcome.attachments.clone())
        }
        Phase::Called
        | Phase::Checking(_)
        | Phase::Resolved
        | Phase::MustAsk { .. }
        | Phase::Asking { .. }
        | Phase::Allowed
        | Phase::Running { .. }
        | Phase::TimedOut { .. }
        | Phase::Unknown { .. } => (words::INTERRUPTED.to_owned(), true, Vec::new()),
    };
    ToolResult { call: id, name, output, is_error, attachments }
}
