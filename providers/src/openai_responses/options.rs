//! Translates the provider's options from settings into members of the body.

use serde_json::{Map, Value, json};

use crate::options::{is_camel, is_foreign};
use crate::shape::merge;
use crate::vendors::is_openai_reasoner;

/// Body members that options cannot change: they are the request itself, or they would create state
/// at the server, a second conversation.
const RESERVED: &[&str] = &[
    "model", "input", "tools", "stream", "store", "background", "previous_response_id",
    "previousResponseId", "conversation",
];

/// Members of the body as OpenCode's settings and Chat Completions spell them.
const SPELLINGS: &[(&str, &str)] = &[
    ("maxTokens", "max_output_tokens"),
    ("maxOutputTokens", "max_output_tokens"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("topP", "top_p"),
    ("topLogprobs", "top_logprobs"),
    ("toolChoice", "tool_choice"),
    ("parallelToolCalls", "parallel_tool_calls"),
    ("maxToolCalls", "max_tool_calls"),
    ("serviceTier", "service_tier"),
    ("promptCacheKey", "prompt_cache_key"),
    ("promptCacheRetention", "prompt_cache_retention"),
    ("safetyIdentifier", "safety_identifier"),
];

/// Options that are members of a nested object.
const NESTED: &[(&str, &str, &str)] = &[
    ("effort", "reasoning", "effort"),
    ("reasoningEffort", "reasoning", "effort"),
    ("reasoning_effort", "reasoning", "effort"),
    ("reasoningSummary", "reasoning", "summary"),
    ("textVerbosity", "text", "verbosity"),
    ("verbosity", "text", "verbosity"),
];

/// Members that have a meaning only with tools.
const OF_TOOLS: [&str; 3] = ["tool_choice", "parallel_tool_calls", "max_tool_calls"];

/// Sampling options, which reasoning models refuse.
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_logprobs"];

/// Makes the server return its reasoning in sealed form, so that it can be sent back.
const SEALED: &str = "reasoning.encrypted_content";

/// The smallest limit of tokens that the API accepts.
const FEWEST: u64 = 16;

/// Whether the option is one of other APIs.
pub(super) fn leaves_out(key: &str) -> bool {
    let is_translated = NESTED.iter().any(|(from, ..)| *from == key)
        || SPELLINGS.iter().any(|(from, _)| *from == key);
    !is_translated
        && !RESERVED.contains(&key)
        && (is_camel(key) || is_foreign("openai-responses", key))
}

/// Merges `options` into `body`, objects member by member, and then adapts the body to the API's
/// rules.
pub(super) fn apply(body: &mut Map<String, Value>, options: &Value, model: &str) {
    for (key, value) in options.as_object().into_iter().flatten() {
        if let Some((_, outer, inner)) = NESTED.iter().find(|(from, ..)| from == key) {
            merge(body, outer, &json!({ *inner: value }), &[]);
        } else if !RESERVED.contains(&key.as_str()) && !leaves_out(key) {
            let spelling = SPELLINGS.iter().find(|(from, _)| from == key);
            merge(body, spelling.map_or(key, |(_, to)| to), value, &[]);
        }
    }
    if body.get("max_output_tokens").and_then(Value::as_u64).is_some_and(|most| most < FEWEST) {
        body.insert("max_output_tokens".into(), FEWEST.into());
    }
    if !body.contains_key("tools") {
        OF_TOOLS.iter().for_each(|key| drop(body.remove(*key)));
    }
    reason(body, model);
}

/// Requests sealed reasoning from models that reason; other models refuse the option.
fn reason(body: &mut Map<String, Value>, model: &str) {
    let effort = body.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
    let is_off = effort.is_some_and(|effort| effort == "none");
    let is_on = effort.is_some_and(|effort| effort.is_string() && effort != "none");
    if !reasons(model) && !is_on {
        return;
    }
    if !is_off {
        SAMPLING.iter().for_each(|key| drop(body.remove(*key)));
    }
    let include = body.entry("include").or_insert_with(|| json!([]));
    if let Value::Array(include) = include
        && !include.iter().any(|item| item == SEALED)
    {
        include.push(SEALED.into());
    }
}

/// Whether `model` is one of OpenAI's reasoning models.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default().to_lowercase();
    let also = ["codex-", "computer-use"].iter().any(|family| name.starts_with(family));
    also || is_openai_reasoner(&name) && !name.starts_with("gpt-5-chat")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(options: &Value, model: &str) -> Value {
        let mut body = Map::new();
        body.insert("max_output_tokens".into(), 100.into());
        body.insert("tools".into(), json!([{}]));
        apply(&mut body, options, model);
        body.remove("tools");
        Value::Object(body)
    }

    #[test]
    fn options_have_the_names_of_the_body() {
        let options = json!({
            "reasoningEffort": "high", "reasoningSummary": "auto", "textVerbosity": "low",
            "reasoning": { "context": "all_turns" }, "text": { "format": { "type": "text" } },
            "promptCacheKey": "k", "parallelToolCalls": false, "serviceTier": "flex",
            "maxTokens": 3, "metadata": { "a": "b" }, "user": null,
            "store": true, "input": [], "model": "x", "stream": false, "background": true,
            "previousResponseId": "resp_1", "conversation": "c",
        });
        let expected = json!({
            "max_output_tokens": 16,
            "reasoning": { "effort": "high", "summary": "auto", "context": "all_turns" },
            "text": { "verbosity": "low", "format": { "type": "text" } },
            "prompt_cache_key": "k", "parallel_tool_calls": false, "service_tier": "flex",
            "metadata": { "a": "b" }, "include": [SEALED],
        });
        assert_eq!(applied(&options, "m"), expected);
    }

    #[test]
    fn models_that_reason_seal_it_and_sample_as_they_like() {
        let hot = json!({ "temperature": 0.2, "topP": 0.5 });
        for model in ["gpt-5.1", "openai/gpt-5-mini", "o3", "o4-mini", "codex-mini-latest"] {
            let expected = json!({ "max_output_tokens": 100, "include": [SEALED] });
            assert_eq!(applied(&hot, model), expected, "{model}");
        }
        for model in ["gpt-4.1", "gpt-5-chat-latest", "gpt-oss-20b", "qwen3", ""] {
            let expected = json!({ "max_output_tokens": 100, "temperature": 0.2, "top_p": 0.5 });
            assert_eq!(applied(&hot, model), expected, "{model}");
        }
        let off = applied(&json!({ "temperature": 0.2, "effort": "none" }), "gpt-5.1");
        assert_eq!((&off["temperature"], &off["include"]), (&json!(0.2), &json!([SEALED])));
        let off = applied(&json!({ "temperature": 0.2, "effort": "none" }), "mine");
        assert_eq!(off.get("include"), None);
    }

    #[test]
    fn what_is_included_adds_up() {
        let more = json!({ "include": ["message.output_text.logprobs"] });
        let expected = json!(["message.output_text.logprobs", SEALED]);
        assert_eq!(applied(&more, "o3")["include"], expected);
        assert_eq!(applied(&json!({ "include": [SEALED] }), "o3")["include"], json!([SEALED]));
    }

    #[test]
    fn without_tools_nothing_is_said_of_them() {
        let mut body = Map::new();
        apply(&mut body, &json!({ "toolChoice": "auto", "parallelToolCalls": true }), "m");
        assert!(body.is_empty(), "{body:?}");
    }
}
