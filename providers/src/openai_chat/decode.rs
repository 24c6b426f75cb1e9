//! The stream of Chat Completions, as any of its vendors send it, in the neutral vocabulary.

use std::collections::VecDeque;

use leftfold_events::event::{FailureClass, Finish};
use serde_json::Value;

use super::calls::Calls;
use super::usage::Counts;
use super::wire::{Choice, Chunk, Delta, Words, plain_words};
use crate::errors::{Details, Failure};
use crate::sse::SseEvent;
use crate::stream::{self, StreamEvent};
use crate::vendors::Vendor;

type Out = VecDeque<StreamEvent>;

/// What follows the last chunk.
const DONE: &str = "[DONE]";

/// The member in which reasoning goes back to the vendors that want it; its name is the reasoning's
/// signature, so that only what came with one is sent back.
pub(crate) const REASONING: &str = "reasoning_content";

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    vendor: &'static Vendor,
    /// Parts opened so far, which number their ids.
    parts: u32,
    open: Option<Open>,
    calls: Calls,
    usage: Counts,
    reason: Option<String>,
}

/// The part that is being written. The wire has no word for where one ends: it does when another
/// begins.
#[derive(Debug)]
struct Open {
    kind: Kind,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Decoder {
    pub(crate) fn new(provider: &str, vendor: &'static Vendor) -> Self {
        Self {
            provider: provider.to_owned(),
            vendor,
            parts: 0,
            open: None,
            calls: Calls::default(),
            usage: Counts::default(),
            reason: None,
        }
    }

    fn take(&mut self, chunk: Chunk, out: &mut Out) {
        let mut usage = chunk.x_groq.as_ref().and_then(|own| Counts::read(own.get("usage")?));
        for choice in chunk.choices.into_iter().flatten() {
            usage = choice.usage.as_ref().and_then(Counts::read).or(usage);
            // one answer was asked for
            if choice.index.as_ref().and_then(Value::as_u64).is_none_or(|index| index == 0) {
                self.choice(choice, out);
            }
        }
        // counts are of the whole so far, so the last ones replace all before
        if let Some(usage) = chunk.usage.as_ref().and_then(Counts::read).or(usage) {
            self.usage = usage;
        }
    }

    fn choice(&mut self, choice: Choice, out: &mut Out) {
        if let Some(delta) = choice.delta {
            self.delta(delta, out);
        }
        let reason = choice.finish_reason.map(Words::whole).unwrap_or_default();
        if !matches!(reason.as_str(), "" | "null") {
            // tools may begin while the counts are still on their way
            self.close(out);
            self.calls.close(out);
            self.reason = Some(reason);
        }
    }

    fn delta(&mut self, mut delta: Delta, out: &mut Out) {
        if let Some(words) = delta.take_reasoning() {
            self.write(Kind::Reasoning, words.whole(), out);
        }
        for words in [delta.content, delta.refusal].into_iter().flatten() {
            self.write(Kind::Reasoning, words.thinking, out);
            self.write(Kind::Text, words.text, out);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.close(out);
            self.calls.take(piece, out);
        }
    }

    fn write(&mut self, kind: Kind, text: String, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.kind != kind) {
            self.close(out);
        }
        let parts = &mut self.parts;
        let open = self.open.get_or_insert_with(|| {
            let id = parts.to_string();
            *parts += 1;
            out.push_back(match kind {
                Kind::Text => StreamEvent::TextStart { id: id.clone() },
                Kind::Reasoning => StreamEvent::ReasoningStart { id: id.clone() },
            });
            Open { kind, id }
        });
        let id = open.id.clone();
        out.push_back(match kind {
            Kind::Text => StreamEvent::TextDelta { id, text },
            Kind::Reasoning => StreamEvent::ReasoningDelta { id, text },
        });
    }

    fn close(&mut self, out: &mut Out) {
        let Some(Open { kind, id }) = self.open.take() else { return };
        let signature = self.vendor.echoes.then(|| REASONING.to_owned());
        out.push_back(match kind {
            Kind::Text => StreamEvent::TextEnd { id },
            Kind::Reasoning => StreamEvent::ReasoningEnd { id, signature, redacted: false },
        });
    }

    fn finish(&mut self, out: &mut Out) {
        let is_empty = self.parts == 0 && self.calls.is_empty();
        self.close(out);
        self.calls.close(out);
        out.push_back(match self.finish_of() {
            _ if self.reason.is_none() && is_empty => StreamEvent::Failed(Failure::new(
                FailureClass::Network,
                "the server ended its answer without having said anything",
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
            Some("length" | "max_tokens" | "model_length") => Ok(Finish::Length),
            Some("content_filter" | "sensitive") => Ok(Finish::ContentFilter),
            Some("tool_calls" | "function_call") => Ok(Finish::ToolCalls),
            Some(reason @ "insufficient_system_resource") => {
                Err(broken(FailureClass::Overloaded, reason))
            }
            Some(reason @ "error") => Err(broken(FailureClass::Other, reason)),
            // some say `stop` of calls as well
            Some(_) | None if !self.calls.is_empty() => Ok(Finish::ToolCalls),
            Some("stop" | "stop_sequence" | "eos" | "end_turn") => Ok(Finish::Stop),
            Some(_) | None => Ok(Finish::Other),
        }
    }

    fn fail(&self, error: &Value) -> StreamEvent {
        StreamEvent::Failed(Failure::in_stream(&self.provider, &Details::of(error)))
    }

    /// An event that does not have the shape it should have.
    fn odd(&self, event: &SseEvent<'_>, reason: &serde_json::Error) -> Option<StreamEvent> {
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
            return Some(self.fail(error));
        }
        let essential = value.get("choices").is_some();
        let broken = value.is_null() && event.data.starts_with('{') && event.name.is_empty();
        if !essential && !broken {
            tracing::debug!(name = &*event.name, "skipping an event");
            return None;
        }
        let message = format!("the server sent a chunk that can not be read: {reason}");
        Some(StreamEvent::Failed(Failure::new(FailureClass::Network, message)))
    }
}

impl stream::Decoder for Decoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) {
        if event.data.trim() == DONE {
            return self.finish(out);
        }
        if event.name.is_empty()
            && let Some(words) = plain_words(&event.data)
        {
            return self.write(Kind::Text, words, out);
        }
        match serde_json::from_str::<Chunk>(&event.data) {
            Ok(Chunk { error: Some(error), .. }) => out.push_back(self.fail(&error)),
            Ok(chunk) if event.name == "error" || chunk.is_error() => {
                let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
                out.push_back(self.fail(&value));
            }
            Ok(chunk) => self.take(chunk, out),
            Err(e) => out.extend(self.odd(event, &e)),
        }
    }

    fn end(&mut self, rest: Option<&str>, out: &mut Out) {
        match rest {
            // the blank line after the last event is missing
            Some(rest) if rest.trim() == DONE => self.finish(out),
            None if self.reason.is_some() && !self.vendor.ends_in_done => self.finish(out),
            Some(_) | None => {}
        }
    }
}

impl Chunk {
    /// The form in which vLLM and its kin report errors.
    fn is_error(&self) -> bool {
        self.choices.is_none() && self.object.as_ref().is_some_and(|object| object.text == "error")
    }
}
