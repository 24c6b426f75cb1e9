//! Members of an answer that go back with it. Each case is a stream, and the message that the next request has for it.

use leftfold_events::event::PromptPart;
use leftfold_events::request::{AssistantPart, RequestMessage, ToolResult};

use super::*;
use crate::codec::Codec;

/// The parts of an answer, as a session keeps them.
fn parts(events: &[StreamEvent]) -> Vec<AssistantPart> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    for event in events {
        match event {
            StreamEvent::TextDelta { text: more, .. }
            | StreamEvent::ReasoningDelta { text: more, .. } => text.push_str(more),
            StreamEvent::TextEnd { .. } => {
                parts.push(AssistantPart::Text { text: std::mem::take(&mut text) });
            }
            StreamEvent::ReasoningEnd { signature, redacted, .. } => {
                let text = std::mem::take(&mut text);
                if let Some(signature) = signature.clone() {
                    parts.push(AssistantPart::Reasoning { text, signature, redacted: *redacted });
                }
            }
            StreamEvent::ToolCall(CallSpec { id, name, input }) => {
                let (id, name, input) = (id.clone(), name.clone(), input.clone());
                parts.push(AssistantPart::Call { id, name, input });
            }
            _ => {}
        }
    }
    parts
}

/// A request to `model` after these answers.
fn request(model: &str, answers: &[Vec<AssistantPart>]) -> Request {
    let mut messages = vec![RequestMessage::User { parts: [PromptPart::text("Go.")].into() }];
    for parts in answers {
        let result = |part: &AssistantPart| match part {
            AssistantPart::Call { id, name, .. } => Some(ToolResult {
                call: id.clone(),
                name: name.clone(),
                output: "ok".into(),
                is_error: false,
                attachments: Vec::new(),
            }),
            AssistantPart::Text { .. } | AssistantPart::Reasoning { .. } => None,
        };
        let results: Vec<ToolResult> = parts.iter().filter_map(result).collect();
        messages.push(RequestMessage::Assistant { parts: parts.clone().into() });
        messages.push(match results.as_slice() {
            [] => RequestMessage::User { parts: [PromptPart::text("More.")].into() },
            _ => RequestMessage::Tool { results: results.into() },
        });
    }
    let read = json!({ "name": "read", "description": "", "schema": { "type": "object" } });
    let request = json!({
        "model": { "provider": "p", "id": model }, "max_output": 100, "options": {}, "system": [],
        "tools": [read], "messages": [],
    });
    Request { messages, ..serde_json::from_value(request).unwrap() }
}

/// The model's messages in the body of a request after these answers, which keeps all rules.
fn sent(vendor: &str, model: &str, answers: &[Vec<Value>]) -> Vec<Value> {
    let answers: Vec<_> = answers.iter().map(|chunks| parts(&decode_all(vendor, chunks))).collect();
    let codec = Codec::find("openai-chat", vendor).unwrap().unwrap();
    let body: Value = serde_json::from_slice(&codec.body(&request(model, &answers))).unwrap();
    assert_eq!(codec.faults(model, &body), vec![]);
    let messages = body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] == "assistant").cloned().collect()
}

fn signed(index: u64, extra: &Value) -> Value {
    let mut call = piece(index, json!(format!("c{index}")), json!("read"), json!("{}"));
    call["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = extra.clone();
    call
}

fn calls_of(message: &Value) -> Vec<(&Value, &Value)> {
    let calls = message["tool_calls"].as_array().unwrap().iter();
    calls.map(|call| (&call["id"], &call["extra_content"])).collect()
}

#[test]
fn signatures_of_calls_go_back_on_their_calls() {
    let google = |signature: &str| json!({ "google": { "thought_signature": signature } });
    let vertex = json!({ "vertex": { "thought_signature": "Vg==" } });
    let first = vec![
        signed(0, &google("QQ==")),
        piece(1, json!("c1"), json!("read"), json!("{}")),
        signed(2, &vertex),
        end("tool_calls"),
    ];
    let second = vec![signed(3, &google("Qg==")), end("stop")];
    let messages = sent("generic", "gemini-4", &[first, second]);
    let (c0, c1, c2, c3) = (json!("c0"), json!("c1"), json!("c2"), json!("c3"));
    let expected = [(&c0, &google("QQ==")), (&c1, &Value::Null), (&c2, &vertex)];
    assert_eq!(calls_of(&messages[0]), expected);
    assert_eq!(calls_of(&messages[1]), [(&c3, &google("Qg=="))]);
}

#[test]
fn reasoning_goes_back_in_the_member_that_it_came_in() {
    let call = || piece(0, json!("c0"), json!("read"), json!("{}"));
    for (member, vendor, model) in [
        ("reasoning_content", "generic", "deepseek-v4-pro"),
        ("reasoning_content", "openrouter", "moonshotai/kimi-k3"),
        ("reasoning_content", "azure", "glm-5"),
        ("reasoning_content", "fireworks", "minimax-m3"),
        ("reasoning", "ollama", "gpt-oss:20b"),
        ("reasoning_text", "copilot", "claude-sonnet-5"),
    ] {
        let answer = vec![
            delta(json!({ member: "let me " })),
            delta(json!({ member: "look" })),
            call(),
            end("stop"),
        ];
        let last =
            vec![delta(json!({ member: "so" })), delta(json!({ "content": "Done." })), end("stop")];
        let messages = sent(vendor, model, &[answer, last]);
        assert_eq!(messages[0][member], "let me look", "{vendor} {model}");
        // only calls need it
        assert_eq!(messages[1].get(member), None, "{vendor} {model}");
    }
    // a model that must get some gets some
    let bare = vec![call(), end("stop")];
    let reasoned = vec![delta(json!({ "reasoning_content": "so" })), call(), end("stop")];
    for (model, missing) in [("kimi-k3", Some(" ")), ("deepseek-v4", Some(" ")), ("qwen4", None)] {
        let messages = sent("generic", model, &[bare.clone(), reasoned.clone(), bare.clone()]);
        let told: Vec<_> = messages.iter().map(|m| m["reasoning_content"].as_str()).collect();
        assert_eq!(told, [None, Some("so"), missing], "{model}");
    }
}

#[test]
fn details_of_reasoning_go_back_unchanged_and_in_order() {
    let text =
        |text: &str| json!({ "type": "reasoning.text", "text": text, "format": "f", "index": 0 });
    let sealed = json!({ "type": "reasoning.encrypted", "data": "AAA=", "id": "rs_1", "index": 1 });
    let signature = json!({ "type": "reasoning.text", "signature": "s==", "index": 0 });
    let details =
        |details: Value| delta(json!({ "reasoning": "let", "reasoning_details": details }));
    let answer = vec![
        details(json!([text("let ")])),
        details(json!([text("me")])),
        details(json!([signature])),
        delta(json!({ "content": "", "reasoning_details": [sealed] })),
        piece(0, json!("c0"), json!("read"), json!("{}")),
        end("tool_calls"),
    ];
    let whole = json!({ "type": "reasoning.text", "text": "let me", "format": "f", "index": 0, "signature": "s==" });
    for vendor in ["openrouter", "generic"] {
        let messages = sent(vendor, "m", std::slice::from_ref(&answer));
        assert_eq!(messages[0]["reasoning_details"], json!([whole, sealed]), "{vendor}");
        assert_eq!(messages[0].get("reasoning"), None, "{vendor}");
    }
    // the text is shown if it comes in no other member
    let events = decode_all(
        "generic",
        &[delta(json!({ "reasoning_details": [text("hm")] })), end("length")],
    );
    assert_eq!(texts(&events).0, "hm");
}

#[test]
fn opaque_reasoning_and_fields_of_gateways_go_back() {
    let mut call = piece(0, json!("c0"), json!("read"), json!("{}"));
    let fields = json!({ "thought_signature": "Zg==" });
    call["choices"][0]["delta"]["tool_calls"][0]["provider_specific_fields"] = fields.clone();
    let opaque = delta(json!({ "reasoning_text": "hm", "reasoning_opaque": "b3BhcXVl" }));
    let messages = sent("copilot", "gemini-4", &[vec![opaque, call, end("stop")]]);
    assert_eq!(messages[0]["reasoning_opaque"], "b3BhcXVl");
    assert_eq!(messages[0]["reasoning_text"], "hm");
    assert_eq!(messages[0]["tool_calls"][0]["provider_specific_fields"], fields);
}

/// Chat templates of Mistral's models refuse a prompt after results, wherever the model runs.
#[test]
fn the_order_of_roles_follows_the_model() {
    for (vendor, model, answers) in [
        ("generic", "Devstral-Small-3", 2),
        ("ollama", "mistral-small:24b", 2),
        ("openrouter", "mistralai/magistral-medium", 2),
        ("mistral", "any", 2),
        ("generic", "qwen4", 1),
    ] {
        let call = parts(&decode_all(
            vendor,
            &[piece(0, json!("c0"), json!("read"), json!("{}")), end("stop")],
        ));
        let mut request = request(model, &[call]);
        request.messages.push(RequestMessage::User { parts: [PromptPart::text("Stop.")].into() });
        let codec = Codec::find("openai-chat", vendor).unwrap().unwrap();
        let body: Value = serde_json::from_slice(&codec.body(&request)).unwrap();
        assert_eq!(codec.faults(model, &body), vec![], "{vendor} {model}");
        let messages = body["messages"].as_array().unwrap();
        let of_model = messages.iter().filter(|message| message["role"] == "assistant").count();
        assert_eq!(of_model, answers, "{vendor} {model}");
    }
}

/// Anthropic, Bedrock and gateways to them refuse a history with calls of tools that are not defined.
#[test]
fn tools_of_the_history_are_always_defined() {
    for wire in ["openai-chat", "openai-responses"] {
        for (vendor, choice) in [("generic", Value::Null), ("openrouter", json!("none"))] {
            let call = parts(&decode_all(
                vendor,
                &[piece(0, json!("c0"), json!("read"), json!("{}")), end("stop")],
            ));
            let mut request = request("sonnet-team", &[call]);
            request.tools = Vec::new();
            request.options = Json::parse(r#"{"toolChoice":"required"}"#).unwrap();
            let codec = Codec::find(wire, vendor).unwrap().unwrap();
            let body: Value = serde_json::from_slice(&codec.body(&request)).unwrap();
            assert_eq!(codec.faults("sonnet-team", &body), vec![], "{wire} {vendor}");
            assert!(body["tools"].to_string().contains(r#""name":"read""#), "{wire} {vendor}");
            assert_eq!(body["tool_choice"], choice, "{wire} {vendor}");
        }
    }
}
