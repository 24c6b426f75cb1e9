#![allow(clippy::needless_pass_by_value, reason = "values are made on the spot")]

mod damage;
mod returned;
mod settings;
mod vendors;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, FailureClass, Finish, Usage};
use serde_json::{Value, json};

use super::decode::Decoder;
use super::*;
use crate::Wire;
use crate::stream::StreamEvent;
use crate::testing::*;

fn vendor(name: &str) -> &'static Vendor {
    crate::vendors::named(name).unwrap()
}

/// The wire form of chunks, without the end.
fn wire(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn whole(chunks: &[Value]) -> String {
    wire(chunks) + "data: [DONE]\n\n"
}

fn decode_of(name: &str, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    crate::testing::decode(Decoder::new("p", vendor(name)), pieces)
}

fn decode(pieces: &[&[u8]]) -> Vec<StreamEvent> {
    decode_of("openai", pieces)
}

fn decode_all(name: &str, chunks: &[Value]) -> Vec<StreamEvent> {
    decode_of(name, &[whole(chunks).as_bytes()])
}

fn delta(delta: Value) -> Value {
    json!({"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":delta,"logprobs":null,"finish_reason":null}],"usage":null})
}

fn end(reason: &str) -> Value {
    json!({"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":reason}]})
}

fn usage(prompt: u64, completion: u64) -> Value {
    json!({"id":"c","choices":[],"usage":{"prompt_tokens":prompt,"completion_tokens":completion,"total_tokens":prompt + completion}})
}

fn piece(index: u64, id: Value, name: Value, arguments: Value) -> Value {
    delta(
        json!({"tool_calls":[{"index":index,"id":id,"type":"function","function":{"name":name,"arguments":arguments}}]}),
    )
}

/// A reply with every kind of chunk.
fn rich() -> Vec<Value> {
    vec![
        delta(json!({"role":"assistant","content":"","refusal":null})),
        delta(json!({"reasoning_content":"hm 世","content":null})),
        delta(json!({"reasoning_content":" 🎉"})),
        delta(json!({"content":"Hé","reasoning_content":null,"tool_calls":null})),
        delta(json!({"content":"llo"})),
        piece(0, json!("t0"), json!("read"), json!("")),
        piece(0, Value::Null, Value::Null, json!("{\"path\":")),
        piece(0, Value::Null, Value::Null, json!(" \"ä\"}")),
        piece(1, json!("t1"), json!("list"), json!("{}")),
        end("tool_calls"),
        json!({"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,
            "prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}),
    ]
}

fn rich_decoded() -> Vec<StreamEvent> {
    use StreamEvent::*;
    let id = |n: u64| n.to_string();
    let spec = |id: &str, name: &str, input: &str| CallSpec {
        id: id.into(),
        name: name.into(),
        input: Json::parse(input).unwrap(),
    };
    vec![
        ReasoningStart { id: id(0) },
        ReasoningDelta { id: id(0), text: "hm 世".into() },
        ReasoningDelta { id: id(0), text: " 🎉".into() },
        ReasoningEnd { id: id(0), signature: Some("reasoning_content".into()), redacted: false },
        TextStart { id: id(1) },
        TextDelta { id: id(1), text: "Hé".into() },
        TextDelta { id: id(1), text: "llo".into() },
        TextEnd { id: id(1) },
        ToolInputStart { id: "t0".into(), name: "read".into() },
        ToolInputDelta { id: "t0".into(), text: "{\"path\":".into() },
        ToolInputDelta { id: "t0".into(), text: " \"ä\"}".into() },
        ToolInputStart { id: "t1".into(), name: "list".into() },
        ToolInputDelta { id: "t1".into(), text: "{}".into() },
        ToolCall(spec("t0", "read", r#"{"path":"ä"}"#)),
        ToolCall(spec("t1", "list", "{}")),
        Finish {
            finish: leftfold_events::event::Finish::ToolCalls,
            usage: Usage { input: 6, output: 5, reasoning: 2, cache_read: 4, cache_write: 0 },
        },
    ]
}

#[test]
fn every_kind_of_chunk() {
    assert_eq!(decode_all("openai", &rich()), rich_decoded());
}

#[test]
fn reasons_to_finish() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("invented", Finish::Other),
    ] {
        let events = decode_all("openai", &[delta(json!({"content":"a"})), end(reason)]);
        assert_eq!(finished(&events).0, finish, "{reason}");
    }
}

#[test]
fn calls_make_the_reason_whatever_it_is_called() {
    let one = piece(0, json!("t"), json!("read"), json!("{}"));
    for (reason, finish) in [
        ("stop", Finish::ToolCalls),
        ("eos", Finish::ToolCalls),
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
    ] {
        let events = decode_all("openai", &[one.clone(), end(reason)]);
        assert_eq!(finished(&events).0, finish, "{reason}");
    }
    let events = decode_all("openai", &[one]);
    assert_eq!(finished(&events).0, Finish::ToolCalls);
    assert_eq!(calls(&events).len(), 1);
}

#[test]
fn a_call_that_is_cut_off_can_not_be_mistaken_for_one() {
    for (arguments, reason, input) in [
        ("", "length", r#""""#),
        ("", "tool_calls", "{}"),
        ("{\"a\":", "length", r#""{\"a\":""#),
        ("{\"a\":1}", "length", r#"{"a":1}"#),
    ] {
        let events = decode_all(
            "openai",
            &[piece(0, json!("t"), json!("list"), json!(arguments)), end(reason)],
        );
        assert_eq!(calls(&events), [call("t", "list", input)], "{arguments} {reason}");
    }
}

#[test]
fn calls_are_told_before_the_counts_come() {
    let chunks = [piece(0, json!("t"), json!("read"), json!("{}")), end("tool_calls")];
    let events = decode(&[wire(&chunks).as_bytes()]);
    assert_eq!(calls(&events), [call("t", "read", "{}")]);
    assert!(!events.iter().any(StreamEvent::is_last));
}

#[test]
fn call_inputs() {
    for (pieces, input) in [
        (vec![json!("")], "{}"),
        (vec![Value::Null], "{}"),
        (vec![json!(" "), json!("")], "{}"),
        (vec![json!("{\"a\""), json!(":2}")], r#"{"a":2}"#),
        (vec![json!("{\"a\": ")], r#""{\"a\": ""#),
        (vec![json!({"a":3})], r#"{"a":3}"#),
        (vec![json!("[1]")], "[1]"),
    ] {
        let mut chunks = vec![piece(0, json!("t"), json!("read"), Value::Null)];
        chunks.extend(pieces.iter().map(|p| piece(0, Value::Null, Value::Null, p.clone())));
        chunks.push(end("tool_calls"));
        assert_eq!(calls(&decode_all("openai", &chunks)), [call("t", "read", input)], "{pieces:?}");
    }
}

#[test]
fn calls_without_ids_get_one() {
    let chunks = [
        piece(0, Value::Null, json!("a"), json!("{}")),
        piece(1, json!(""), json!("b"), json!("{}")),
        piece(2, json!(7), json!("c"), json!("{}")),
        end("tool_calls"),
    ];
    let expected = [call("call_0", "a", "{}"), call("call_1", "b", "{}"), call("7", "c", "{}")];
    assert_eq!(calls(&decode_all("openai", &chunks)), expected);
}

#[test]
fn text_after_calls_and_a_refusal_are_told() {
    let chunks = [
        piece(0, json!("t"), json!("a"), json!("{}")),
        delta(json!({"content":"after"})),
        delta(json!({"refusal":"I can not."})),
        end("tool_calls"),
    ];
    let events = decode_all("openai", &chunks);
    assert_eq!(texts(&events).1, "afterI can not.");
    assert_eq!(calls(&events).len(), 1);
}

#[test]
fn only_the_first_choice_counts() {
    let mut other = delta(json!({"content":"B"}));
    other["choices"][0]["index"] = json!(1);
    let mut bare = delta(json!({"content":"C"}));
    bare["choices"][0].as_object_mut().unwrap().remove("index");
    let events = decode_all("openai", &[delta(json!({"content":"A"})), other, bare, end("stop")]);
    assert_eq!(texts(&events).1, "AC");
}
