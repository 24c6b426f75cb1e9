#![allow(clippy::needless_pass_by_value, reason = "values are made on the spot")]

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, FailureClass, Finish, Usage};
use leftfold_framing::eventstream::message;
use proptest::prelude::*;
use reqwest::StatusCode;

use super::*;
use crate::reading::Reading;
use crate::stream::StreamEvent;
use crate::testing::*;

/// The wire form of an event, which has one member: its name.
fn event(event: &Value) -> Vec<u8> {
    let (name, data) = event.as_object().unwrap().iter().next().unwrap();
    // servers pad the data to hide its length
    let mut data = data.clone();
    data["p"] = "abcdefgh".into();
    let headers = [
        (":event-type", name.as_str()),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    message(&headers, data.to_string().as_bytes())
}

fn exception(kind: &str, data: &Value) -> Vec<u8> {
    let headers = [(":exception-type", kind), (":message-type", "exception")];
    message(&headers, data.to_string().as_bytes())
}

fn wire(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(event).collect()
}

/// The events of an answer that arrives in these pieces, with its failure if it is not complete.
fn read(pieces: &[&[u8]]) -> Vec<StreamEvent> {
    let decoder = Box::new(decode::Decoder::new("p"));
    let mut reading = Reading::new("p", Framing::EventStream, decoder);
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(failure) = reading.push(piece) {
            reading.fail(failure);
        }
        events.extend(std::iter::from_fn(|| reading.pop()));
        if events.last().is_some_and(StreamEvent::is_last) {
            return events;
        }
    }
    if let Err(failure) = reading.end(StatusCode::OK) {
        reading.fail(failure);
    }
    events.extend(std::iter::from_fn(|| reading.pop()));
    events
}

fn read_all(events: &[Value]) -> Vec<StreamEvent> {
    read(&[&wire(events)])
}

fn begin(index: u64, start: Value) -> Value {
    json!({ "contentBlockStart": { "contentBlockIndex": index, "start": start } })
}

fn tool(index: u64, id: &str) -> Value {
    begin(index, json!({ "toolUse": { "toolUseId": id, "name": "read" } }))
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "contentBlockDelta": { "contentBlockIndex": index, "delta": delta } })
}

fn input(index: u64, piece: &str) -> Value {
    delta(index, json!({ "toolUse": { "input": piece } }))
}

fn stop(index: u64) -> Value {
    json!({ "contentBlockStop": { "contentBlockIndex": index } })
}

fn end(reason: &str) -> Value {
    json!({ "messageStop": { "stopReason": reason } })
}

fn metadata() -> Value {
    json!({ "metadata": { "usage": { "inputTokens": 10, "outputTokens": 7, "totalTokens": 36,
        "cacheReadInputTokens": 14, "cacheWriteInputTokens": 5 }, "metrics": { "latencyMs": 3 } } })
}

/// A reply with every kind of event.
fn rich() -> Vec<Value> {
    vec![
        json!({ "messageStart": { "role": "assistant" } }),
        delta(0, json!({ "reasoningContent": { "text": "hm 世" } })),
        delta(0, json!({ "reasoningContent": { "text": "" } })),
        delta(0, json!({ "reasoningContent": { "signature": "sig==" } })),
        stop(0),
        delta(1, json!({ "reasoningContent": { "redactedContent": "c2VhbGVk" } })),
        stop(1),
        begin(2, json!({})),
        delta(2, json!({ "text": "Hé" })),
        delta(2, json!({ "text": "llo 🎉" })),
        delta(2, json!({ "citation": { "title": "x" } })),
        stop(2),
        json!({ "inventedEvent": { "a": 1 } }),
        tool(3, "t1"),
        input(3, ""),
        input(3, "{\"path\":"),
        input(3, " \"ä\"}"),
        stop(3),
        tool(4, "t2"),
        stop(4),
        end("tool_use"),
        metadata(),
    ]
}

fn rich_decoded() -> Vec<StreamEvent> {
    use StreamEvent::*;
    let id = |n: u64| n.to_string();
    let (name, t1, t2) = ("read".to_owned(), "t1".to_owned(), "t2".to_owned());
    let path = Json::parse(r#"{"path":"ä"}"#).unwrap();
    vec![
        ReasoningStart { id: id(0) },
        ReasoningDelta { id: id(0), text: "hm 世".into() },
        ReasoningEnd { id: id(0), signature: Some("sig==".into()), redacted: false },
        ReasoningStart { id: id(1) },
        ReasoningEnd { id: id(1), signature: Some("c2VhbGVk".into()), redacted: true },
        TextStart { id: id(2) },
        TextDelta { id: id(2), text: "Hé".into() },
        TextDelta { id: id(2), text: "llo 🎉".into() },
        TextEnd { id: id(2) },
        ToolInputStart { id: t1.clone(), name: name.clone() },
        ToolInputDelta { id: t1.clone(), text: "{\"path\":".into() },
        ToolInputDelta { id: t1.clone(), text: " \"ä\"}".into() },
        ToolCall(CallSpec { id: t1, name: name.clone(), input: path }),
        ToolInputStart { id: t2.clone(), name: name.clone() },
        ToolCall(CallSpec { id: t2, name, input: Json::object() }),
        Finish {
            finish: leftfold_events::event::Finish::ToolCalls,
            usage: Usage { input: 10, output: 7, reasoning: 0, cache_read: 14, cache_write: 5 },
        },
    ]
}

#[test]
fn every_kind_of_event() {
    assert_eq!(read_all(&rich()), rich_decoded());
}

#[test]
fn bytes_split_anywhere() {
    let bytes = wire(&rich());
    for at in 0..bytes.len() {
        assert_eq!(read(&[&bytes[..at], &bytes[at..]]), rich_decoded(), "{at}");
    }
    for size in [1, 2, 3, 7, 64] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(read(&pieces), rich_decoded(), "in pieces of {size}");
    }
}

#[test]
fn an_answer_that_is_cut_anywhere_fails_and_may_be_retried() {
    let bytes = wire(&rich());
    let complete = bytes.len() - event(&metadata()).len();
    for at in (0..bytes.len()).filter(|at| *at != complete) {
        let events = read(&[&bytes[..at]]);
        let failure = failure(&events);
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Network, true),
            "cut at {at}"
        );
        assert!(rich_decoded().starts_with(&events[..events.len() - 1]), "cut at {at}");
    }
}

#[test]
fn the_counts_may_come_first_or_not_at_all() {
    let text = [delta(0, json!({ "text": "a" })), stop(0)];
    for (rest, input) in [
        (vec![metadata(), end("end_turn")], 10),
        (vec![end("end_turn"), metadata()], 10),
        (vec![end("end_turn")], 0),
        (vec![end("end_turn"), json!({ "metadata": { "usage": null } })], 0),
    ] {
        let (finish, usage) = finished(&read_all(&[&text[..], &rest].concat()));
        assert_eq!((finish, usage.input), (Finish::Stop, input), "{rest:?}");
    }
}

#[test]
fn reasons_to_stop() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("content_filtered", Finish::ContentFilter),
        ("guardrail_intervened", Finish::ContentFilter),
        ("malformed_tool_use", Finish::Error),
        ("invented", Finish::Other),
    ] {
        let text = delta(0, json!({ "text": "a" }));
        let (found, _) = finished(&read_all(&[text, end(reason), metadata()]));
        assert_eq!(found, finish, "{reason}");
    }
    let call = [tool(0, "t"), input(0, "{}"), stop(0)];
    let (found, _) = finished(&read_all(&[&call[..], &[end("end_turn")]].concat()));
    assert_eq!(found, Finish::ToolCalls);
}

#[test]
fn inputs_of_calls_that_are_cut_off_are_texts() {
    for (pieces, reason, expected) in [
        (&["{\"path\":", "\"a\"}"][..], "tool_use", r#"{"path":"a"}"#),
        (&[], "tool_use", "{}"),
        (&[""], "end_turn", "{}"),
        (&["{\"pa"], "max_tokens", r#""{\"pa""#),
        (&[], "max_tokens", r#""""#),
    ] {
        let mut events = vec![tool(0, "t")];
        events.extend(pieces.iter().map(|piece| input(0, piece)));
        // the block of a call that is cut off may not end
        let ends = [vec![stop(0)], vec![]];
        for end_of_block in ends {
            let rest = [end_of_block, vec![end(reason), metadata()]].concat();
            let found = read_all(&[&events[..], &rest].concat());
            assert_eq!(inputs(&found), [expected], "{pieces:?} {reason}");
        }
    }
}

#[test]
fn odd_orders_keep_their_content() {
    let events = [
        // one index for two kinds of parts
        delta(0, json!({ "reasoningContent": { "text": "a" } })),
        delta(0, json!({ "text": "b" })),
        // interleaved blocks
        tool(1, "t"),
        delta(2, json!({ "text": "c" })),
        input(1, "{}"),
        delta(0, json!({ "text": "d" })),
        // an index that is open
        tool(1, "u"),
        // a call that nobody began
        input(9, "{}"),
        end("tool_use"),
        metadata(),
    ];
    let found = read_all(&events);
    assert_grammar(&found);
    assert_eq!(texts(&found), ("a".to_owned(), "bcd".to_owned()));
    assert_eq!(calls(&found), [call("t", "read", "{}"), call("u", "read", "{}")]);
}

#[test]
fn exceptions_within_the_stream_have_their_class() {
    let said = |message: &str| json!({ "message": message });
    for (kind, data, class, retryable) in [
        ("throttlingException", said("Too many requests"), FailureClass::RateLimit, true),
        ("serviceUnavailableException", said("Try later"), FailureClass::Overloaded, true),
        ("internalServerException", said("Oops"), FailureClass::Other, true),
        ("modelTimeoutException", said("Slow"), FailureClass::Network, true),
        (
            "modelStreamErrorException",
            json!({ "message": "The model failed", "originalStatusCode": 500 }),
            FailureClass::Other,
            true,
        ),
        ("validationException", said("messages.0: wrong"), FailureClass::Invalid, false),
        (
            "validationException",
            said("Input is too long for requested model."),
            FailureClass::Overflow,
            false,
        ),
        ("accessDeniedException", said("Not you"), FailureClass::Auth, false),
        ("inventedException", json!({}), FailureClass::Other, false),
    ] {
        let bytes = [wire(&rich()[..4]), exception(kind, &data), wire(&rich()[4..])].concat();
        let events = read(&[&bytes]);
        let failure = failure(&events);
        assert_eq!((failure.class, failure.retryable), (class, retryable), "{kind}");
        let words = data["message"].as_str().unwrap_or("the server gave no reason");
        assert!(failure.message.contains(words.trim_end_matches('.')), "{}", failure.message);
        assert_eq!(events[..2], rich_decoded()[..2], "{kind}");
    }
    let headers =
        [(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "Gone")];
    let events = read(&[&message(&headers, b"")]);
    assert!(failure(&events).retryable && failure(&events).message.contains("Gone"));
}

#[test]
fn a_damaged_answer_may_be_retried() {
    let mut bytes = wire(&rich());
    let at = event(&rich()[0]).len() + 20;
    bytes[at] ^= 1;
    let failure = failure(&read(&[&bytes])).clone();
    assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true));
    assert!(failure.message.contains("a wrong checksum"), "{}", failure.message);
}

#[test]
fn other_answers_than_event_streams_are_told() {
    for (body, class, words) in [
        ("<html>login</html>", FailureClass::Invalid, "an HTML page (200 OK)"),
        ("{\"message\":\"Too many requests\"}", FailureClass::RateLimit, "Too many requests"),
        ("{\"output\":{}}", FailureClass::Invalid, "JSON (200 OK) instead of an event stream"),
        ("data: {\"a\":1}\n\n", FailureClass::Network, "arrived damaged"),
        ("", FailureClass::Network, "closed in the middle"),
    ] {
        for size in [1, 5, 1_000] {
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let events = read(&pieces);
            let failure = failure(&events);
            assert_eq!(failure.class, class, "{body}");
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }
}

#[test]
fn events_that_cannot_be_read() {
    let essential = message(&[(":event-type", "messageStop")], b"{\"stopReason\":7}");
    assert!(failure(&read(&[&essential])).message.contains("messageStop"));
    let other = message(&[(":event-type", "metadata")], b"[]");
    let (finish, _) = finished(&read(&[&other, &wire(&[end("end_turn")])]));
    assert_eq!(finish, Finish::Stop);
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(pieces in any_pieces()) {
        assert_grammar(&read(&slices(&pieces)));
    }

    #[test]
    fn damaged_events_do_no_harm(
        order in Just(rich()).prop_shuffle(),
        at in any::<prop::sample::Index>(),
        data in any::<String>(),
    ) {
        let mut events: Vec<Vec<u8>> = order.iter().map(event).collect();
        let name = order[at.index(order.len())].as_object().unwrap().keys().next().unwrap().clone();
        let at = at.index(events.len());
        events[at] = message(&[(":event-type", &name)], data.as_bytes());
        assert_grammar(&read(&[&events.concat()]));
    }

    #[test]
    fn events_in_any_order_keep_their_grammar(order in Just(rich()).prop_shuffle()) {
        assert_grammar(&read_all(&order));
    }
}

#[test]
fn addresses() {
    for (base, model, expected) in [
        (
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
            "eu.anthropic.claude-v1:0",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-v1%3A0/converse-stream",
        ),
        (
            "http://h/proxy/?a=b",
            "arn:aws:bedrock:r:1:inference-profile/us.x",
            "http://h/proxy/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Ainference-profile%2Fus.x/converse-stream?a=b",
        ),
        ("http://h", "ä /%3A", "http://h/model/%C3%A4%20%2F%253A/converse-stream"),
    ] {
        assert_eq!(
            Bedrock.address(&vendors::BEDROCK, &Url::parse(base).unwrap(), model).as_str(),
            expected
        );
    }
}

mod options {
    use leftfold_events::event::{ModelRef, PromptPart, Purpose};
    use leftfold_events::request::{Memo, RequestMessage};
    use leftfold_events::turn_config::ToolSpec;

    use super::*;

    const SONNET: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

    /// The body for a model with these options, without its messages.
    fn body(model: &str, options: &Value) -> Value {
        let schema = Json::parse(r#"{"type":"object"}"#).unwrap();
        let read = ToolSpec { name: "read".into(), description: String::new(), schema };
        let request = Request {
            purpose: Purpose::Turn,
            model: ModelRef { provider: "p".into(), id: model.into() },
            max_output: 8_000,
            options: Json::from_value(options),
            cache_key: String::new(),
            system: vec![],
            tools: vec![read],
            messages: vec![RequestMessage::User { parts: [PromptPart::text("Hello")].into() }],
            encoded: Memo::default(),
        };
        let mut body = Value::Object(request::head(&request, false));
        body["toolConfig"].as_object_mut().unwrap().remove("tools");
        body.as_object_mut().unwrap().retain(|_, value| *value != json!({}));
        body
    }

    #[test]
    fn options_in_everybodys_words() {
        let nova = "amazon.nova-pro-v1:0";
        let max = json!({ "maxTokens": 8_000 });
        for (model, options, expected) in [
            (
                SONNET,
                json!({ "temperature": 0.2, "top_p": 0.9, "stop": ["x"], "topK": 5 }),
                json!({ "inferenceConfig": { "maxTokens": 8_000, "temperature": 0.2, "topP": 0.9,
                    "stopSequences": ["x"] }, "additionalModelRequestFields": { "top_k": 5 } }),
            ),
            (
                nova,
                json!({ "topK": 5, "maxTokens": 9, "serviceTier": "flex" }),
                json!({ "inferenceConfig": { "maxTokens": 9 }, "serviceTier": { "type": "flex" },
                    "additionalModelRequestFields": { "inferenceConfig": { "topK": 5 } } }),
            ),
            // newer models of Anthropic refuse sampling options
            (
                "anthropic.claude-opus-5",
                json!({ "temperature": 0.2, "topP": 0.9, "topK": 5 }),
                json!({ "inferenceConfig": max }),
            ),
            (
                SONNET,
                json!({ "reasoningConfig": { "type": "enabled", "budgetTokens": 16_000 }, "temperature": 1 }),
                json!({ "inferenceConfig": { "maxTokens": 24_000 }, "additionalModelRequestFields": {
                    "thinking": { "type": "enabled", "budget_tokens": 16_000 },
                    "anthropic_beta": ["interleaved-thinking-2025-05-14"] } }),
            ),
            (
                SONNET,
                json!({ "thinking": { "type": "enabled", "budget_tokens": 4_000 }, "anthropicBeta": ["b"] }),
                json!({ "inferenceConfig": max, "additionalModelRequestFields": { "anthropic_beta":
                    ["b", "interleaved-thinking-2025-05-14"],
                    "thinking": { "type": "enabled", "budget_tokens": 4_000 } } }),
            ),
            (
                "anthropic.claude-3-7-sonnet-20250219-v1:0",
                json!({ "thinking": { "type": "enabled", "budget_tokens": 4_000 } }),
                json!({ "inferenceConfig": max, "additionalModelRequestFields": {
                    "thinking": { "type": "enabled", "budget_tokens": 4_000 } } }),
            ),
            (
                "anthropic.claude-opus-5",
                json!({ "reasoningConfig": { "type": "adaptive", "maxReasoningEffort": "max", "display": "summarized" } }),
                json!({ "inferenceConfig": max, "additionalModelRequestFields": {
                    "output_config": { "effort": "max" },
                    "thinking": { "type": "adaptive", "display": "summarized" } } }),
            ),
            (
                SONNET,
                json!({ "reasoningConfig": { "type": "disabled" } }),
                json!({ "inferenceConfig": max }),
            ),
            (
                "openai.gpt-oss-120b-1:0",
                json!({ "reasoningConfig": { "type": "adaptive", "maxReasoningEffort": "low" } }),
                json!({ "inferenceConfig": max, "additionalModelRequestFields": { "reasoning_effort": "low" } }),
            ),
            (
                "us.amazon.nova-2-lite-v1:0",
                json!({ "effort": "medium", "temperature": 0.5 }),
                json!({ "inferenceConfig": { "maxTokens": 8_000, "temperature": 0.5 },
                    "additionalModelRequestFields": { "reasoningConfig":
                    { "type": "enabled", "maxReasoningEffort": "medium" } } }),
            ),
            (
                "us.amazon.nova-2-lite-v1:0",
                json!({ "effort": "high", "temperature": 0.5 }),
                json!({ "additionalModelRequestFields": { "reasoningConfig":
                    { "type": "enabled", "maxReasoningEffort": "high" } } }),
            ),
            (
                nova,
                json!({ "guardrailConfig": { "guardrailIdentifier": "g" }, "toolChoice": "required",
                    "messages": [], "modelId": "x" }),
                json!({ "inferenceConfig": max, "toolConfig": { "toolChoice": { "any": {} } },
                    "guardrailConfig": { "guardrailIdentifier": "g" } }),
            ),
            (
                nova,
                json!({ "toolChoice": { "type": "tool", "toolName": "read" },
                    "additionalModelRequestFields": { "a": 1 } }),
                json!({ "inferenceConfig": max, "toolConfig": { "toolChoice": { "tool": { "name": "read" } } },
                    "additionalModelRequestFields": { "a": 1 } }),
            ),
            // a forced call excludes thinking
            (
                SONNET,
                json!({ "toolChoice": "any", "thinking": { "type": "adaptive" } }),
                json!({ "inferenceConfig": max,
                    "additionalModelRequestFields": { "thinking": { "type": "adaptive" } } }),
            ),
            (nova, json!({ "toolChoice": "none" }), json!({ "inferenceConfig": max })),
        ] {
            assert_eq!(body(model, &options), expected, "{model} {options}");
        }
    }
}
