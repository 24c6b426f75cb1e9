#![allow(clippy::needless_pass_by_value, reason = "values are made on the spot")]

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, FailureClass, Finish, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode::Decoder;
use super::*;
use crate::stream::StreamEvent;
use crate::testing::*;

/// The wire form of events: name, data, blank line.
fn wire(events: &[Value]) -> String {
    let event = |e: &Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

fn decode(pieces: &[&[u8]]) -> Vec<StreamEvent> {
    crate::testing::decode(Decoder::new("p"), pieces)
}

fn decode_all(events: &[Value]) -> Vec<StreamEvent> {
    decode(&[wire(events).as_bytes()])
}

fn start() -> Value {
    json!({"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":
        {"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":0,"output_tokens":1}}})
}

fn open(index: u64, block: Value) -> Value {
    json!({"type":"content_block_start","index":index,"content_block":block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type":"content_block_delta","index":index,"delta":delta})
}

fn close(index: u64) -> Value {
    json!({"type":"content_block_stop","index":index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type":"message_delta","delta":{"stop_reason":reason,"stop_sequence":null},"usage":{"output_tokens":7}}),
        json!({"type":"message_stop"}),
    ]
}

fn text(index: u64, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![open(index, json!({"type":"text","text":""}))];
    events.extend(pieces.iter().map(|t| delta(index, json!({"type":"text_delta","text":t}))));
    events.push(close(index));
    events
}

fn tool(index: u64, start: Value, pieces: &[&str]) -> Vec<Value> {
    let mut events =
        vec![open(index, json!({"type":"tool_use","id":"t","name":"read","input":start}))];
    let piece = |t: &&str| delta(index, json!({"type":"input_json_delta","partial_json":t}));
    events.extend(pieces.iter().map(piece));
    events.push(close(index));
    events
}

/// A reply with every kind of event.
fn rich() -> Vec<Value> {
    let mut events = vec![start(), json!({"type":"ping"})];
    events.push(open(0, json!({"type":"thinking","thinking":"","signature":""})));
    events.push(delta(0, json!({"type":"thinking_delta","thinking":"hm 世"})));
    events.push(delta(0, json!({"type":"signature_delta","signature":"sig=="})));
    events.push(close(0));
    events.push(open(1, json!({"type":"redacted_thinking","data":"sealed"})));
    events.push(close(1));
    events.extend(text(2, &["Hé", "llo 🎉"]));
    events.push(json!({"type":"ping"}));
    events.extend(tool(3, json!({}), &["", "{\"path\":", " \"ä\"}"]));
    events.push(json!({"type":"invented","delta":"odd"}));
    events.extend(end("tool_use"));
    events
}

fn rich_decoded() -> Vec<StreamEvent> {
    use StreamEvent::*;
    let id = |n: u64| n.to_string();
    vec![
        ReasoningStart { id: id(0) },
        ReasoningDelta { id: id(0), text: "hm 世".into() },
        ReasoningEnd { id: id(0), signature: Some("sig==".into()), redacted: false },
        ReasoningStart { id: id(1) },
        ReasoningEnd { id: id(1), signature: Some("sealed".into()), redacted: true },
        TextStart { id: id(2) },
        TextDelta { id: id(2), text: "Hé".into() },
        TextDelta { id: id(2), text: "llo 🎉".into() },
        TextEnd { id: id(2) },
        ToolInputStart { id: "t".into(), name: "read".into() },
        ToolInputDelta { id: "t".into(), text: "{\"path\":".into() },
        ToolInputDelta { id: "t".into(), text: " \"ä\"}".into() },
        ToolCall(CallSpec {
            id: "t".into(),
            name: "read".into(),
            input: Json::parse(r#"{"path":"ä"}"#).unwrap(),
        }),
        Finish {
            finish: leftfold_events::event::Finish::ToolCalls,
            usage: Usage { input: 10, output: 7, reasoning: 0, cache_read: 0, cache_write: 5 },
        },
    ]
}

#[test]
fn every_kind_of_event() {
    assert_eq!(decode_all(&rich()), rich_decoded());
}

#[test]
fn bytes_split_anywhere_and_every_line_end() {
    noisy_and_split(&wire(&rich()), |pieces, how| {
        assert_eq!(decode(pieces), rich_decoded(), "{how}");
    });
}

#[test]
fn a_stream_cut_anywhere_never_finishes() {
    let bytes = wire(&rich()).into_bytes();
    for at in 0..bytes.len() {
        let events = decode(&[&bytes[..at]]);
        assert!(!events.iter().any(StreamEvent::is_last), "cut at {at}");
        assert!(rich_decoded().starts_with(&events), "cut at {at}");
    }
}

#[test]
fn usage_is_cumulative_and_replaces() {
    let mut events = vec![start()];
    events.push(json!({"type":"message_delta","delta":{"stop_reason":null},"usage":
        {"input_tokens":15665,"cache_read_input_tokens":6289,"cache_creation_input_tokens":null,"output_tokens":3}}));
    events.push(json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":
        {"output_tokens":90,"output_tokens_details":{"thinking_tokens":30}}}));
    events.push(json!({"type":"message_delta","delta":{},"usage":null}));
    events.push(json!({"type":"message_stop"}));
    let usage = Usage { input: 15665, output: 60, reasoning: 30, cache_read: 6289, cache_write: 5 };
    let expected = StreamEvent::Finish { finish: Finish::Stop, usage };
    assert_eq!(decode_all(&events), [expected]);
}

#[test]
fn call_inputs() {
    for (start, pieces, input) in [
        (json!({}), &[""][..], "{}"),
        (json!({}), &[], "{}"),
        (Value::Null, &[], "{}"),
        (json!({"a": 1}), &[], r#"{"a":1}"#),
        (json!({"a": 1}), &[""], r#"{"a":1}"#),
        (json!({}), &["{\"a\"", ":2}"], r#"{"a":2}"#),
        (json!({}), &["{\"a\": "], r#""{\"a\": ""#),
        (json!({}), &["[1]"], "[1]"),
    ] {
        let events = [tool(0, start, pieces), end("tool_use").to_vec()].concat();
        assert_eq!(inputs(&decode_all(&events)), [input], "{pieces:?}");
    }
}

#[test]
fn a_call_that_is_cut_off_can_not_be_mistaken_for_one() {
    for (pieces, reason, input) in [
        (&[""][..], "max_tokens", r#""""#),
        (&[], "model_context_window_exceeded", r#""""#),
        (&["{\"a\": "], "max_tokens", r#""{\"a\": ""#),
        (&["{\"a\":1}"], "max_tokens", r#"{"a":1}"#),
        (&[], "end_turn", "{}"),
    ] {
        let events = [tool(0, json!({}), pieces), end(reason).to_vec()].concat();
        assert_eq!(inputs(&decode_all(&events)), [input], "{pieces:?} {reason}");
    }
    // only the last call is cut off
    let two = [tool(0, json!({}), &[]), tool(1, json!({}), &[]), end("max_tokens").to_vec()];
    assert_eq!(inputs(&decode_all(&two.concat())), ["{}", r#""""#]);
}

#[test]
fn what_the_provider_runs_itself_is_skipped() {
    let mut events = vec![start()];
    for (index, kind) in (0..).zip(["server_tool_use", "mcp_tool_use", "compaction", "fallback"]) {
        events.push(open(index, json!({"type":kind,"id":"s","name":"web_search","input":{}})));
        events.push(delta(index, json!({"type":"input_json_delta","partial_json":"{}"})));
        events.push(delta(index, json!({"type":"compaction_delta","content":{"x":[1]}})));
        events.push(close(index));
    }
    events.push(open(
        4,
        json!({"type":"web_search_tool_result","content":[{"big":"x".repeat(50_000)}]}),
    ));
    events.push(close(4));
    events.extend(text(5, &["a"]));
    events.push(open(6, json!({"type":"text","text":"b"})));
    events.push(delta(6, json!({"type":"citations_delta","citation":{"url":"u"}})));
    events.push(close(6));
    events.extend(end("end_turn"));
    let decoded = decode_all(&events);
    assert!(inputs(&decoded).is_empty());
    let text: String = decoded
        .iter()
        .filter_map(|e| match e {
            StreamEvent::TextDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "ab");
    assert!(matches!(decoded.last(), Some(StreamEvent::Finish { finish: Finish::Stop, .. })));
}

#[test]
fn reasons_to_stop() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::ToolCalls),
        ("pause_turn", Finish::Pause),
        ("refusal", Finish::ContentFilter),
        ("invented", Finish::Other),
    ] {
        let [delta, stop] = end(reason);
        let events = decode_all(&[start(), delta, stop]);
        assert!(
            matches!(&events[..], [StreamEvent::Finish { finish: f, .. }] if *f == finish),
            "{reason}: {events:?}"
        );
    }
}

#[test]
fn errors_end_the_stream() {
    let error = json!({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}});
    let events = decode_all(std::slice::from_ref(&error));
    assert_eq!(failure(&events).class, FailureClass::Overloaded);
    let mut events = vec![start()];
    events.extend(text(0, &["half"]));
    events.push(error);
    events.extend(end("end_turn"));
    let decoded = decode_all(&events);
    assert!(failure(&decoded).retryable);
    assert_eq!(decoded.iter().filter(|e| e.is_last()).count(), 1);
    let bare = decode(&[b"data: {\"error\":{\"message\":\"prompt is too long: 2 > 1\"}}\n\n"]);
    assert_eq!(failure(&bare).class, FailureClass::Overflow);
    let empty = decode_all(&[json!({"type":"error"})]);
    assert!(!failure(&empty).message.is_empty());
}

#[test]
fn damaged_events_fail_and_foreign_ones_do_not() {
    for text in [
        "event: content_block_delta\ndata: {\"type\":\"content_bl\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":\"x\",\"delta\":{}}\n\n",
    ] {
        let events = decode(&[text.as_bytes()]);
        assert_eq!(failure(&events).class, FailureClass::Network, "{text}");
        assert!(failure(&events).retryable);
    }
    for text in ["data: [DONE]\n\n", "event: beat\ndata: {oops\n\n", "data: {\"a\":1}\n\n"] {
        assert!(decode(&[text.as_bytes()]).is_empty(), "{text}");
    }
}

#[test]
fn blocks_that_nobody_closes_are_closed_at_the_end() {
    let mut events = vec![start()];
    events.extend(tool(0, json!({}), &["{}"]).into_iter().take(2));
    events.extend(end("tool_use"));
    assert_eq!(inputs(&decode_all(&events)), ["{}"]);
}

/// A gateway may damage a stream so.
#[test]
fn an_index_that_is_used_twice_makes_two_parts() {
    let block = |text: &str| -> Vec<Value> {
        vec![
            json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":text}}),
            json!({"type":"content_block_stop","index":0}),
        ]
    };
    let mut events = vec![json!({"type":"message_start","message":{}})];
    events.extend(block("a"));
    events.extend(block("b"));
    events.extend(end("end_turn"));
    let events = decode_all(&events);
    assert_grammar(&events);
    assert_eq!(texts(&events).1, "ab");
}

#[test]
fn settings_are_checked() {
    let config = |base: Option<&str>, key: Option<&str>| {
        let mut config = Config::new("anthropic", crate::Wire::ANTHROPIC);
        config.base_url = base.map(str::to_owned);
        config.api_key = key.map(str::to_owned);
        config
    };
    let error = |config: Config| client(config).unwrap_err().to_string();
    assert!(error(config(None, None)).contains("ANTHROPIC_API_KEY"));
    assert!(error(config(None, Some("  "))).contains("ANTHROPIC_API_KEY"));
    assert!(error(config(Some("localhost:80"), None)).contains("baseURL"));
    assert!(error(config(Some("nonsense"), None)).contains("baseURL"));
    let newline = error(config(None, Some("sk-secret\nx")));
    assert!(newline.contains("apiKey") && !newline.contains("sk-secret"), "{newline}");
    let mut bad = config(None, Some("key"));
    bad.headers = vec![("a b".into(), "c".into())];
    assert!(error(bad).contains("`a b`"));
    for (base, url) in [
        (None, "https://api.anthropic.com/v1/messages"),
        (Some("http://127.0.0.1:8080/v1/"), "http://127.0.0.1:8080/v1/messages"),
        (Some("http://127.0.0.1:8080"), "http://127.0.0.1:8080/messages"),
        (Some("https://h/v1?api-version=2"), "https://h/v1/messages?api-version=2"),
    ] {
        let provider = client(config(base, Some("key"))).unwrap();
        assert_eq!(provider.endpoint.url.as_str(), url);
    }
    // a server of the user's may need no key, and a gateway uses another header
    assert!(client(config(Some("http://127.0.0.1/v1"), None)).is_ok());
    let mut gateway = config(None, None);
    gateway.headers = vec![("Authorization".into(), "Bearer x".into())];
    assert!(client(gateway).is_ok());
}

#[test]
fn base_urls_from_the_environment() {
    for (value, base) in [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1"),
        (" https://gateway/anthropic/v1/ ", "https://gateway/anthropic/v1"),
    ] {
        assert_eq!(Anthropic.base_from_env(value), base);
    }
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(pieces in any_pieces()) {
        assert_grammar(&decode(&slices(&pieces)));
    }

    /// No event follows the last one in a stream with changed bytes.
    #[test]
    fn damaged_streams_do_no_harm(bytes in damaged(wire(&rich()))) {
        assert_grammar(&decode(&[&bytes]));
    }
}
