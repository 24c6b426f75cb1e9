//! Bodies with one fault each.
// Release builds do not have the rules.
#![cfg(debug_assertions)]

use leftfold_providers::{Config, Fault, Wire};
use serde_json::{Value, json};

/// The rules to check a body against.
struct Rules {
    config: Config,
    model: &'static str,
}

impl Rules {
    fn faults(&self, body: &Value) -> Vec<Fault> {
        self.config.faults(self.model, body)
    }
}

/// On the Gemini wire the rules depend on a model rather than on a vendor.
fn rules(wire: Wire, vendor: &'static str) -> Rules {
    let mut config = Config::new("p", wire);
    config.vendor = Some(vendor.to_owned());
    Rules { config, model: vendor }
}

/// Values to set at paths (`null` removes the member), and the fault that they cause.
type Case = (&'static str, Value, &'static str);

/// Asserts that the body is good, and that each change alone breaks that rule and no other.
fn check(rules: &Rules, good: &Value, cases: Vec<Case>) {
    assert_eq!(rules.faults(good), vec![], "{good}");
    for (path, value, rule) in cases {
        let mut bad = good.clone();
        let (parent, last) = path.rsplit_once('/').unwrap();
        let parent = bad.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
        match (parent, value.clone()) {
            (Value::Object(members), Value::Null) => drop(members.remove(last).unwrap()),
            (Value::Object(members), value) => drop(members.insert(last.to_owned(), value)),
            (Value::Array(items), Value::Null) => drop(items.remove(last.parse().unwrap())),
            (Value::Array(items), value) if last == "-" => items.push(value),
            (Value::Array(items), value) => items[last.parse::<usize>().unwrap()] = value,
            (other, _) => panic!("{path} is in {other}"),
        }
        let faults = rules.faults(&bad);
        let found: Vec<&str> = faults.iter().map(|fault| fault.rule).collect();
        assert!(found.contains(&rule), "{path} = {value}: {faults:?}");
    }
}

fn anthropic_body() -> Value {
    let mark = json!({"type":"ephemeral"});
    json!({
        "model": "m", "max_tokens": 4096, "stream": true,
        "system": [{"type":"text","text":"s","cache_control":mark}],
        "tools": [{"name":"read","description":"d","input_schema":{"type":"object","properties":{}}}],
        "thinking": {"type":"enabled","budget_tokens":2048},
        "messages": [
            {"role":"user","content":[{"type":"text","text":"hi"}]},
            {"role":"assistant","content":[
                {"type":"thinking","thinking":"","signature":"s"},
                {"type":"tool_use","id":"a","name":"read","input":{}},
                {"type":"tool_use","id":"b","name":"read","input":{}},
            ]},
            {"role":"user","content":[
                {"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}]},
                {"type":"tool_result","tool_use_id":"b","content":[
                    {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
                {"type":"text","text":"go on","cache_control":mark},
            ]},
        ],
    })
}

#[test]
fn anthropic() {
    let mark = json!({"type":"ephemeral"});
    let text = |text: &str| json!({"type":"text","text":text});
    let user = |content: Value| json!({"role":"user","content":content});
    let many: Vec<Value> =
        (0..5).map(|_| json!({"type":"text","text":"s","cache_control":mark})).collect();
    check(
        &rules(Wire::ANTHROPIC, ""),
        &anthropic_body(),
        vec![
            ("/max_tokens", Value::Null, "shape"),
            ("/max_tokens", json!(0), "max-tokens"),
            ("/max_tokens", json!(2048), "thinking-budget"),
            ("/thinking/budget_tokens", json!(1000), "thinking-budget"),
            ("/temperature", json!(0.5), "thinking-sampling"),
            ("/temperature", json!(1.5), "range"),
            ("/top_k", json!(5), "thinking-sampling"),
            ("/tool_choice", json!({"type":"any"}), "thinking-choice"),
            ("/tool_choice", json!({"type":"tool","name":"x"}), "choice-unknown"),
            ("/tools", Value::Null, "no-tools"),
            ("/tools/0/name", json!("a b"), "tool-name"),
            (
                "/tools/-",
                json!({"name":"read","input_schema":{"type":"object"}}),
                "tool-name-twice",
            ),
            ("/tools/0/input_schema", json!({"type":"string"}), "tool-schema"),
            ("/tools/0/input_schema/anyOf", json!([{}]), "tool-schema"),
            ("/system", many.into(), "cache-marks"),
            ("/system/0/text", json!(" \n"), "empty"),
            ("/messages", json!([]), "no-messages"),
            ("/messages/0", Value::Null, "user-at-both-ends"),
            ("/messages/0", user(json!("")), "empty"),
            ("/messages/0/content", json!([]), "empty"),
            ("/messages/0/content/0/text", json!(""), "empty"),
            ("/messages/0/content/0/cache", json!(1), "shape"),
            ("/messages/0/content/0/type", json!("txt"), "shape"),
            ("/messages/0/role", json!("tool"), "role"),
            ("/messages/1/content/0", Value::Null, "thinking-first"),
            ("/messages/1/content/0/signature", json!(""), "shape"),
            ("/messages/1/content/0/cache_control", mark.clone(), "shape"),
            (
                "/messages/1/content/-",
                json!({"type":"redacted_thinking","data":"x"}),
                "thinking-last",
            ),
            ("/messages/1/content/1/id", json!("a b"), "call-id"),
            ("/messages/1/content/2/id", json!("a"), "call-id-twice"),
            ("/messages/1/content/1/input", json!("x"), "shape"),
            ("/messages/1/content/1", Value::Null, "result-without-call"),
            ("/messages/2", Value::Null, "call-open"),
            ("/messages/2/content/0", Value::Null, "call-open"),
            ("/messages/2/content/0", text("first"), "result-late"),
            ("/messages/2/content/1/tool_use_id", json!("a"), "result-twice"),
            (
                "/messages/2/content/1/content/0/source/media_type",
                json!("image/tiff"),
                "media-type",
            ),
            ("/messages/2/content/1/content/0/source/data", json!(""), "shape"),
            ("/messages/2/content/2/cache_control/type", json!("x"), "cache-mark"),
            ("/messages/2/content/2/cache_control/ttl", json!("1h"), "cache-order"),
            ("/messages/-", json!({"role":"assistant","content":"so"}), "user-at-both-ends"),
        ],
    );
}

fn chat_body() -> Value {
    let call =
        |id: &str| json!({"id":id,"type":"function","function":{"name":"read","arguments":"{}"}});
    json!({
        "model": "m", "max_tokens": 9, "stream": true, "stream_options": {"include_usage":true},
        "tools": [{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{}}}}],
        "messages": [
            {"role":"system","content":"s"},
            {"role":"user","content":[{"type":"text","text":"hi"}]},
            {"role":"assistant","content":null,"tool_calls":[call("abcdefgh1"), call("abcdefgh2")]},
            {"role":"tool","content":"1","tool_call_id":"abcdefgh1"},
            {"role":"tool","content":"2","tool_call_id":"abcdefgh2"},
            {"role":"assistant","content":"so"},
            {"role":"user","content":"go on"},
        ],
    })
}

#[test]
fn chat() {
    let strict =
        json!({"name":"x","strict":true,"parameters":{"type":"object","properties":{"a":{}}}});
    check(
        &rules(Wire::OPENAI_CHAT, "openai"),
        &chat_body(),
        vec![
            ("/model", json!(""), "shape"),
            ("/max_completion_tokens", json!(9), "two-limits"),
            ("/stream", json!(false), "stream-options"),
            ("/temperature", json!(3), "range"),
            ("/stop", json!(["1", "2", "3", "4", "5"]), "stop"),
            ("/response_format", json!({"type":"json_object"}), "json-untold"),
            ("/tools", json!([]), "no-tools"),
            ("/tools/0/function/name", json!("a.b"), "tool-name"),
            ("/tools/0/function/parameters/type", json!("string"), "tool-schema"),
            ("/tools/0/function", strict, "strict-schema"),
            ("/tool_choice", json!({"type":"function","function":{"name":"x"}}), "choice-unknown"),
            ("/messages", json!([]), "no-messages"),
            ("/messages/0/role", json!("robot"), "role"),
            ("/messages/1/content", json!([]), "empty"),
            ("/messages/1/content", json!(" "), "empty"),
            ("/messages/1/content", Value::Null, "shape"),
            ("/messages/1/content/0/type", json!("output_text"), "part-role"),
            ("/messages/2/tool_calls", json!([]), "empty"),
            ("/messages/2/tool_calls/1/id", json!("abcdefgh1"), "call-id-twice"),
            ("/messages/2/tool_calls/0/id", json!("x".repeat(41)), "call-id"),
            ("/messages/2/tool_calls/0/function/arguments", json!("[1]"), "arguments"),
            ("/messages/2/tool_calls/0/function/arguments", json!({}), "shape"),
            ("/messages/2/reasoning_content", json!("hm"), "shape"),
            ("/messages/3", Value::Null, "call-open"),
            ("/messages/4/tool_call_id", json!("abcdefgh1"), "result-without-call"),
            ("/messages/5/content", Value::Null, "empty"),
            ("/messages/6", Value::Null, "answer-last"),
        ],
    );
    let mistral = rules(Wire::OPENAI_CHAT, "mistral");
    let id = json!("call_1");
    check(
        &mistral,
        &chat_body(),
        vec![
            ("/messages/2/tool_calls/0/id", id, "call-id"),
            ("/messages/5", Value::Null, "loop-open"),
        ],
    );
    let user = json!({"role":"user","content":"and"});
    check(
        &rules(Wire::OPENAI_CHAT, "ollama"),
        &chat_body(),
        vec![("/messages/-", user, "roles-alternate")],
    );
    let mut echo = chat_body();
    echo["messages"][2]["reasoning_content"] = json!(" ");
    let gone = ("/messages/2/reasoning_content", Value::Null, "reasoning-missing");
    check(&rules(Wire::OPENAI_CHAT, "deepseek"), &echo, vec![gone]);
}

#[test]
fn responses() {
    let call =
        |id: &str| json!({"type":"function_call","call_id":id,"name":"read","arguments":"{}"});
    let output = |id: &str| json!({"type":"function_call_output","call_id":id,"output":"ok"});
    let message =
        |role: &str, content: &str| json!({"type":"message","role":role,"content":content});
    let good = json!({
        "model": "m", "max_output_tokens": 16, "store": false, "stream": true,
        "tools": [{"type":"function","name":"read","parameters":{"type":"object","properties":{}},"strict":false}],
        "input": [
            {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
            {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},
            call("a"), call("b"), output("a"), output("b"),
            {"type":"message","role":"assistant","content":"so","phase":"commentary"},
            message("user", "go on"),
        ],
    });
    let alternating = rules(Wire::OPENAI_RESPONSES, "generic");
    check(&alternating, &good, vec![("/input/-", message("user", "and"), "roles-alternate")]);
    check(
        &rules(Wire::OPENAI_RESPONSES, "openai"),
        &good,
        vec![
            ("/max_output_tokens", json!(15), "max-tokens"),
            ("/store", Value::Null, "kept"),
            ("/previous_response_id", json!("resp_1"), "kept"),
            ("/tools/0/parameters/type", json!("array"), "tool-schema"),
            ("/tools/0/name", json!("a/b"), "tool-name"),
            ("/input", json!([]), "no-messages"),
            ("/input/0/phase", json!("commentary"), "shape"),
            ("/input/0/content/0/type", json!("output_text"), "part-role"),
            ("/input/0/content/0/text", json!(""), "empty"),
            ("/input/1/encrypted_content", Value::Null, "reasoning-unsealed"),
            ("/input/1/id", json!("x"), "item-id"),
            ("/input/2/id", json!("call_1"), "item-id"),
            ("/input/2", output("b"), "result-without-call"),
            ("/input/3", call("a"), "call-id-twice"),
            ("/input/3/call_id", json!("x".repeat(65)), "call-id"),
            ("/input/3/arguments", json!("oops"), "arguments"),
            ("/input/4", output("b"), "call-open"),
            ("/input/5", Value::Null, "call-open"),
            (
                "/input/6",
                json!({"type":"reasoning","summary":[],"encrypted_content":"e"}),
                "reasoning-alone",
            ),
            ("/input/6/content", json!([{"type":"input_text","text":"x"}]), "part-role"),
            ("/input/7", Value::Null, "answer-last"),
            ("/input/7/type", json!("invented"), "shape"),
        ],
    );
}

#[test]
fn gemini() {
    let user = |parts: Value| json!({"role":"user","parts":parts});
    let result =
        |id: &str| json!({"functionResponse":{"id":id,"name":"read","response":{"output":"ok"}}});
    let good = json!({
        "systemInstruction": {"parts":[{"text":"s"}]},
        "tools": [{"functionDeclarations":[{"name":"read","description":"d","parameters":{"type":"OBJECT",
            "properties":{"a":{"type":"STRING","enum":["x"]},"b":{"type":"ARRAY","items":{"type":"STRING"}}},
            "required":["a"]}}]}],
        "contents": [
            user(json!([{"text":"hi"}])),
            {"role":"model","parts":[
                {"functionCall":{"id":"1","name":"read","args":{}},"thoughtSignature":"s"},
                {"functionCall":{"id":"2","name":"read","args":{}}},
                {"text":"","thoughtSignature":"s"},
            ]},
            user(json!([result("1"), result("2")])),
        ],
    });
    let schema = "/tools/0/functionDeclarations/0/parameters";
    assert!(good.pointer(schema).is_some());
    check(
        &rules(Wire::GEMINI, "gemini-3-pro"),
        &good,
        vec![
            ("/contents", json!([]), "no-messages"),
            ("/contents/0/parts", json!([]), "empty"),
            ("/contents/0/parts/0/text", json!(""), "empty"),
            ("/contents/0/parts/0/inlineData", json!({"mimeType":"a/b","data":"x"}), "part-kind"),
            ("/contents/0/parts/0/invented", json!(1), "shape"),
            ("/contents/0", Value::Null, "call-order"),
            ("/contents/0/role", json!("assistant"), "role"),
            ("/contents/1/role", json!("user"), "call-role"),
            ("/contents/1", user(json!([{"text":"x"}])), "result-without-call"),
            ("/contents/1/parts/0/thoughtSignature", Value::Null, "call-unsigned"),
            ("/contents/2", Value::Null, "call-open"),
            ("/contents/2", user(json!([{"text":"x"}])), "call-open"),
            ("/contents/2/parts/0", Value::Null, "result-count"),
            ("/contents/2/parts/0", result("2"), "result-without-call"),
            ("/contents/2/parts/0/functionResponse/name", json!("x"), "result-without-call"),
            ("/contents/2/parts/0/functionResponse/response", json!("ok"), "shape"),
            ("/contents/-", json!({"role":"model","parts":[{"text":"x"}]}), "answer-last"),
            ("/tools/0/functionDeclarations/-", json!({"name":"read"}), "tool-name-twice"),
            ("/tools/0/functionDeclarations/0/name", json!("1"), "tool-name"),
            ("/tools/0/functionDeclarations/0/parametersJsonSchema", json!({}), "tool-schema"),
            ("/tools/0/functionDeclarations/0/parameters/properties", json!({}), "tool-schema"),
            ("/tools/0/functionDeclarations/0/parameters/$schema", json!("x"), "shape"),
            ("/tools/0/functionDeclarations/0/parameters/required/-", json!("z"), "tool-schema"),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/a/enum",
                json!([1]),
                "tool-schema",
            ),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/b/items",
                Value::Null,
                "tool-schema",
            ),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/a/type",
                json!("null"),
                "tool-schema",
            ),
        ],
    );
}

#[test]
fn names_at_gemini_begin_with_a_letter() {
    let long = "x".repeat(129);
    for (name, good) in [
        ("read", true),
        ("_1", true),
        ("a.b:c-d", true),
        (&long[1..], true),
        ("1", false),
        ("", false),
        (&long, false),
    ] {
        let body = json!({
            "tools": [{"functionDeclarations":[{"name":name}]}],
            "contents": [{"role":"user","parts":[{"text":"hi"}]}],
        });
        let faults = rules(Wire::GEMINI, "gemini-3-pro").faults(&body);
        assert_eq!(faults.is_empty(), good, "{name}: {faults:?}");
    }
}

#[test]
fn rules_of_bedrock() {
    let user = |content: Value| json!({"role":"user","content":content});
    let result = |id: &str| json!({"toolResult":{"toolUseId":id,"content":[{"text":"1"}]}});
    let mark = json!({"cachePoint":{"type":"default"}});
    let pdf =
        |name: &str| json!({"document":{"format":"pdf","name":name,"source":{"bytes":"AA=="}}});
    let good = json!({
        "system": [{"text":"s"}, mark],
        "inferenceConfig": {"maxTokens":4096},
        "toolConfig": {"tools":[{"toolSpec":{"name":"read","inputSchema":{"json":{"type":"object"}}}}]},
        "additionalModelRequestFields": {"thinking":{"type":"enabled","budget_tokens":2048}},
        "messages": [
            user(json!([{"text":"hi"}, pdf("a"), mark])),
            {"role":"assistant","content":[
                {"reasoningContent":{"reasoningText":{"text":"","signature":"s"}}},
                {"toolUse":{"toolUseId":"a","name":"read","input":{}}},
                {"toolUse":{"toolUseId":"b","name":"read","input":{}}},
                mark,
            ]},
            user(json!([result("a"), result("b"), {"text":"go on"}, mark])),
        ],
    });
    let mut claude = rules(Wire::BEDROCK, "amazon-bedrock");
    claude.model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
    let first = "/messages/0/content";
    let call = "/messages/1/content/1/toolUse";
    let at = |path: &str, rest: &str| -> &'static str { format!("{path}{rest}").leak() };
    check(
        &claude,
        &good,
        vec![
            ("/messages", json!([]), "no-messages"),
            ("/modelId", json!("m"), "shape"),
            ("/inferenceConfig/maxTokens", json!(0), "max-tokens"),
            ("/inferenceConfig/maxTokens", json!(2_048), "thinking-budget"),
            ("/inferenceConfig/temperature", json!(0.5), "thinking-sampling"),
            ("/inferenceConfig/topP", json!(1.5), "range"),
            ("/additionalModelRequestFields/thinking/budget_tokens", json!(5), "thinking-budget"),
            ("/system/-", mark.clone(), "cache-marks"),
            (
                "/system/0",
                json!({"image":{"format":"png","source":{"bytes":"AA=="}}}),
                "block-role",
            ),
            ("/messages/0", Value::Null, "user-at-both-ends"),
            ("/messages/-", user(json!([{"text":"x"}])), "roles-alternate"),
            (
                "/messages/-",
                json!({"role":"assistant","content":[{"text":"x"}]}),
                "user-at-both-ends",
            ),
            ("/messages/0/role", json!("system"), "role"),
            (first, json!([mark]), "empty"),
            (first, json!([pdf("a")]), "document-alone"),
            (at(first, "/0/text"), json!(" "), "empty"),
            (at(first, "/0/image"), json!({}), "shape"),
            (at(first, "/-"), json!({"invented":1}), "shape"),
            (at(first, "/-"), pdf("a"), "document-twice"),
            (at(first, "/-"), pdf("a.pdf"), "document-name"),
            (at(first, "/1/document/format"), json!("txt"), "media-type"),
            (
                at(first, "/-"),
                json!({"toolUse":{"toolUseId":"c","name":"read","input":{}}}),
                "block-role",
            ),
            ("/messages/1/content/0", Value::Null, "thinking-first"),
            ("/messages/1/content/1", mark.clone(), "cache-mark"),
            (
                "/messages/1/content",
                json!([{"reasoningContent":{"redactedContent":"x"}}]),
                "thinking-last",
            ),
            ("/messages/1/content/0/reasoningContent", json!({}), "shape"),
            (at(call, "/toolUseId"), json!("b"), "call-id-twice"),
            (at(call, "/toolUseId"), json!("a b"), "call-id"),
            (at(call, "/name"), json!("a b"), "call-name"),
            (at(call, "/input"), json!([]), "shape"),
            ("/messages/2/content/0", Value::Null, "call-open"),
            ("/messages/2/content/0", result("c"), "result-without-call"),
            ("/messages/2/content/1", result("a"), "result-twice"),
            ("/messages/2/content/-", result("b"), "result-late"),
            ("/messages/2/content/0/toolResult/content", json!([]), "empty"),
            ("/messages/2/content/0/toolResult/content/0", mark.clone(), "block-role"),
            ("/toolConfig", Value::Null, "no-tools"),
            ("/toolConfig/tools", json!([]), "no-tools"),
            ("/toolConfig/tools/0/toolSpec/name", json!("a b"), "tool-name"),
            (
                "/toolConfig/tools/0/toolSpec/inputSchema/json",
                json!({"type":"string"}),
                "tool-schema",
            ),
            ("/toolConfig/toolChoice", json!({"tool":{"name":"x"}}), "choice-unknown"),
        ],
    );
    let mut good = good;
    good["additionalModelRequestFields"] = json!({});
    good["system"] = json!([{"text":"s"}]);
    good["messages"][0]["content"] = json!([{"text":"hi"}]);
    good["messages"][1]["content"] =
        json!([{"toolUse":{"toolUseId":"abcdefgh1","name":"read","input":{}}}]);
    good["messages"][2]["content"] = json!([result("abcdefgh1")]);
    let mut mistral = rules(Wire::BEDROCK, "amazon-bedrock");
    mistral.model = "mistral.mistral-large-2407-v1:0";
    let content = "/messages/2/content/0/toolResult/content";
    check(
        &mistral,
        &good,
        vec![
            ("/system/-", mark, "cache-mark"),
            ("/messages/1/content/0/toolUse/toolUseId", json!("a"), "call-id"),
            ("/messages/2/content/0/toolResult/status", json!("error"), "shape"),
            (at(content, "/-"), pdf("b"), "block-role"),
        ],
    );
}

#[test]
fn only_an_object_is_a_body() {
    for wire in [Wire::OPENAI_CHAT, Wire::OPENAI_RESPONSES, Wire::GEMINI, Wire::BEDROCK] {
        let config = Config::new("openai", wire);
        assert_eq!(config.faults("m", &json!([]))[0].rule, "shape");
    }
    assert_eq!(Config::new("s", Wire::SCRIPTED).faults("m", &json!([])), vec![]);
}
