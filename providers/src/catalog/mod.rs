//! What is known of models: limits, prices, and what they can do. Settings win over it.

mod tables;

use leftfold_events::kit::{Abilities, Limit, ModelSpec, Prices};

use crate::Wire;
use tables::{ALIBABA, ANTHROPIC, DEEPSEEK, GEMINI, GROQ, MISTRAL, MOONSHOT, OPENAI, XAI};

/// A model that is listed. All of them take tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Also of dated snapshots: `ID-20251001`, and of `ID-latest`.
    pub id: &'static str,
    pub family: &'static str,
    /// In tokens, as are the other limits.
    pub context: u64,
    /// Of the context; 0: all of it.
    pub input: u64,
    pub output: u64,
    pub prices: Prices,
    pub images: bool,
    pub thinking: Thinking,
    /// Whether requests may set temperature, top-p and top-k.
    pub samples: bool,
}

/// Whether a model reasons before it answers, and what says how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    Never,
    /// Nothing says how much.
    Always,
    /// A budget in tokens.
    Budget,
    /// One of these words.
    Efforts(&'static [&'static str]),
}

impl Model {
    /// As a session needs it, under the name by which it was asked for; `provider` is left empty.
    fn spec(&self, id: &str) -> ModelSpec {
        let limit = Limit { context: self.context, input: self.input, output: self.output };
        // whether it takes a temperature depends on more than its name: its wire sees to that
        let abilities = Abilities { media: self.images, ..Abilities::default() };
        ModelSpec { id: id.to_owned(), limit, cost: self.prices, abilities, ..ModelSpec::default() }
    }
}

/// The models that are listed for `wire` as `vendor` speaks it (see [`crate::vendor`]), newest
/// first. Chat Completions is spoken by too many for a list without a vendor.
pub fn models(wire: Wire, vendor: &str) -> &'static [Model] {
    let of_vendor: &[Model] = match vendor {
        "xai" => XAI,
        "deepseek" => DEEPSEEK,
        "mistral" => MISTRAL,
        "moonshot" => MOONSHOT,
        "groq" => GROQ,
        "alibaba" => ALIBABA,
        "openai" | "azure" => OPENAI,
        _ => &[],
    };
    match wire {
        Wire::Anthropic => ANTHROPIC,
        Wire::Gemini => GEMINI,
        // whoever else speaks it most likely passes OpenAI's models on
        Wire::OpenaiResponses if of_vendor.is_empty() => OPENAI,
        Wire::OpenaiResponses | Wire::OpenaiChat => of_vendor,
        Wire::Scripted => &[],
    }
}

/// The listed model that is called `id`.
pub fn model(wire: Wire, vendor: &str, id: &str) -> Option<&'static Model> {
    named(models(wire, vendor), id)
}

/// Limits, prices and abilities of the model `id`; `provider` is left empty. One that is not listed has the
/// default: no known limit but 8 192 tokens of output, and no known price.
pub fn describe(wire: Wire, vendor: &str, id: &str) -> ModelSpec {
    let unlisted = || ModelSpec { id: id.to_owned(), ..ModelSpec::default() };
    model(wire, vendor, id).map_or_else(unlisted, |model| model.spec(id))
}

/// Whether the Anthropic model `id` takes temperature, top-p and top-k. An unlisted Claude is newer
/// than this table, and newer ones do not; any other model is served by somebody else's server.
pub(crate) fn takes_sampling(id: &str) -> bool {
    named(ANTHROPIC, id).map_or(!id.starts_with("claude"), |model| model.samples)
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

    fn find(wire: Wire, id: &str) -> Option<ModelSpec> {
        model(wire, "generic", id).map(|model| model.spec(id))
    }

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
    fn on_a_shared_wire_the_vendor_says_whose_model_it_is() {
        let context = |wire, vendor, id| describe(wire, vendor, id).limit.context;
        for wire in [Wire::OpenaiChat, Wire::OpenaiResponses] {
            assert_eq!(context(wire, "xai", "grok-4.7"), 500_000);
            assert_eq!(context(wire, "openai", "gpt-6.2-sol"), 1_050_000);
        }
        assert_eq!(context(Wire::OpenaiChat, "mistral", "devstral-latest"), 262_144);
        assert_eq!(context(Wire::OpenaiChat, "groq", "openai/gpt-oss-120b"), 131_072);
        assert_eq!(context(Wire::OpenaiChat, "ollama", "grok-4.7"), 0);
        assert_eq!(context(Wire::Anthropic, "generic", "claude-opus-5-5"), 1_000_000);
    }

    #[test]
    fn what_is_listed_makes_sense() {
        let tables = [ANTHROPIC, OPENAI, GEMINI, XAI, DEEPSEEK, MISTRAL, MOONSHOT, GROQ, ALIBABA];
        for table in tables {
            for (at, model) in table.iter().enumerate() {
                let Prices { input, output, cache_read, cache_write } = model.prices;
                assert!(model.output > 0 && model.output < model.context, "{}", model.id);
                assert!(model.input < model.context, "{}", model.id);
                assert!(input > 0.0 && output >= input && cache_read <= input, "{}", model.id);
                assert!(cache_write == 0.0 || cache_write >= input, "{}", model.id);
                let others = table[..at].iter();
                assert!(others.clone().all(|other| other.id != model.id), "{} twice", model.id);
                assert!(!model.family.is_empty() && !model.id.contains(char::is_whitespace));
            }
        }
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
        let spec = describe(Wire::Anthropic, "generic", "m");
        assert_eq!((spec.id.as_str(), spec.limit), ("m", Limit::default()));
        assert_eq!((spec.limit.context, spec.limit.output), (0, 8_192));
    }
}
