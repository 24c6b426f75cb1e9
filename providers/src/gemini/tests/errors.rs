//! Errors under status 200, and damaged events.

use super::*;

fn error(
    code: u16,
    status: &str,
    message: &str,
    details: impl std::borrow::Borrow<Value>,
) -> Value {
    let details = details.borrow();
    json!({"error":{"code":code,"message":message,"status":status,"details":details}})
}

#[test]
fn errors_have_their_class_and_the_wait_that_was_asked_for() {
    let quota = |id: &str| {
        json!([{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":id}]},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}])
    };
    let words = "You exceeded your current quota, please check your plan and billing details.";
    for (error, class, retryable, wait) in [
        (
            error(429, "RESOURCE_EXHAUSTED", words, quota("RequestsPerMinute")),
            FailureClass::RateLimit,
            true,
            Some(34_500),
        ),
        (
            error(429, "RESOURCE_EXHAUSTED", words, quota("RequestsPerDay")),
            FailureClass::Quota,
            false,
            Some(34_500),
        ),
        (error(429, "RESOURCE_EXHAUSTED", words, json!([])), FailureClass::Quota, false, None),
        (
            error(429, "RESOURCE_EXHAUSTED", "Slow down.", json!([])),
            FailureClass::RateLimit,
            true,
            None,
        ),
        (
            error(503, "UNAVAILABLE", "The model is overloaded.", json!([])),
            FailureClass::Overloaded,
            true,
            None,
        ),
        (error(500, "INTERNAL", "An internal error.", json!([])), FailureClass::Other, true, None),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                json!([]),
            ),
            FailureClass::Auth,
            false,
            None,
        ),
        (error(403, "PERMISSION_DENIED", "No.", json!([])), FailureClass::Auth, false, None),
        (error(400, "INVALID_ARGUMENT", "Wrong.", json!([])), FailureClass::Invalid, false, None),
        (
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                json!([]),
            ),
            FailureClass::Overflow,
            false,
            None,
        ),
    ] {
        for chunk in [error.clone(), json!([error])] {
            let events = decode_all(&[parts(json!([{"text":"a"}])), chunk]);
            let failure = failure(&events);
            assert_eq!(
                (failure.class, failure.retryable, failure.retry_after),
                (class, retryable, wait),
                "{error}"
            );
        }
    }
}

#[test]
fn damaged_events_fail_and_foreign_ones_do_not() {
    for text in [
        "data: {\"candidates\":[{\"content\":{\"par\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":7}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":7}]}}]}\n\n",
    ] {
        let events = decode(&[text.as_bytes()]);
        let failure = failure(&events);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{text}");
    }
    for text in [
        "data: [DONE]\n\n",
        "data: ping\n\n",
        "data: null\n\n",
        "data: {\"a\":1}\n\n",
        "data: {\"error\":null,\"candidates\":null}\n\n",
    ] {
        assert!(decode(&[text.as_bytes()]).is_empty(), "{text}");
    }
}
