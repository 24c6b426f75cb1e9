#![allow(clippy::needless_pass_by_value, reason = "values are made on the spot")]

mod damage;
mod errors;
mod items;
mod settings;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, FailureClass, Finish, Usage};
use serde_json::{Value, json};

use super::decode::Decoder;
use super::*;
use crate::Wire;
use crate::stream::{Extra, StreamEvent};
use crate::testing::*;

/// The wire form of events.
fn wire(events: &[Value]) -> String {
    let one = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(one).collect()
}

fn decode(pieces: &[&[u8]]) -> Vec<StreamEvent> {
    crate::testing::decode(Decoder::new("p"), pieces)
}

fn decode_all(events: &[Value]) -> Vec<StreamEvent> {
    decode(&[wire(events).as_bytes()])
}

fn created() -> Value {
    json!({"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response",
        "status":"in_progress","error":null,"incomplete_details":null,"output":[],"tools":[],"usage":null}})
}

fn added(index: u64, item: Value) -> Value {
    json!({"type":"response.output_item.added","output_index":index,"item":item})
}

fn done(index: u64, item: Value) -> Value {
    json!({"type":"response.output_item.done","output_index":index,"item":item})
}

/// An event of the first part of an item.
fn piece(kind: &str, index: u64, more: Value) -> Value {
    let mut event = json!({"type":format!("response.{kind}"),"item_id":"i","output_index":index});
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn message(text: &str) -> Value {
    json!({"id":"msg_1","type":"message","status":"completed","role":"assistant",
        "content":[{"type":"output_text","text":text,"annotations":[],"logprobs":[]}]})
}

fn function(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id":format!("fc_{id}"),"type":"function_call","status":"completed","call_id":id,
        "name":name,"arguments":arguments})
}

fn completed() -> Value {
    json!({"type":"response.completed","response":{"id":"resp_1","status":"completed","error":null,
        "incomplete_details":null,"output":[],"usage":{"input_tokens":10,"output_tokens":7,"total_tokens":17,
        "input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":2}}}})
}

fn incomplete(reason: &str) -> Value {
    json!({"type":"response.incomplete","response":{"status":"incomplete",
        "incomplete_details":{"reason":reason},"usage":{"input_tokens":1,"output_tokens":2}}})
}

fn sealed() -> Value {
    json!({"id":"rs_1","type":"reasoning","encrypted_content":"gAAA-final","summary":[
        {"type":"summary_text","text":"hm 世 🎉"},{"type":"summary_text","text":"so"}]})
}

/// A reply with an event of every kind.
fn rich() -> Vec<Value> {
    vec![
        created(),
        json!({"type":"response.in_progress","response":{"id":"resp_1"}}),
        added(0, json!({"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"})),
        piece(
            "reasoning_summary_part.added",
            0,
            json!({"summary_index":0,"part":{"type":"summary_text","text":""}}),
        ),
        piece("reasoning_summary_text.delta", 0, json!({"summary_index":0,"delta":"hm 世"})),
        piece("reasoning_summary_text.delta", 0, json!({"summary_index":0,"delta":" 🎉"})),
        piece("reasoning_summary_text.done", 0, json!({"summary_index":0,"text":"hm 世 🎉"})),
        piece(
            "reasoning_summary_part.done",
            0,
            json!({"summary_index":0,"part":{"type":"summary_text","text":"hm 世 🎉"}}),
        ),
        piece("reasoning_summary_part.added", 0, json!({"summary_index":1})),
        piece("reasoning_summary_text.delta", 0, json!({"summary_index":1,"delta":"so"})),
        piece("reasoning_summary_text.done", 0, json!({"summary_index":1,"text":"so"})),
        done(0, sealed()),
        added(
            2,
            json!({"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}),
        ),
        piece(
            "content_part.added",
            2,
            json!({"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}),
        ),
        piece("output_text.delta", 2, json!({"content_index":0,"delta":"Hé","obfuscation":"x"})),
        piece(
            "output_text.annotation.added",
            2,
            json!({"content_index":0,"annotation_index":0,"annotation":{}}),
        ),
        piece("output_text.delta", 2, json!({"content_index":0,"delta":"llo"})),
        piece("output_text.done", 2, json!({"content_index":0,"text":"Héllo"})),
        piece(
            "content_part.done",
            2,
            json!({"content_index":0,"part":{"type":"output_text","text":"Héllo"}}),
        ),
        done(2, message("Héllo")),
        added(3, function("call_a", "read", "")),
        piece("function_call_arguments.delta", 3, json!({"delta":"{\"path\":"})),
        piece("function_call_arguments.delta", 3, json!({"delta":" \"ä\"}"})),
        piece("function_call_arguments.done", 3, json!({"arguments":"{\"path\": \"ä\"}"})),
        done(3, function("call_a", "read", "{\"path\": \"ä\"}")),
        added(4, json!({"id":"ws_1","type":"web_search_call","status":"in_progress"})),
        piece("web_search_call.searching", 4, json!({})),
        done(4, json!({"id":"ws_1","type":"web_search_call","status":"completed","action":{}})),
        completed(),
    ]
}

fn rich_decoded() -> Vec<StreamEvent> {
    use StreamEvent::*;
    let id = |n: u64| n.to_string();
    let text = |n, text: &str| ReasoningDelta { id: id(n), text: text.into() };
    let signature = super::reasoning::seal(&sealed());
    let call = |text: &str| ToolInputDelta { id: "call_a".into(), text: text.into() };
    vec![
        ReasoningStart { id: id(0) },
        text(0, "hm 世"),
        text(0, " 🎉"),
        ReasoningStart { id: id(1) },
        text(1, "so"),
        ReasoningEnd { id: id(0), signature: None, redacted: false },
        ReasoningEnd { id: id(1), signature, redacted: false },
        TextStart { id: id(2) },
        TextDelta { id: id(2), text: "Hé".into() },
        TextDelta { id: id(2), text: "llo".into() },
        TextEnd { id: id(2) },
        ToolInputStart { id: "call_a".into(), name: "read".into() },
        call("{\"path\":"),
        call(" \"ä\"}"),
        ToolCall(CallSpec {
            id: "call_a".into(),
            name: "read".into(),
            input: Json::parse(r#"{"path":"ä"}"#).unwrap(),
        }),
        Finish {
            finish: leftfold_events::event::Finish::ToolCalls,
            usage: Usage { input: 6, output: 5, reasoning: 2, cache_read: 4, cache_write: 0 },
        },
    ]
}

#[test]
fn every_kind_of_event() {
    assert_eq!(decode_all(&rich()), rich_decoded());
}

#[test]
fn a_call_is_told_as_soon_as_it_is_complete() {
    let events =
        [created(), added(0, function("a", "read", "")), done(0, function("a", "read", "{}"))];
    let events = decode_all(&events);
    assert_eq!(calls(&events), [call("a", "read", "{}")]);
    assert!(!events.iter().any(StreamEvent::is_last));
}

#[test]
fn reasons_to_finish() {
    for (end, finish) in [
        (completed(), Finish::Stop),
        (incomplete("max_output_tokens"), Finish::Length),
        (incomplete("content_filter"), Finish::ContentFilter),
        (incomplete("invented"), Finish::Other),
        (json!({"type":"response.incomplete","response":{"usage":null}}), Finish::Other),
        (
            json!({"type":"response.completed","response":{"status":"incomplete",
                "incomplete_details":{"reason":"max_output_tokens"}}}),
            Finish::Length,
        ),
    ] {
        let events = decode_all(&[created(), done(0, message("a")), end.clone()]);
        assert_eq!(finished(&events).0, finish, "{end}");
        assert_eq!(texts(&events).1, "a", "{end}");
    }
    let events =
        decode_all(&[done(0, function("a", "read", "{}")), incomplete("max_output_tokens")]);
    assert_eq!(finished(&events).0, Finish::Length);
}
