//! Helpers for several decoders: parts of an answer that end when another begins, and events that
//! cannot be parsed.

use leftfold_events::event::FailureClass;
use serde_json::Value;

use crate::errors::{Details, Failure};
use crate::stream::{EventQueue, StreamEvent};
use leftfold_framing::sse::SseEvent;

/// The kind of a part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    Text,
    Reasoning,
}

impl AnswerPart {
    pub(crate) fn start(self, id: String) -> StreamEvent {
        match self {
            Self::Text => StreamEvent::TextStart { id },
            Self::Reasoning => StreamEvent::ReasoningStart { id },
        }
    }

    pub(crate) fn delta(self, id: String, text: String) -> StreamEvent {
        match self {
            Self::Text => StreamEvent::TextDelta { id, text },
            Self::Reasoning => StreamEvent::ReasoningDelta { id, text },
        }
    }

    /// The event that ends the part. Only reasoning has a signature.
    pub(crate) fn end(self, id: String, signature: Option<String>) -> StreamEvent {
        match self {
            Self::Text => StreamEvent::TextEnd { id },
            Self::Reasoning => StreamEvent::ReasoningEnd { id, signature, redacted: false },
        }
    }
}

/// The parts of an answer in a format that does not mark their ends: a part ends when another
/// begins.
#[derive(Debug, Default)]
pub(crate) struct AnswerParts {
    open: Option<(AnswerPart, String)>,
    /// Number of parts opened so far. It numbers their ids.
    count: u32,
    /// Whether a text was written that is not blank.
    has_text: bool,
    /// The signature of reasoning that comes without one.
    signature: Option<&'static str>,
}

impl AnswerParts {
    /// Sets the signature of reasoning that comes without one.
    pub(crate) fn sign(&mut self, signature: Option<&'static str>) {
        self.signature = signature;
    }

    /// Whether no part was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether there is any text for people besides reasoning.
    pub(crate) fn has_text(&self) -> bool {
        self.has_text
    }

    /// Appends to the open part if it is of this kind, else starts a new one.
    pub(crate) fn write(
        &mut self,
        kind: AnswerPart,
        text: impl Into<String>,
        out: &mut EventQueue,
    ) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        self.has_text |= kind == AnswerPart::Text && !text.trim().is_empty();
        let id = match &self.open {
            Some((open, id)) if *open == kind => id.clone(),
            Some(_) | None => self.start(kind, out),
        };
        out.push_back(kind.delta(id, text));
    }

    /// Opens a new part and closes the open one.
    pub(crate) fn start(&mut self, kind: AnswerPart, out: &mut EventQueue) -> String {
        self.close(out);
        let id = self.count.to_string();
        self.count += 1;
        self.open = Some((kind, id.clone()));
        out.push_back(kind.start(id.clone()));
        id
    }

    /// Adds reasoning without text, which only carries a signature.
    pub(crate) fn seal(&mut self, signature: String, out: &mut EventQueue) {
        self.start(AnswerPart::Reasoning, out);
        self.close_with(Some(signature), out);
    }

    pub(crate) fn close(&mut self, out: &mut EventQueue) {
        self.close_with(self.signature.map(str::to_owned), out);
    }

    pub(crate) fn close_with(&mut self, signature: Option<String>, out: &mut EventQueue) {
        if let Some((kind, id)) = self.open.take() {
            out.push_back(kind.end(id, signature));
        }
    }
}

/// Whether Gemini names a fault of its model as the reason why an answer ended. The model usually does better when it is
/// asked again. Gateways pass these names on, some of them in lower case.
pub(crate) fn is_model_fault(reason: &str) -> bool {
    const FAULTS: [&str; 4] = [
        "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    ];
    FAULTS.iter().any(|fault| fault.eq_ignore_ascii_case(reason))
}

/// The failure for an error that a server reports within its answer.
pub(crate) fn reported(provider: &str, error: &Value) -> StreamEvent {
    StreamEvent::Failed(Failure::in_stream(provider, &Details::from_value(error)))
}

/// The failure for an object that is no event of the wire format but has an error's message; `None` if it has none.
pub(crate) fn bare_error(provider: &str, value: &Value) -> Option<StreamEvent> {
    let details = Details::from_value(value);
    let is_error = value.is_object() && !details.message.is_empty();
    is_error.then(|| StreamEvent::Failed(Failure::in_stream(provider, &details)))
}

/// The outcome of an event that cannot be parsed: the error that it contains, or a failure if the
/// answer cannot be understood without it. Other events are skipped. `is_essential` gets the
/// event's kind.
pub(crate) fn unreadable(
    provider: &str,
    event: &SseEvent<'_>,
    value: &Value,
    is_essential: impl Fn(&str) -> bool,
    reason: &serde_json::Error,
) -> Option<StreamEvent> {
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Some(reported(provider, error));
    }
    let kind = value.get("type").and_then(Value::as_str).filter(|kind| !kind.is_empty());
    if kind.is_none()
        && let Some(failed) = bare_error(provider, value)
    {
        return Some(failed);
    }
    let kind = kind.unwrap_or(&event.name);
    let is_broken = value.is_null() && event.data.starts_with('{') && event.name.is_empty();
    if !is_essential(kind) && !is_broken {
        tracing::debug!(kind, "skipping an event");
        return None;
    }
    let named = if kind.is_empty() { String::new() } else { format!(" `{kind}`") };
    let message = format!("the server sent an event{named} that cannot be read: {reason}");
    Some(StreamEvent::Failed(Failure::new(FailureClass::Network, message)))
}
