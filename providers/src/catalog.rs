//! The known models of each wire format: limits, prices and capabilities.
//! `bin/runtime/src/parts/model.rs` lays settings and lists of models over them.

use leftfold_events::turn_config::{Abilities, ModelSpec};

use crate::config::Wire;
use crate::vendors::{self, GENERIC, claude_of_bedrock};
pub use crate::vendors::{Model, Thinking};

/// The listed models for `wire` at `vendor` (see [`crate::vendor`]), newest first. Chat Completions
/// without a vendor has no models, because many vendors use it.
pub fn models(wire: Wire, vendor: &str) -> &'static [Model] {
    wire.protocol().models(vendors::named(vendor).unwrap_or(&GENERIC))
}

/// The listed model with this id.
pub fn model(wire: Wire, vendor: &str, id: &str) -> Option<&'static Model> {
    wire.protocol().model(vendors::named(vendor).unwrap_or(&GENERIC), id)
}

/// Limits, prices and capabilities of the model `id`; `provider` is left empty. A model that is not
/// listed gets the default: no known context limit, 8 192 tokens of output, no known price. On Anthropic's wire, and if it
/// is a Claude on Bedrock, it gets no sampling options: the vendor's API has none any more, and newer models refuse them.
pub fn describe(wire: Wire, vendor: &str, id: &str) -> ModelSpec {
    let lacks_sampling =
        wire == Wire::ANTHROPIC || wire == Wire::BEDROCK && claude_of_bedrock(id).is_some();
    let abilities = Abilities { sampling: !lacks_sampling, ..Abilities::default() };
    let unlisted = || ModelSpec { id: id.to_owned(), abilities, ..ModelSpec::default() };
    model(wire, vendor, id).map_or_else(unlisted, |model| model.spec(id))
}

#[cfg(test)]
mod tests {
    use leftfold_events::turn_config::Limit;

    use super::*;

    fn find(wire: Wire, id: &str) -> Option<ModelSpec> {
        model(wire, "generic", id).map(|model| model.spec(id))
    }

    #[test]
    fn dated_snapshots_are_found() {
        let spec = find(Wire::ANTHROPIC, "claude-haiku-4-5-20251001").unwrap();
        assert_eq!(spec.limit, Limit { context: 200_000, input: 0, output: 64_000 });
        assert_eq!(spec.id, "claude-haiku-4-5-20251001");
        assert!((spec.cost.cache_write - 1.25).abs() < 1e-9);
        assert!(find(Wire::ANTHROPIC, "claude-3-5-haiku-latest").is_some());
        let spec = find(Wire::OPENAI_RESPONSES, "gpt-5.1-2025-11-13").unwrap();
        assert_eq!(spec.limit, Limit { context: 400_000, input: 272_000, output: 128_000 });
    }

    #[test]
    fn an_unlisted_model_of_anthropic_gets_no_sampling_options() {
        for (wire, id, samples) in [
            (Wire::ANTHROPIC, "claude-next", false),
            (Wire::ANTHROPIC, "k3", false),
            (Wire::ANTHROPIC, "claude-sonnet-4-5", true),
            (Wire::BEDROCK, "us.anthropic.claude-next-v1:0", false),
            (Wire::BEDROCK, "amazon.nova-next-v1:0", true),
            (Wire::OPENAI_CHAT, "k3", true),
            (Wire::GEMINI, "gemini-9", true),
        ] {
            assert_eq!(describe(wire, "generic", id).abilities.sampling, samples, "{wire} {id}");
        }
    }

    #[test]
    fn no_model_is_taken_for_another() {
        let opus = |id: &str| find(Wire::ANTHROPIC, id).unwrap().cost.input;
        assert!((opus("claude-opus-4-20250514") - 15.0).abs() < 1e-9);
        assert!((opus("claude-opus-4-6") - 5.0).abs() < 1e-9);
        assert_eq!(find(Wire::ANTHROPIC, "claude-opus-4-99"), None);
        assert_eq!(find(Wire::OPENAI_RESPONSES, "gpt-5.1-codex-mini"), None);
        assert_eq!(find(Wire::OPENAI_CHAT, "gpt-5.1"), None);
        assert_eq!(find(Wire::ANTHROPIC, "claude-opus-4-é1234567"), None);
    }

    #[test]
    fn on_a_shared_wire_the_vendor_says_whose_model_it_is() {
        let context = |wire, vendor, id| describe(wire, vendor, id).limit.context;
        for wire in [Wire::OPENAI_CHAT, Wire::OPENAI_RESPONSES] {
            assert_eq!(context(wire, "xai", "grok-4.7"), 500_000);
            assert_eq!(context(wire, "openai", "gpt-6.2-sol"), 1_050_000);
        }
        assert_eq!(context(Wire::OPENAI_CHAT, "mistral", "devstral-latest"), 262_144);
        assert_eq!(context(Wire::OPENAI_CHAT, "groq", "openai/gpt-oss-120b"), 131_072);
        assert_eq!(context(Wire::OPENAI_CHAT, "ollama", "grok-4.7"), 0);
        assert_eq!(context(Wire::ANTHROPIC, "generic", "claude-opus-5-5"), 1_000_000);
    }

    #[test]
    fn unlisted_models_get_defaults() {
        let spec = describe(Wire::ANTHROPIC, "generic", "m");
        assert_eq!((spec.id.as_str(), spec.limit), ("m", Limit::default()));
        assert_eq!((spec.limit.context, spec.limit.output), (0, 8_192));
    }
}
