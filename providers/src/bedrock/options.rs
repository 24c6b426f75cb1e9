//! Translates the options from settings into members of the body. Options of one vendor's models go into
//! `additionalModelRequestFields`, in that vendor's words.

use leftfold_events::Request;
use serde_json::{Map, Value, json};

use super::family::{self, Family};
use crate::options::{self, is_foreign};
use crate::shape::merge;

/// Body members that options cannot change: they are the request itself.
const RESERVED: &[&str] = &["messages", "system", "toolConfig", "modelId"];

/// Options of all models, and their names in `inferenceConfig`.
const INFERENCE: [(&str, &str); 9] = [
    ("maxTokens", "maxTokens"),
    ("max_tokens", "maxTokens"),
    ("maxOutputTokens", "maxTokens"),
    ("temperature", "temperature"),
    ("topP", "topP"),
    ("top_p", "topP"),
    ("stopSequences", "stopSequences"),
    ("stop_sequences", "stopSequences"),
    ("stop", "stopSequences"),
];

/// Lets older models think between tool calls.
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";

const ADDITIONAL: &str = "additionalModelRequestFields";

/// How the model is asked to think.
#[derive(Debug, Default)]
struct Thinking {
    /// `enabled`, `adaptive` or `disabled`.
    kind: Option<String>,
    budget: Option<u64>,
    effort: Option<String>,
    display: Option<Value>,
}

/// Whether the option is one of other APIs.
pub(super) fn leaves_out(key: &str) -> bool {
    const TRANSLATED: [&str; 8] = [
        "topK", "top_k", "effort", "reasoningEffort", "reasoning_effort", "thinkingConfig",
        "toolChoice", "tool_choice",
    ];
    let is_translated = TRANSLATED.contains(&key) || INFERENCE.iter().any(|(from, _)| *from == key);
    !is_translated && !RESERVED.contains(&key) && is_foreign("bedrock", key)
}

/// Merges options into `body`, objects member by member, and then adapts the body to the rules of the
/// model. `lacks_thinking`: a budget for thinking would be refused.
pub(super) fn apply(body: &mut Map<String, Value>, request: &Request, lacks_thinking: bool) {
    let (model, options) = (&request.model.id, request.options.value());
    let mut thinking = Thinking::default();
    for (key, value) in options.as_object().into_iter().flatten() {
        option(body, Family::for_model(model), &mut thinking, key, value);
    }
    if thinking.kind.as_deref() == Some("enabled") && lacks_thinking {
        thinking = Thinking { effort: thinking.effort, ..Thinking::default() };
    }
    match Family::for_model(model) {
        Family::Claude => think_as_claude(body, model, &thinking),
        Family::OpenAi => {
            if let Some(effort) = thinking.effort {
                additional(body, "reasoning_effort", &effort.into());
            }
        }
        Family::Nova | Family::Mistral | Family::Other => think_as_nova(body, &thinking),
    }
    if !family::takes_sampling(model) {
        without(body, &["temperature", "topP"]);
        if let Some(Value::Object(fields)) = body.get_mut(ADDITIONAL) {
            fields.remove("top_k");
        }
    }
    drop_empty(body);
}

fn option(
    body: &mut Map<String, Value>,
    family: Family,
    thinking: &mut Thinking,
    key: &str,
    value: &Value,
) {
    let text = || value.as_str().map(str::to_owned);
    if let Some((_, name)) = INFERENCE.iter().find(|(known, _)| *known == key) {
        return merge(body, "inferenceConfig", &json!({ *name: value }), &[]);
    }
    match key {
        "topK" | "top_k" if family == Family::Nova => {
            additional(body, "inferenceConfig", &json!({ "topK": value }));
        }
        "topK" | "top_k" => additional(body, "top_k", value),
        "effort" | "reasoningEffort" | "reasoning_effort" => thinking.effort = text(),
        "thinkingConfig" => {
            let (budget, effort) = options::thinking(value);
            let kind = budget.map(|budget| if budget == 0 { "disabled" } else { "enabled" });
            thinking.kind = kind.map(str::to_owned).or(thinking.kind.take());
            thinking.budget = budget.filter(|budget| *budget > 0).or(thinking.budget);
            thinking.effort = effort.map(str::to_owned).or(thinking.effort.take());
        }
        "thinking" | "reasoningConfig" => {
            let member = |name: &str| value.get(name).filter(|value| !value.is_null());
            let word = |name: &str| member(name)?.as_str().map(str::to_owned);
            let budget = member("budgetTokens").or_else(|| member("budget_tokens"));
            thinking.kind = word("type").or(thinking.kind.take());
            thinking.budget = budget.and_then(Value::as_u64).or(thinking.budget);
            thinking.effort = word("maxReasoningEffort").or(thinking.effort.take());
            thinking.display = member("display").cloned().or(thinking.display.take());
        }
        "anthropicBeta" => additional(body, "anthropic_beta", value),
        "serviceTier" if value.is_string() => merge(body, key, &json!({ "type": value }), &[]),
        "toolChoice" | "tool_choice" => choose_tools(body, value),
        _ if RESERVED.contains(&key) || leaves_out(key) => {}
        _ => merge(body, key, value, &[]),
    }
}

/// Sets a member that only this vendor's models know.
fn additional(body: &mut Map<String, Value>, key: &str, value: &Value) {
    merge(body, ADDITIONAL, &json!({ key: value }), &[]);
}

/// Writes a choice in the words of other wires as this API's. It has no word for "none".
fn choose_tools(body: &mut Map<String, Value>, choice: &Value) {
    let kind = choice.as_str().or_else(|| choice.get("type")?.as_str());
    let choice = match kind {
        Some("auto") => json!({ "auto": {} }),
        Some("required" | "any") => json!({ "any": {} }),
        Some("tool" | "function") => {
            let name = choice.get("name").or_else(|| choice.get("toolName")).cloned();
            json!({ "tool": { "name": name.unwrap_or_default() } })
        }
        Some(_) => return,
        None => choice.clone(),
    };
    if let Some(Value::Object(tools)) = body.get_mut("toolConfig") {
        tools.insert("toolChoice".into(), choice);
    }
}

fn think_as_claude(body: &mut Map<String, Value>, model: &str, thinking: &Thinking) {
    if let Some(effort) = &thinking.effort {
        additional(body, "output_config", &json!({ "effort": effort }));
    }
    match (thinking.kind.as_deref(), thinking.budget) {
        (Some("enabled"), Some(budget)) => {
            let wanted = json!({ "type": "enabled", "budget_tokens": budget });
            additional(body, "thinking", &wanted);
            room_for(body, budget);
            if family::interleaves_on_request(model) {
                interleave(body);
            }
        }
        (Some("adaptive"), _) => {
            additional(body, "thinking", &json!({ "type": "adaptive" }));
            if let Some(display) = &thinking.display {
                additional(body, "thinking", &json!({ "display": display }));
            }
        }
        _ => return,
    }
    // thinking excludes sampling options and forced calls
    without(body, &["temperature", "topP"]);
    if let Some(Value::Object(fields)) = body.get_mut(ADDITIONAL) {
        fields.remove("top_k");
    }
    if let Some(Value::Object(tools)) = body.get_mut("toolConfig") {
        let is_auto = tools.get("toolChoice").is_none_or(|choice| choice.get("auto").is_some());
        if !is_auto {
            tools.remove("toolChoice");
        }
    }
}

/// Adds the thinking budget to the limit of the output if the budget would use it up, because the API
/// counts thinking within it.
fn room_for(body: &mut Map<String, Value>, budget: u64) {
    let most = body.get("inferenceConfig").and_then(|config| config.get("maxTokens"));
    if let Some(most) = most.and_then(Value::as_u64).filter(|most| budget >= *most) {
        let most = budget.saturating_add(most);
        merge(body, "inferenceConfig", &json!({ "maxTokens": most }), &[]);
    }
}

fn interleave(body: &mut Map<String, Value>) {
    let known = body.get(ADDITIONAL).and_then(|fields| fields.get("anthropic_beta")).cloned();
    let mut betas = known.and_then(|known| known.as_array().cloned()).unwrap_or_default();
    if !betas.iter().any(|beta| beta == INTERLEAVED) {
        betas.push(INTERLEAVED.into());
    }
    additional(body, "anthropic_beta", &betas.into());
}

/// The form of Amazon's own models, which other vendors' models share if they reason at all.
fn think_as_nova(body: &mut Map<String, Value>, thinking: &Thinking) {
    let Some(effort) = &thinking.effort else { return };
    let config = json!({ "type": "enabled", "maxReasoningEffort": effort });
    additional(body, "reasoningConfig", &config);
    if effort == "high" {
        // the API then refuses all limits
        without(body, &["temperature", "topP", "maxTokens"]);
    }
}

/// Removes members of `inferenceConfig`.
fn without(body: &mut Map<String, Value>, names: &[&str]) {
    if let Some(Value::Object(config)) = body.get_mut("inferenceConfig") {
        names.iter().for_each(|name| drop(config.remove(*name)));
    }
}

/// Removes objects that options have emptied.
fn drop_empty(body: &mut Map<String, Value>) {
    for name in ["inferenceConfig", ADDITIONAL] {
        if body.get(name).and_then(Value::as_object).is_some_and(Map::is_empty) {
            body.remove(name);
        }
    }
}
