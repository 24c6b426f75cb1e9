//! Builds each request to a model, with its messages (the model's context), from the state alone. The type is in
//! `request.rs`. The crate `providers` turns it into the body of an API.
//!
//! Invariant: from any prefix of any log that holds a prompt, the request ends in a user or tool
//! message, each call has exactly one result in its place, and no block is empty.

mod hook_parameters;
mod plugin_changes;
mod prefix;

use std::collections::HashSet;
use std::sync::Arc;

pub use crate::json::merge;
pub use hook_parameters::hook_parameters;
pub(crate) use prefix::request_sha256;
pub use prefix::turn_request;
pub use prefix::{FurtherMessages, RequestMessages, Sourced};

use crate::event::{ModelRef, PromptKind, PromptPart, Purpose};
use crate::id::Seq;
use crate::json::Json;
use crate::media;
use crate::request::{AssistantPart, Memo, Request, RequestMessage, ToolResult};
use crate::state::{
    Call, Compacting, Message, ModelStatus, Phase, Prompt, Reply, ReplyEnd, ReplyPart, State, words,
};
use crate::turn_config::{ModelSpec, STRUCTURED_OUTPUT};

/// The request for the next step of the turn.
pub fn request(s: &State) -> Request {
    step(s).request
}

fn step(s: &State) -> Built {
    let mut builder = Builder::from_state(s);
    builder.conclude(s);
    builder.finish(s, Purpose::Turn)
}

/// All messages of the conversation, also answers at its end, which no request has.
pub fn conversation(s: &State) -> Vec<RequestMessage> {
    Builder::from_state(s).messages
}

/// A request without its messages.
fn head(s: &State, purpose: Purpose, model: ModelRef) -> Request {
    let config = &s.config;
    let mut head = Request {
        purpose,
        model,
        max_output: config.model.limit.output.min(config.options.max_output),
        options: config.options.request.clone(),
        cache_key: s.session.to_string(),
        system: config.system.iter().filter(|block| !block.is_empty()).cloned().collect(),
        tools: if purpose == Purpose::Turn { config.tools.clone() } else { Vec::new() },
        messages: Vec::new(),
        encoded: Memo::default(),
    };
    if purpose == Purpose::Turn {
        plugin_changes::apply(&mut head, s);
        require_output(&mut head, s);
    }
    head
}

/// The request for the next step of the turn, without its messages.
pub fn turn_head(s: &State) -> Request {
    head(s, Purpose::Turn, s.config.model.name())
}

/// Requires a call of the model if the turn asks for a structured answer. In the last step only the call that
/// gives it is possible.
fn require_output(head: &mut Request, s: &State) {
    if s.config.options.output.is_none() {
        return;
    }
    if s.is_last_step() {
        head.tools.retain(|tool| tool.name == STRUCTURED_OUTPUT);
    }
    let mut options = head.options.value();
    if let Some(options) = options.as_object_mut()
        && !options.contains_key("toolChoice")
        && !options.contains_key("tool_choice")
    {
        options.insert("toolChoice".to_owned(), "required".into());
    }
    head.options = Json::from_value(&options);
}

/// A request, and the events that its messages come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    pub request: Request,
    /// For each message, the events it is made of: a prompt, the `model.requested` of a reply, the
    /// `tool.called` of each result. Empty for text that was written for this request: a summary or
    /// a fixed text.
    pub sources: Vec<Vec<Seq>>,
}

/// The request of a `model.requested` that has just been applied.
pub fn asked(s: &State, purpose: Purpose) -> Built {
    match (purpose, s.turn.as_ref().map(|turn| &turn.model_status)) {
        (Purpose::Title, _) => {
            let prompt = titled_prompt(s).map(|prompt| prompt.seq);
            Built { request: title_request(s), sources: vec![prompt.into_iter().collect()] }
        }
        (Purpose::SessionSummary, _) => {
            let prompt = titled_prompt(s).map(|prompt| prompt.seq);
            let reply = s.last_reply().map(|reply| reply.asked);
            let sources = vec![prompt.into_iter().chain(reply).collect()];
            Built { request: session_summary_request(s), sources }
        }
        (Purpose::Compaction, Some(ModelStatus::Compacting(compacting))) => summary(s, compacting),
        _ => step(s),
    }
}

/// The model of a request for `purpose`.
pub fn model_of(s: &State, purpose: Purpose) -> &ModelSpec {
    let options = &s.config.options;
    let other = match purpose {
        Purpose::Turn => None,
        Purpose::Title => options.small_model.as_ref(),
        Purpose::Compaction => options.summary_model.as_ref(),
        Purpose::SessionSummary => {
            options.session_summary_model.as_ref().or(options.small_model.as_ref())
        }
    };
    other.unwrap_or(&s.config.model)
}

/// The parts of the conversation that the next request of the turn omits or shortens: seq and
/// reason.
pub fn left_out(s: &State) -> Vec<(Seq, &'static str)> {
    let model = s.config.model.name();
    let mut out = Vec::new();
    for reply in s.messages.iter().filter_map(Message::reply) {
        if !reply.has_calls() && reply.end == ReplyEnd::Cut {
            out.push((reply.asked, "a reply that was cut off before its first call"));
            continue;
        }
        let kept = |part: &ReplyPart| match part {
            ReplyPart::Reasoning { signature, .. } => signature.is_some() && reply.model == model,
            ReplyPart::Text { .. } | ReplyPart::Call(_) => true,
        };
        if !reply.parts.iter().all(kept) {
            out.push((reply.asked, "reasoning that is unsigned or of another model"));
        }
        let pruned = reply.calls().filter(|call| call.pruned);
        out.extend(pruned.map(|call| (call.seq, "the output of a call, pruned")));
    }
    out
}

/// The number of characters of a prompt that a title is made from.
const TITLED: usize = 4_000;
/// The token limit for a title. It has room for a model that has to think first.
const TITLE_OUTPUT: u64 = 2_000;

/// The first prompt that asks for an answer.
fn titled_prompt(s: &State) -> Option<&Prompt> {
    s.messages.iter().filter_map(Message::prompt).find(|prompt| !prompt.quiet)
}

/// The beginning of that prompt's text.
fn titled_text(s: &State) -> String {
    let mut parts = titled_prompt(s).map(Prompt::filled).unwrap_or_default();
    parts.retain(|part| part.kind == PromptKind::Text);
    let texts: Vec<&str> = parts.iter().map(|part| part.text.trim()).collect();
    texts.join("\n").chars().take(TITLED).collect()
}

/// The request for the session's summary. It contains the first prompt and the turn's answer, and no
/// result of a tool.
pub fn session_summary_request(s: &State) -> Request {
    let options = &s.config.options;
    let model = model_of(s, Purpose::SessionSummary);
    let answer: String = s.answer().trim().chars().take(TITLED).collect();
    let text = words::to_sum_up(&titled_text(s), &answer);
    Request {
        purpose: Purpose::SessionSummary,
        model: model.name(),
        max_output: model.limit.output.min(TITLE_OUTPUT),
        options: options.session_summary_request.clone().unwrap_or_else(|| small_call(model)),
        cache_key: s.session.to_string(),
        system: vec![options.session_summary_prompt.clone()],
        tools: Vec::new(),
        messages: vec![RequestMessage::User { parts: [PromptPart::text(text)].into() }],
        encoded: Memo::default(),
    }
}

/// The request for the session's title. It contains only the first prompt.
pub fn title_request(s: &State) -> Request {
    let config = &s.config;
    let model = model_of(s, Purpose::Title);
    let text = titled_text(s);
    Request {
        purpose: Purpose::Title,
        model: model.name(),
        max_output: model.limit.output.min(TITLE_OUTPUT),
        options: config.options.title_request.clone().unwrap_or_else(|| small_call(model)),
        cache_key: s.session.to_string(),
        system: vec![config.options.title_prompt.clone()],
        tools: Vec::new(),
        messages: vec![RequestMessage::User {
            parts: [PromptPart::text(words::to_title(&text))].into(),
        }],
        encoded: Memo::default(),
    }
}

/// Options without thinking and without the session model's other options.
fn small_call(model: &ModelSpec) -> Json {
    let options = if model.abilities.sampling { r#"{"temperature":0.5}"# } else { "{}" };
    Json::parse(options).unwrap_or_default()
}

/// The length of a tool's output in a second request for a summary, in characters.
const SHORTENED: usize = 1_000;

/// The request for a summary of everything that `compacting` will replace. Media become text. If
/// the first request did not fit, the next one cuts long tool output short.
pub fn summary_request(s: &State, compacting: &Compacting) -> Request {
    summary(s, compacting).request
}

fn summary(s: &State, compacting: &Compacting) -> Built {
    let options = &s.config.options;
    let model = model_of(s, Purpose::Compaction);
    let mut builder = Builder::new(model, Files::Seen);
    builder.output = (compacting.overflows > 0).then_some(SHORTENED);
    let past = s.messages.iter().filter(|message| compacting.replaces(message));
    past.for_each(|message| builder.message(message));
    let max_output = model.limit.output.min(options.max_output);
    let mut prompt = plugin_changes::summary_prompt(s, compacting);
    if compacting.cut > 0 {
        prompt.push_str("\n\n");
        prompt.push_str(&words::shorter_summary(max_output));
    }
    builder.user(vec![PromptPart::text(prompt)], Vec::new());
    let mut built = builder.finish(s, Purpose::Compaction);
    built.request.max_output = max_output;
    if let Some(request) = &options.summary_request {
        built.request.options = request.clone();
    }
    built
}

struct Builder {
    model: ModelRef,
    messages: Vec<RequestMessage>,
    sources: Vec<Vec<Seq>>,
    /// Ids given to calls so far. Providers require unique ids, but models sometimes repeat them.
    ids: HashSet<String>,
    files: Files,
    /// The maximum length of a tool's output, in characters.
    output: Option<usize>,
}

/// The policy since which images that an API would refuse are not sent.
const FITS_IMAGES: u16 = 7;

/// How attached files appear in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    /// Sent, but for images with a longer side.
    Sent { max_side: u32 },
    /// The model has already seen them: text replaces them.
    Seen,
    /// The model accepts only text: text replaces all other files.
    Unreadable,
}

impl Files {
    fn for_state(s: &State) -> Self {
        if !s.config.model.abilities.media {
            return Self::Unreadable;
        }
        let max_side = match s.policy < FITS_IMAGES {
            true => u32::MAX,
            false if s.messages.iter().map(Message::images).sum::<usize>() > media::MANY => {
                media::MAX_SIDE_OF_MANY
            }
            false => media::MAX_SIDE,
        };
        Self::Sent { max_side }
    }

    /// The text that replaces a file; `None`: the file itself is sent.
    fn words(self, mime: &str, name: &str, base64: &str) -> Option<String> {
        match self {
            Self::Sent { max_side: u32::MAX } => None,
            Self::Sent { max_side } => {
                media::unfit(mime, base64, max_side).map(|why| words::unfit(mime, name, &why))
            }
            Self::Seen => Some(words::media(mime, name)),
            Self::Unreadable if mime.starts_with("text/") => None,
            Self::Unreadable => Some(words::unreadable(mime, name)),
        }
    }
}

impl Builder {
    fn new(model: &ModelSpec, files: Files) -> Self {
        let (messages, sources, ids) = (Vec::new(), Vec::new(), HashSet::new());
        Self { model: model.name(), messages, sources, ids, files, output: None }
    }

    /// With all messages of the conversation.
    fn from_state(s: &State) -> Self {
        let mut builder = Self::new(&s.config.model, Files::for_state(s));
        s.messages.iter().for_each(|message| builder.message(message));
        builder
    }

    fn finish(mut self, s: &State, purpose: Purpose) -> Built {
        self.drop_trailing_answers();
        let request = Request { messages: self.messages, ..head(s, purpose, self.model) };
        Built { request, sources: self.sources }
    }

    fn push(&mut self, message: RequestMessage, of: Vec<Seq>) {
        self.messages.push(message);
        self.sources.push(of);
    }

    /// Adds the texts that end a request of the turn.
    fn conclude(&mut self, s: &State) {
        self.drop_trailing_answers();
        if s.on_last_step() {
            // at the end, while the tools stay defined, so that the provider's cache remains usable
            self.add(PromptPart::text(words::LAST_STEP));
        }
    }

    /// Drops answers at the end: a trailing assistant message would be one to continue, and not
    /// every API supports that.
    fn drop_trailing_answers(&mut self) {
        while matches!(self.messages.last(), Some(RequestMessage::Assistant { .. })) {
            self.messages.pop();
            self.sources.pop();
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(prompt) => {
                let reminder = prompt.reminder.iter().map(PromptPart::text);
                let parts = prompt.filled().into_iter().chain(reminder).collect();
                self.user(parts, vec![prompt.seq]);
            }
            Message::Assistant(reply) => self.reply(reply),
            Message::Summary { text, goes_on, reminder, of } => {
                let goes_on = goes_on.then(|| words::GO_ON.to_owned());
                let parts = [Some(words::summary(text)), reminder.clone(), goes_on];
                let parts = parts.into_iter().flatten().map(PromptPart::text).collect();
                self.user(parts, vec![*of]);
            }
            Message::Note { text, of } => {
                self.add(PromptPart::text(text));
                if let Some(sources) = self.sources.last_mut() {
                    sources.push(*of);
                }
            }
        }
    }

    fn user(&mut self, mut parts: Vec<PromptPart>, of: Vec<Seq>) {
        for part in parts.iter_mut().filter(|part| part.kind == PromptKind::Task) {
            *part = PromptPart::text(words::subtask(part.name.as_deref().unwrap_or_default()));
        }
        parts.retain(|part| part.kind != PromptKind::Text || !part.text.trim().is_empty());
        for part in parts.iter_mut().filter(|part| part.kind == PromptKind::Media) {
            let (mime, name) = (part.mime.as_deref(), part.name.as_deref());
            let (mime, name) = (mime.unwrap_or("a file"), name.unwrap_or_default());
            let words = self.files.words(mime, name, &part.text);
            if let Some(words) = words {
                *part = PromptPart::text(words);
            }
        }
        if parts.is_empty() {
            parts.push(PromptPart::text(words::EMPTY_PROMPT));
        }
        self.push(RequestMessage::User { parts: parts.into() }, of);
    }

    /// Adds a text for the model, to the user's last message if nothing has come since.
    fn add(&mut self, part: PromptPart) {
        if let Some(RequestMessage::User { parts }) = self.messages.last_mut() {
            *parts = parts.iter().cloned().chain([part]).collect();
        } else {
            self.user(vec![part], Vec::new());
        }
    }

    fn reply(&mut self, reply: &Reply) {
        if !reply.has_calls() && matches!(reply.end, ReplyEnd::Open | ReplyEnd::Cut) {
            return;
        }
        // the command's output is part of the prompt's text
        if reply.by_prompt.is_some_and(|of| of.kind == PromptKind::Command) {
            return;
        }
        let mut parts = Vec::new();
        let (mut results, mut answered) = (Vec::new(), Vec::new());
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
                // the batch reports the results of its entries
                ReplyPart::Call(call) if call.within.is_some() => {}
                ReplyPart::Call(call) => {
                    let (id, name) = (self.unique_id(call), usable_name(call));
                    let input = call.input.clone();
                    results.push(self.brief(result(call, id.clone(), name.clone())));
                    answered.push(call.seq);
                    parts.push(AssistantPart::Call { id, name, input });
                }
            }
        }
        // providers refuse an answer that is only reasoning
        if parts.iter().all(|part| matches!(part, AssistantPart::Reasoning { .. })) {
            return;
        }
        if reply.last {
            // the text was sent before, so it stays: a changed history is in no cache
            self.add(PromptPart::text(words::LAST_STEP));
        }
        self.push(RequestMessage::Assistant { parts: parts.into() }, vec![reply.asked]);
        if !results.is_empty() {
            self.push(RequestMessage::Tool { results: results.into() }, answered);
        }
        if reply.by_prompt.is_some() {
            self.user(vec![PromptPart::text(words::TELL_OF_IT)], Vec::new());
        }
    }

    /// The result in the form of this request.
    fn brief(&self, mut result: ToolResult) -> ToolResult {
        if let Some(chars) = self.output {
            result.output = words::shortened(&result.output, chars).into();
        }
        for file in std::mem::take(&mut result.attachments) {
            if let Some(words) = self.files.words(&file.mime, &file.name, &file.base64) {
                result.output = format!("{}\n{words}", result.output).into();
            } else {
                result.attachments.push(file);
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

/// The tool's name in the form that every API accepts: at most 64 of `[A-Za-z0-9_-]`.
fn usable_name(call: &Call) -> String {
    let name = call.resolved.as_ref().map_or(&call.name, |resolved| &resolved.name);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(plain).collect();
    if name.is_empty() { "invalid".to_owned() } else { name }
}

fn result(call: &Call, id: String, name: String) -> ToolResult {
    let (output, is_error, attachments) = match &call.phase {
        Phase::Done(_) if call.pruned => (words::CLEARED.into(), false, Vec::new()),
        Phase::Done(outcome) => {
            let output = match outcome.output.trim() {
                "" => words::NO_OUTPUT.into(),
                _ => Arc::clone(&outcome.output),
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
        | Phase::Unknown { .. } => (words::INTERRUPTED.into(), true, Vec::new()),
    };
    ToolResult { call: id, name, output, is_error, attachments }
}
