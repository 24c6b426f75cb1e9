//! Variants of a model that need no settings: how hard it is to think, as options of its wire.
//!
//! Only models that the [`catalog`] lists, or whose names say that they reason, have any: a
//! server that does not know an option refuses the whole request.

use serde_json::{Value, json};

use crate::openai_chat::quirks::is_openai_reasoner;
use crate::{Wire, catalog};

/// Claude models that think within a budget of tokens; listed ones beside them weigh for
/// themselves how much to think and take an effort instead. After Anthropic's documentation of
/// extended thinking as of October 2026.
const BUDGETED: [&str; 7] = [
    "claude-3-7-sonnet",
    "claude-haiku-4-5",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
];
/// Likewise; the dates of their snapshots begin with a 2, which tells them from later versions.
const BARE: [&str; 2] = ["claude-opus-4", "claude-sonnet-4"];
/// Claude models that do not think.
const THOUGHTLESS: &str = "claude-3-5";

/// Tokens for thinking; the most leaves room for an answer within 32 000 tokens of output.
const BUDGETS: [(&str, u64); 4] =
    [("low", 4_000), ("medium", 10_000), ("high", 16_000), ("max", 24_000)];
const ANTHROPIC_EFFORTS: [(&str, &str); 4] =
    [("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "max")];
const OPENAI_EFFORTS: [(&str, &str); 3] = [("low", "low"), ("medium", "medium"), ("high", "high")];

/// The variants of the model `id` on `wire`: names, and the options that each lays over others.
pub fn of(wire: Wire, id: &str) -> Vec<(&'static str, Value)> {
    if wire == Wire::Anthropic && catalog::find(wire, id).is_some() {
        return claude(id);
    }
    let openai = wire == Wire::OpenaiResponses || wire == Wire::OpenaiChat;
    if openai && is_openai_reasoner(id) {
        let effort = |(name, effort)| (name, json!({ "reasoningEffort": effort }));
        return OPENAI_EFFORTS.into_iter().map(effort).collect();
    }
    Vec::new()
}

fn claude(id: &str) -> Vec<(&'static str, Value)> {
    if id.starts_with(THOUGHTLESS) {
        return Vec::new();
    }
    if BUDGETED.iter().any(|model| id.starts_with(model)) || BARE.contains(&id) {
        let thinking = |tokens| json!({ "type": "enabled", "budget_tokens": tokens });
        let budget = |(name, tokens)| (name, json!({ "thinking": thinking(tokens) }));
        return BUDGETS.into_iter().map(budget).collect();
    }
    let options = |effort| json!({ "thinking": { "type": "adaptive" }, "effort": effort });
    ANTHROPIC_EFFORTS.into_iter().map(|(name, effort)| (name, options(effort))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_think_have_variants_of_their_wire() {
        let high = |wire, id: &str| {
            let found = of(wire, id).into_iter().find(|(name, _)| *name == "high");
            found.map_or(Value::Null, |(_, options)| options)
        };
        let adaptive = json!({ "thinking": { "type": "adaptive" }, "effort": "high" });
        let budget = json!({ "thinking": { "type": "enabled", "budget_tokens": 16_000 } });
        let effort = json!({ "reasoningEffort": "high" });
        for (wire, id, options) in [
            (Wire::Anthropic, "claude-opus-5", adaptive),
            (Wire::Anthropic, "claude-sonnet-4-5-20250929", budget.clone()),
            (Wire::Anthropic, "claude-sonnet-4-20250514", budget.clone()),
            (Wire::Anthropic, "claude-opus-4", budget),
            (Wire::Anthropic, "claude-3-5-haiku-latest", Value::Null),
            (Wire::Anthropic, "somebody-elses", Value::Null),
            (Wire::OpenaiResponses, "gpt-5.1", effort.clone()),
            (Wire::OpenaiChat, "o3", effort),
            (Wire::OpenaiChat, "gpt-4.1", Value::Null),
            (Wire::Scripted, "gpt-5.1", Value::Null),
        ] {
            assert_eq!(high(wire, id), options, "{id}");
        }
    }

    #[test]
    fn a_budget_leaves_room_for_an_answer() {
        assert!(BUDGETS.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(BUDGETS.iter().all(|(_, tokens)| *tokens + 8_000 <= 32_000));
    }
}
