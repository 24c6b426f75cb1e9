//! Streams of single vendors, as their documentation shows them.

use super::*;

#[test]
fn counts_come_after_the_reason_to_finish() {
    let chunks = [delta(json!({"content":"a"})), end("stop"), usage(5, 3)];
    let (finish, usage) = finished(&decode_all("openai", &chunks));
    assert_eq!((finish, usage.input, usage.output), (Finish::Stop, 5, 3));
}

#[test]
fn azure_begins_and_ends_with_what_was_filtered() {
    let chunks = [
        json!({"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}),
        json!({"choices":[{"delta":{"content":"a","role":"assistant"},"finish_reason":null,"index":0}],"id":"c","model":"m","usage":null}),
        end("stop"),
        json!({"choices":[{"content_filter_offsets":{"end_offset":3},"content_filter_results":{},"finish_reason":null,"index":0,"logprobs":null}],"id":"","object":""}),
        usage(4, 1),
    ];
    let events = decode_all("azure", &chunks);
    assert_eq!(texts(&events).1, "a");
    assert_eq!(finished(&events).1.input, 4);
}

#[test]
fn groq_counts_in_its_own_place() {
    let mut last = end("stop");
    last["x_groq"] =
        json!({"id":"r","usage":{"prompt_tokens":8,"completion_tokens":2,"total_tokens":10}});
    let chunks = [
        delta(json!({"reasoning":"so","channel":"analysis"})),
        delta(json!({"content":"a"})),
        last,
    ];
    let events = decode_all("groq", &chunks);
    assert_eq!(texts(&events), ("so".into(), "a".into()));
    assert_eq!(finished(&events).1.input, 8);
}

#[test]
fn moonshot_counts_in_the_choice_and_has_no_object() {
    let mut last = end("stop");
    last.as_object_mut().unwrap().remove("object");
    last["choices"][0]["usage"] =
        json!({"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"cached_tokens":3});
    let chunks = [delta(json!({"reasoning_content":"so"})), delta(json!({"content":"a"})), last];
    let events = decode_all("moonshot", &chunks);
    let (_, usage) = finished(&events);
    assert_eq!((usage.input, usage.output, usage.cache_read), (6, 12, 3));
    // the vendor requires its reasoning to be sent back
    assert!(events.iter().any(|event| matches!(event,
        StreamEvent::ReasoningEnd { signature: Some(name), .. } if name == "reasoning_content")));
}

#[test]
fn perplexity_counts_in_every_chunk_and_ends_without_done() {
    let chunk = |text: &str, counts: u64, reason: Value, object: &str| {
        json!({"object":object,"choices":[{"index":0,"delta":{"content":text},"message":{"content":"all so far"},"finish_reason":reason}],
            "usage":{"prompt_tokens":5,"completion_tokens":counts,"total_tokens":5 + counts}})
    };
    let chunks = [
        chunk("a", 1, Value::Null, "chat.completion.chunk"),
        chunk("b", 2, Value::Null, "chat.completion.chunk"),
        chunk("", 2, json!("stop"), "chat.completion.done"),
    ];
    let events = decode_of("perplexity", &[wire(&chunks).as_bytes()]);
    assert_eq!(texts(&events).1, "ab");
    let (finish, usage) = finished(&events);
    assert_eq!((finish, usage.input, usage.output), (Finish::Stop, 5, 2));
}

#[test]
fn xai_leaves_reasoning_out_of_the_completion() {
    let mut chunk = delta(json!({"reasoning_content":"so"}));
    chunk["choices"][0].as_object_mut().unwrap().remove("finish_reason");
    let counts = json!({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":354,"completion_tokens_details":{"reasoning_tokens":340}}});
    let (_, usage) =
        finished(&decode_all("xai", &[chunk, delta(json!({"content":"a"})), end("stop"), counts]));
    assert_eq!((usage.input, usage.output, usage.reasoning), (12, 2, 340));
}

#[test]
fn mistral_thinks_in_lists_and_calls_without_index() {
    let chunks = [
        delta(json!({"role":"assistant","content":""})),
        delta(json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]})),
        delta(
            json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":" so"}],"closed":true},{"type":"text","text":"a"}]}),
        ),
        delta(json!({"content":"b"})),
        json!({"choices":[{"index":0,"delta":{"content":"","tool_calls":[
            {"id":"AbC123xyz","function":{"name":"read","arguments":"{\"a\":"}}]},"finish_reason":null}]}),
        json!({"choices":[{"index":0,"delta":{"tool_calls":[
            {"id":"AbC123xyz","function":{"name":"","arguments":"1}"}}]},"finish_reason":null}]}),
        json!({"choices":[{"index":0,"delta":{"content":"","tool_calls":[
            {"id":"zyx321CbA","function":{"name":"list","arguments":"{}"}}]},"finish_reason":"tool_calls"}],
            "usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}),
    ];
    let events = decode_all("mistral", &chunks);
    assert_eq!(texts(&events), ("so so".into(), "ab".into()));
    let expected = [call("AbC123xyz", "read", r#"{"a":1}"#), call("zyx321CbA", "list", "{}")];
    assert_eq!(calls(&events), expected);
    let (finish, usage) = finished(&events);
    assert_eq!((finish, usage.input), (Finish::ToolCalls, 7));
}

#[test]
fn indices_may_begin_at_one() {
    let chunks = [
        piece(1, json!("t"), json!("read"), json!("")),
        piece(1, Value::Null, Value::Null, json!("{\"a\":1}")),
        piece(4, json!("u"), json!("list"), json!("{}")),
        end("tool_calls"),
    ];
    let expected = [call("t", "read", r#"{"a":1}"#), call("u", "list", "{}")];
    assert_eq!(calls(&decode_all("generic", &chunks)), expected);
}

#[test]
fn empty_ids_and_names_overwrite_nothing() {
    let chunks = [
        piece(0, json!("t"), json!("read"), json!("")),
        piece(0, json!(""), json!(""), json!("{\"a\":1}")),
        piece(0, json!(""), Value::Null, json!("")),
        end("tool_calls"),
    ];
    assert_eq!(calls(&decode_all("alibaba", &chunks)), [call("t", "read", r#"{"a":1}"#)]);
}

#[test]
fn calls_may_share_an_index_or_have_none() {
    let both = [
        piece(0, json!("t"), json!("read"), json!("{}")),
        piece(0, json!("u"), json!("read"), json!("{}")),
        end("tool_calls"),
    ];
    let expected = [call("t", "read", "{}"), call("u", "read", "{}")];
    assert_eq!(calls(&decode_all("generic", &both)), expected);
    let bare =
        |name: &str| delta(json!({"tool_calls":[{"function":{"name":name,"arguments":"{}"}}]}));
    let events = decode_all("generic", &[bare("a"), bare("b"), end("stop")]);
    assert_eq!(calls(&events), [call("call_0", "a", "{}"), call("call_1", "b", "{}")]);
}

#[test]
fn the_id_or_name_may_be_repeated_in_every_piece() {
    let chunks = [
        piece(0, json!("t"), json!("read"), json!("{\"a\"")),
        piece(0, json!("t"), json!("read"), json!(":1}")),
        end("tool_calls"),
    ];
    assert_eq!(calls(&decode_all("generic", &chunks)), [call("t", "read", r#"{"a":1}"#)]);
}

#[test]
fn a_call_in_one_chunk_with_the_reason_and_traces_of_none() {
    let ghost =
        delta(json!({"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":""}}]}));
    let events = decode_all("generic", &[ghost, delta(json!({"content":"a"})), end("stop")]);
    assert!(calls(&events).is_empty());
    assert_eq!(finished(&events).0, Finish::Stop);
    let late = [
        piece(0, json!("t"), json!("read"), json!("{}")),
        end("tool_calls"),
        piece(0, json!(""), json!(""), json!("x")),
        usage(1, 1),
    ];
    assert_eq!(calls(&decode_all("generic", &late)), [call("t", "read", "{}")]);
}

#[test]
fn everything_may_be_null() {
    let chunks = [
        json!({"id":null,"object":null,"model":null,"choices":null,"usage":null,"error":null,"x_groq":null}),
        json!({"choices":[{"index":null,"delta":null,"finish_reason":null,"usage":null}]}),
        delta(
            json!({"role":null,"content":null,"reasoning_content":null,"reasoning":null,"refusal":null,"tool_calls":null}),
        ),
        delta(json!({"tool_calls":[{"index":0,"id":null,"type":null,"function":null}]})),
        delta(json!({"content":"a"})),
        end(""),
        end("null"),
        end("stop"),
        json!({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,"prompt_tokens_details":null,"completion_tokens_details":null}}),
    ];
    let events = decode_all("azure", &chunks);
    assert_eq!(texts(&events).1, "a");
    assert!(calls(&events).is_empty());
    assert_eq!(
        finished(&events),
        (Finish::Stop, Usage { input: 3, output: 1, ..Usage::default() })
    );
}

#[test]
fn no_counts_at_all() {
    let events = decode_all("ollama", &[delta(json!({"content":"a"})), end("stop")]);
    assert_eq!(finished(&events), (Finish::Stop, Usage::default()));
}

#[test]
fn reasoning_that_is_sent_twice_counts_once() {
    let chunks = [delta(json!({"reasoning":"so","reasoning_content":"so"})), end("stop")];
    assert_eq!(texts(&decode_all("generic", &chunks)).0, "so");
}

#[test]
fn servers_that_give_up_are_asked_again() {
    let overloaded = decode_all("deepseek", &[end("insufficient_system_resource")]);
    assert_eq!(failure(&overloaded).class, FailureClass::Overloaded);
    let broken = decode_all("openrouter", &[delta(json!({"content":"a"})), end("error")]);
    assert!(failure(&broken).retryable);
    let malformed = decode_all("generic", &[end("malformed_function_call")]);
    assert!(failure(&malformed).retryable);
}

#[test]
fn a_call_in_the_older_form() {
    let function = |function: Value| delta(json!({ "function_call": function }));
    let chunks = [
        function(json!({ "name": "read", "arguments": "" })),
        function(json!({ "arguments": "{\"a\":" })),
        function(json!({ "arguments": "1}" })),
        end("function_call"),
    ];
    let events = decode_all("generic", &chunks);
    assert_eq!(calls(&events), [call("call_0", "read", r#"{"a":1}"#)]);
    assert_eq!(finished(&events).0, Finish::ToolCalls);
}

#[test]
fn errors_inside_a_stream() {
    for (chunk, class, retryable) in [
        (
            json!({"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}),
            FailureClass::Other,
            true,
        ),
        (
            json!({"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}),
            FailureClass::RateLimit,
            true,
        ),
        (
            json!({"error":{"code":502,"message":"Provider returned error"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}),
            FailureClass::Other,
            true,
        ),
        (json!({"error":{"code":"429","message":"slow"}}), FailureClass::RateLimit, true),
        (
            json!({"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}),
            FailureClass::Overflow,
            false,
        ),
        (json!({"error":"model runner has unexpectedly stopped"}), FailureClass::Other, true),
        (json!({"error":"Stream error: internal network failure"}), FailureClass::Other, true),
        (json!({"error":"this model is not for you"}), FailureClass::Other, false),
        (json!({"detail":"no"}), FailureClass::Other, false),
        (json!({"message":"no","status":500}), FailureClass::Other, true),
        (
            json!({"object":"error","message":"no","type":"BadRequestError","code":400}),
            FailureClass::Invalid,
            false,
        ),
        (json!({"error":{"code":401,"message":"no"}}), FailureClass::Auth, false),
    ] {
        for before in [vec![], vec![delta(json!({"content":"half"}))]] {
            let mut chunks = before;
            chunks.push(chunk.clone());
            chunks.push(end("stop"));
            let events = decode_all("generic", &chunks);
            let failure = failure(&events);
            assert_eq!((failure.class, failure.retryable), (class, retryable), "{chunk}");
            assert_eq!(events.iter().filter(|e| e.is_last()).count(), 1);
        }
    }
    let named = decode(&[b"event: error\ndata: {\"message\":\"overloaded\"}\n\n"]);
    assert_eq!(failure(&named).class, FailureClass::Overloaded);
}
