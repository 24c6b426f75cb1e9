//! Decodes the stream of Chat Completions, in any vendor's variant, into stream events.

use leftfold_events::event::{FailureClass, Finish};
use serde_json::Value;

use super::calls::Calls;
use super::usage::Counts;
use super::wire::{Choice, Chunk, Delta, Words, plain_words};
use crate::errors::Failure;
use crate::parts::{AnswerPart, Parts, reported, unreadable};
use crate::stream::{self, EventQueue, StreamEvent};
use crate::vendors::Vendor;
use leftfold_framing::sse::SseEvent;

/// The data after the last chunk.
const DONE: &str = "[DONE]";

/// The member that returns reasoning to the vendors that require it. Its name is the reasoning's
/// signature, so that only reasoning that came in this member is sent back.
pub(crate) const REASONING: &str = "reasoning_content";

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    vendor: &'static Vendor,
    parts: Parts,
    calls: Calls,
    usage: Counts,
    reason: Option<String>,
}

impl Decoder {
    pub(crate) fn new(provider: &str, vendor: &'static Vendor) -> Self {
        Self {
            provider: provider.to_owned(),
            vendor,
            parts: Parts::signed(vendor.returns_reasoning.then_some(REASONING)),
            calls: Calls::default(),
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
            self.parts.close(out);
            self.calls.close(!is_length(&reason), out);
            self.reason = Some(reason);
        }
    }

    fn delta(&mut self, mut delta: Delta, out: &mut EventQueue) {
        if let Some(words) = delta.take_reasoning() {
            self.parts.write(AnswerPart::Reasoning, words.into_text(), out);
        }
        for words in [delta.content, delta.refusal].into_iter().flatten() {
            self.parts.write(AnswerPart::Reasoning, words.thinking, out);
            self.parts.write(AnswerPart::Text, words.text, out);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.parts.close(out);
            self.calls.take(piece, out);
        }
    }

    fn finish(&mut self, out: &mut EventQueue) {
        let is_empty = self.parts.is_empty() && self.calls.is_empty();
        self.parts.close(out);
        self.calls.close(!self.reason.as_deref().is_some_and(is_length), out);
        out.push_back(match self.finish_of() {
            _ if self.reason.is_none() && is_empty => StreamEvent::Failed(Failure::new(
                FailureClass::Network,
                "the server ended its answer without any content",
            )),
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
            Some(reason @ "error") => Err(broken(FailureClass::Other, reason)),
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
            Ok(chunk) => self.take(chunk, out),
            Err(e) => out.extend(self.unreadable(event, &e)),
        }
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
    /// Whether it is an error in the form that vLLM and similar servers use.
    fn is_error(&self) -> bool {
        self.choices.is_none() && self.object.as_ref().is_some_and(|object| object.text == "error")
    }
}
