//! Replies in the streaming format of each wire, from one description.

use leftfold_events::Sha256;
use serde_json::{Value, json};

/// A part of a reply.
#[derive(Clone, Copy)]
pub(super) enum ReplyPart {
    Text(&'static str),
    /// Reasoning and its signature.
    Thought(&'static str, &'static str),
    /// Id, tool and the file that it reads.
    Read(&'static str, &'static str),
    /// Id and the prompt of a subagent.
    Task(&'static str, &'static str),
    /// Id of a call of the tool `echo` of [`LONG_SERVER`].
    Echo(&'static str),
    /// An error instead of the rest of the stream.
    Error(&'static str),
}

/// The name of an MCP server whose tools have names that are too long for every API.
pub(super) const LONG_SERVER: &str =
    "a-server-with-a-name-of-more-characters-than-a-tool-may-have-in-any-api";

/// The name under which a model is offered its tool `echo`.
fn echo() -> String {
    let hash = Sha256::digest(format!("{LONG_SERVER}\0echo").as_bytes()).to_string();
    format!("{}_{}", &LONG_SERVER[..55], &hash[..8])
}

/// The format of a wire.
pub(super) type Render = fn(&[ReplyPart]) -> Vec<Vec<u8>>;

/// The events of a text of server-sent events.
fn events(text: &str) -> Vec<Vec<u8>> {
    text.split_inclusive("\n\n").map(|event| event.as_bytes().to_vec()).collect()
}

impl ReplyPart {
    fn call(self) -> Option<(&'static str, String, Value)> {
        match self {
            Self::Text(_) | Self::Thought(..) | Self::Error(_) => None,
            Self::Read(id, path) => Some((id, "read".to_owned(), json!({ "filePath": path }))),
            Self::Task(id, prompt) => {
                let input =
                    json!({ "description": "Look", "prompt": prompt, "subagentType": "general" });
                Some((id, "task".to_owned(), input))
            }
            Self::Echo(id) => Some((id, echo(), json!({ "text": "hello" }))),
        }
    }
}

fn has_calls(parts: &[ReplyPart]) -> bool {
    parts.iter().any(|part| part.call().is_some())
}

/// Pieces of at most five characters.
fn pieces(text: &str) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(5).map(|piece| piece.iter().collect()).collect()
}

fn named(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}

pub(super) fn anthropic(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    events(&anthropic_text(parts))
}

fn anthropic_text(parts: &[ReplyPart]) -> String {
    let usage = json!({ "input_tokens": 11, "output_tokens": 1 });
    let mut text = named(&json!({ "type": "message_start", "message": { "usage": usage } }));
    for (index, part) in parts.iter().enumerate() {
        let delta = |delta: Value| {
            named(&json!({ "type": "content_block_delta", "index": index, "delta": delta }))
        };
        let (block, deltas): (Value, Vec<String>) = match *part {
            ReplyPart::Error(message) => {
                let error = json!({ "type": "overloaded_error", "message": message });
                return text + &named(&json!({ "type": "error", "error": error }));
            }
            ReplyPart::Text(words) => (
                json!({ "type": "text", "text": "" }),
                pieces(words)
                    .iter()
                    .map(|piece| delta(json!({ "type": "text_delta", "text": piece })))
                    .collect(),
            ),
            ReplyPart::Thought(words, signature) => (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                pieces(words)
                    .iter()
                    .map(|piece| delta(json!({ "type": "thinking_delta", "thinking": piece })))
                    .chain([delta(json!({ "type": "signature_delta", "signature": signature }))])
                    .collect(),
            ),
            ReplyPart::Read(..) | ReplyPart::Task(..) | ReplyPart::Echo(_) => {
                let (id, name, input) = part.call().unwrap();
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                let deltas = pieces(&input.to_string());
                let delta = |piece: &String| {
                    delta(json!({ "type": "input_json_delta", "partial_json": piece }))
                };
                (block, deltas.iter().map(delta).collect())
            }
        };
        text += &named(
            &json!({ "type": "content_block_start", "index": index, "content_block": block }),
        );
        text += &deltas.concat();
        text += &named(&json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = if has_calls(parts) { "tool_use" } else { "end_turn" };
    text += &named(&json!({ "type": "message_delta", "delta": { "stop_reason": reason },
        "usage": { "output_tokens": 7 } }));
    text + &named(&json!({ "type": "message_stop" }))
}

pub(super) fn chat(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    events(&chat_text(parts))
}

fn chat_text(parts: &[ReplyPart]) -> String {
    let chunk = |delta: Value| {
        plain(
            &json!({ "id": "c", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }),
        )
    };
    let (mut text, mut calls) = (String::new(), 0);
    for part in parts {
        match *part {
            ReplyPart::Error(message) => {
                let error = json!({ "message": message, "type": "overloaded_error", "code": 503 });
                return text + &plain(&json!({ "error": error }));
            }
            ReplyPart::Text(words) => {
                let piece = |piece: &String| chunk(json!({ "content": piece }));
                text += &pieces(words).iter().map(piece).collect::<String>();
            }
            ReplyPart::Thought(words, _) => {
                let piece = |piece: &String| chunk(json!({ "reasoning_content": piece }));
                text += &pieces(words).iter().map(piece).collect::<String>();
            }
            ReplyPart::Read(..) | ReplyPart::Task(..) | ReplyPart::Echo(_) => {
                let (id, name, input) = part.call().unwrap();
                let call = |call: Value| chunk(json!({ "tool_calls": [call] }));
                text += &call(json!({ "index": calls, "id": id, "type": "function",
                    "function": { "name": name, "arguments": "" } }));
                for piece in pieces(&input.to_string()) {
                    text += &call(json!({ "index": calls, "function": { "arguments": piece } }));
                }
                calls += 1;
            }
        }
    }
    let reason = if has_calls(parts) { "tool_calls" } else { "stop" };
    text += &plain(
        &json!({ "id": "c", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }),
    );
    text += &plain(&json!({ "id": "c", "choices": [],
        "usage": { "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18 } }));
    text + "data: [DONE]\n\n"
}

pub(super) fn responses(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    events(&responses_text(parts))
}

fn responses_text(parts: &[ReplyPart]) -> String {
    let mut text = named(&json!({ "type": "response.created", "response": { "id": "r" } }));
    for (index, part) in parts.iter().enumerate() {
        let (begun, kind, words, done) = match *part {
            ReplyPart::Error(message) => {
                let error = json!({ "code": "server_is_overloaded", "message": message });
                let response = json!({ "id": "r", "status": "failed", "error": error });
                return text + &named(&json!({ "type": "response.failed", "response": response }));
            }
            ReplyPart::Text(words) => {
                let item = |content: Value| json!({ "type": "message", "id": format!("msg_{index}"), "role": "assistant", "content": content });
                let whole = json!([{ "type": "output_text", "text": words, "annotations": [] }]);
                (item(json!([])), "output_text", words.to_owned(), item(whole))
            }
            ReplyPart::Thought(words, sealed) => {
                let item = |summary: Value| json!({ "type": "reasoning", "id": format!("rs_{index}"), "encrypted_content": sealed, "summary": summary });
                let whole = json!([{ "type": "summary_text", "text": words }]);
                (item(json!([])), "reasoning_summary_text", words.to_owned(), item(whole))
            }
            ReplyPart::Read(..) | ReplyPart::Task(..) | ReplyPart::Echo(_) => {
                let (id, name, input) = part.call().unwrap();
                let item = |arguments: &str| json!({ "type": "function_call", "id": format!("fc_{index}"), "call_id": id, "name": name, "arguments": arguments });
                let input = input.to_string();
                (item(""), "function_call_arguments", input.clone(), item(&input))
            }
        };
        text += &named(
            &json!({ "type": "response.output_item.added", "output_index": index, "item": begun }),
        );
        for piece in pieces(&words) {
            text += &named(&json!({ "type": format!("response.{kind}.delta"), "item_id": "x",
                "output_index": index, "delta": piece }));
        }
        text += &named(
            &json!({ "type": "response.output_item.done", "output_index": index, "item": done }),
        );
    }
    let usage = json!({ "input_tokens": 11, "output_tokens": 7 });
    text + &named(&json!({ "type": "response.completed",
        "response": { "id": "r", "status": "completed", "usage": usage } }))
}

pub(super) fn gemini(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    events(&gemini_text(parts))
}

fn gemini_text(parts: &[ReplyPart]) -> String {
    let mut text = String::new();
    for part in parts {
        let part = match *part {
            ReplyPart::Error(message) => {
                let error = json!({ "code": 503, "message": message, "status": "UNAVAILABLE" });
                return text + &plain(&json!({ "error": error }));
            }
            ReplyPart::Text(words) => json!({ "text": words }),
            ReplyPart::Thought(words, _) => json!({ "text": words, "thought": true }),
            ReplyPart::Read(..) | ReplyPart::Task(..) | ReplyPart::Echo(_) => {
                let (_, name, input) = part.call().unwrap();
                json!({ "functionCall": { "name": name, "args": input }, "thoughtSignature": "Cg==" })
            }
        };
        let content = json!({ "role": "model", "parts": [part] });
        text += &plain(&json!({ "candidates": [{ "content": content, "index": 0 }] }));
    }
    let usage = json!({ "promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18 });
    text + &plain(&json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": usage }))
}

/// An event of Amazon's event stream.
fn amazon(name: &str, data: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":message-type", "event")];
    leftfold_framing::eventstream::message(&headers, data.to_string().as_bytes())
}

pub(super) fn bedrock(parts: &[ReplyPart]) -> Vec<Vec<u8>> {
    let mut events = vec![amazon("messageStart", &json!({ "role": "assistant" }))];
    for (index, part) in parts.iter().enumerate() {
        let delta = |delta: Value| {
            amazon("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta }))
        };
        match *part {
            ReplyPart::Error(message) => {
                let kind = "serviceUnavailableException";
                let headers = [(":exception-type", kind), (":message-type", "exception")];
                let data = json!({ "message": message }).to_string();
                events.push(leftfold_framing::eventstream::message(&headers, data.as_bytes()));
                return events;
            }
            ReplyPart::Text(words) => {
                events.extend(pieces(words).iter().map(|piece| delta(json!({ "text": piece }))));
            }
            ReplyPart::Thought(words, signature) => {
                let reasoning = |content: Value| delta(json!({ "reasoningContent": content }));
                let piece = |piece: &String| reasoning(json!({ "text": piece }));
                events.extend(pieces(words).iter().map(piece));
                events.push(reasoning(json!({ "signature": signature })));
            }
            ReplyPart::Read(..) | ReplyPart::Task(..) | ReplyPart::Echo(_) => {
                let (id, name, input) = part.call().unwrap();
                let start = json!({ "toolUse": { "toolUseId": id, "name": name } });
                let start = json!({ "contentBlockIndex": index, "start": start });
                events.push(amazon("contentBlockStart", &start));
                let piece = |piece: &String| delta(json!({ "toolUse": { "input": piece } }));
                events.extend(pieces(&input.to_string()).iter().map(piece));
            }
        }
        events.push(amazon("contentBlockStop", &json!({ "contentBlockIndex": index })));
    }
    let reason = if has_calls(parts) { "tool_use" } else { "end_turn" };
    events.push(amazon("messageStop", &json!({ "stopReason": reason })));
    let usage = json!({ "inputTokens": 11, "outputTokens": 7, "totalTokens": 18 });
    events.push(amazon("metadata", &json!({ "usage": usage })));
    events
}
