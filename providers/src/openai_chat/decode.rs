//! Decodes the stream of Chat Completions, in any vendor's variant, into stream events.

use leftfold_events::event::{FailureClass, Finish};
use serde_json::{Map, Value, json};

use super::calls::Calls;
use super::returned::{DETAILS, OPAQUE, Returned, add_detail, text_of};
use super::usage::Counts;
use super::wire::{CallPiece, Choice, Chunk, Delta, Words, plain_words};
use crate::errors::Failure;
use crate::parts::{AnswerPart, AnswerParts, bare_error, is_model_fault, reported, unreadable};
use crate::stream::{self, EventQueue, StreamEvent};
use crate::vendors::Vendor;
use leftfold_framing::sse::SseEvent;

/// The data after the last chunk.
const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    vendor: &'static Vendor,
    parts: AnswerParts,
    calls: Calls,
    /// Entries of `reasoning_details`.
    details: Vec<Value>,
    /// The other members that must go back with the message.
    returned: Map<String, Value>,
    usage: Counts,
    reason: Option<String>,
}

impl Decoder {
    pub(crate) fn new(provider: &str, vendor: &'static Vendor) -> Self {
        Self {
            provider: provider.to_owned(),
            vendor,
            parts: AnswerParts::default(),
            calls: Calls::default(),
            details: Vec::new(),
            returned: Map::new(),
            usage: Counts::default(),
            reason: None,
        }
    }

    fn take(&mut self, chunk: Chunk, out: &mut EventQueue) {
        let mut usage = chunk.x_groq.as_ref().and_then(|own| Counts::read(own.get("usage")?));
        for choice in chunk.choices.into_iter().flatten() {
            usage = choice.usage.as_ref().and_then(Counts::read).or(usage);
            // only one answer was requested
            if choice.index.as_ref().and_then(Value::as_u64).is_none_or(|index| index == 0) {
                self.choice(choice, out);
            }
        }
        // counts are running totals, so the last ones replace all others
        if let Some(usage) = chunk.usage.as_ref().and_then(Counts::read).or(usage) {
            self.usage = usage;
        }
    }

    fn choice(&mut self, choice: Choice, out: &mut EventQueue) {
        if let Some(delta) = choice.delta {
            self.delta(delta, out);
        }
        let reason = choice.finish_reason.map(Words::into_text).unwrap_or_default();
        if !matches!(reason.as_str(), "" | "null") {
            // tools may begin before the counts arrive
            self.close(!is_length(&reason), out);
            self.reason = Some(reason);
        }
    }

    fn delta(&mut self, mut delta: Delta, out: &mut EventQueue) {
        let told = delta.take_reasoning();
        let is_told = told.is_some();
        if let Some((member, words)) = told {
            self.reasoning(Some(member), words.into_text(), out);
        }
        if let Some(Value::Array(pieces)) = delta.reasoning_details {
            for piece in pieces {
                if !is_told {
                    self.reasoning(None, text_of(&piece).to_owned(), out);
                }
                add_detail(&mut self.details, piece);
            }
        }
        if let Some(opaque) = delta.reasoning_opaque.filter(|words| !words.is_empty()) {
            self.returned.insert(OPAQUE.to_owned(), opaque.into_text().into());
        }
        for words in [delta.content, delta.refusal].into_iter().flatten() {
            self.reasoning(None, words.thinking, out);
            self.parts.write(AnswerPart::Text, words.text, out);
        }
        let older = delta
            .function_call
            .map(|function| CallPiece { function: Some(function), ..CallPiece::default() });
        for piece in delta.tool_calls.into_iter().flatten().chain(older) {
            self.parts.close(out);
            self.calls.take(piece, out);
        }
    }

    /// Adds reasoning. `member` takes it back to the model; `None`: other members do.
    fn reasoning(&mut self, member: Option<&'static str>, text: String, out: &mut EventQueue) {
        if !text.is_empty() {
            self.parts.sign(member);
            self.parts.write(AnswerPart::Reasoning, text, out);
        }
    }

    /// Ends all parts and calls.
    fn close(&mut self, is_whole: bool, out: &mut EventQueue) {
        self.parts.close(out);
        let mut members = std::mem::take(&mut self.returned);
        if !self.details.is_empty() {
            members.insert(DETAILS.to_owned(), json!(std::mem::take(&mut self.details)));
        }
        if !members.is_empty() {
            self.parts.seal(Returned::Message(members).write(), out);
        }
        self.calls.close(is_whole, &mut self.parts, out);
    }

    fn finish(&mut self, out: &mut EventQueue) {
        let is_answered = self.parts.has_text() || !self.calls.is_empty();
        let is_empty = self.parts.is_empty() && !is_answered;
        self.close(!self.reason.as_deref().is_some_and(is_length), out);
        out.push_back(match self.finish_of() {
            _ if self.reason.is_none() && is_empty => StreamEvent::Failed(Failure::new(
                FailureClass::Network,
                "the server ended its answer without any content",
            )),
            Ok(Finish::Stop | Finish::ToolCalls | Finish::Other) if !is_answered && !is_empty => {
                StreamEvent::Failed(Failure::unanswered())
            }
            Ok(finish) => StreamEvent::Finish { finish, usage: self.usage.neutral(self.vendor) },
            Err(failure) => StreamEvent::Failed(failure),
        });
    }

    fn finish_of(&self) -> Result<Finish, Failure> {
        let broken = |class, reason: &str| Failure {
            retryable: true,
            ..Failure::new(class, format!("the server broke off its answer ({reason})"))
        };
        match self.reason.as_deref() {
            Some(reason) if is_length(reason) => Ok(Finish::Length),
            Some("content_filter" | "sensitive") => Ok(Finish::ContentFilter),
            Some("tool_calls" | "function_call") => Ok(Finish::ToolCalls),
            Some(reason @ "insufficient_system_resource") => {
                Err(broken(FailureClass::Overloaded, reason))
            }
            Some(reason) if reason == "error" || is_model_fault(reason) => {
                Err(broken(FailureClass::Other, reason))
            }
            // some servers send `stop` for calls too
            Some(_) | None if !self.calls.is_empty() => Ok(Finish::ToolCalls),
            Some("stop" | "stop_sequence" | "eos" | "end_turn") => Ok(Finish::Stop),
            Some(_) | None => Ok(Finish::Other),
        }
    }

    /// The outcome of an event that cannot be parsed.
    fn unreadable(&self, event: &SseEvent<'_>, reason: &serde_json::Error) -> Option<StreamEvent> {
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let has_choices = |_: &str| value.get("choices").is_some();
        unreadable(&self.provider, event, &value, has_choices, reason)
    }
}

/// Whether the answer ended because it reached the limit of its length.
fn is_length(reason: &str) -> bool {
    matches!(reason, "length" | "max_tokens" | "model_length")
}

impl stream::Decoder for Decoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue) {
        if event.data.trim() == DONE {
            return self.finish(out);
        }
        if event.name.is_empty()
            && let Some(words) = plain_words(&event.data)
        {
            return self.parts.write(AnswerPart::Text, words, out);
        }
        match serde_json::from_str::<Chunk>(&event.data) {
            Ok(Chunk { error: Some(error), .. }) => out.push_back(reported(&self.provider, &error)),
            Ok(chunk) if event.name == "error" || chunk.is_error() => {
                let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
                out.push_back(reported(&self.provider, &value));
            }
            Ok(chunk) if chunk.is_foreign() => {
                let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
                out.extend(bare_error(&self.provider, &value));
            }
            Ok(chunk) => self.take(chunk, out),
            Err(e) => out.extend(self.unreadable(event, &e)),
        }
    }

    fn unstreamed(&self, answer: &Value) -> Option<Vec<String>> {
        let mut chunk = answer.clone();
        for choice in chunk.get_mut("choices")?.as_array_mut()? {
            choice["delta"] = choice.get_mut("message")?.take();
        }
        Some(vec![chunk.to_string(), DONE.to_owned()])
    }

    fn end(&mut self, rest: Option<&str>, out: &mut EventQueue) {
        match rest {
            // the blank line after the last event may be missing
            Some(rest) if rest.trim() == DONE => self.finish(out),
            None if self.reason.is_some() && !self.vendor.ends_in_done => self.finish(out),
            Some(_) | None => {}
        }
    }
}

impl Chunk {
    /// Whether it has nothing of a chunk.
    fn is_foreign(&self) -> bool {
        self.choices.is_none() && self.usage.is_none() && self.x_groq.is_none()
    }

    /// Whether it is an error in the form that vLLM and similar servers use.
    fn is_error(&self) -> bool {
        self.choices.is_none() && self.object.as_ref().is_some_and(|object| object.text == "error")
    }
}
