//! Decodes the stream of Anthropic Messages into stream events.

use std::collections::BTreeMap;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Finish, Usage};
use serde_json::{Value, json};

use super::wire::{Delta, ESSENTIAL, Event, PlainDelta, UsageUpdate};
use crate::parts::{reported, unreadable};
use crate::shape::count;
use crate::stream::{self, EventQueue, StreamEvent};
use leftfold_framing::sse::SseEvent;

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    /// Open blocks by index, with the ids of their parts. Skipped blocks are included, so that
    /// their deltas are recognized.
    open: BTreeMap<u64, (String, Block)>,
    /// Number of blocks so far. It numbers their parts, because a damaged stream may use an index
    /// twice.
    blocks: u64,
    usage: Counts,
    stop_reason: Option<String>,
    /// Id and name of a call whose block ended without input. Only what follows tells a call without arguments from
    /// one that was cut off before them.
    bare: Option<(String, String)>,
}

#[derive(Debug)]
enum Block {
    Text,
    Reasoning {
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        id: String,
        name: String,
        start: Value,
        json: String,
    },
    /// The provider's own tools and their results, and kinds of blocks that this version does not
    /// know.
    Skipped,
}

/// Usage in the wire's terms.
#[derive(Debug, Default)]
struct Counts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    thinking: u64,
}

impl Decoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            open: BTreeMap::new(),
            blocks: 0,
            usage: Counts::default(),
            stop_reason: None,
            bare: None,
        }
    }

    fn take(&mut self, event: Event, out: &mut EventQueue) {
        match event {
            Event::MessageStart { message } => {
                self.usage.update(message.and_then(|message| message.usage));
            }
            Event::ContentBlockStart { index, content_block } => {
                self.start(index, &content_block, out);
            }
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, out),
            Event::ContentBlockStop { index } => self.stop(index, out),
            Event::MessageDelta { delta, usage } => {
                self.usage.update(usage);
                self.stop_reason = delta.and_then(|d| d.stop_reason).or(self.stop_reason.take());
                if self.stop_reason.is_some() {
                    self.close_bare(out);
                }
            }
            Event::MessageStop => self.finish(out),
            Event::Error { error } => {
                out.push_back(reported(&self.provider, &error.unwrap_or_default()));
            }
            Event::Unknown => {}
        }
    }

    fn start(&mut self, index: u64, block: &Value, out: &mut EventQueue) {
        self.stop(index, out);
        self.close_bare(out);
        let id = self.blocks.to_string();
        self.blocks += 1;
        let field = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let kind = block["type"].as_str().unwrap_or_default();
        let block = match kind {
            "text" => {
                out.push_back(StreamEvent::TextStart { id: id.clone() });
                push_text(id.clone(), field("text"), out);
                Block::Text
            }
            "thinking" => {
                out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
                push_reasoning(id.clone(), field("thinking"), out);
                Block::Reasoning { signature: field("signature") }
            }
            "redacted_thinking" => {
                out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
                Block::Redacted { data: field("data") }
            }
            "tool_use" => {
                let (id, name) = (field("id"), field("name"));
                out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
                Block::Call { id, name, start: block["input"].clone(), json: String::new() }
            }
            other => {
                tracing::debug!(kind = other, "skipping a block");
                Block::Skipped
            }
        };
        self.open.insert(index, (id, block));
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut EventQueue) {
        let Some((id, block)) = self.open.get_mut(&index) else {
            return tracing::trace!(index, ?delta, "skipping a delta");
        };
        match (block, delta) {
            (Block::Text, Delta::TextDelta { text: Some(text) }) => {
                push_text(id.clone(), text, out);
            }
            (Block::Reasoning { .. }, Delta::ThinkingDelta { thinking: Some(text) }) => {
                push_reasoning(id.clone(), text, out);
            }
            (Block::Reasoning { signature }, Delta::SignatureDelta { signature: more }) => {
                // this is the whole signature, also if the block's start already had one
                if let Some(more) = more {
                    *signature = more;
                }
            }
            (Block::Call { id, json, .. }, Delta::InputJsonDelta { partial_json: Some(text) })
                if !text.is_empty() =>
            {
                json.push_str(&text);
                out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text });
            }
            (block, delta) => tracing::trace!(?block, ?delta, "skipping a delta"),
        }
    }

    fn stop(&mut self, index: u64, out: &mut EventQueue) {
        let Some((id, block)) = self.open.remove(&index) else { return };
        let event = match block {
            Block::Text => StreamEvent::TextEnd { id },
            Block::Reasoning { signature } => {
                let signature = (!signature.is_empty()).then_some(signature);
                StreamEvent::ReasoningEnd { id, signature, redacted: false }
            }
            Block::Redacted { data } => {
                StreamEvent::ReasoningEnd { id, signature: Some(data), redacted: true }
            }
            Block::Call { id, name, start, json } if is_bare(&start, &json) => {
                self.close_bare(out);
                self.bare = Some((id, name));
                return;
            }
            Block::Call { id, name, start, json } => {
                StreamEvent::ToolCall(CallSpec { id, name, input: input(&start, &json) })
            }
            Block::Skipped => return,
        };
        out.push_back(event);
    }

    /// Passes on a call without input. One that was cut off gets a JSON string, which no tool accepts.
    fn close_bare(&mut self, out: &mut EventQueue) {
        if let Some((id, name)) = self.bare.take() {
            let input = match finish(self.stop_reason.as_deref()) {
                Finish::Length => Json::from_value(&Value::from("")),
                _ => Json::object(),
            };
            out.push_back(StreamEvent::ToolCall(CallSpec { id, name, input }));
        }
    }

    fn finish(&mut self, out: &mut EventQueue) {
        // some gateways do not close blocks
        while let Some(index) = self.open.keys().next().copied() {
            self.stop(index, out);
        }
        self.close_bare(out);
        let finish = finish(self.stop_reason.as_deref());
        out.push_back(StreamEvent::Finish { finish, usage: self.usage.neutral() });
    }

    /// The outcome of an event that cannot be parsed.
    fn unreadable(&self, event: &SseEvent<'_>, reason: &serde_json::Error) -> Option<StreamEvent> {
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let is_essential = |kind: &str| ESSENTIAL.contains(&kind);
        unreadable(&self.provider, event, &value, is_essential, reason)
    }
}

impl stream::Decoder for Decoder {
    fn unstreamed(&self, answer: &Value) -> Option<Vec<String>> {
        let blocks = answer.get("content").filter(|_| answer["type"] == "message")?.as_array()?;
        let mut events = vec![json!({ "type": "message_start", "message": answer })];
        for (index, block) in blocks.iter().enumerate() {
            let start =
                json!({ "type": "content_block_start", "index": index, "content_block": block });
            events.extend([start, json!({ "type": "content_block_stop", "index": index })]);
        }
        let delta = json!({ "stop_reason": answer["stop_reason"] });
        events.push(json!({ "type": "message_delta", "delta": delta }));
        events.push(json!({ "type": "message_stop" }));
        Some(events.iter().map(Value::to_string).collect())
    }

    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue) {
        if event.name == "content_block_delta"
            && let Ok(plain) = serde_json::from_str::<PlainDelta<'_>>(&event.data)
        {
            let index = plain.index;
            if let Some(delta) = plain.delta() {
                return self.delta(index, delta, out);
            }
        }
        match serde_json::from_str::<Event>(&event.data) {
            Ok(read) => self.take(read, out),
            Err(e) => out.extend(self.unreadable(event, &e)),
        }
    }
}

impl Counts {
    fn update(&mut self, update: Option<UsageUpdate>) {
        let Some(update) = update else { return };
        let thinking = update.output_tokens_details.and_then(|details| details.thinking_tokens);
        for (total, new) in [
            (&mut self.input, update.input_tokens),
            (&mut self.output, update.output_tokens),
            (&mut self.cache_read, update.cache_read_input_tokens),
            (&mut self.cache_write, update.cache_creation_input_tokens),
            (&mut self.thinking, thinking),
        ] {
            if let Some(new) = new {
                *total = count(new);
            }
        }
    }

    /// Converts the counts: on the wire `output` includes thinking, and `input` excludes the cache.
    fn neutral(&self) -> Usage {
        let reasoning = self.thinking.min(self.output);
        Usage {
            input: self.input,
            output: self.output - reasoning,
            reasoning,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
        }
    }
}

fn push_text(id: String, text: String, out: &mut EventQueue) {
    if !text.is_empty() {
        out.push_back(StreamEvent::TextDelta { id, text });
    }
}

fn push_reasoning(id: String, text: String, out: &mut EventQueue) {
    if !text.is_empty() {
        out.push_back(StreamEvent::ReasoningDelta { id, text });
    }
}

/// Whether a call's block had no input.
fn is_bare(start: &Value, json: &str) -> bool {
    json.trim().is_empty() && start.as_object().is_none_or(serde_json::Map::is_empty)
}

/// A call's input: its deltas, or the input in the block's start if there were no deltas.
fn input(start: &Value, json: &str) -> Json {
    if json.trim().is_empty() {
        return if start.is_null() { Json::object() } else { Json::from_value(start) };
    }
    Json::parse(json).unwrap_or_else(|_| Json::from_value(&Value::from(json)))
}

fn finish(stop_reason: Option<&str>) -> Finish {
    match stop_reason {
        Some("end_turn" | "stop_sequence") => Finish::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("tool_use") => Finish::ToolCalls,
        Some("pause_turn") => Finish::Pause,
        Some("refusal") => Finish::ContentFilter,
        Some(_) | None => Finish::Other,
    }
}
