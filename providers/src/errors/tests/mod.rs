use std::time::{Duration, SystemTime};

use leftfold_events::Time;
use leftfold_events::event::FailureClass::{self, *};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::codec::Codec;
use crate::config::{Config, Wire};
use crate::exchanged::{Answer, End};
use crate::stream::StreamEvent;

mod table;
mod vendors;

fn respond(status: u16, headers: &[(&str, &str)], body: &str) -> Failure {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.insert(name, HeaderValue::from_str(value).unwrap());
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    Failure::of_response("p", StatusCode::from_u16(status).unwrap(), &map, body.as_bytes(), now)
}

fn anthropic(kind: &str, message: &str) -> String {
    serde_json::json!({ "type": "error", "error": { "type": kind, "message": message } })
        .to_string()
}

fn openai(code: &str, message: &str) -> String {
    serde_json::json!({ "error": { "message": message, "type": "x", "param": null, "code": code } })
        .to_string()
}

#[test]
fn classes_and_retries() {
    let table: &[(u16, String, FailureClass, bool)] = &[
        (400, anthropic("invalid_request_error", "messages: at least one message"), Invalid, false),
        (401, anthropic("authentication_error", "invalid x-api-key"), Auth, false),
        (403, anthropic("permission_error", "not allowed"), Auth, false),
        (404, anthropic("not_found_error", "model: no-such-model"), Invalid, false),
        (422, "{\"detail\":\"no\"}".into(), Invalid, false),
        (
            400,
            anthropic(
                "invalid_request_error",
                "messages.0.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
            ),
            Image,
            false,
        ),
        (
            400,
            anthropic("invalid_request_error", "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum"),
            Image,
            false,
        ),
        (400, anthropic("invalid_request_error", "Could not process image"), Image, false),
        (
            400,
            openai("invalid_image_format", "You uploaded an unsupported image. Please make sure your image is valid."),
            Image,
            false,
        ),
        (400, openai("", "The image data you provided does not represent a valid image."), Image, false),
        (400, openai("", "At most 0 image(s) may be provided in one request."), Image, false),
        (404, openai("", "No endpoints found that support image input"), Image, false),
        (400, openai("", "messages[1]: unknown variant `image_url`, expected `text`"), Image, false),
        (
            400,
            "{\"error\":{\"code\":400,\"message\":\"Unable to process input image. Please retry\",\"status\":\"INVALID_ARGUMENT\"}}".into(),
            Image,
            false,
        ),
        (408, String::new(), Network, true),
        (409, String::new(), Other, true),
        (429, anthropic("rate_limit_error", "slow down"), RateLimit, true),
        (500, anthropic("api_error", "Internal server error"), Other, true),
        (502, String::new(), Other, true),
        (503, String::new(), Overloaded, true),
        (504, String::new(), Network, true),
        (529, anthropic("overloaded_error", "Overloaded"), Overloaded, true),
        (402, anthropic("billing_error", "pay"), Quota, false),
        (
            400,
            anthropic("invalid_request_error", "Your credit balance is too low to access"),
            Quota,
            false,
        ),
        (
            429,
            openai(
                "insufficient_quota",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            Quota,
            false,
        ),
        (418, "teapot".into(), Invalid, false),
        (302, String::new(), Invalid, false),
        (599, String::new(), Other, true),
    ];
    for (status, body, class, retryable) in table {
        let failure = respond(*status, &[], body);
        assert_eq!((failure.class, failure.retryable), (*class, *retryable), "{status} {body}");
        assert_eq!(failure.status, Some(*status));
        assert!(!failure.message.is_empty(), "{status}");
    }
}

#[test]
fn overflows_of_many_vendors() {
    for text in [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "prompt token count of 130000 exceeds the limit of 128000",
        "the request exceeds the available context size, try increasing it",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "Input is too long for requested model.",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "invalid params, context window exceeds limit",
        "model_context_window_exceeded",
    ] {
        let failure = respond(400, &[], &openai("invalid_request_error", text));
        assert_eq!((failure.class, failure.retryable), (Overflow, false), "{text}");
    }
    assert_eq!(respond(413, &[], "").class, Overflow);
    assert_eq!(respond(400, &[], &openai("context_length_exceeded", "no")).class, Overflow);
    assert_eq!(respond(500, &[], &openai("", "prompt is too long: 9 tokens")).class, Overflow);
    assert!(!respond(500, &[], &openai("", "prompt is too long: 9 tokens")).retryable);
}

#[test]
fn a_reply_that_did_not_fit_is_no_overflow_of_the_request() {
    for text in [
        "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.",
        "Failed to generate JSON. max completion tokens reached before generating a valid document",
    ] {
        let failure = respond(400, &[], &openai("invalid_request_error", text));
        assert_eq!((failure.class, failure.retryable), (OutputLength, false), "{text}");
    }
}

#[test]
fn what_only_sounds_like_an_overflow() {
    let tpm = "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 40000. The prompt is too long for it.";
    assert_eq!(respond(429, &[], &openai("tokens", tpm)).class, RateLimit);
    assert_eq!(respond(400, &[], &openai("tokens", tpm)).class, RateLimit);
    let setting = "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens";
    assert_eq!(respond(400, &[], &anthropic("invalid_request_error", setting)).class, Invalid);
}

#[test]
fn errors_inside_a_stream() {
    for (kind, text, class, retryable) in [
        ("overloaded_error", "Overloaded", Overloaded, true),
        ("rate_limit_error", "slow", RateLimit, true),
        ("api_error", "Internal server error", Other, true),
        ("timeout_error", "took too long", Network, true),
        ("invalid_request_error", "prompt is too long: 5 tokens > 4 maximum", Overflow, false),
        ("invalid_request_error", "no", Invalid, false),
        ("authentication_error", "no", Auth, false),
        ("new_error", "who knows", Other, false),
    ] {
        let error = serde_json::json!({ "type": kind, "message": text });
        let failure = Failure::in_stream("p", &Details::from_value(&error));
        assert_eq!((failure.class, failure.retryable), (class, retryable), "{kind}");
        assert_eq!(failure.status, None);
    }
}

/// The events of an answer with this status and body, on a wire.
fn replayed(wire: Wire, status: u16, body: String) -> Failure {
    let codec = Codec::new(&Config::new("p", wire), wire.protocol().http().unwrap());
    let (headers, chunks) = (std::collections::BTreeMap::new(), vec![body.into_bytes()]);
    let answer = Answer { status, headers, at: Time::from_millis(0), chunks, end: End::Eof };
    match codec.replay("p", &answer).pop() {
        Some(StreamEvent::Failed(failure)) => failure,
        last => panic!("{wire}: {last:?}"),
    }
}

#[test]
fn an_error_is_the_same_inside_a_stream_of_any_wire_as_with_its_status() {
    let table = [
        (429, "FreeUsageLimitError", "Try again tomorrow", RateLimit),
        (429, "GoUsageLimitError", "Weekly limit", RateLimit),
        (429, "usage_limit_reached", "The limit is reached", RateLimit),
        (429, "rate_limit_error", "slow", RateLimit),
        (429, "RESOURCE_EXHAUSTED", "slow", RateLimit),
        (429, "insufficient_quota", "no", Quota),
        (402, "billing_error", "pay", Quota),
        (401, "CreditsError", "Insufficient balance. Manage your billing", Quota),
        (401, "authentication_error", "no", Auth),
        (403, "permission_error", "no", Auth),
        (403, "unsupported_country_region_territory", "not there", Auth),
        (400, "context_length_exceeded", "no", Overflow),
        (413, "request_too_large", "no", Overflow),
        (400, "invalid_request_error", "prompt is too long: 5 tokens > 4 maximum", Overflow),
        (503, "UNAVAILABLE", "later", Overloaded),
        (529, "overloaded_error", "later", Overloaded),
        (504, "timeout_error", "later", Network),
        (504, "DEADLINE_EXCEEDED", "later", Network),
        (500, "api_error", "oh", Other),
        (409, "ABORTED", "oh", Other),
        (400, "FAILED_PRECONDITION", "no", Invalid),
    ];
    let wires = [Wire::ANTHROPIC, Wire::OPENAI_CHAT, Wire::OPENAI_RESPONSES, Wire::GEMINI];
    for (status, kind, text, class) in table {
        let body = anthropic(kind, text);
        for wire in wires {
            let alone = replayed(wire, status, body.clone());
            assert_eq!(alone.class, class, "{kind}");
            for name in ["", "event: error\n"] {
                let within = replayed(wire, 200, format!("{name}data: {body}\n\n"));
                assert_eq!(
                    Failure { status: alone.status, ..within },
                    alone,
                    "{wire} {name}{kind}"
                );
            }
        }
    }
    for (status, kind, class) in [
        (429, "ThrottlingException", RateLimit),
        (429, "ModelNotReadyException", RateLimit),
        (400, "ServiceQuotaExceededException", Quota),
        (403, "AccessDeniedException", Auth),
        (503, "ServiceUnavailableException", Overloaded),
        (408, "ModelTimeoutException", Network),
        (424, "ModelStreamErrorException", Other),
        (404, "ResourceNotFoundException", Invalid),
        (400, "ValidationException", Invalid),
    ] {
        let alone = respond(status, &[("x-amzn-errortype", kind)], r#"{"message":"no"}"#);
        let details = Details::read(br#"{"message":"no"}"#).with([kind]);
        let within = Failure::in_stream("p", &details);
        assert_eq!((alone.class, &alone), (class, &Failure { status: alone.status, ..within }));
    }
}

#[test]
fn hints_say_how_long_to_wait() {
    for (headers, wait) in [
        (&[("retry-after-ms", "1500"), ("retry-after", "9")][..], Some(1_500)),
        (&[("Retry-After", "7")], Some(7_000)),
        (&[("retry-after", "0")], Some(0)),
        (&[("retry-after", "1.5")], Some(1_500)),
        (&[("retry-after", "-5")], None),
        (&[("retry-after-ms", "-5"), ("retry-after", "2")], Some(2_000)),
        (&[("retry-after-ms", "soon"), ("retry-after", "2")], Some(2_000)),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "99999999999999999999")], Some(LONGEST_WAIT_MS)),
        (&[("retry-after", "inf")], Some(LONGEST_WAIT_MS)),
        (&[("retry-after-ms", "2147483648")], Some(LONGEST_WAIT_MS)),
        // the clock says Fri, 15 Jan 2027 08:00:00 GMT
        (&[("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT")], Some(30_000)),
        (&[("retry-after", "Fri, 15 Jan 2027 07:59:30 GMT")], None),
        (&[("retry-after", "Fri, 15 Jan 2337 08:00:30 GMT")], Some(LONGEST_WAIT_MS)),
        (&[], None),
    ] {
        assert_eq!(respond(429, headers, "").retry_after, wait, "{headers:?}");
    }
}

#[test]
fn the_server_may_decide_about_retries() {
    assert!(!respond(529, &[("x-should-retry", "false")], "").retryable);
    assert!(respond(400, &[("X-Should-Retry", "true")], "").retryable);
    assert!(!respond(401, &[("x-should-retry", "true")], "").retryable);
    assert!(respond(529, &[("x-should-retry", "perhaps")], "").retryable);
}

#[test]
fn pages_are_never_shown() {
    for page in ["<!DOCTYPE html><p>nginx", "  \n<html>nginx", "\u{feff}<?xml?><nginx/>"] {
        let failure = respond(502, &[], page);
        assert_eq!(failure.message, "the server answered with an HTML page (502 Bad Gateway)");
    }
    let failure = respond(404, &[], "<html>");
    assert!(failure.message.contains("`provider.p.options.baseURL`"), "{}", failure.message);
    let nested = serde_json::json!({ "error": { "message": "<html><body>nginx" } }).to_string();
    assert!(!respond(500, &[], &nested).message.contains("nginx"));
}

#[test]
fn friendly_words() {
    let message = |status, body: &str| respond(status, &[], body).message;
    assert_eq!(
        message(529, &anthropic("overloaded_error", "Overloaded")),
        "Provider is overloaded: Overloaded"
    );
    assert_eq!(message(429, &anthropic("rate_limit_error", "slow")), "Rate Limited: slow");
    assert_eq!(message(429, ""), "Too Many Requests: 429 Too Many Requests");
    assert!(message(401, &anthropic("authentication_error", "invalid x-api-key")).ends_with(
        "invalid x-api-key; check the API key of provider `p` and its permissions: `leftfold auth login p` stores another, which is used if there is none in the settings"
    ));
    assert_eq!(message(500, "oh\r\n\tno\u{7}"), "oh no");
    assert_eq!(message(599, ""), "HTTP status 599");
    let redirected = respond(308, &[("location", "https://new/v1")], "").message;
    assert!(redirected.contains("redirects to https://new/v1"), "{redirected}");
}

#[test]
fn bodies_of_all_shapes() {
    for body in [
        r#"{"error":{"message":"why"}}"#,
        r#"{"error":"why"}"#,
        r#"[{"error":{"message":"why","code":400}}]"#,
        r#"{"message":"why"}"#,
        r#"{"error":null,"detail":"why"}"#,
        r#"{"errors":[{"message":"why"}]}"#,
        r#"{"errors":["why"]}"#,
        "why",
        " why\n",
    ] {
        assert_eq!(respond(400, &[], body).message, "why", "{body}");
    }
    let long = "é".repeat(5_000);
    assert_eq!(respond(400, &[], &long).message.chars().count(), 1_001);
}

#[test]
fn secrets_are_hidden() {
    let mask = Mask::new(["sk-ant-123", "Bearer abcdef", "abc", ""]);
    let text = "bad key sk-ant-123, header `Bearer abcdef`, also abcdef".to_owned();
    assert_eq!(mask.hide(text), "bad key [hidden], header `[hidden]`, also [hidden]");
    assert_eq!(mask.hide("abc".into()), "abc");
    assert!(!format!("{mask:?}").contains("sk-ant"));
}

#[test]
fn a_limit_of_free_use_has_its_link() {
    let quota = serde_json::json!({ "error": { "code": 429, "message": "You exceeded it.",
        "status": "RESOURCE_EXHAUSTED", "details": [
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
              "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier" }] },
        ] } });
    let zen = serde_json::json!({ "type": "error",
        "error": { "type": "FreeUsageLimitError", "message": "Rate limit exceeded." } });
    for (body, link) in [
        (
            openai("429", "Rate limit exceeded: free-models-per-day."),
            "https://openrouter.ai/settings/credits",
        ),
        (
            openai("AllocationQuota.FreeTierOnly", "It is exhausted."),
            "https://modelstudio.console.alibabacloud.com",
        ),
        (quota.to_string(), "https://ai.google.dev/gemini-api/docs/billing"),
        (zen.to_string(), "https://opencode.ai/zen"),
    ] {
        let failure = respond(429, &[], &body);
        assert!(failure.message.ends_with(&format!("for more see {link}")), "{}", failure.message);
    }
    // a link in the answer is not a page to send people to
    let said = respond(429, &[], &openai("429", "free use ends: see https://evil.example"));
    assert!(!said.message.contains("for more see"), "{}", said.message);
}
