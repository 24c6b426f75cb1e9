//! Options that a wire format leaves out of its bodies, because they are those of another.
//!
//! Settings give options in the names of OpenCode's packages or in those of the API's own members. A name that nobody
//! knows may be a new member of the API, and is sent. A name that belongs to other APIs alone is not: the API would refuse
//! the whole request. Each wire format translates the names that mean something to it before it asks here.

/// The members of the bodies of each wire format that options set, and the names of options that it translates.
const MEMBERS: [(&str, &[&str]); 5] = [
    (
        "anthropic",
        &[
            "cache_control", "container", "context_management", "inference_geo", "mcp_servers",
            "metadata", "output_config", "output_format", "service_tier", "speed",
            "stop_sequences", "thinking", "top_k", "top_p",
        ],
    ),
    (
        "openai-chat",
        &[
            "audio", "cache_control", "chat_template_kwargs", "enable_thinking",
            "frequency_penalty", "logit_bias", "logprobs", "metadata", "min_p", "modalities",
            "parallel_tool_calls", "plugins", "prediction", "presence_penalty", "prompt_cache_key",
            "prompt_cache_retention", "provider", "reasoning", "reasoning_effort",
            "reasoning_format", "response_format", "safe_prompt", "safety_identifier",
            "search_parameters", "seed", "service_tier", "stop", "store", "thinking",
            "thinking_budget", "top_k", "top_logprobs", "top_p", "transforms", "usage", "user",
            "verbosity", "web_search_options",
        ],
    ),
    (
        "openai-responses",
        &[
            "context_management", "include", "instructions", "max_tool_calls", "metadata",
            "parallel_tool_calls", "plugins", "prompt_cache_key", "prompt_cache_retention",
            "provider", "reasoning", "safety_identifier", "service_tier", "text", "top_logprobs",
            "top_p", "transforms", "truncation", "user",
        ],
    ),
    (
        "gemini",
        &[
            "audioTimestamp", "cachedContent", "frequencyPenalty", "imageConfig", "labels",
            "logprobs", "mediaResolution", "presencePenalty", "responseModalities",
            "retrievalConfig", "safetySettings", "seed", "serviceTier", "store",
            "streamFunctionCallArguments", "thinkingConfig", "toolConfig",
        ],
    ),
    (
        "bedrock",
        &[
            "additionalModelRequestFields", "additionalModelResponseFieldPaths", "anthropicBeta",
            "guardrailConfig", "inferenceConfig", "performanceConfig", "reasoningConfig",
            "requestMetadata", "serviceTier", "thinking",
        ],
    ),
];

/// Options of OpenCode's packages that no API has as a member.
const OF_CLIENTS: [&str; 29] = [
    "cacheControl", "contextManagement", "disableParallelToolUse", "documentImageLimit",
    "documentPageLimit", "enableThinking", "forceReasoning", "logitBias", "maxToolCalls",
    "mcpServers", "minP", "parallelToolCalls", "presencePenalty", "promptCacheKey",
    "promptCacheRetention", "reasoningEffort", "reasoningHistory", "reasoningSummary",
    "responseFormat", "safetyIdentifier", "sendReasoning", "strictJsonSchema",
    "structuredOutputMode", "structuredOutputs", "systemMessageMode", "textVerbosity",
    "thinkingBudget", "toolStreaming", "topLogprobs",
];

/// Whether the option is one of other wire formats than `wire`, or of a client. `key` is its name after translation.
pub(crate) fn is_foreign(wire: &str, key: &str) -> bool {
    let has = |(_, members): &(&str, &[&str])| members.contains(&key);
    let (own, others): (Vec<_>, Vec<_>) = MEMBERS.iter().partition(|(name, _)| *name == wire);
    !own.into_iter().any(has) && (others.into_iter().any(has) || OF_CLIENTS.contains(&key))
}

/// Whether a name is written as no member of an API is whose members have underscores.
pub(crate) fn is_camel(key: &str) -> bool {
    key.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// The budget in tokens and the effort that an option asks for in the form of any package: `thinking`,
/// `thinkingConfig` or `reasoningConfig`.
pub(crate) fn thinking(value: &serde_json::Value) -> (Option<u64>, Option<&str>) {
    let budget = ["budgetTokens", "budget_tokens", "thinkingBudget", "thinking_budget"];
    let effort = ["maxReasoningEffort", "thinkingLevel", "thinking_level"];
    let is_off = value.get("type").is_some_and(|kind| kind == "disabled");
    let budget = budget.iter().find_map(|name| value.get(*name)?.as_u64());
    let effort = effort.iter().find_map(|name| value.get(*name)?.as_str());
    (if is_off { Some(0) } else { budget }, effort)
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{ModelRef, Purpose};
    use leftfold_events::request::Memo;
    use leftfold_events::{Json, Request};
    use serde_json::{Value, json};

    use crate::codec::Codec;
    use crate::config::{Config, Wire};
    use crate::left_out;

    /// The body of a request, which its API accepts.
    fn body(wire: Wire, model: &str, options: &Value) -> Value {
        let messages = json!([{ "role": "user", "parts": [
            { "type": "text", "text": "go", "mime": null, "name": null } ] }]);
        let tools = json!([{ "name": "t", "description": "d", "schema": { "type": "object" } }]);
        let request = Request {
            purpose: Purpose::Turn,
            model: ModelRef { provider: "p".into(), id: model.into() },
            max_output: 30_000,
            options: Json::from_value(options),
            cache_key: String::new(),
            system: Vec::new(),
            tools: serde_json::from_value(tools).unwrap(),
            messages: serde_json::from_value(messages).unwrap(),
            encoded: Memo::default(),
        };
        let codec = Codec::new(&Config::new("p", wire), wire.protocol().http().unwrap());
        let body = serde_json::from_slice(&codec.body(&request)).unwrap();
        assert_eq!(codec.faults(model, &body), vec![], "{body:#}");
        body
    }

    #[test]
    fn each_wire_takes_its_own_options_and_those_that_mean_the_same_to_it() {
        let (claude, old, other) = ("claude-opus-5", "claude-sonnet-4-5", "k3");
        let (anthropic, chat) = (Wire::ANTHROPIC, Wire::OPENAI_CHAT);
        let (responses, gemini, bedrock) = (Wire::OPENAI_RESPONSES, Wire::GEMINI, Wire::BEDROCK);
        let adaptive = |effort: &str| json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": effort } });
        let budget =
            |tokens: u64| json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } });
        let one_call =
            json!({ "tool_choice": { "type": "auto", "disable_parallel_tool_use": true } });
        for (wire, model, options, members, left) in [
            (anthropic, claude, json!({ "reasoningEffort": "high" }), adaptive("high"), &[][..]),
            (anthropic, claude, json!({ "reasoning_effort": "minimal" }), adaptive("low"), &[]),
            (
                anthropic,
                "claude-opus-4-6",
                json!({ "reasoningEffort": "xhigh" }),
                adaptive("high"),
                &[],
            ),
            (anthropic, old, json!({ "reasoningEffort": "high" }), budget(16_000), &[]),
            (
                anthropic,
                old,
                json!({ "thinkingConfig": { "thinkingBudget": 9 } }),
                budget(1_024),
                &[],
            ),
            (
                anthropic,
                claude,
                json!({ "reasoningConfig": { "type": "enabled", "budgetTokens": 9_000 } }),
                json!({ "thinking": { "type": "adaptive" } }),
                &[],
            ),
            (
                anthropic,
                claude,
                json!({ "thinking": { "type": "disabled" }, "reasoningEffort": "none" }),
                json!({ "thinking": { "type": "disabled" } }),
                &[],
            ),
            (
                anthropic,
                other,
                json!({ "reasoningEffort": "high" }),
                json!({}),
                &["reasoningEffort"],
            ),
            (anthropic, claude, json!({ "parallelToolCalls": false }), one_call.clone(), &[]),
            (anthropic, claude, json!({ "disableParallelToolUse": true }), one_call, &[]),
            (anthropic, claude, json!({ "parallelToolCalls": true }), json!({}), &[]),
            (
                anthropic,
                claude,
                json!({ "stop": "END", "user": "u", "service_tier": "auto", "brand_new": 1 }),
                json!({
                    "stop_sequences": ["END"],
                    "metadata": { "user_id": "u" },
                    "service_tier": "auto",
                    "brand_new": 1,
                }),
                &[],
            ),
            (
                anthropic,
                claude,
                json!({ "textVerbosity": "low", "seed": 1, "store": false, "brandNew": 1 }),
                json!({}),
                &["textVerbosity", "seed", "store", "brandNew"],
            ),
            (
                chat,
                other,
                json!({ "reasoningEffort": "high", "seed": 1, "stop_sequences": ["A"], "providerOptions": {} }),
                json!({ "reasoning_effort": "high", "seed": 1, "stop": ["A"], "providerOptions": {} }),
                &[],
            ),
            (
                chat,
                other,
                json!({ "thinkingConfig": {}, "reasoningSummary": "auto", "include": [], "sendReasoning": true }),
                json!({}),
                &["thinkingConfig", "reasoningSummary", "include", "sendReasoning"],
            ),
            (
                responses,
                "gpt-5.1",
                json!({ "reasoningEffort": "low", "textVerbosity": "low", "user": "u" }),
                json!({ "text": { "verbosity": "low" }, "user": "u" }),
                &[],
            ),
            (
                responses,
                "gpt-5.1",
                json!({ "thinking": {}, "topK": 1, "seed": 1, "stopSequences": ["A"] }),
                json!({}),
                &["thinking", "topK", "seed", "stopSequences"],
            ),
            (
                gemini,
                "gemini-2.5-flash",
                json!({ "thinking": { "type": "enabled", "budgetTokens": 4_000 } }),
                json!({ "generationConfig": { "maxOutputTokens": 30_000, "thinkingConfig": {
                    "includeThoughts": true, "thinkingBudget": 4_000 } } }),
                &[],
            ),
            (
                gemini,
                "gemini-3.8-flash",
                json!({ "reasoningConfig": { "maxReasoningEffort": "low" }, "labels": { "a": "b" } }),
                json!({ "labels": { "a": "b" } }),
                &[],
            ),
            (
                gemini,
                "gemini-3.8-flash",
                json!({ "textVerbosity": "low", "thinking": {}, "guardrailConfig": {}, "threshold": 1 }),
                json!({}),
                &["textVerbosity", "thinking", "guardrailConfig", "threshold"],
            ),
            (
                bedrock,
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                json!({ "thinkingConfig": { "thinkingBudget": 2_000 }, "store": true, "seed": 1 }),
                json!({ "inferenceConfig": { "maxTokens": 30_000 } }),
                &["store", "seed"],
            ),
        ] {
            let sent = body(wire, model, &options);
            for (name, value) in members.as_object().unwrap() {
                assert_eq!(&sent[name], value, "{wire} {model} {options}: {sent:#}");
            }
            assert_eq!(left_out(wire, model, &options), left, "{wire} {model} {options}");
            let text = sent.to_string();
            for name in left {
                assert!(!text.contains(&format!("\"{name}\":")), "{wire} {name}: {text}");
            }
        }
    }
}
