mod errors;
mod schemas;

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, FailureClass, Finish, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decode::Decoder;
use super::sign::Seal;
use super::*;
use crate::stream::StreamEvent;
use crate::testing::*;

fn wire(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

fn decode(pieces: &[&[u8]]) -> Vec<StreamEvent> {
    crate::testing::decode(Decoder::new("p"), pieces)
}

fn decode_all(chunks: &[Value]) -> Vec<StreamEvent> {
    decode(&[wire(chunks).as_bytes()])
}

fn parts(parts: impl std::borrow::Borrow<Value>) -> Value {
    let parts = parts.borrow();
    json!({"candidates":[{"content":{"role":"model","parts":parts},"index":0}],"modelVersion":"m"})
}

fn stop(reason: &str) -> Value {
    json!({"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":reason}],
        "usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":5,
        "thoughtsTokenCount":2,"totalTokenCount":17}})
}

/// A reply with a part of every kind.
fn rich() -> Vec<Value> {
    vec![
        json!({"usageMetadata":{"trafficType":"ON_DEMAND"},"invented":{"a":1}}),
        parts(json!([{"text":"hm 世","thought":true}])),
        parts(json!([{"text":" 🎉","thought":true}])),
        parts(json!([{"text":"Hé"}])),
        parts(json!([{"text":"llo"},{"executableCode":{"code":"1"}}])),
        parts(
            json!([{"functionCall":{"name":"read","args":{"path":"ä"}},"thoughtSignature":"Cg=="},
            {"functionCall":{"id":"abc","name":"list"}}]),
        ),
        parts(json!([{"text":"","thoughtSignature":"Eq=="}])),
        stop("STOP"),
    ]
}

fn rich_decoded() -> Vec<StreamEvent> {
    use StreamEvent::*;
    let id = |n: u64| n.to_string();
    let end =
        |n, seal: Seal| ReasoningEnd { id: id(n), signature: Some(seal.write()), redacted: false };
    let call = |id: &str, name: &str, input: &str| {
        let (id, name) = (id.to_owned(), name.to_owned());
        let start = ToolInputStart { id: id.clone(), name: name.clone() };
        [start, ToolCall(CallSpec { id, name, input: Json::parse(input).unwrap() })]
    };
    let mut events = vec![
        ReasoningStart { id: id(0) },
        ReasoningDelta { id: id(0), text: "hm 世".into() },
        ReasoningDelta { id: id(0), text: " 🎉".into() },
        ReasoningEnd { id: id(0), signature: None, redacted: false },
        TextStart { id: id(1) },
        TextDelta { id: id(1), text: "Hé".into() },
        TextDelta { id: id(1), text: "llo".into() },
        TextEnd { id: id(1) },
        ReasoningStart { id: id(2) },
        end(2, Seal::Call("Cg==".into())),
    ];
    events.extend(call("leftfold_0", "read", r#"{"path":"ä"}"#));
    events.extend(call("abc", "list", "{}"));
    events.push(ReasoningStart { id: id(3) });
    events.push(end(3, Seal::Part(json!({"text":"","thoughtSignature":"Eq=="}))));
    let usage = Usage { input: 6, output: 5, reasoning: 2, cache_read: 4, cache_write: 0 };
    events.push(Finish { finish: leftfold_events::event::Finish::ToolCalls, usage });
    events
}

#[test]
fn every_kind_of_part() {
    assert_eq!(decode_all(&rich()), rich_decoded());
}

#[test]
fn bytes_split_anywhere_and_every_line_end() {
    let text = wire(&rich()).replace("\r\n", "\n") + "data: keep-alive\n\n";
    noisy_and_split(&text, |pieces, how| assert_eq!(decode(pieces), rich_decoded(), "{how}"));
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(pieces in any_pieces()) {
        assert_grammar(&decode(&slices(&pieces)));
    }

    #[test]
    fn damaged_streams_do_no_harm(bytes in damaged(wire(&rich()))) {
        assert_grammar(&decode(&[&bytes]));
    }

    #[test]
    fn chunks_in_any_order_keep_their_grammar(order in Just(rich()).prop_shuffle()) {
        assert_grammar(&decode_all(&order));
    }
}

#[test]
fn a_stream_cut_before_its_reason_to_finish_never_finishes() {
    for at in 0..rich().len() {
        let events = decode_all(&rich()[..at]);
        assert!(!events.iter().any(StreamEvent::is_last), "cut before {at}");
        assert!(rich_decoded().starts_with(&events), "cut before {at}");
    }
    let bytes = wire(&rich()).into_bytes();
    let last = bytes.len() - wire(&rich()[7..]).len();
    for at in 0..last + 20 {
        assert!(!decode(&[&bytes[..at]]).iter().any(StreamEvent::is_last), "cut at {at}");
    }
}

#[test]
fn reasons_to_finish() {
    for (reason, finish) in [
        ("STOP", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::ContentFilter),
        ("RECITATION", Finish::ContentFilter),
        ("BLOCKLIST", Finish::ContentFilter),
        ("PROHIBITED_CONTENT", Finish::ContentFilter),
        ("SPII", Finish::ContentFilter),
        ("MISSING_THOUGHT_SIGNATURE", Finish::Error),
        ("OTHER", Finish::Other),
        ("INVENTED", Finish::Other),
    ] {
        let late = json!({"usageMetadata":{"promptTokenCount":11}});
        let events = decode_all(&[parts(json!([{"text":"a"}])), stop(reason), late]);
        let (found, usage) = finished(&events);
        assert_eq!((found, usage.input), (finish, 7), "{reason}");
    }
    let blocked =
        json!({"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}});
    let (finish, usage) = finished(&decode_all(&[blocked]));
    assert_eq!((finish, usage.input), (Finish::ContentFilter, 3));
}

/// The model does better when it is asked again.
#[test]
fn answers_that_are_none_are_asked_for_again() {
    for reason in [
        "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    ] {
        for before in [vec![], vec![parts(json!([{"text":"a"}]))]] {
            let events = decode_all(&[before, vec![stop(reason)]].concat());
            let failure = failure(&events);
            assert!(failure.retryable && failure.message.contains(reason), "{reason}: {failure:?}");
        }
    }
    for unanswered in [
        json!([]),
        json!([{"text":"hm","thought":true}]),
        json!([{"text":"\n"}]),
        json!([{"text":"","thoughtSignature":"Eq=="}]),
    ] {
        for reason in ["STOP", "OTHER"] {
            let events = decode_all(&[parts(&unanswered), stop(reason)]);
            assert!(failure(&events).retryable, "{unanswered} {reason}");
        }
        let events = decode_all(&[parts(&unanswered), stop("MAX_TOKENS")]);
        assert_eq!(finished(&events).0, Finish::Length, "{unanswered}");
    }
}

#[test]
fn arguments_in_pieces() {
    let call = |function: Value| parts(json!([{ "functionCall": function }]));
    let piece = |text: &str| json!([{"jsonPath":"$.a","stringValue":text,"willContinue":true}]);
    let begun = [
        call(json!({"name":"read","willContinue":true})),
        call(json!({"partialArgs":piece("Bos"),"willContinue":true})),
        call(json!({"partialArgs":piece("ton"),"willContinue":true})),
    ];
    let input = |more: &[Value]| {
        let events = decode_all(&[&begun, more].concat());
        let calls = events.iter().filter_map(|event| match event {
            StreamEvent::ToolCall(call) => Some(call.input.value()),
            _ => None,
        });
        calls.collect::<Vec<_>>()
    };
    let boston = json!({"a":"Boston"});
    assert_eq!(input(&[call(json!({})), stop("STOP")]), std::slice::from_ref(&boston)[..]);
    assert_eq!(input(&[call(json!({"name":"x"})), stop("STOP")]), [boston.clone(), json!({})]);
    assert_eq!(input(&[stop("STOP")]), [boston]);
    assert_eq!(input(&[stop("MAX_TOKENS")]), [json!("{\"a\":\"Boston\"}")]);
    assert!(input(&[]).is_empty());
}

#[test]
fn addresses() {
    for (base, model, expected) in [
        ("http://h/v1beta", "m", "http://h/v1beta/models/m:streamGenerateContent?alt=sse"),
        (
            "http://h/v1beta/",
            "tunedModels/x",
            "http://h/v1beta/tunedModels/x:streamGenerateContent?alt=sse",
        ),
        (
            "http://h/v1?a=b",
            "m ä",
            "http://h/v1/models/m%20%C3%A4:streamGenerateContent?a=b&alt=sse",
        ),
        (
            "http://h/v1/projects/p/locations/eu/publishers/google",
            "endpoints/7",
            "http://h/v1/projects/p/locations/eu/endpoints/7:streamGenerateContent?alt=sse",
        ),
    ] {
        let base = Url::parse(base).unwrap();
        assert_eq!(Gemini.address(&vendors::GOOGLE, &base, model).as_str(), expected);
    }
    for (value, expected) in [
        (" http://h/ ", "http://h/v1beta"),
        ("http://h/v1beta", "http://h/v1beta"),
        ("http://h/v1/", "http://h/v1"),
    ] {
        assert_eq!(Gemini.base_from_env(value), expected);
    }
}
