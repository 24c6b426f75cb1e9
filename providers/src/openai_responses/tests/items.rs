//! Items as servers really send them: with parts missing, repeated, or numbered in their own way.

use super::*;

#[test]
fn call_inputs() {
    for (arguments, input) in [
        (json!(""), "{}"),
        (json!(" "), "{}"),
        (Value::Null, "{}"),
        (json!("{\"a\":2}"), r#"{"a":2}"#),
        (json!("{\"a\": "), r#""{\"a\": ""#),
        (json!({"a":3}), r#"{"a":3}"#),
        (json!("[1]"), "[1]"),
    ] {
        let mut item = function("t", "read", "");
        item["arguments"] = arguments.clone();
        let events = decode_all(&[done(0, item), completed()]);
        assert_eq!(calls(&events), [call("t", "read", input)], "{arguments}");
    }
}

/// Arguments may come in pieces, all at once in an event of their own, with the complete item, or
/// with its first event.
#[test]
fn arguments_from_wherever_they_stand() {
    let (begun, whole) = (function("t", "read", ""), function("t", "read", "{\"a\":1}"));
    let all = json!({"arguments":"{\"a\":1}"});
    for events in [
        vec![added(0, begun.clone()), done(0, whole.clone())],
        vec![added(0, whole.clone()), done(0, begun.clone())],
        vec![
            added(0, begun.clone()),
            piece("function_call_arguments.done", 0, all.clone()),
            done(0, begun.clone()),
        ],
        // no item is closed
        vec![added(0, begun.clone()), piece("function_call_arguments.done", 0, all)],
        vec![
            added(0, begun.clone()),
            piece("function_call_arguments.delta", 0, json!({"delta":"{\"a\":1}"})),
        ],
        // the first input was wrong
        vec![added(0, function("t", "read", "{oops")), done(0, whole.clone())],
        vec![done(0, whole)],
    ] {
        let mut stream = events.clone();
        stream.push(completed());
        let decoded = decode_all(&stream);
        assert_eq!(calls(&decoded), [call("t", "read", r#"{"a":1}"#)], "{events:?}");
        assert_eq!(finished(&decoded).0, Finish::ToolCalls);
        let starts = decoded.iter().filter(|e| matches!(e, StreamEvent::ToolInputStart { .. }));
        assert_eq!(starts.count(), 1);
    }
}

#[test]
fn the_complete_item_names_the_call() {
    let begun = function("early", "list", "{}");
    for last in [function("t", "read", r#"{"a":1}"#), function("early", "read", r#"{"a":1}"#)] {
        let id = last["call_id"].as_str().unwrap().to_owned();
        let events = decode_all(&[added(0, begun.clone()), done(0, last), completed()]);
        assert_eq!(calls(&events), [call(&id, "read", r#"{"a":1}"#)]);
    }
    // an item without a name keeps the announced one
    let mut nameless = function("t", "read", "{}");
    nameless.as_object_mut().unwrap().remove("name");
    let events = decode_all(&[added(0, begun), done(0, nameless), completed()]);
    assert_eq!(calls(&events), [call("t", "list", "{}")]);
}

#[test]
fn a_call_that_is_broken_off_can_not_be_mistaken_for_one() {
    let mut cut = function("t", "list", "");
    cut["status"] = json!("incomplete");
    for events in [
        vec![added(0, cut.clone()), done(0, cut), incomplete("max_output_tokens")],
        vec![added(0, function("t", "list", "")), incomplete("max_output_tokens")],
    ] {
        let events = decode_all(&events);
        assert_eq!(calls(&events), [call("t", "list", r#""""#)]);
        assert_eq!(finished(&events).0, Finish::Length);
    }
    // some servers send "in progress" for complete calls
    let mut late = function("t", "list", "{}");
    late["status"] = json!("in_progress");
    let events = decode_all(&[done(0, late), completed()]);
    assert_eq!(calls(&events), [call("t", "list", "{}")]);
}

/// Each phase comes before the text of its message, whether or not the message's first event came.
#[test]
fn messages_have_a_phase() {
    let with = |phase: &str, text: &str| {
        let mut item = message(text);
        item["phase"] = json!(phase);
        item
    };
    let stream = [
        added(0, with("commentary", "")),
        piece("output_text.delta", 0, json!({"content_index":0,"delta":"I look."})),
        done(0, with("commentary", "I look.")),
        done(1, with("final_answer", "Done.")),
        completed(),
    ];
    let shown: Vec<String> = decode_all(&stream)
        .into_iter()
        .filter_map(|event| match event {
            StreamEvent::ReasoningEnd { signature, .. } => signature,
            StreamEvent::TextDelta { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let expected = [r#"{"phase":"commentary"}"#, "I look.", r#"{"phase":"final_answer"}"#, "Done."];
    assert_eq!(shown, expected);
}

#[test]
fn calls_without_ids_get_one() {
    let mut nameless = function("", "read", "{}");
    nameless["call_id"] = Value::Null;
    let events = decode_all(&[done(0, nameless.clone()), done(1, nameless), completed()]);
    assert_eq!(calls(&events), [call("call_0", "read", "{}"), call("call_1", "read", "{}")]);
}

/// A proxy gives each event an id of its own: only the index links them.
#[test]
fn ids_that_change_with_each_event() {
    let mut stream = rich();
    for (n, event) in stream.iter_mut().enumerate() {
        for at in ["/item_id", "/item/id"] {
            if let Some(id) = event.pointer_mut(at) {
                *id = json!(format!("other_{n}"));
            }
        }
    }
    let decoded = decode_all(&stream);
    let unsigned = |events: &[StreamEvent]| -> Vec<StreamEvent> {
        let keep = |e: &&StreamEvent| !matches!(e, StreamEvent::ReasoningEnd { .. });
        events.iter().filter(keep).cloned().collect()
    };
    assert_eq!(unsigned(&decoded), unsigned(&rich_decoded()));
}

/// llama.cpp gives no indices at all.
#[test]
fn events_without_indices() {
    let mut stream = rich();
    for event in &mut stream {
        let item = match event["output_index"].as_u64() {
            Some(0) => "rs_1",
            Some(2) => "msg_1",
            Some(3) => "fc_call_a",
            _ => "ws_1",
        };
        let event = event.as_object_mut().unwrap();
        event.remove("output_index");
        event.remove("content_index");
        if event.contains_key("item_id") {
            event.insert("item_id".into(), json!(item));
        }
    }
    assert_eq!(decode_all(&stream), rich_decoded());
    for event in &mut stream {
        event.as_object_mut().unwrap().remove("item_id");
    }
    assert_eq!(decode_all(&stream), rich_decoded());
}

/// Several messages in one answer: a commentary before calls, and the final answer.
#[test]
fn two_messages() {
    let events = decode_all(&[
        done(0, message("First")),
        done(1, function("t", "read", "{}")),
        done(5, message("Last")),
        completed(),
    ]);
    let starts: Vec<&StreamEvent> =
        events.iter().filter(|e| matches!(e, StreamEvent::TextStart { .. })).collect();
    assert_eq!((texts(&events).1.as_str(), starts.len()), ("FirstLast", 2));
    assert_eq!(finished(&events).0, Finish::ToolCalls);
}

#[test]
fn text_is_told_once_whatever_repeats_it() {
    let delta = |text: &str| piece("output_text.delta", 0, json!({"content_index":7,"delta":text}));
    let all = piece("output_text.done", 0, json!({"content_index":7,"text":"Hello"}));
    for pieces in [
        vec![],
        vec![delta("Hello")],
        vec![delta("Hel"), delta("lo")],
        vec![delta("Hel")],
        vec![all.clone()],
        vec![delta("He"), all],
        vec![delta(""), delta("H")],
    ] {
        let mut stream = vec![created()];
        stream.extend(pieces.clone());
        stream.extend([done(0, message("Hello")), done(0, message("Hello")), completed()]);
        assert_eq!(texts(&decode_all(&stream)).1, "Hello", "{pieces:?}");
    }
}

#[test]
fn a_refusal_is_text() {
    let refusal = json!({"id":"msg_1","type":"message","content":[{"type":"refusal","refusal":"I can not."}]});
    let delta = piece("refusal.delta", 0, json!({"content_index":0,"delta":"I can "}));
    let all = piece("refusal.done", 0, json!({"content_index":0,"refusal":"I can not."}));
    for stream in [
        vec![done(0, refusal.clone()), completed()],
        vec![delta.clone(), done(0, refusal.clone()), completed()],
        vec![delta, all, completed()],
    ] {
        let events = decode_all(&stream);
        assert_eq!(texts(&events).1, "I can not.");
        assert_eq!(finished(&events).0, Finish::Stop);
    }
}

#[test]
fn reasoning_of_servers_that_show_it() {
    let item = json!({"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm hm"}],"encrypted_content":""});
    let delta = piece("reasoning_text.delta", 0, json!({"content_index":0,"delta":"hm"}));
    let all = piece("reasoning_text.done", 0, json!({"content_index":0,"text":"hm hm"}));
    for stream in [
        vec![done(0, item.clone()), completed()],
        vec![added(0, item.clone()), delta.clone(), done(0, item), completed()],
        vec![delta, all, completed()],
    ] {
        let events = decode_all(&stream);
        assert_eq!(texts(&events).0, "hm hm");
        assert_eq!(signatures(&events), [None]);
    }
}

/// The usual case: the model has reasoned, and the reasoning is sealed.
#[test]
fn sealed_reasoning_without_a_word() {
    for content in [json!([]), Value::Null] {
        let item = json!({"id":"rs_1","type":"reasoning","summary":[],"content":content,"encrypted_content":"gAAA"});
        let events = decode_all(&[added(0, item.clone()), done(0, item.clone()), completed()]);
        let signature = super::super::reasoning::seal(&item);
        let expected = [
            StreamEvent::ReasoningStart { id: "0".into() },
            StreamEvent::ReasoningEnd { id: "0".into(), signature, redacted: true },
        ];
        assert_eq!(events[..2], expected);
    }
    // an empty item makes no part
    let bare = json!({"id":"rs_1","type":"reasoning","summary":[]});
    assert_eq!(decode_all(&[done(0, bare), completed()]).len(), 1);
}

/// A call of a tool with plain input is handled here only if such a tool was offered.
#[test]
fn custom_calls() {
    let custom =
        json!({"id":"ctc_1","type":"custom_tool_call","call_id":"c","name":"sql","input":""});
    let mut whole = custom.clone();
    whole["input"] = json!("SELECT 1");
    let stream = |tools: Value| {
        let mut begin = created();
        begin["response"]["tools"] = tools;
        let delta = piece("custom_tool_call_input.delta", 0, json!({"delta":"SELECT"}));
        let all = piece("custom_tool_call_input.done", 0, json!({"input":"SELECT 1"}));
        decode_all(&[
            begin,
            added(0, custom.clone()),
            delta,
            all,
            done(0, whole.clone()),
            completed(),
        ])
    };
    let ours = stream(json!([{"type":"custom","name":"sql"}]));
    assert_eq!(calls(&ours), [call("c", "sql", r#""SELECT 1""#)]);
    let theirs = stream(json!([{"type":"x_search"},{"type":"function","name":"sql"}]));
    assert_eq!(theirs.len(), 1);
    assert_eq!(finished(&theirs).0, Finish::Stop);
}

#[test]
fn what_only_the_end_says() {
    let mut end = completed();
    end["response"]["output"] =
        json!([message("Hi"), function("a", "read", "{}"), function("b", "read", "{}"), sealed()]);
    let events = decode_all(&[created(), end.clone()]);
    assert_eq!(texts(&events).1, "Hi");
    assert_eq!(calls(&events).len(), 2);
    // the text is not repeated
    let events = decode_all(&[created(), done(0, message("Hi")), end]);
    assert_eq!(texts(&events).1, "Hi");
    assert_eq!(calls(&events).len(), 0);
}
