//! Failures that are reported under status 200.

use super::*;

const CODES: &[(&str, FailureClass, bool)] = &[
    ("context_length_exceeded", FailureClass::Overflow, false),
    ("rate_limit_exceeded", FailureClass::RateLimit, true),
    ("server_error", FailureClass::Other, true),
    ("server_is_overloaded", FailureClass::Overloaded, true),
    ("slow_down", FailureClass::Overloaded, true),
    ("insufficient_quota", FailureClass::Quota, false),
    ("invalid_prompt", FailureClass::Invalid, false),
    ("invalid_api_key", FailureClass::Auth, false),
];

#[test]
fn codes_decide() {
    for (code, class, retryable) in CODES {
        let error = json!({"type":"some_error","code":code,"message":"It is so.","param":null});
        let mut flat = error.clone();
        flat["type"] = json!("error");
        flat["sequence_number"] = json!(3);
        let failed =
            json!({"status":"failed","error":{"code":code,"message":"It is so."},"usage":null});
        for event in [
            json!({"type":"error","sequence_number":2,"error":error}),
            flat,
            json!({"error":error}),
            json!({"type":"response.failed","response":failed}),
            json!({"type":"response.completed","response":failed}),
        ] {
            let events = decode_all(&[created(), event.clone()]);
            let failure = failure(&events);
            assert_eq!((failure.class, failure.retryable), (*class, *retryable), "{event}");
            assert!(failure.message.contains("It is so"), "{failure:?}");
        }
    }
}

#[test]
fn an_error_is_told_once() {
    let error = json!({"code":"insufficient_quota","message":"No more."});
    let events = decode_all(&[
        created(),
        json!({"type":"error","error":error}),
        json!({"type":"response.failed","response":{"error":error}}),
    ]);
    assert_eq!(events.len(), 1);
    assert_eq!(failure(&events).class, FailureClass::Quota);
}

#[test]
fn a_failure_without_a_reason_may_pass() {
    for error in [json!({}), json!({"error":null})] {
        let events = decode_all(&[json!({"type":"response.failed","response":error})]);
        assert!(failure(&events).retryable);
    }
}

#[test]
fn errors_in_the_words_of_other_servers() {
    for (text, class) in [
        (
            r#"data: {"error":{"code":500,"message":"oops","type":"server_error"}}"#,
            FailureClass::Other,
        ),
        (
            r#"data: {"object":"error","message":"maximum context length is 5","code":400}"#,
            FailureClass::Overflow,
        ),
        ("event: error\ndata: {\"message\":\"overloaded\"}", FailureClass::Overloaded),
    ] {
        let events = decode(&[format!("{text}\n\n").as_bytes()]);
        assert_eq!(failure(&events).class, class, "{text}");
    }
}
