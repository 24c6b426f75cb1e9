//! Decodes the stream of Converse into stream events.
//!
//! The end of a block is marked, but its beginning only if it is a call. The stop reason and the counts
//! come in two events, whose order differs; an answer is complete with both, or at its end with the
//! stop reason alone.

use std::collections::BTreeMap;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Finish, Usage};
use serde::Deserialize;
use serde_json::Value;

use crate::parts::{AnswerPart, unreadable};
use crate::shape::count;
use crate::stream::{self, EventQueue, StreamEvent};
use leftfold_framing::sse::SseEvent;

/// The events without which an answer is incomplete.
const ESSENTIAL: &[&str] =
    &["contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"];

#[derive(Debug)]
pub(super) struct Decoder {
    provider: String,
    /// Open blocks by index.
    open: BTreeMap<u64, Block>,
    /// Number of parts so far. It numbers their ids, because a damaged stream may use an index twice.
    parts: u64,
    /// Id and name of a call whose block ended without input. Only what follows tells a call without arguments from
    /// one that was cut off before them.
    bare: Option<(String, String)>,
    has_calls: bool,
    stop_reason: Option<String>,
    usage: Option<Counts>,
}

#[derive(Debug)]
enum Block {
    Part { id: String, kind: AnswerPart, signature: String },
    Call { id: String, name: String, json: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    #[serde(default)]
    content_block_index: u64,
    start: Option<Start>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    tool_use: Option<ToolStart>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolStart {
    tool_use_id: Option<String>,
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta {
    #[serde(default)]
    content_block_index: u64,
    delta: Option<Delta>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<ToolDelta>,
    reasoning_content: Option<ReasoningDelta>,
}

#[derive(Debug, Deserialize)]
struct ToolDelta {
    input: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta {
    text: Option<String>,
    signature: Option<String>,
    /// Sealed reasoning, whole.
    redacted_content: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStop {
    #[serde(default)]
    content_block_index: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    usage: Option<Counts>,
}

/// On the wire `input` excludes the cache, and `output` includes reasoning, which is not told apart.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    input_tokens: Option<f64>,
    output_tokens: Option<f64>,
    cache_read_input_tokens: Option<f64>,
    cache_write_input_tokens: Option<f64>,
}

impl Counts {
    fn neutral(self) -> Usage {
        let number = |tokens: Option<f64>| tokens.map(count).unwrap_or_default();
        Usage {
            input: number(self.input_tokens),
            output: number(self.output_tokens),
            reasoning: 0,
            cache_read: number(self.cache_read_input_tokens),
            cache_write: number(self.cache_write_input_tokens),
        }
    }
}

impl Decoder {
    pub(super) fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            open: BTreeMap::new(),
            parts: 0,
            bare: None,
            has_calls: false,
            stop_reason: None,
            usage: None,
        }
    }

    fn take(&mut self, name: &str, data: &str, out: &mut EventQueue) -> serde_json::Result<()> {
        match name {
            "contentBlockStart" => {
                let BlockStart { content_block_index, start } = serde_json::from_str(data)?;
                self.stop(content_block_index, out);
                if let Some(call) = start.and_then(|start| start.tool_use) {
                    self.call(content_block_index, call, out);
                }
            }
            "contentBlockDelta" => {
                let BlockDelta { content_block_index, delta } = serde_json::from_str(data)?;
                if let Some(delta) = delta {
                    self.delta(content_block_index, delta, out);
                }
            }
            "contentBlockStop" => {
                let BlockStop { content_block_index } = serde_json::from_str(data)?;
                self.stop(content_block_index, out);
            }
            "messageStop" => {
                let MessageStop { stop_reason } = serde_json::from_str(data)?;
                self.stop_reason = Some(stop_reason.unwrap_or_default());
                self.finish_if(self.usage.is_some(), out);
            }
            "metadata" => {
                let Metadata { usage } = serde_json::from_str(data)?;
                self.usage = Some(usage.unwrap_or_default());
                self.finish_if(self.stop_reason.is_some(), out);
            }
            other => tracing::trace!(event = other, "skipping an event"),
        }
        Ok(())
    }

    fn call(&mut self, index: u64, call: ToolStart, out: &mut EventQueue) {
        let id = call.tool_use_id.unwrap_or_default();
        let name = call.name.unwrap_or_default();
        self.close_bare(Json::object(), out);
        out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        self.open.insert(index, Block::Call { id, name, json: String::new() });
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut EventQueue) {
        if let Some(text) = delta.text {
            self.write(index, AnswerPart::Text, text, out);
        }
        if let Some(reasoning) = delta.reasoning_content {
            if let Some(text) = reasoning.text {
                self.write(index, AnswerPart::Reasoning, text, out);
            }
            if let Some(sealed) = reasoning.redacted_content.filter(|sealed| !sealed.is_empty()) {
                self.sealed(index, sealed, out);
            }
            if let Some(more) = reasoning.signature.filter(|more| !more.is_empty()) {
                self.part(index, AnswerPart::Reasoning, out);
                if let Some(Block::Part { signature, .. }) = self.open.get_mut(&index) {
                    signature.push_str(&more);
                }
            }
        }
        if let Some(piece) = delta.tool_use.and_then(|call| call.input)
            && let Some(Block::Call { id, json, .. }) = self.open.get_mut(&index)
            && !piece.is_empty()
        {
            json.push_str(&piece);
            out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: piece });
        }
    }

    fn write(&mut self, index: u64, kind: AnswerPart, text: String, out: &mut EventQueue) {
        if !text.is_empty() {
            let id = self.part(index, kind, out);
            out.push_back(kind.delta(id, text));
        }
    }

    /// The id of the open part of this block. If the block is of another kind, that one ends.
    fn part(&mut self, index: u64, kind: AnswerPart, out: &mut EventQueue) -> String {
        match self.open.get(&index) {
            Some(Block::Part { id, kind: open, .. }) if *open == kind => return id.clone(),
            Some(_) => self.stop(index, out),
            None => {}
        }
        let id = self.next_id(out);
        out.push_back(kind.start(id.clone()));
        let block = Block::Part { id: id.clone(), kind, signature: String::new() };
        self.open.insert(index, block);
        id
    }

    fn sealed(&mut self, index: u64, sealed: String, out: &mut EventQueue) {
        self.stop(index, out);
        let id = self.next_id(out);
        out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
        let (signature, redacted) = (Some(sealed), true);
        out.push_back(StreamEvent::ReasoningEnd { id, signature, redacted });
    }

    /// The id of a new part.
    fn next_id(&mut self, out: &mut EventQueue) -> String {
        self.close_bare(Json::object(), out);
        let id = self.parts.to_string();
        self.parts += 1;
        id
    }

    fn stop(&mut self, index: u64, out: &mut EventQueue) {
        match self.open.remove(&index) {
            None => {}
            Some(Block::Part { id, kind, signature }) => {
                out.push_back(kind.end(id, Some(signature).filter(|text| !text.is_empty())));
            }
            Some(Block::Call { id, name, json }) if json.trim().is_empty() => {
                self.close_bare(Json::object(), out);
                self.bare = Some((id, name));
            }
            Some(Block::Call { id, name, json }) => {
                // text that is no JSON goes on as it is, so that no tool accepts it
                let input = Json::parse(&json);
                let input = input.unwrap_or_else(|_| Json::from_value(&Value::from(json)));
                self.pass_on(id, name, input, out);
            }
        }
    }

    fn pass_on(&mut self, id: String, name: String, input: Json, out: &mut EventQueue) {
        self.has_calls = true;
        out.push_back(StreamEvent::ToolCall(CallSpec { id, name, input }));
    }

    /// Passes on a call without input.
    fn close_bare(&mut self, input: Json, out: &mut EventQueue) {
        if let Some((id, name)) = self.bare.take() {
            self.pass_on(id, name, input, out);
        }
    }

    fn finish_if(&mut self, is_complete: bool, out: &mut EventQueue) {
        if is_complete {
            self.finish(out);
        }
    }

    fn finish(&mut self, out: &mut EventQueue) {
        let Some(reason) = self.stop_reason.take() else { return };
        while let Some(index) = self.open.keys().next().copied() {
            self.stop(index, out);
        }
        let finish = finish(&reason);
        // a call that was cut off before its arguments gets a text, which no tool accepts
        let is_cut = finish == Finish::Length;
        let input = if is_cut { Json::from_value(&Value::from("")) } else { Json::object() };
        self.close_bare(input, out);
        let finish =
            if finish == Finish::Stop && self.has_calls { Finish::ToolCalls } else { finish };
        let usage = self.usage.unwrap_or_default().neutral();
        out.push_back(StreamEvent::Finish { finish, usage });
    }
}

impl stream::Decoder for Decoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue) {
        if let Err(reason) = self.take(&event.name, &event.data, out) {
            let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
            let is_essential = |kind: &str| ESSENTIAL.contains(&kind);
            out.extend(unreadable(&self.provider, event, &value, is_essential, &reason));
        }
    }

    fn end(&mut self, rest: Option<&str>, out: &mut EventQueue) {
        if rest.is_none() {
            self.finish(out);
        }
    }
}

fn finish(stop_reason: &str) -> Finish {
    match stop_reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        "content_filtered" | "guardrail_intervened" => Finish::ContentFilter,
        "malformed_model_output" | "malformed_tool_use" => Finish::Error,
        _ => Finish::Other,
    }
}
