//! Translates the provider's options from settings into members of the body.

use leftfold_events::Request;
use serde_json::{Map, Value, json};

use crate::config::Wire;
use crate::options::{is_camel, is_foreign, thinking};
use crate::shape::merge;
use crate::variants;
use crate::vendors::takes_sampling;

/// Body members that options cannot change: they are the request itself.
const RESERVED: &[&str] = &["model", "anthropic_version", "messages", "system", "tools", "stream"];

/// Members of the body as OpenCode's settings spell them.
const SPELLINGS: &[(&str, &str)] = &[
    ("maxTokens", "max_tokens"),
    ("maxOutputTokens", "max_tokens"),
    ("max_completion_tokens", "max_tokens"),
    ("max_output_tokens", "max_tokens"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("stop", "stop_sequences"),
    ("stopSequences", "stop_sequences"),
    ("toolChoice", "tool_choice"),
    ("serviceTier", "service_tier"),
    ("budgetTokens", "budget_tokens"),
    ("budget_tokens", "budget_tokens"),
];

/// The smallest budget for thinking that the API accepts, in tokens.
const SMALLEST_BUDGET: u64 = 1_024;

/// Options that say in other words how the model thinks.
const OF_THINKING: [&str; 4] =
    ["reasoningEffort", "reasoning_effort", "thinkingConfig", "reasoningConfig"];

/// Options that limit a reply to one call, and the value that does.
const OF_CALLS: [(&str, bool); 3] = [
    ("disableParallelToolUse", true),
    ("parallelToolCalls", false),
    ("parallel_tool_calls", false),
];

/// Whether the option is one of other APIs, or says how to think of a model that does not.
pub(super) fn leaves_out(model: &str, key: &str, value: &Value) -> bool {
    if OF_THINKING.contains(&key) {
        return translated(model, value).is_none();
    }
    let is_translated = key == "user"
        || SPELLINGS.iter().any(|(from, _)| *from == key)
        || OF_CALLS.iter().any(|(from, _)| *from == key);
    !is_translated && !RESERVED.contains(&key) && (is_camel(key) || is_foreign("anthropic", key))
}

/// The options of this API for an effort or a budget in the words of others; `None`: the model has no such options.
fn translated(model: &str, value: &Value) -> Option<Value> {
    let (budget, effort) = match value.as_str() {
        Some(effort) => (None, Some(effort)),
        None => thinking(value),
    };
    let nearest = |effort| variants::nearest(Wire::ANTHROPIC, "anthropic", model, effort);
    if effort == Some("none") || effort.is_none() && budget == Some(0) {
        let off = json!({ "thinking": { "type": "disabled" } });
        return nearest("low").map(|_| off);
    }
    if let Some(effort) = effort {
        return nearest(effort);
    }
    let budget = budget?;
    let mut options = nearest("low")?;
    if let Some(own) = options.pointer_mut("/thinking/budget_tokens") {
        *own = budget.max(SMALLEST_BUDGET).into();
    } else if let Value::Object(options) = &mut options {
        // the model finds its budget itself
        options.remove("effort");
    }
    Some(options)
}

/// Merges `options` into `body`, objects member by member, and then adapts the body to the API's
/// rules.
pub(super) fn apply(body: &mut Map<String, Value>, request: &Request) {
    let options = request.options.value();
    let Some(options) = options.as_object() else { return };
    let model = &request.model.id;
    let in_other_words = |key: &String| OF_THINKING.contains(&key.as_str());
    let (others, own): (Vec<_>, Vec<_>) = options.iter().partition(|(key, _)| in_other_words(key));
    // the API's own words come last and count
    let others = others.into_iter().filter_map(|(_, value)| translated(model, value));
    let others: Vec<Value> = others.collect();
    let others = others.iter().filter_map(Value::as_object).flatten();
    for (key, value) in others.chain(own) {
        if key == "effort" {
            merge(body, "output_config", &json!({ "effort": value }), SPELLINGS);
        } else if key == "user" {
            merge(body, "metadata", &json!({ "user_id": value }), SPELLINGS);
        } else if key == "thinking" {
            // a budget belongs to one kind of thinking
            body.remove("thinking");
            merge(body, key, value, SPELLINGS);
        } else if !RESERVED.contains(&key.as_str())
            && !OF_CALLS.iter().any(|(name, _)| name == key)
            && !leaves_out(model, key, value)
        {
            merge(body, key, value, SPELLINGS);
        }
    }
    if let Some(Value::String(word)) = body.get("stop_sequences") {
        let words = json!([word]);
        body.insert("stop_sequences".into(), words);
    }
    choose_tools(body);
    if OF_CALLS.iter().any(|(name, one)| options.get(*name).is_some_and(|value| value == one)) {
        limit_calls(body);
    }
    limit_thinking(body);
    limit_sampling(body, &request.model.id);
}

/// Writes a choice in the words of other wires as this API's. A forced call is removed where the API refuses it: without
/// tools, and with thinking.
fn choose_tools(body: &mut Map<String, Value>) {
    let kind = match body.get("tool_choice") {
        Some(Value::String(kind)) => match kind.as_str() {
            "required" => "any".to_owned(),
            kind => kind.to_owned(),
        },
        Some(choice) => choice["type"].as_str().unwrap_or_default().to_owned(),
        None => return,
    };
    let is_forced = matches!(kind.as_str(), "any" | "tool");
    if !body.contains_key("tools") || is_forced && thinks(body).is_some() {
        body.remove("tool_choice");
    } else if body["tool_choice"].is_string() {
        body.insert("tool_choice".into(), json!({ "type": kind }));
    }
}

/// Allows one call in a reply.
fn limit_calls(body: &mut Map<String, Value>) {
    if !body.contains_key("tools") {
        return;
    }
    let choice = body.entry("tool_choice").or_insert_with(|| json!({ "type": "auto" }));
    if choice["type"] != "none"
        && let Value::Object(choice) = choice
    {
        choice.insert("disable_parallel_tool_use".into(), true.into());
    }
}

pub(super) fn thinks(body: &Map<String, Value>) -> Option<&str> {
    let kind = body.get("thinking")?.get("type")?.as_str()?;
    matches!(kind, "enabled" | "adaptive").then_some(kind)
}

/// Adds the thinking budget to `max_tokens` if the budget would use up that limit, because the API
/// counts thinking within it. Removes the sampling options that thinking excludes.
fn limit_thinking(body: &mut Map<String, Value>) {
    if thinks(body).is_none() {
        return;
    }
    let budget = body["thinking"].get("budget_tokens").and_then(Value::as_u64);
    let most = body.get("max_tokens").and_then(Value::as_u64);
    if let (Some(budget), Some(most)) = (budget, most)
        && budget >= most
    {
        body.insert("max_tokens".into(), budget.saturating_add(most).into());
    }
    body.remove("temperature");
    body.remove("top_k");
}

/// Removes sampling options for newer models, which refuse requests that have them (the API's
/// reference no longer describes them).
fn limit_sampling(body: &mut Map<String, Value>, model: &str) {
    if !takes_sampling(model) {
        for key in ["temperature", "top_p", "top_k"] {
            body.remove(key);
        }
    }
}
