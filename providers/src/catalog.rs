//! What is known of models: limits in tokens, prices in US dollars per million tokens.
//!
//! After Anthropic's, OpenAI's and Google's public lists of models and prices as of October 2026. Cache writes
//! are those with a lifetime of five minutes; where a price depends on the length of the prompt it is the
//! one for short prompts. Settings win over this table.

use leftfold_events::kit::{Limit, ModelSpec, Prices};

use crate::Wire;

struct Model {
    /// Also of dated snapshots: `ID-20251001`.
    id: &'static str,
    context: u64,
    /// Of the context; 0: all of it.
    input: u64,
    output: u64,
    prices: Prices,
    /// Whether requests may set temperature, top-p and top-k.
    sampling: bool,
}

const fn prices(input: f64, output: f64, cache_read: f64) -> Prices {
    Prices { input, output, cache_read, cache_write: input * 1.25 }
}

const fn model(id: &'static str, limits: (u64, u64), prices: Prices, sampling: bool) -> Model {
    Model { id, context: limits.0, input: 0, output: limits.1, prices, sampling }
}

/// One of OpenAI's, whose context is divided between input and output.
const fn gpt(id: &'static str, context: u64, prices: Prices) -> Model {
    let (input, output) = (context - 128_000, 128_000);
    Model { id, context, input, output, prices, sampling: false }
}

/// One of Google's, whose context is the input alone. What is cached without being asked for costs
/// nothing to write.
const fn gemini(id: &'static str, prices: Prices) -> Model {
    let prices = Prices { cache_write: 0.0, ..prices };
    Model { id, context: 1_048_576, input: 0, output: 65_536, prices, sampling: true }
}

const NEW: (u64, u64) = (1_000_000, 128_000);
const LARGE: (u64, u64) = (200_000, 64_000);

const ANTHROPIC: &[Model] = &[
    model("claude-fable-5-1", NEW, prices(10.0, 50.0, 0.25), false),
    model("claude-fable-5", NEW, prices(10.0, 50.0, 1.0), false),
    model("claude-opus-5-5", NEW, prices(4.0, 20.0, 0.2), false),
    model("claude-opus-5", NEW, prices(5.0, 25.0, 0.5), false),
    model("claude-opus-4-8", NEW, prices(5.0, 25.0, 0.5), false),
    model("claude-opus-4-7", NEW, prices(5.0, 25.0, 0.5), false),
    model("claude-opus-4-6", NEW, prices(5.0, 25.0, 0.5), true),
    model("claude-opus-4-5", LARGE, prices(5.0, 25.0, 0.5), true),
    model("claude-opus-4-1", (200_000, 32_000), prices(15.0, 75.0, 1.5), true),
    model("claude-opus-4", (200_000, 32_000), prices(15.0, 75.0, 1.5), true),
    model("claude-sonnet-5-5", NEW, prices(2.0, 10.0, 0.1), false),
    model("claude-sonnet-5", NEW, prices(2.0, 10.0, 0.2), false),
    model("claude-sonnet-4-6", (1_000_000, 64_000), prices(3.0, 15.0, 0.3), true),
    model("claude-sonnet-4-5", LARGE, prices(3.0, 15.0, 0.3), true),
    model("claude-sonnet-4", LARGE, prices(3.0, 15.0, 0.3), true),
    model("claude-3-7-sonnet", LARGE, prices(3.0, 15.0, 0.3), true),
    model("claude-haiku-5-5", NEW, prices(0.1, 0.5, 0.01), false),
    model("claude-haiku-4-5", LARGE, prices(1.0, 5.0, 0.1), true),
    model("claude-3-5-haiku", (200_000, 8_192), prices(0.8, 4.0, 0.08), true),
];

const OPENAI: &[Model] = &[
    gpt("gpt-6.1-sol", 1_050_000, prices(2.0, 10.0, 0.1)),
    gpt("gpt-6.1-terra", 1_050_000, prices(1.0, 5.0, 0.05)),
    gpt("gpt-5.6-sol", 1_050_000, prices(4.0, 20.0, 0.4)),
    gpt("gpt-5.6", 1_050_000, prices(4.0, 20.0, 0.4)),
    gpt("gpt-5.1", 400_000, prices(1.25, 10.0, 0.125)),
];

const GEMINI: &[Model] = &[
    gemini("gemini-3.8-flash", prices(0.75, 3.75, 0.075)),
    gemini("gemini-3.7-flash", prices(0.75, 3.75, 0.075)),
    gemini("gemini-3.6-flash", prices(1.5, 7.5, 0.15)),
    gemini("gemini-3.5-flash-lite", prices(0.3, 2.5, 0.03)),
    gemini("gemini-3.5-flash", prices(1.5, 9.0, 0.15)),
    gemini("gemini-3.1-pro-preview", prices(2.0, 12.0, 0.2)),
    gemini("gemini-3.1-flash-lite", prices(0.25, 1.5, 0.025)),
    gemini("gemini-3-flash-preview", prices(0.5, 3.0, 0.05)),
    gemini("gemini-2.5-pro", prices(1.25, 10.0, 0.125)),
    gemini("gemini-2.5-flash-lite", prices(0.1, 0.4, 0.01)),
    gemini("gemini-2.5-flash", prices(0.3, 2.5, 0.03)),
];

/// The models that are listed for `wire`. Chat Completions is spoken by too many for that.
const fn listed(wire: Wire) -> &'static [Model] {
    match wire {
        Wire::Anthropic => ANTHROPIC,
        Wire::OpenaiResponses => OPENAI,
        Wire::Gemini => GEMINI,
        Wire::OpenaiChat | Wire::Scripted => &[],
    }
}

/// What is known of the model `id` on `wire`; `provider` is left empty.
pub fn find(wire: Wire, id: &str) -> Option<ModelSpec> {
    named(listed(wire), id).map(|model| ModelSpec {
        provider: String::new(),
        id: id.to_owned(),
        limit: Limit { context: model.context, input: model.input, output: model.output },
        cost: model.prices,
    })
}

/// Like [`find`], but a model that is not listed gets what most models of that wire can do:
/// a context of 200 000 tokens, 32 000 of output on the Anthropic wire; prices 0, which means
/// unknown.
pub fn describe(wire: Wire, provider: &str, id: &str) -> ModelSpec {
    let unlisted = ModelSpec {
        limit: Limit { context: 200_000, input: 0, output: 32_000 },
        id: id.to_owned(),
        ..ModelSpec::default()
    };
    ModelSpec { provider: provider.to_owned(), ..find(wire, id).unwrap_or(unlisted) }
}

/// The ids of the models listed for `wire`, newest first.
pub fn ids(wire: Wire) -> impl Iterator<Item = &'static str> {
    listed(wire).iter().map(|model| model.id)
}

/// Whether the Anthropic model `id` takes temperature, top-p and top-k. An unlisted Claude is newer
/// than this table, and newer ones do not; any other model is served by somebody else's server.
pub(crate) fn takes_sampling(id: &str) -> bool {
    named(ANTHROPIC, id).map_or(!id.starts_with("claude"), |model| model.sampling)
}

/// Finds by name, with or without a date (or `latest`) at its end: Anthropic's dates are digits,
/// OpenAI's have hyphens.
fn named(models: &'static [Model], id: &str) -> Option<&'static Model> {
    let is_version = |rest: &str| {
        let Some(date) = rest.strip_prefix('-') else { return false };
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        let hyphens = date.bytes().filter(|byte| *byte == b'-').count();
        date == "latest" || digits == 8 && matches!((hyphens, date.len()), (0, 8) | (2, 10))
    };
    models.iter().find(|model| {
        id.strip_prefix(model.id).is_some_and(|rest| rest.is_empty() || is_version(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dated_snapshots_are_found() {
        let spec = find(Wire::Anthropic, "claude-haiku-4-5-20251001").unwrap();
        assert_eq!(spec.limit, Limit { context: 200_000, input: 0, output: 64_000 });
        assert_eq!(spec.id, "claude-haiku-4-5-20251001");
        assert!((spec.cost.cache_write - 1.25).abs() < 1e-9);
        assert!(find(Wire::Anthropic, "claude-3-5-haiku-latest").is_some());
        let spec = find(Wire::OpenaiResponses, "gpt-5.1-2025-11-13").unwrap();
        assert_eq!(spec.limit, Limit { context: 400_000, input: 272_000, output: 128_000 });
    }

    #[test]
    fn no_model_is_taken_for_another() {
        let opus = |id: &str| find(Wire::Anthropic, id).unwrap().cost.input;
        assert!((opus("claude-opus-4-20250514") - 15.0).abs() < 1e-9);
        assert!((opus("claude-opus-4-6") - 5.0).abs() < 1e-9);
        assert_eq!(find(Wire::Anthropic, "claude-opus-4-99"), None);
        assert_eq!(find(Wire::OpenaiResponses, "gpt-5.1-codex-mini"), None);
        assert_eq!(find(Wire::OpenaiChat, "gpt-5.1"), None);
        assert_eq!(find(Wire::Anthropic, "claude-opus-4-é1234567"), None);
    }

    #[test]
    fn sampling_is_for_older_and_other_models() {
        for (id, takes) in [
            ("claude-sonnet-4-5", true),
            ("claude-opus-5-5", false),
            ("claude-next", false),
            ("qwen3", true),
        ] {
            assert_eq!(takes_sampling(id), takes, "{id}");
        }
    }

    #[test]
    fn unlisted_models_get_defaults() {
        let spec = describe(Wire::Anthropic, "mine", "m");
        assert_eq!((spec.provider.as_str(), spec.id.as_str()), ("mine", "m"));
        assert_eq!(spec.limit.context, 200_000);
    }
}
