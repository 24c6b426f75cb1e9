//! Replies in the streaming format of Anthropic Messages.

use serde_json::{Value, json};

/// A block of a reply.
pub enum Block {
    Text(&'static str),
    Thinking(&'static str, &'static str),
    /// Id, tool and the input as the model wrote it, valid JSON or not.
    Call(&'static str, &'static str, String),
}

/// A whole reply. The pieces of each block are as short as a model's tokens.
pub fn message(blocks: &[Block]) -> String {
    in_pieces(blocks, 5)
}

/// A whole reply, with each block in one piece.
pub fn message_whole(blocks: &[Block]) -> String {
    in_pieces(blocks, usize::MAX)
}

/// A whole reply, with deltas of at most so many characters.
fn in_pieces(blocks: &[Block], length: usize) -> String {
    let usage = json!({ "input_tokens": 11, "output_tokens": 1 });
    let start = json!({ "type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "usage": usage } });
    let mut text = event(&start) + &event(&json!({ "type": "ping" })) + ": a comment\n\n";
    for (index, block) in blocks.iter().enumerate() {
        text += &one(index, block, length);
    }
    let calls = blocks.iter().any(|block| matches!(block, Block::Call(..)));
    let reason = if calls { "tool_use" } else { "end_turn" };
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason },
        "usage": { "output_tokens": 7 } });
    text + &event(&end) + &event(&json!({ "type": "message_stop" }))
}

fn one(index: usize, block: &Block, length: usize) -> String {
    let (start, deltas) = match block {
        Block::Text(text) => (json!({ "type": "text", "text": "" }), pieces("text", text, length)),
        Block::Thinking(text, signature) => {
            let mut deltas = pieces("thinking", text, length);
            deltas.push(json!({ "type": "signature_delta", "signature": signature }));
            (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
        }
        Block::Call(id, name, input) => (
            json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
            pieces("partial_json", input, length),
        ),
    };
    let start = json!({ "type": "content_block_start", "index": index, "content_block": start });
    let mut text = event(&start);
    for delta in deltas {
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        text += &event(&delta);
    }
    text + &event(&json!({ "type": "content_block_stop", "index": index }))
}

/// Deltas of at most `length` characters.
fn pieces(key: &str, text: &str, length: usize) -> Vec<Value> {
    let kind = if key == "partial_json" { "input_json" } else { key };
    let chars: Vec<char> = text.chars().collect();
    let pieces = chars.chunks(length).map(|piece| piece.iter().collect::<String>());
    pieces.map(|piece| json!({ "type": format!("{kind}_delta"), key: piece })).collect()
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// The stream with CRLF line endings, which the standard also allows.
pub fn with_crlf(stream: &str) -> String {
    stream.replace('\n', "\r\n")
}
