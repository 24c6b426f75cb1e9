//! The events of a stream, with the members that are read. Any of them may be absent or null.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Event {
    #[serde(rename = "response.created", alias = "response.in_progress")]
    Created { response: Option<Value> },
    #[serde(rename = "response.output_item.added")]
    ItemAdded(Piece),
    #[serde(rename = "response.output_item.done")]
    ItemDone(Piece),
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    TextDelta(Piece),
    #[serde(rename = "response.output_text.done", alias = "response.refusal.done")]
    TextDone(Piece),
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta(Piece),
    #[serde(rename = "response.reasoning_summary_text.done")]
    SummaryDone(Piece),
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta(Piece),
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone(Piece),
    #[serde(
        rename = "response.function_call_arguments.delta",
        alias = "response.custom_tool_call_input.delta"
    )]
    ArgumentsDelta(Piece),
    #[serde(
        rename = "response.function_call_arguments.done",
        alias = "response.custom_tool_call_input.done"
    )]
    ArgumentsDone(Piece),
    #[serde(rename = "response.completed")]
    Completed { response: Value },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Value },
    #[serde(rename = "response.failed")]
    Failed { response: Value },
    #[serde(rename = "error")]
    Error,
    /// Events of parts, which repeat their texts; the provider's own tools; unknown events.
    #[serde(other)]
    Unknown,
}

/// Prefixes of the events without which an answer is incomplete.
pub(super) const ESSENTIAL: &[&str] = &[
    "response.output_item.", "response.output_text.d", "response.refusal.",
    "response.reasoning_summary_text.", "response.reasoning_text.",
    "response.function_call_arguments.", "response.custom_tool_call_input.", "response.completed",
    "response.incomplete", "response.failed",
];

/// An item, or a piece of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Piece {
    /// The index of the item in the answer; there may be gaps.
    pub(super) output_index: Option<u64>,
    /// Some servers change an item's id from event to event.
    pub(super) item_id: Option<String>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    #[serde(default)]
    pub(super) item: Value,
}

impl Piece {
    /// The index of the text in its item.
    pub(super) fn index(&self) -> u64 {
        self.summary_index.or(self.content_index).unwrap_or_default()
    }

    /// The text: a delta, or all of it.
    pub(super) fn words(self) -> String {
        let all = [self.delta, self.text, self.refusal, self.arguments, self.input];
        all.into_iter().flatten().next().unwrap_or_default()
    }
}

/// By far the most frequent events: a few words. They are parsed without a tagged enum, which is
/// slower.
#[derive(Debug, Deserialize)]
pub(super) struct PlainDelta<'a> {
    r#type: &'a str,
    output_index: Option<u64>,
    item_id: Option<String>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    delta: Option<String>,
}

impl PlainDelta<'_> {
    /// The event that it stands for; `None` if it has anything else.
    pub(super) fn event(self) -> Option<Event> {
        let Self { r#type, output_index, item_id, content_index, summary_index, delta } = self;
        let event = match r#type {
            "response.output_text.delta" => Event::TextDelta,
            "response.reasoning_summary_text.delta" => Event::SummaryDelta,
            "response.function_call_arguments.delta" => Event::ArgumentsDelta,
            _ => return None,
        };
        let place =
            Piece { output_index, item_id, content_index, summary_index, ..Piece::default() };
        Some(event(Piece { delta: Some(delta?), ..place }))
    }
}

/// A member of an item that is a string; empty if it is anything else.
pub(super) fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}
