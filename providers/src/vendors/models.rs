//! The models, newest first. Limits are in tokens, prices in US dollars per million tokens.
//!
//! They follow the vendors' public lists of models and prices as of November 2026. Prices of cache
//! writes are those for the shortest lifetime. If a price depends on the length of the prompt or
//! the time of day, it is the price for short prompts off the peak.

use std::sync::LazyLock;

use leftfold_events::turn_config::Prices;

use super::{Model, Thinking, listed};
use crate::regions::own_id;
use Thinking::{Always, Budget, Efforts, Never};

/// Prices with explicit caching: a cache write costs a quarter more than input.
const fn prices(input: f64, output: f64, cache_read: f64) -> Prices {
    Prices { input, output, cache_read, cache_write: input * 1.25 }
}

/// Prices with automatic caching: a cache write costs nothing.
const fn automatic_caching(input: f64, output: f64, cache_read: f64) -> Prices {
    Prices { input, output, cache_read, cache_write: 0.0 }
}

const fn claude(id: &'static str, limits: (u64, u64), prices: Prices, thinking: Thinking) -> Model {
    let (context, output) = limits;
    let family = "claude";
    Model { id, family, context, input: 0, output, prices, images: true, thinking, samples: false }
}

/// A model of OpenAI, whose context is shared by input and output.
const fn gpt(id: &'static str, context: u64, prices: Prices, efforts: Thinking) -> Model {
    let (family, thinking) = ("gpt", efforts);
    let (input, output) = (context - 128_000, 128_000);
    Model { id, family, context, input, output, prices, images: true, thinking, samples: false }
}

/// A model of a ChatGPT subscription, whose context is smaller than that of OpenAI's API.
const fn covered(id: &'static str, efforts: Thinking) -> Model {
    gpt(id, 400_000, automatic_caching(0.0, 0.0, 0.0), efforts)
}

/// A model of Google, whose context is the input alone.
const fn gemini(id: &'static str, prices: Prices, thinking: Thinking) -> Model {
    let (context, output, family) = (1_048_576, 65_536, "gemini");
    Model { id, family, context, input: 0, output, prices, images: true, thinking, samples: true }
}

/// A text model of another vendor.
const fn text_model(
    id: &'static str,
    family: &'static str,
    limits: (u64, u64),
    prices: Prices,
    thinking: Thinking,
) -> Model {
    let (context, output) = limits;
    Model { id, family, context, input: 0, output, prices, images: false, thinking, samples: true }
}

impl Model {
    const fn with_sampling(self) -> Self {
        Self { samples: true, ..self }
    }

    const fn with_images(self) -> Self {
        Self { images: true, ..self }
    }

    /// Marks a model that refuses a temperature.
    const fn without_sampling(self) -> Self {
        Self { samples: false, ..self }
    }
}

const NEW: (u64, u64) = (1_000_000, 128_000);
const LARGE: (u64, u64) = (200_000, 64_000);

const TO_HIGH: Thinking = Efforts(&["low", "medium", "high"]);
const TO_XHIGH: Thinking = Efforts(&["low", "medium", "high", "xhigh"]);
const TO_MAX: Thinking = Efforts(&["low", "medium", "high", "xhigh", "max"]);
const SANS_XHIGH: Thinking = Efforts(&["low", "medium", "high", "max"]);
const NONE_TO_HIGH: Thinking = Efforts(&["none", "low", "medium", "high"]);
const NONE_TO_XHIGH: Thinking = Efforts(&["none", "low", "medium", "high", "xhigh"]);
const NONE_TO_MAX: Thinking = Efforts(&["none", "low", "medium", "high", "xhigh", "max"]);
const MINIMAL_TO_HIGH: Thinking = Efforts(&["minimal", "low", "medium", "high"]);
const NONE_OR_HIGH: Thinking = Efforts(&["none", "high"]);
const LOW_HIGH_OR_MAX: Thinking = Efforts(&["low", "high", "max"]);
const HIGH_OR_MAX: Thinking = Efforts(&["high", "max"]);

pub(crate) const ANTHROPIC: &[Model] = &[
    claude("claude-fable-5-1", NEW, prices(10.0, 50.0, 0.25), TO_MAX),
    claude("claude-fable-5", NEW, prices(10.0, 50.0, 1.0), TO_MAX),
    claude("claude-opus-5-5", NEW, prices(4.0, 20.0, 0.2), TO_MAX),
    claude("claude-opus-5", NEW, prices(5.0, 25.0, 0.5), TO_MAX),
    claude("claude-opus-4-8", NEW, prices(5.0, 25.0, 0.5), TO_MAX),
    claude("claude-opus-4-7", NEW, prices(5.0, 25.0, 0.5), TO_MAX),
    claude("claude-opus-4-6", NEW, prices(5.0, 25.0, 0.5), SANS_XHIGH).with_sampling(),
    claude("claude-opus-4-5", LARGE, prices(5.0, 25.0, 0.5), Budget).with_sampling(),
    claude("claude-opus-4-1", (200_000, 32_000), prices(15.0, 75.0, 1.5), Budget).with_sampling(),
    claude("claude-opus-4", (200_000, 32_000), prices(15.0, 75.0, 1.5), Budget).with_sampling(),
    claude("claude-sonnet-5-5", NEW, prices(2.0, 10.0, 0.1), TO_MAX),
    claude("claude-sonnet-5", NEW, prices(2.0, 10.0, 0.2), TO_MAX),
    claude("claude-sonnet-4-6", (1_000_000, 64_000), prices(3.0, 15.0, 0.3), SANS_XHIGH)
        .with_sampling(),
    claude("claude-sonnet-4-5", LARGE, prices(3.0, 15.0, 0.3), Budget).with_sampling(),
    claude("claude-sonnet-4", LARGE, prices(3.0, 15.0, 0.3), Budget).with_sampling(),
    claude("claude-3-7-sonnet", LARGE, prices(3.0, 15.0, 0.3), Budget).with_sampling(),
    claude("claude-haiku-5-5", NEW, prices(0.1, 0.5, 0.01), TO_MAX),
    claude("claude-haiku-4-5", LARGE, prices(1.0, 5.0, 0.1), Budget).with_sampling(),
    claude("claude-3-5-haiku", (200_000, 8_192), prices(0.8, 4.0, 0.08), Never).with_sampling(),
];

pub(crate) const OPENAI: &[Model] = &[
    gpt("gpt-6.2-astra", 1_050_000, prices(8.0, 40.0, 0.4), TO_MAX),
    gpt("gpt-6.2-sol", 1_050_000, prices(2.0, 10.0, 0.1), TO_MAX),
    gpt("gpt-6.1-sol", 1_050_000, prices(2.0, 10.0, 0.1), TO_MAX),
    gpt("gpt-6.1-terra", 1_050_000, prices(1.0, 5.0, 0.05), NONE_TO_MAX),
    gpt("gpt-6-astra", 1_050_000, prices(10.0, 50.0, 1.0), TO_MAX),
    gpt("gpt-6-sol", 1_050_000, prices(2.0, 10.0, 0.2), NONE_TO_MAX),
    gpt("gpt-6-luna", 1_050_000, prices(0.1, 0.5, 0.01), NONE_TO_MAX),
    gpt("gpt-5.6-sol", 1_050_000, prices(4.0, 20.0, 0.4), NONE_TO_MAX),
    gpt("gpt-5.6-terra", 1_050_000, prices(2.0, 12.0, 0.2), NONE_TO_MAX),
    gpt("gpt-5.6-luna", 1_050_000, prices(0.2, 1.2, 0.02), NONE_TO_MAX),
    gpt("gpt-5.6", 1_050_000, prices(4.0, 20.0, 0.4), NONE_TO_MAX),
    gpt("gpt-5.5", 1_050_000, automatic_caching(5.0, 30.0, 0.5), NONE_TO_XHIGH),
    gpt("gpt-5.4", 1_050_000, automatic_caching(2.5, 15.0, 0.25), NONE_TO_XHIGH),
    gpt("gpt-5.4-mini", 400_000, automatic_caching(0.75, 4.5, 0.075), NONE_TO_XHIGH),
    gpt("gpt-5.4-nano", 400_000, automatic_caching(0.2, 1.25, 0.02), NONE_TO_XHIGH),
    gpt("gpt-5.3-codex", 400_000, automatic_caching(1.75, 14.0, 0.175), TO_XHIGH),
    gpt("gpt-5.2", 400_000, automatic_caching(1.75, 14.0, 0.175), NONE_TO_XHIGH),
    gpt("gpt-5.1", 400_000, automatic_caching(1.25, 10.0, 0.125), NONE_TO_HIGH),
    gpt("gpt-5", 400_000, automatic_caching(1.25, 10.0, 0.125), MINIMAL_TO_HIGH),
    gpt("gpt-5-mini", 400_000, automatic_caching(0.25, 2.0, 0.025), MINIMAL_TO_HIGH),
    gpt("gpt-5-nano", 400_000, automatic_caching(0.05, 0.4, 0.005), MINIMAL_TO_HIGH),
    text_model("gpt-4.1", "gpt", (1_047_576, 32_768), automatic_caching(2.0, 8.0, 0.5), Never)
        .with_images(),
    text_model("gpt-4.1-mini", "gpt", (1_047_576, 32_768), automatic_caching(0.4, 1.6, 0.1), Never)
        .with_images(),
    text_model("o3", "o", (200_000, 100_000), automatic_caching(2.0, 8.0, 0.5), TO_HIGH)
        .with_images()
        .without_sampling(),
    text_model("o4-mini", "o", (200_000, 100_000), automatic_caching(1.1, 4.4, 0.275), TO_HIGH)
        .with_images()
        .without_sampling(),
];

pub(crate) const GEMINI: &[Model] = &[
    gemini("gemini-3.8-flash", automatic_caching(0.75, 3.75, 0.075), TO_HIGH),
    gemini("gemini-3.7-flash", automatic_caching(0.75, 3.75, 0.075), TO_HIGH),
    gemini("gemini-3.6-flash", automatic_caching(1.5, 7.5, 0.15), TO_HIGH),
    gemini("gemini-3.5-flash-lite", automatic_caching(0.3, 2.5, 0.03), TO_HIGH),
    gemini("gemini-3.5-flash", automatic_caching(1.5, 9.0, 0.15), TO_HIGH),
    gemini("gemini-3.1-pro-preview", automatic_caching(2.0, 12.0, 0.2), TO_HIGH),
    gemini("gemini-3.1-flash-lite", automatic_caching(0.25, 1.5, 0.025), TO_HIGH),
    gemini("gemini-3-flash-preview", automatic_caching(0.5, 3.0, 0.05), TO_HIGH),
    gemini("gemini-2.5-pro", automatic_caching(1.25, 10.0, 0.125), TO_HIGH),
    gemini("gemini-2.5-flash-lite", automatic_caching(0.1, 0.4, 0.01), TO_HIGH),
    gemini("gemini-2.5-flash", automatic_caching(0.3, 2.5, 0.03), TO_HIGH),
];

/// The models of a ChatGPT subscription, which covers their cost.
pub(crate) const CHATGPT: &[Model] = &[
    covered("gpt-6.2-astra", TO_MAX),
    covered("gpt-6.2-sol", TO_MAX),
    covered("gpt-6.1-sol", TO_MAX),
    covered("gpt-6.1-terra", NONE_TO_MAX),
    covered("gpt-6-astra", TO_MAX),
    covered("gpt-6-sol", NONE_TO_MAX),
    covered("gpt-6-luna", NONE_TO_MAX),
    covered("gpt-5.6-sol", NONE_TO_MAX),
    covered("gpt-5.6-terra", NONE_TO_MAX),
    covered("gpt-5.6-luna", NONE_TO_MAX),
    covered("gpt-5.5", NONE_TO_XHIGH),
    covered("gpt-5.4", NONE_TO_XHIGH),
    covered("gpt-5.4-mini", NONE_TO_XHIGH),
];

/// xAI sets no limit on output.
pub(crate) const XAI: &[Model] = &[
    text_model("grok-4.7", "grok", (500_000, 128_000), automatic_caching(2.0, 6.0, 0.5), TO_XHIGH)
        .with_images(),
    text_model("grok-4.6", "grok", (500_000, 128_000), automatic_caching(2.0, 6.0, 0.5), TO_HIGH)
        .with_images(),
    text_model("grok-4.5", "grok", (500_000, 128_000), automatic_caching(2.0, 6.0, 0.5), TO_HIGH)
        .with_images(),
    text_model("grok-4.3", "grok", (1_000_000, 128_000), automatic_caching(1.25, 2.5, 0.2), Always)
        .with_images(),
    text_model(
        "grok-build-0.1",
        "grok",
        (256_000, 64_000),
        automatic_caching(1.0, 2.0, 0.2),
        Always,
    ),
];

pub(crate) const DEEPSEEK: &[Model] = &[
    text_model(
        "deepseek-flash",
        "deepseek",
        (1_000_000, 384_000),
        automatic_caching(0.15, 0.6, 0.003),
        HIGH_OR_MAX,
    ),
    text_model(
        "deepseek-v4-pro",
        "deepseek",
        (1_000_000, 384_000),
        automatic_caching(0.66, 1.98, 0.022),
        HIGH_OR_MAX,
    ),
];

pub(crate) const MISTRAL: &[Model] = &[
    text_model(
        "mistral-medium-3.5",
        "mistral",
        (262_144, 131_072),
        automatic_caching(1.5, 7.5, 0.15),
        NONE_OR_HIGH,
    )
    .with_images(),
    text_model(
        "mistral-large-latest",
        "mistral",
        (262_144, 131_072),
        automatic_caching(0.5, 1.5, 0.5),
        Never,
    )
    .with_images(),
    text_model(
        "devstral-latest",
        "mistral",
        (262_144, 131_072),
        automatic_caching(0.4, 2.0, 0.4),
        Never,
    ),
    text_model(
        "codestral-latest",
        "mistral",
        (256_000, 32_768),
        automatic_caching(0.3, 0.9, 0.3),
        Never,
    ),
];

pub(crate) const MOONSHOT: &[Model] = &[
    text_model(
        "kimi-k3",
        "kimi",
        (1_048_576, 131_072),
        automatic_caching(3.0, 15.0, 0.3),
        LOW_HIGH_OR_MAX,
    )
    .with_images()
    .without_sampling(),
    text_model(
        "kimi-k2.7-code",
        "kimi",
        (262_144, 65_536),
        automatic_caching(0.95, 4.0, 0.19),
        Always,
    )
    .with_images()
    .without_sampling(),
    text_model("kimi-k2.6", "kimi", (262_144, 65_536), automatic_caching(0.95, 4.0, 0.16), Always)
        .with_images()
        .without_sampling(),
];

pub(crate) const GROQ: &[Model] = &[
    text_model(
        "openai/gpt-oss-120b",
        "gpt-oss",
        (131_072, 65_536),
        automatic_caching(0.15, 0.6, 0.075),
        TO_HIGH,
    ),
    text_model(
        "openai/gpt-oss-20b",
        "gpt-oss",
        (131_072, 65_536),
        automatic_caching(0.075, 0.3, 0.0375),
        TO_HIGH,
    ),
];

pub(crate) const ALIBABA: &[Model] = &[
    text_model("qwen3.7-max", "qwen", (991_000, 65_536), prices(2.5, 7.5, 0.25), Always),
    text_model("qwen3-max", "qwen", (262_144, 65_536), prices(1.2, 6.0, 0.24), Never),
];

/// Anthropic's models at Bedrock: the id there, and the id in Anthropic's own list. Prices are those of global
/// profiles; profiles of a group of regions cost a tenth more for newer models.
const BEDROCK_CLAUDES: &[(&str, &str)] = &[
    ("anthropic.claude-fable-5-1", "claude-fable-5-1"),
    ("anthropic.claude-fable-5", "claude-fable-5"),
    ("anthropic.claude-opus-5-5", "claude-opus-5-5"),
    ("anthropic.claude-opus-5", "claude-opus-5"),
    ("anthropic.claude-opus-4-8", "claude-opus-4-8"),
    ("anthropic.claude-opus-4-7", "claude-opus-4-7"),
    ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
    ("anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
    ("anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
    ("anthropic.claude-sonnet-5-5", "claude-sonnet-5-5"),
    ("anthropic.claude-sonnet-5", "claude-sonnet-5"),
    ("anthropic.claude-sonnet-4-6", "claude-sonnet-4-6"),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
    ("anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
    ("anthropic.claude-haiku-5-5", "claude-haiku-5-5"),
    ("anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
];

/// The versions that Google Vertex AI wants in the ids of Anthropic's older models. Newer ones have none.
const VERTEX_CLAUDES: &[(&str, &str)] = &[
    ("claude-opus-4-5@20251101", "claude-opus-4-5"),
    ("claude-opus-4-1@20250805", "claude-opus-4-1"),
    ("claude-opus-4@20250514", "claude-opus-4"),
    ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
    ("claude-sonnet-4@20250514", "claude-sonnet-4"),
    ("claude-3-7-sonnet@20250219", "claude-3-7-sonnet"),
    ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
    ("claude-3-5-haiku@20241022", "claude-3-5-haiku"),
];

/// Anthropic's models at Google Vertex AI, newest first.
pub(crate) fn vertex_claudes() -> &'static [Model] {
    static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
        let versioned = |model: &Model| {
            let found = VERTEX_CLAUDES.iter().find(|(_, name)| *name == model.id);
            Model { id: found.map_or(model.id, |(id, _)| id), ..model.clone() }
        };
        ANTHROPIC.iter().map(versioned).collect()
    });
    &MODELS
}

/// Other models at Bedrock.
const BEDROCK_OTHERS: &[Model] = &[
    nova("amazon.nova-2-lite-v1:0", (1_000_000, 64_000), (0.3, 2.5, 0.075), TO_HIGH).with_images(),
    nova("amazon.nova-premier-v1:0", (1_000_000, 10_000), (2.5, 12.5, 0.625), Never).with_images(),
    nova("amazon.nova-pro-v1:0", (300_000, 10_000), (0.8, 3.2, 0.2), Never).with_images(),
    nova("amazon.nova-lite-v1:0", (300_000, 10_000), (0.06, 0.24, 0.015), Never).with_images(),
    nova("amazon.nova-micro-v1:0", (128_000, 10_000), (0.035, 0.14, 0.00875), Never),
    text_model(
        "openai.gpt-oss-120b-1:0",
        "gpt-oss",
        (131_072, 32_768),
        automatic_caching(0.15, 0.6, 0.15),
        TO_HIGH,
    ),
    text_model(
        "openai.gpt-oss-20b-1:0",
        "gpt-oss",
        (131_072, 32_768),
        automatic_caching(0.07, 0.3, 0.07),
        TO_HIGH,
    ),
];

const fn nova(
    id: &'static str,
    limits: (u64, u64),
    (input, output, cache_read): (f64, f64, f64),
    thinking: Thinking,
) -> Model {
    text_model(id, "nova", limits, automatic_caching(input, output, cache_read), thinking)
}

/// The models at Bedrock, by vendor, newest first.
pub(crate) fn bedrock() -> &'static [Model] {
    static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
        let claude = |(id, name): &(&'static str, &str)| {
            Some(Model { id, ..listed(ANTHROPIC, name)?.clone() })
        };
        let claudes = BEDROCK_CLAUDES.iter().filter_map(claude);
        claudes.chain(BEDROCK_OTHERS.iter().cloned()).collect()
    });
    &MODELS
}

/// The listed model with this id at Bedrock, which may begin with the prefix of a group of regions or be the ARN of
/// such a profile.
pub(crate) fn bedrock_model(id: &str) -> Option<&'static Model> {
    let own = own_id(id);
    let found = bedrock().iter().find(|model| model.id == own);
    found.or_else(|| listed(ANTHROPIC, claude_of_bedrock(own)?))
}

/// Anthropic's own id of one of its models at Bedrock: without the vendor, and without the version.
pub(crate) fn claude_of_bedrock(id: &str) -> Option<&str> {
    let name = own_id(id).strip_prefix("anthropic.")?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let (stem, version) = name.rsplit_once("-v").unwrap_or((name, ""));
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    Some(if is_version { stem } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_at_bedrock_are_found_by_all_their_ids() {
        for (id, expected) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", Some(200_000)),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some(200_000)),
            ("global.anthropic.claude-opus-4-6-v1", Some(1_000_000)),
            (
                "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-pro-v1:0",
                Some(300_000),
            ),
            // not listed under this date, but known to its vendor
            ("anthropic.claude-opus-4-5-20251231-v2:0", Some(200_000)),
            ("anthropic.claude-3-7-sonnet-20250219-v1:0", Some(200_000)),
            ("anthropic.claude-opus-9", None),
            ("meta.llama3-3-70b-instruct-v1:0", None),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/a1b2", None),
        ] {
            assert_eq!(bedrock_model(id).map(|model| model.context), expected, "{id}");
        }
    }

    #[test]
    fn every_claude_at_vertex_is_found_with_and_without_its_version() {
        let known = |id: &str| listed(ANTHROPIC, id).map(|model| model.id);
        assert_eq!(vertex_claudes().len(), ANTHROPIC.len());
        for (id, name) in VERTEX_CLAUDES {
            assert!(vertex_claudes().iter().any(|model| model.id == *id), "{id}");
            assert_eq!((known(id), known(name)), (Some(*name), Some(*name)));
        }
    }

    #[test]
    fn every_claude_at_bedrock_has_its_figures() {
        assert_eq!(bedrock().len(), BEDROCK_CLAUDES.len() + BEDROCK_OTHERS.len());
        for (id, name) in BEDROCK_CLAUDES {
            let found = claude_of_bedrock(id).and_then(|own| listed(ANTHROPIC, own));
            assert_eq!(found.map(|model| model.id), Some(*name), "{id}");
        }
    }
}
