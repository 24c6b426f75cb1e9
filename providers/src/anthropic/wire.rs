//! The events of a stream, with the members that are read. Any of them may be absent or null.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: Option<Message>,
    },
    ContentBlockStart {
        index: u64,
        content_block: Value,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Option<MessageDelta>,
        usage: Option<UsageUpdate>,
    },
    MessageStop,
    Error {
        error: Option<Value>,
    },
    /// `ping` and unknown events.
    #[serde(other)]
    Unknown,
}

/// The events without which an answer is incomplete.
pub(super) const ESSENTIAL: &[&str] = &[
    "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    "message_delta", "message_stop", "error",
];

#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) usage: Option<UsageUpdate>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageDelta {
    pub(super) stop_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the wire's names")]
pub(super) enum Delta {
    TextDelta {
        text: Option<String>,
    },
    ThinkingDelta {
        thinking: Option<String>,
    },
    SignatureDelta {
        signature: Option<String>,
    },
    InputJsonDelta {
        partial_json: Option<String>,
    },
    #[serde(other)]
    Unknown,
}

/// By far the most frequent event: a piece of a block. It is parsed without a tagged enum, which is
/// slower.
#[derive(Debug, Deserialize)]
pub(super) struct PlainDelta<'a> {
    r#type: &'a str,
    pub(super) index: u64,
    #[serde(borrow)]
    delta: PlainPiece<'a>,
}

#[derive(Debug, Deserialize)]
struct PlainPiece<'a> {
    r#type: &'a str,
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
}

impl PlainDelta<'_> {
    /// The delta that [`Event`] would give; `None` if the event has anything else.
    pub(super) fn delta(self) -> Option<Delta> {
        let PlainPiece { r#type, text, thinking, partial_json } = self.delta;
        if self.r#type != "content_block_delta" {
            return None;
        }
        match r#type {
            "text_delta" => Some(Delta::TextDelta { text }),
            "thinking_delta" => Some(Delta::ThinkingDelta { thinking }),
            "input_json_delta" => Some(Delta::InputJsonDelta { partial_json }),
            _ => None,
        }
    }
}

/// Running counts: a field that is present replaces the old value, an absent one does not.
#[derive(Debug, Deserialize)]
pub(super) struct UsageUpdate {
    pub(super) input_tokens: Option<f64>,
    pub(super) output_tokens: Option<f64>,
    pub(super) cache_read_input_tokens: Option<f64>,
    pub(super) cache_creation_input_tokens: Option<f64>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutputDetails {
    pub(super) thinking_tokens: Option<f64>,
}
