//! Translates the provider's options from settings into members of the body.

use serde_json::{Map, Value, json};

use crate::options::is_foreign;
use crate::shape::merge;
use crate::vendors::Vendor;

/// Body members that options cannot change: they are the request itself, and only one answer is
/// read.
const RESERVED: &[&str] = &["model", "messages", "tools", "stream", "n"];

/// Both names of the limit on output tokens; a body may have only one of them.
const LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Members of the body as OpenCode's settings spell them.
const SPELLINGS: &[(&str, &str)] = &[
    ("reasoningEffort", "reasoning_effort"),
    ("textVerbosity", "verbosity"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("minP", "min_p"),
    ("frequencyPenalty", "frequency_penalty"),
    ("presencePenalty", "presence_penalty"),
    ("stopSequences", "stop"),
    ("stop_sequences", "stop"),
    ("toolChoice", "tool_choice"),
    ("parallelToolCalls", "parallel_tool_calls"),
    ("serviceTier", "service_tier"),
    ("promptCacheKey", "prompt_cache_key"),
    ("promptCacheRetention", "prompt_cache_retention"),
    ("safetyIdentifier", "safety_identifier"),
    ("responseFormat", "response_format"),
    ("logitBias", "logit_bias"),
    ("enableThinking", "enable_thinking"),
    ("thinkingBudget", "thinking_budget"),
];

/// Sampling options, which some models refuse.
const SAMPLING: [&str; 2] = ["temperature", "top_p"];

/// Members that have a meaning only with tools.
const OF_TOOLS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// Other names of the limit on output tokens.
const OTHER_LIMITS: [&str; 3] = ["maxTokens", "maxOutputTokens", "max_output_tokens"];

/// Whether the option is one of other APIs.
pub(super) fn leaves_out(key: &str) -> bool {
    let is_translated =
        OTHER_LIMITS.contains(&key) || SPELLINGS.iter().any(|(from, _)| *from == key);
    !is_translated && !RESERVED.contains(&key) && is_foreign("openai-chat", key)
}

/// Merges `options` into `body`, objects member by member, and then adapts the body to the API's
/// rules.
pub(super) fn apply(body: &mut Map<String, Value>, options: &Value, vendor: &Vendor, model: &str) {
    for (key, value) in options.as_object().into_iter().flatten() {
        match key.as_str() {
            "effort" | "reasoningEffort" if vendor.nests_effort => {
                merge(body, "reasoning", &json!({ "effort": value }), &[]);
            }
            "effort" => merge(body, "reasoning_effort", value, &[]),
            key if OTHER_LIMITS.contains(&key) => limit(body, vendor.limit_name(model), value),
            key if LIMITS.contains(&key) => limit(body, key, value),
            key if RESERVED.contains(&key) || leaves_out(key) => {}
            key => {
                let spelling = SPELLINGS.iter().find(|(from, _)| *from == key);
                merge(body, spelling.map_or(key, |(_, to)| to), value, &[]);
            }
        }
    }
    if !vendor.samples(model) {
        for key in SAMPLING {
            body.remove(key);
        }
    }
    if !body.contains_key("tools") {
        for key in OF_TOOLS {
            body.remove(key);
        }
    }
}

fn limit(body: &mut Map<String, Value>, name: &str, value: &Value) {
    for name in LIMITS {
        body.remove(name);
    }
    merge(body, name, value, &[]);
}
