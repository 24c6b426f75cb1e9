//! The events of a stream, as far as they are read. Everything may be absent or null.

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
    /// Parts as such, which say nothing that their texts do not; the provider's own tools; and
    /// whatever may come.
    #[serde(other)]
    Unknown,
}

/// The beginnings of the names of events without which an answer is not whole.
pub(super) const ESSENTIAL: &[&str] = &[
    "response.output_item.",
    "response.output_text.d",
    "response.refusal.",
    "response.reasoning_summary_text.",
    "response.reasoning_text.",
    "response.function_call_arguments.",
    "response.custom_tool_call_input.",
    "response.completed",
    "response.incomplete",
    "response.failed",
];

/// An item, or something of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Piece {
    /// Where the item stands among all of the answer; there may be gaps.
    pub(super) output_index: Option<u64>,
    /// Not every server stays with the id that it first gave.
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
    /// Where the text stands among those of its item.
    pub(super) fn index(&self) -> u64 {
        self.summary_index.or(self.content_index).unwrap_or_default()
    }

    /// The words: those of a delta, or all of them.
    pub(super) fn words(self) -> String {
        let all = [self.delta, self.text, self.refusal, self.arguments, self.input];
        all.into_iter().flatten().next().unwrap_or_default()
    }
}

/// Most events by far: a few words, without the detour that a tagged enum takes.
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
    /// The event that it is; `None` for all that is not so plain.
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

/// A member of an item that is a text; empty if it is anything else.
pub(super) fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}
