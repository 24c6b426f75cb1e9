//! Decodes streams of 1 MiB of each wire from memory, in pieces as a network delivers them. `cargo
//! bench -p leftfold-providers --bench stream`.
//!
//! Times are means. They are processor times where the system offers them, as the machine may be
//! shared; that clock is coarse. The target is at least 200 MB/s.

#![allow(clippy::print_stdout, clippy::panic, reason = "a bench prints its figures, or stops")]

use std::time::{Duration, Instant};

use leftfold_providers::{Config, StreamEvent, Wire, decode};
use serde_json::{Value, json};

const SIZE: usize = 1 << 20;
const ROUNDS: u32 = 100;
const LEAST: f64 = 200.0;

/// Bytes that arrive at once: a TLS record.
const PIECE: usize = 16 * 1024;

/// A model's text, a few words at a time.
const WORDS: [&str; 6] =
    [" The test", " fails because", " `parse`", " returns", " \"no\\n\"", " – twice.\n"];

fn main() {
    report(Wire::ANTHROPIC, &anthropic());
    report(Wire::OPENAI_CHAT, &chat());
    report(Wire::OPENAI_RESPONSES, &responses());
    report(Wire::GEMINI, &gemini());
}

fn report(wire: Wire, stream: &str) {
    let config = Config::new("bench", wire);
    let mut events = 0;
    let begun = Instant::now();
    let start = now(begun);
    for _ in 0..ROUNDS {
        let found = decode(&config, stream.as_bytes().chunks(PIECE));
        if !matches!(found.last(), Some(StreamEvent::Finish { .. })) {
            panic!("{wire}: no good stream: {:?}", found.last());
        }
        events = found.len();
    }
    let mean = now(begun).saturating_sub(start) / ROUNDS;
    let speed = mega(stream.len()) / mean.as_secs_f64();
    let verdict = if speed < LEAST { "  TOO SLOW" } else { "" };
    println!("{wire}: {speed:.0} MB/s, {events} events in {mean:.2?}{verdict}");
}

/// The thread's processor time, or the time since `begun`.
fn now(begun: Instant) -> Duration {
    let run = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let run = run.and_then(|text| text.split(' ').next()?.parse().ok());
    run.map_or_else(|| begun.elapsed(), Duration::from_nanos)
}

#[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
fn mega(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

fn event(into: &mut String, data: &Value) {
    if let Some(name) = data["type"].as_str() {
        into.push_str(&format!("event: {name}\n"));
    }
    into.push_str(&format!("data: {data}\n\n"));
}

/// A stream whose middle is repeated until it is long enough.
fn filled(before: &[Value], middle: impl Fn(usize) -> Value, after: &[Value]) -> String {
    let mut text = String::new();
    before.iter().for_each(|data| event(&mut text, data));
    for n in 0.. {
        event(&mut text, &middle(n));
        if text.len() >= SIZE {
            break;
        }
    }
    after.iter().for_each(|data| event(&mut text, data));
    text
}

fn words(n: usize) -> &'static str {
    WORDS[n % WORDS.len()]
}

fn anthropic() -> String {
    let usage = json!({ "input_tokens": 2037, "cache_read_input_tokens": 0, "output_tokens": 1 });
    let message = json!({ "id": "msg_01", "role": "assistant", "content": [], "usage": usage });
    let block = json!({ "type": "text", "text": "" });
    let stop = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    filled(
        &[
            json!({ "type": "message_start", "message": message }),
            json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        ],
        |n| {
            let delta = json!({ "type": "text_delta", "text": words(n) });
            json!({ "type": "content_block_delta", "index": 0, "delta": delta })
        },
        &[
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": stop, "usage": { "output_tokens": 9 } }),
            json!({ "type": "message_stop" }),
        ],
    )
}

fn chat() -> String {
    let chunk = |delta: Value, reason: Value| {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason });
        json!({ "id": "chatcmpl-CfOxJ3RkL9", "object": "chat.completion.chunk",
            "created": 1_763_700_000, "model": "gpt-5.1-2025-11-13", "service_tier": "default",
            "system_fingerprint": null, "choices": [choice], "usage": null,
            "obfuscation": "cuzS6eJz" })
    };
    let usage = json!({ "choices": [], "usage": {
        "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 } });
    let mut text = filled(
        &[chunk(json!({ "role": "assistant", "content": "" }), Value::Null)],
        |n| chunk(json!({ "content": words(n) }), Value::Null),
        &[chunk(json!({}), "stop".into()), usage],
    );
    text.push_str("data: [DONE]\n\n");
    text
}

fn responses() -> String {
    let item = |text: &str| {
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let content = if text.is_empty() { json!([]) } else { json!([part]) };
        json!({ "id": "msg_08f3", "type": "message", "status": "in_progress",
            "role": "assistant", "content": content })
    };
    let response = json!({ "id": "resp_08f3", "status": "completed", "output": [],
        "usage": { "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 } });
    filled(
        &[
            json!({ "type": "response.created", "response": { "id": "resp_08f3", "tools": [] } }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item("") }),
        ],
        |n| {
            json!({ "type": "response.output_text.delta", "sequence_number": n,
                "item_id": "msg_08f3b1c4a2e94f21006920a1b2c3d4819", "output_index": 0,
                "content_index": 0, "delta": words(n), "logprobs": [],
                "obfuscation": "cuzS6eJzY3h2" })
        },
        &[json!({ "type": "response.completed", "response": response })],
    )
}

fn gemini() -> String {
    let chunk = |text: &str, reason: Value| {
        let content = json!({ "parts": [{ "text": text }], "role": "model" });
        let mut candidate = json!({ "content": content, "index": 0 });
        if !reason.is_null() {
            candidate["finishReason"] = reason;
        }
        let text = json!([{ "modality": "TEXT", "tokenCount": 10 }]);
        json!({ "candidates": [candidate], "usageMetadata": { "promptTokenCount": 10,
            "candidatesTokenCount": 7, "totalTokenCount": 17, "promptTokensDetails": text },
            "modelVersion": "gemini-3.8-flash", "responseId": "r0ogadXbLJ2_xN8P" })
    };
    // several tokens arrive at once
    let long = WORDS.concat();
    filled(&[], |_| chunk(&long, Value::Null), &[chunk("", "STOP".into())])
}
