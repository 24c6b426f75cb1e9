//! Variants of a model that need no settings: its efforts of reasoning, as options of its wire.
//!
//! Only models that the [`catalog`] lists, or whose names say that they reason, have variants: a
//! server refuses a request with an option that it does not know.

use serde_json::{Value, json};

use crate::catalog::{self, Thinking};
use crate::config::Wire;

/// Thinking budgets in tokens. The largest leaves room for an answer within 32 000 tokens of
/// output.
const BUDGETS: [(&str, u64); 4] =
    [("low", 4_000), ("medium", 10_000), ("high", 16_000), ("max", 24_000)];

/// The variants of the model `id` on `wire` at `vendor` (see [`crate::vendor`]): their names, and
/// the options that each adds.
pub fn for_model(wire: Wire, vendor: &str, id: &str) -> Vec<(&'static str, Value)> {
    let efforts = match catalog::model(wire, vendor, id).map(|model| model.thinking) {
        Some(Thinking::Efforts(efforts)) => efforts,
        Some(Thinking::Budget) => return BUDGETS.into_iter().map(budget).collect(),
        Some(Thinking::Never | Thinking::Always) => &[],
        None => wire.protocol().unlisted_efforts(id),
    };
    efforts.iter().map(|name| (*name, wire.protocol().effort(name))).collect()
}

/// As [`for_model`], with the efforts that a list names for a model that the catalog does not have. Anthropic's own form of an
/// effort is for its own models alone.
pub fn for_listed_model(
    wire: Wire,
    vendor: &str,
    id: &str,
    efforts: &[String],
) -> Vec<(String, Value)> {
    let is_unknown = catalog::model(wire, vendor, id).is_none() && wire != Wire::ANTHROPIC;
    if is_unknown && !efforts.is_empty() {
        return efforts.iter().map(|name| (name.clone(), wire.protocol().effort(name))).collect();
    }
    for_model(wire, vendor, id)
        .into_iter()
        .map(|(name, options)| (name.to_owned(), options))
        .collect()
}

/// The options of the variant that is nearest to an effort: the strongest that is not stronger, else the weakest. `None`:
/// the model has no efforts, or nobody knows this one.
pub(crate) fn nearest(wire: Wire, vendor: &str, id: &str, effort: &str) -> Option<Value> {
    const EFFORTS: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];
    let strength = |effort: &str| EFFORTS.iter().position(|known| *known == effort);
    let wanted = strength(effort)?;
    let known = for_model(wire, vendor, id).into_iter();
    let mut known: Vec<(usize, Value)> =
        known.filter_map(|(name, options)| Some((strength(name)?, options))).collect();
    known.sort_by_key(|(strength, _)| *strength);
    let weaker = known.iter().rposition(|(strength, _)| *strength <= wanted).unwrap_or(0);
    known.into_iter().nth(weaker).map(|(_, options)| options)
}

fn budget((name, tokens): (&'static str, u64)) -> (&'static str, Value) {
    (name, json!({ "thinking": { "type": "enabled", "budget_tokens": tokens } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_think_have_variants_of_their_wire() {
        let high = |wire, id: &str| {
            let found =
                for_model(wire, "generic", id).into_iter().find(|(name, _)| *name == "high");
            found.map_or(Value::Null, |(_, options)| options)
        };
        let adaptive = json!({ "thinking": { "type": "adaptive" }, "effort": "high" });
        let budget = json!({ "thinking": { "type": "enabled", "budget_tokens": 16_000 } });
        let effort = json!({ "reasoningEffort": "high" });
        for (wire, id, options) in [
            (Wire::ANTHROPIC, "claude-opus-5", adaptive),
            (Wire::ANTHROPIC, "claude-sonnet-4-5-20250929", budget.clone()),
            (Wire::ANTHROPIC, "claude-sonnet-4-20250514", budget.clone()),
            (Wire::ANTHROPIC, "claude-opus-4", budget),
            (Wire::ANTHROPIC, "claude-3-5-haiku-latest", Value::Null),
            (Wire::ANTHROPIC, "somebody-elses", Value::Null),
            (Wire::OPENAI_RESPONSES, "gpt-5.1", effort.clone()),
            (Wire::OPENAI_CHAT, "o3", effort.clone()),
            (Wire::GEMINI, "gemini-3.8-flash", effort),
            (Wire::OPENAI_CHAT, "gpt-4.1", Value::Null),
            (Wire::SCRIPTED, "gpt-5.1", Value::Null),
        ] {
            assert_eq!(high(wire, id), options, "{id}");
        }
    }

    #[test]
    fn each_model_has_the_efforts_that_its_vendor_lists() {
        let names = |wire, vendor, id| -> Vec<&str> {
            for_model(wire, vendor, id).into_iter().map(|(name, _)| name).collect()
        };
        let to_max = ["low", "medium", "high", "xhigh", "max"];
        let responses = Wire::OPENAI_RESPONSES;
        assert_eq!(names(responses, "openai", "gpt-6.2-sol"), to_max);
        assert_eq!(names(responses, "openai", "gpt-5.6"), [&["none"], &to_max[..]].concat());
        assert_eq!(names(responses, "openai", "gpt-5.1"), ["none", "low", "medium", "high"]);
        assert_eq!(names(responses, "openai", "gpt-7-new"), ["low", "medium", "high"]);
        assert_eq!(names(Wire::OPENAI_CHAT, "xai", "grok-4.7"), &to_max[..4]);
        assert_eq!(names(Wire::OPENAI_CHAT, "deepseek", "deepseek-flash"), ["high", "max"]);
        assert_eq!(names(Wire::OPENAI_CHAT, "moonshot", "kimi-k3"), ["low", "high", "max"]);
        assert_eq!(names(Wire::OPENAI_CHAT, "moonshot", "kimi-k2.6"), [""; 0]);
        assert_eq!(names(Wire::OPENAI_CHAT, "mistral", "mistral-medium-3.5"), ["none", "high"]);
        assert_eq!(names(Wire::ANTHROPIC, "anthropic", "claude-opus-5-5"), to_max);
        let before = ["low", "medium", "high", "max"];
        assert_eq!(names(Wire::ANTHROPIC, "anthropic", "claude-opus-4-6"), before);
        assert_eq!(names(Wire::ANTHROPIC, "anthropic", "claude-haiku-4-5"), before);
    }

    #[test]
    fn a_budget_leaves_room_for_an_answer() {
        assert!(BUDGETS.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert!(BUDGETS.iter().all(|(_, tokens)| *tokens + 8_000 <= 32_000));
    }
}
