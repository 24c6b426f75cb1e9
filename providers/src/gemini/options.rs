//! Translates the provider's options from settings into members of the body.

use serde_json::{Map, Value, json};

use super::is_from;
use crate::options::{is_foreign, thinking};
use crate::shape::merge;

/// Body members that options cannot change: they are the request itself.
const RESERVED: &[&str] =
    &["model", "contents", "systemInstruction", "system_instruction", "tools", "stream"];

/// Options that are members of the body. Every other option is a member of `generationConfig`.
const OF_BODY: &[&str] = &[
    "generationConfig", "safetySettings", "toolConfig", "cachedContent", "labels", "serviceTier",
    "store",
];

/// Other names of members, at every depth: those of other wires, and the field names of Google's
/// protocol definition, which the API accepts too.
const SPELLINGS: &[(&str, &str)] = &[
    ("maxTokens", "maxOutputTokens"),
    ("max_tokens", "maxOutputTokens"),
    ("max_output_tokens", "maxOutputTokens"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("stop", "stopSequences"),
    ("stop_sequences", "stopSequences"),
    ("candidate_count", "candidateCount"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
    ("response_modalities", "responseModalities"),
    ("media_resolution", "mediaResolution"),
    ("thinking_config", "thinkingConfig"),
    ("thinking_budget", "thinkingBudget"),
    ("thinking_level", "thinkingLevel"),
    ("include_thoughts", "includeThoughts"),
    ("generation_config", "generationConfig"),
    ("safety_settings", "safetySettings"),
    ("tool_config", "toolConfig"),
    ("tool_choice", "toolChoice"),
    ("cached_content", "cachedContent"),
    ("service_tier", "serviceTier"),
    ("reasoning_effort", "reasoningEffort"),
    ("effort", "reasoningEffort"),
];

const OF_THINKING: &[&str] = &["thinkingBudget", "thinkingLevel", "includeThoughts"];

/// Settings of OpenCode that control how a client builds its requests. The body has no such
/// members.
const NO_MEMBER: &[&str] = &["structuredOutputs", "threshold"];

/// The first generations that think, and that take a level instead of a budget.
const THINKS: f32 = 2.5;
const HAS_LEVELS: f32 = 3.0;

/// Options that say in other words how the model thinks.
const IN_OTHER_WORDS: [&str; 2] = ["thinking", "reasoningConfig"];

/// Whether the option is one of other APIs, or one of a client.
pub(super) fn leaves_out(key: &str, value: &Value) -> bool {
    let key = spelled(key);
    if IN_OTHER_WORDS.contains(&key) {
        return thinking(value) == (None, None);
    }
    let is_translated = ["toolChoice", "reasoningEffort"].contains(&key)
        || OF_THINKING.contains(&key)
        || OF_BODY.contains(&key)
        || RESERVED.contains(&key);
    !is_translated && (NO_MEMBER.contains(&key) || is_foreign("gemini", key))
}

fn spelled(key: &str) -> &str {
    SPELLINGS.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| to)
}

/// Merges `options` into `body`, objects member by member, and then adapts the body to the API's
/// rules.
pub(super) fn apply(body: &mut Map<String, Value>, options: &Value, model: &str) {
    if is_from(model, THINKS) && !model.contains("-image") && !model.contains("-tts") {
        // without this option the server does not return thoughts
        generation(body, "thinkingConfig", &json!({ "includeThoughts": true }));
    }
    for (key, value) in options.as_object().into_iter().flatten() {
        let key = spelled(key);
        match key {
            _ if RESERVED.contains(&key) || leaves_out(key, value) => {}
            _ if IN_OTHER_WORDS.contains(&key) => {
                let config = match thinking(value) {
                    (_, Some(word)) => effort(&word.into(), model),
                    (budget, None) => json!({ "thinkingBudget": budget }),
                };
                generation(body, "thinkingConfig", &config);
            }
            "toolChoice" => merge(body, "toolConfig", &tool_config(value), &[]),
            "streamFunctionCallArguments" => {
                let config = json!({ "functionCallingConfig": { key: value } });
                merge(body, "toolConfig", &config, &[]);
            }
            "reasoningEffort" => generation(body, "thinkingConfig", &effort(value, model)),
            _ if OF_THINKING.contains(&key) => {
                generation(body, "thinkingConfig", &json!({ key: value }));
            }
            _ if OF_BODY.contains(&key) => merge(body, key, value, SPELLINGS),
            _ => generation(body, key, value),
        }
    }
    if !body.contains_key("tools") {
        body.remove("toolConfig");
    }
    if let Some(Value::Object(config)) = body.get_mut("generationConfig") {
        limit_thinking(config);
    }
}

fn generation(body: &mut Map<String, Value>, key: &str, value: &Value) {
    merge(body, "generationConfig", &json!({ key: value }), SPELLINGS);
}

/// The choice of callable tools, translated from the terms of other wires.
fn tool_config(choice: &Value) -> Value {
    let named = ["/toolName", "/function/name", "/name"];
    let name = named.iter().find_map(|path| choice.pointer(path)?.as_str());
    let mode = match choice.as_str() {
        None if name.is_some() => "ANY",
        Some("none" | "NONE") => "NONE",
        Some("required" | "any" | "ANY") => "ANY",
        Some("validated" | "VALIDATED") => "VALIDATED",
        Some(_) | None => "AUTO",
    };
    let mut config = json!({ "mode": mode });
    if let Some(name) = name {
        config["allowedFunctionNames"] = json!([name]);
    }
    json!({ "functionCallingConfig": config })
}

/// An effort as a thinking level. For generations without levels it is the budget that Google's
/// documentation gives for the level.
fn effort(effort: &Value, model: &str) -> Value {
    let Some(effort) = effort.as_str() else { return json!({}) };
    if is_from(model, HAS_LEVELS) {
        let level = match effort {
            "none" => "minimal",
            "xhigh" | "max" => "high",
            other => other,
        };
        return json!({ "thinkingLevel": level });
    }
    let budget = match effort {
        "none" => 0,
        "minimal" | "low" => 1_024,
        "medium" => 8_192,
        _ => 24_576,
    };
    json!({ "thinkingBudget": budget })
}

/// Adds the thinking budget to `maxOutputTokens` if the budget would use up that limit, because the
/// API counts thinking within it. With a budget of 0 thoughts cannot be requested. The API refuses
/// a level together with a budget; then the level stays, because it is the newer form.
fn limit_thinking(config: &mut Map<String, Value>) {
    let most = config.get("maxOutputTokens").and_then(Value::as_u64);
    let Some(Value::Object(thinking)) = config.get_mut("thinkingConfig") else { return };
    if thinking.contains_key("thinkingLevel") {
        thinking.remove("thinkingBudget");
    }
    let budget = thinking.get("thinkingBudget").and_then(Value::as_u64);
    if budget == Some(0) {
        thinking.remove("includeThoughts");
    }
    if let (Some(budget), Some(most)) = (budget, most)
        && budget >= most
    {
        config.insert("maxOutputTokens".into(), budget.saturating_add(most).into());
    }
}
