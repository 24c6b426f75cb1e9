//! Decodes the stream of Gemini into stream events.
//!
//! Each event is a complete response with the next few parts. There is no explicit last event: an
//! answer is complete when the body ends after a finish reason.

use leftfold_events::event::{FailureClass, Finish};
use serde_json::Value;

use super::calls::{self, Call};
use super::plain;
use super::sign::{Seal, signature};
use super::usage::Counts;
use crate::errors::Failure;
use crate::parts::{AnswerPart, AnswerParts, bare_error, is_model_fault, reported};
use crate::stream::{self, EventQueue, StreamEvent};
use leftfold_framing::sse::SseEvent;

/// The reasons for an end by which an answer was blocked.
const BLOCKED: &[&str] = &[
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
];

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    parts: AnswerParts,
    call: Option<Call>,
    calls: usize,
    reason: Option<String>,
    /// Whether the API refused the prompt itself.
    is_blocked: bool,
    counts: Counts,
}

impl Decoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            call: None,
            parts: AnswerParts::default(),
            calls: 0,
            reason: None,
            is_blocked: false,
            counts: Counts::default(),
        }
    }

    fn take(&mut self, chunk: &Value, out: &mut EventQueue) {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return out.push_back(reported(&self.provider, error));
        }
        let known = ["candidates", "usageMetadata", "promptFeedback"];
        if known.iter().all(|name| chunk.get(name).is_none()) {
            return out.extend(bare_error(&self.provider, chunk));
        }
        if let Some(usage) = chunk.get("usageMetadata") {
            self.counts.update(usage);
        }
        let blocked = chunk.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
        self.is_blocked |= blocked.is_some_and(|reason| reason != "BLOCK_REASON_UNSPECIFIED");
        let candidates = chunk.get("candidates").and_then(Value::as_array);
        let is_first = |candidate: &&Value| {
            candidate.get("index").and_then(Value::as_u64).unwrap_or_default() == 0
        };
        for candidate in candidates.into_iter().flatten().filter(is_first) {
            let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
            for part in parts.into_iter().flatten() {
                if let Err(problem) = self.part(part, out) {
                    return out.push_back(unreadable(problem));
                }
            }
            let reason = candidate.get("finishReason").and_then(Value::as_str);
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                self.reason = Some(reason.to_owned());
            }
        }
    }

    fn part(&mut self, part: &Value, out: &mut EventQueue) -> Result<(), &'static str> {
        let member = |name: &str| part.get(name).filter(|value| !value.is_null());
        if let Some(function) = member("functionCall") {
            if !function.is_object() {
                return Err("a call that is not an object");
            }
            self.function(function, signature(part), out);
            return Ok(());
        }
        let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or_default();
        match (member("text"), signature(part)) {
            (Some(Value::String(words)), None) => {
                let kind = if is_thought { AnswerPart::Reasoning } else { AnswerPart::Text };
                self.parts.write(kind, words, out);
            }
            (Some(Value::String(words)), Some(signature)) if is_thought => {
                self.thought(words, signature, out);
            }
            (Some(Value::String(words)), Some(signature)) => {
                self.signed(part, words, signature, out);
            }
            (Some(_), _) => return Err("a text that is not a string"),
            (None, Some(_)) if part.as_object().is_some_and(|part| part.len() == 1) => {
                self.seal(&Seal::Part(part.clone()), out);
            }
            // code that the provider runs itself and its results, images, and unknown kinds
            (None, _) => tracing::debug!("skipping a part"),
        }
        Ok(())
    }

    /// Adds a thought as a part of its own, because its signature belongs to this part alone.
    fn thought(&mut self, words: &str, signature: &str, out: &mut EventQueue) {
        self.parts.start(AnswerPart::Reasoning, out);
        self.parts.write(AnswerPart::Reasoning, words, out);
        self.parts.close_with(Some(Seal::Thought(signature.to_owned()).write()), out);
    }

    /// Adds text with a signature as a part of its own. If the text is empty, only the signature is
    /// sent. Blank text only separates the parts before and after it.
    fn signed(&mut self, part: &Value, words: &str, signature: &str, out: &mut EventQueue) {
        if !words.trim().is_empty() {
            self.seal(&Seal::Text(signature.to_owned()), out);
            self.parts.write(AnswerPart::Text, words, out);
            self.parts.close(out);
            return;
        }
        self.parts.write(AnswerPart::Text, words, out);
        let mut part = part.clone();
        if !words.is_empty() {
            part["text"] = "".into();
        }
        self.seal(&Seal::Part(part), out);
    }

    fn seal(&mut self, seal: &Seal, out: &mut EventQueue) {
        self.parts.seal(seal.write(), out);
    }

    fn function(&mut self, function: &Value, signature: Option<&str>, out: &mut EventQueue) {
        if calls::begins(function) || self.call.is_none() {
            let closes = function.as_object().is_some_and(serde_json::Map::is_empty);
            if closes && self.call.is_none() {
                return;
            }
            self.parts.close(out);
            self.close_call(true, out);
            if let Some(signature) = signature {
                self.seal(&Seal::Call(signature.to_owned()), out);
            }
            self.call = Some(Call::begin(function, self.calls, out));
            self.calls += 1;
            if !calls::continues(function) {
                self.close_call(true, out);
            }
            return;
        }
        let goes_on = self.call.as_mut().is_some_and(|call| call.push(function));
        if !goes_on {
            self.close_call(true, out);
        }
    }

    fn close_call(&mut self, is_whole: bool, out: &mut EventQueue) {
        if let Some(call) = self.call.take() {
            call.close(is_whole, out);
        }
    }

    fn finish(&mut self, out: &mut EventQueue) {
        let finish = match self.reason.as_deref() {
            None => Finish::ContentFilter,
            Some("STOP") if self.calls > 0 => Finish::ToolCalls,
            Some("STOP") => Finish::Stop,
            Some("MAX_TOKENS") => Finish::Length,
            Some(reason) if BLOCKED.contains(&reason) => Finish::ContentFilter,
            Some("MISSING_THOUGHT_SIGNATURE") => Finish::Error,
            Some(_) => Finish::Other,
        };
        self.parts.close(out);
        self.close_call(finish == Finish::ToolCalls, out);
        let is_answered = self.parts.has_text() || self.calls > 0;
        out.push_back(match self.reason.as_deref() {
            Some(reason) if is_model_fault(reason) => StreamEvent::Failed(Failure {
                retryable: true,
                ..Failure::new(
                    FailureClass::Other,
                    format!("the model broke off its answer ({reason})"),
                )
            }),
            _ if !is_answered && matches!(finish, Finish::Stop | Finish::Other) => {
                StreamEvent::Failed(Failure::unanswered())
            }
            _ => StreamEvent::Finish { finish, usage: self.counts.neutral() },
        });
    }
}

/// The failure for an event that cannot be parsed.
fn unreadable(problem: &str) -> StreamEvent {
    let message = format!("the server sent an event that cannot be read: {problem}");
    StreamEvent::Failed(Failure::new(FailureClass::Network, message))
}

impl stream::Decoder for Decoder {
    fn unstreamed(&self, answer: &Value) -> Option<Vec<String>> {
        let first = answer.get(0).unwrap_or(answer);
        first.get("candidates").is_some().then(|| vec![answer.to_string()])
    }

    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue) {
        if let Some((parts, counts)) = plain::read(&event.data) {
            if let Some(counts) = counts {
                self.counts.update_plainly(&counts);
            }
            for part in parts {
                let kind = if part.thought { AnswerPart::Reasoning } else { AnswerPart::Text };
                self.parts.write(kind, part.text, out);
            }
            return;
        }
        match serde_json::from_str::<Value>(&event.data) {
            Ok(Value::Array(chunks)) => {
                for chunk in chunks {
                    if !out.back().is_some_and(StreamEvent::is_last) {
                        self.take(&chunk, out);
                    }
                }
            }
            Ok(chunk) => self.take(&chunk, out),
            Err(e) if event.data.starts_with(['{', '[']) && event.data != "[DONE]" => {
                out.push_back(unreadable(&e.to_string()));
            }
            Err(_) => tracing::debug!("skipping an event"),
        }
    }

    fn end(&mut self, rest: Option<&str>, out: &mut EventQueue) {
        let rest = rest.filter(|rest| !rest.trim().is_empty());
        match rest.map(serde_json::from_str::<Value>) {
            // the blank line after the last event may be missing
            Some(Ok(chunk)) => self.take(&chunk, out),
            Some(Err(_)) => return,
            None => {}
        }
        let is_over = out.back().is_some_and(StreamEvent::is_last);
        if !is_over && (self.reason.is_some() || self.is_blocked) {
            self.finish(out);
        }
    }
}
