//! What decoders of several wire formats share: parts of an answer that end when another begins, and
//! events that do not have the shape they should have.

use std::collections::VecDeque;

use leftfold_events::event::FailureClass;
use serde_json::Value;

use crate::errors::{Details, Failure};
use crate::stream::StreamEvent;
use leftfold_framing::sse::SseEvent;

type Out = VecDeque<StreamEvent>;

/// What a part of an answer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Reasoning,
}

impl Kind {
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

    /// Only reasoning has a signature.
    pub(crate) fn end(self, id: String, signature: Option<String>) -> StreamEvent {
        match self {
            Self::Text => StreamEvent::TextEnd { id },
            Self::Reasoning => StreamEvent::ReasoningEnd { id, signature, redacted: false },
        }
    }
}

/// The parts of an answer in a format that has no word for where one ends: it ends when another
/// begins.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    open: Option<(Kind, String)>,
    /// Parts opened so far, which number their ids.
    count: u32,
    /// Of reasoning that comes without one.
    signature: Option<&'static str>,
}

impl Parts {
    /// `signature` is that of reasoning which comes without one.
    pub(crate) fn signed(signature: Option<&'static str>) -> Self {
        Self { signature, ..Self::default() }
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds to the open part if it is of this kind, or else to a new one.
    pub(crate) fn write(&mut self, kind: Kind, text: impl Into<String>, out: &mut Out) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        let id = match &self.open {
            Some((open, id)) if *open == kind => id.clone(),
            Some(_) | None => self.start(kind, out),
        };
        out.push_back(kind.delta(id, text));
    }

    /// Opens a new part, and closes the open one.
    pub(crate) fn start(&mut self, kind: Kind, out: &mut Out) -> String {
        self.close(out);
        let id = self.count.to_string();
        self.count += 1;
        self.open = Some((kind, id.clone()));
        out.push_back(kind.start(id.clone()));
        id
    }

    pub(crate) fn close(&mut self, out: &mut Out) {
        self.close_with(self.signature.map(str::to_owned), out);
    }

    pub(crate) fn close_with(&mut self, signature: Option<String>, out: &mut Out) {
        if let Some((kind, id)) = self.open.take() {
            out.push_back(kind.end(id, signature));
        }
    }
}

/// An error that a server reports within its answer.
pub(crate) fn reported(provider: &str, error: &Value) -> StreamEvent {
    StreamEvent::Failed(Failure::in_stream(provider, &Details::of(error)))
}

/// What an event comes to that could not be read: the error that it holds, or a failure if the answer
/// can not be understood without it. Any other is skipped. `is_essential` is told the event's kind.
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
    let kind = kind.unwrap_or(&event.name);
    let is_broken = value.is_null() && event.data.starts_with('{') && event.name.is_empty();
    if !is_essential(kind) && !is_broken {
        tracing::debug!(kind, "skipping an event");
        return None;
    }
    let named = if kind.is_empty() { String::new() } else { format!(" `{kind}`") };
    let message = format!("the server sent an event{named} that can not be read: {reason}");
    Some(StreamEvent::Failed(Failure::new(FailureClass::Network, message)))
}
