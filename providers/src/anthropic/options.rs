//! Translates the provider's options from settings into members of the body.

use leftfold_events::Request;
use serde_json::{Map, Value, json};

use crate::shape::merge;
use crate::vendors::takes_sampling;

/// Body members that options cannot change: they are the request itself.
const RESERVED: &[&str] = &["model", "anthropic_version", "messages", "system", "tools", "stream"];

/// Members of the body as OpenCode's settings spell them.
const SPELLINGS: &[(&str, &str)] = &[
    ("maxTokens", "max_tokens"),
    ("maxOutputTokens", "max_tokens"),
    ("topP", "top_p"),
    ("topK", "top_k"),
    ("stopSequences", "stop_sequences"),
    ("toolChoice", "tool_choice"),
    ("serviceTier", "service_tier"),
    ("budgetTokens", "budget_tokens"),
    ("budget_tokens", "budget_tokens"),
];

/// Merges `options` into `body`, objects member by member, and then adapts the body to the API's
/// rules.
pub(super) fn apply(body: &mut Map<String, Value>, request: &Request) {
    let options = request.options.value();
    let Some(options) = options.as_object() else { return };
    for (key, value) in options {
        if key == "effort" {
            merge(body, "output_config", &json!({ "effort": value }), SPELLINGS);
        } else if !RESERVED.contains(&key.as_str()) {
            merge(body, key, value, SPELLINGS);
        }
    }
    choose_tools(body);
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
