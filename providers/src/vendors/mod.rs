//! The vendors and their models, as data: how each vendor is found, what settings need not say of
//! it, how it differs from others on the same wire format, and which models it is known to have.
//!
//! A vendor is one entry of [`VENDORS`]. Answers of all vendors are read alike, usage and reasoning
//! from wherever they stand, so only what an answer does not tell is listed here. Nothing here
//! builds a request or knows a wire format beyond its name.

mod models;
mod table;

use leftfold_events::providers::Builtin;
use leftfold_events::turn_config::{Abilities, Limit, ModelSpec, Prices};
use reqwest::Url;

use crate::ids::{Form, SHORT};
pub(crate) use models::{ANTHROPIC as CLAUDES, GEMINI as GEMINIS, OPENAI as GPTS};
pub(crate) use table::{ANTHROPIC, GENERIC, GOOGLE, OPENAI, VENDORS};

/// One vendor, or one server that people run themselves.
#[derive(Debug, PartialEq)]
pub(crate) struct Vendor {
    /// Names in the `vendor` setting, ours first.
    pub(crate) names: &'static [&'static str],
    /// Ends of the names of its hosts.
    pub(crate) hosts: &'static [&'static str],
    /// The name of the wire format that it was listed for.
    pub(crate) wire: &'static str,
    /// How it is used without settings, if it can be.
    pub(crate) builtin: Option<Builtin>,
    /// Newest first.
    pub(crate) models: &'static [Model],
    /// Where it is without `baseURL`; `None`: only its user knows.
    pub(crate) base: Option<&'static str>,
    /// Whether it is reached at `base` only with a key.
    pub(crate) needs_key: bool,
    /// The header of the key, where that is not `authorization: Bearer`.
    pub(crate) key_header: Option<&'static str>,
    /// Whether it takes `stream_options`.
    pub(crate) stream_options: bool,
    pub(crate) limit: LimitName,
    pub(crate) ids: Form,
    /// Whether an assistant message must stand between tool results and a user message.
    pub(crate) closes_loops: bool,
    /// Whether user and assistant must alternate, as some chat templates demand.
    pub(crate) alternates: bool,
    /// Whether assistant messages with calls must carry their `reasoning_content`.
    pub(crate) echoes: bool,
    pub(crate) images: bool,
    /// Whether user messages take PDF files.
    pub(crate) files: bool,
    pub(crate) marks: Marks,
    /// Whether the effort of reasoning is `reasoning.effort` rather than `reasoning_effort`.
    pub(crate) nests_effort: bool,
    /// How the names of models begin that refuse to be told how to sample, if any do.
    pub(crate) fixed: Option<&'static str>,
    /// Whether `completion_tokens` leaves out reasoning, where the total does not tell.
    pub(crate) reasoning_apart: bool,
    /// Whether every stream ends in `[DONE]`, so that one without it was cut off. Otherwise a
    /// stream may also just end once it has given its reason to finish.
    pub(crate) ends_in_done: bool,
    /// Whether requests that begin alike are kept together by a key.
    pub(crate) cache_key: bool,
    /// Whether 404 is at times said of models that are there.
    pub(crate) missing_may_pass: bool,
}

/// The body's name for the limit on output tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LimitName {
    MaxTokens,
    MaxCompletionTokens,
    /// The new one for OpenAI's reasoning models, which refuse the old one; else the old one.
    ByModel,
}

/// Whether messages are marked for caching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Marks {
    Never,
    /// For Anthropic's models only.
    Claude,
    Always,
}

/// The providers that need no settings, in the order in which people see them.
pub(crate) fn builtin() -> impl Iterator<Item = &'static Builtin> {
    VENDORS.iter().filter_map(|vendor| vendor.builtin.as_ref())
}

/// The environment variable in which the key of a built-in provider is expected.
pub(crate) fn key_variable(provider: &str) -> Option<&'static str> {
    builtin().find(|builtin| builtin.name == provider)?.keys.first().copied()
}

/// The vendor that settings name, or else the one whose address it is, or else the one after whom
/// the provider is called; without any address, OpenAI. Only vendors who imitate OpenAI are looked
/// at.
pub(crate) fn imitator(
    provider: &str,
    vendor: Option<&str>,
    base_url: Option<&str>,
) -> &'static Vendor {
    if let Some(name) = vendor {
        return imitators().find(|vendor| vendor.is_called(name)).unwrap_or_else(|| {
            let known: Vec<&str> = imitators().map(|vendor| vendor.names[0]).collect();
            tracing::warn!(vendor = name, ?known, "a vendor without known quirks");
            &GENERIC
        });
    }
    let named = imitators().find(|vendor| vendor.is_called(provider));
    let Some(base) = base_url else { return named.unwrap_or(&OPENAI) };
    let url = Url::parse(base.trim()).ok();
    let hosted = |host| imitators().find(|vendor| vendor.is_at(host));
    if let Some(found) = url.as_ref().and_then(Url::host_str).and_then(hosted) {
        return found;
    }
    // the name of the one whom everybody imitates says nothing about another address
    named.filter(|vendor| **vendor != OPENAI).unwrap_or(&GENERIC)
}

fn imitators() -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().filter(|vendor| vendor.wire.starts_with("openai"))
}

/// The vendor with this name.
pub(crate) fn named(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.is_called(name))
}

impl Vendor {
    fn is_called(&self, name: &str) -> bool {
        let name = name.trim().to_lowercase();
        self.names.contains(&name.as_str())
    }

    fn is_at(&self, host: &str) -> bool {
        self.hosts.iter().any(|end| {
            host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    /// Whether it is OpenAI itself, at its own address or at Azure.
    pub(crate) fn is_openai(&self) -> bool {
        matches!(self.names[0], "openai" | "azure")
    }

    /// The name of the limit on output tokens for `model`.
    pub(crate) fn limit_name(&self, model: &str) -> &'static str {
        match self.limit {
            LimitName::MaxTokens => "max_tokens",
            LimitName::MaxCompletionTokens => "max_completion_tokens",
            LimitName::ByModel if is_openai_reasoner(model) => "max_completion_tokens",
            LimitName::ByModel => "max_tokens",
        }
    }

    /// The form of ids of calls for `model`.
    pub(crate) fn ids(&self, model: &str) -> Form {
        if self.ids == Form::Short && is_claude(model) { Form::Plain(SHORT) } else { self.ids }
    }

    /// Whether `model` can be told how to sample; if not, a request that does is refused.
    pub(crate) fn samples(&self, model: &str) -> bool {
        let is_fixed = self.fixed.is_some_and(|start| model.to_lowercase().starts_with(start));
        !is_fixed && !is_openai_reasoner(model)
    }

    pub(crate) fn marks(&self, model: &str) -> bool {
        match self.marks {
            Marks::Never => false,
            Marks::Claude => is_claude(model),
            Marks::Always => true,
        }
    }
}

/// Anthropic's models, whoever resells them, keep Anthropic's rules for ids and tools.
pub(crate) fn is_claude(model: &str) -> bool {
    let model = model.to_lowercase();
    model.contains("claude") || model.starts_with("anthropic/")
}

/// OpenAI's models that reason: o1 and its kin, and all GPT from 5 on.
pub(crate) fn is_openai_reasoner(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default().to_lowercase();
    let number = |rest: &str| -> u32 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().unwrap_or_default()
    };
    match (name.strip_prefix("gpt-"), name.strip_prefix('o')) {
        (Some(rest), _) => number(rest) >= 5,
        (None, Some(rest)) => number(rest) >= 1,
        (None, None) => false,
    }
}

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
    pub(crate) fn spec(&self, id: &str) -> ModelSpec {
        let limit = Limit { context: self.context, input: self.input, output: self.output };
        // whether it takes a temperature depends on more than its name: its wire sees to that
        let abilities = Abilities { media: self.images, ..Abilities::default() };
        ModelSpec { id: id.to_owned(), limit, cost: self.prices, abilities, ..ModelSpec::default() }
    }
}

/// Whether the Anthropic model `id` takes temperature, top-p and top-k. An unlisted Claude is newer
/// than this table, and newer ones do not; any other model is served by somebody else's server.
pub(crate) fn takes_sampling(id: &str) -> bool {
    listed(CLAUDES, id).map_or(!id.starts_with("claude"), |model| model.samples)
}

/// Finds by name, with or without a date (or `latest`) at its end: Anthropic's dates are digits,
/// OpenAI's have hyphens.
pub(crate) fn listed(models: &'static [Model], id: &str) -> Option<&'static Model> {
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
    fn whose_quirks_are_expected() {
        let local = Some("http://127.0.0.1:9/v1");
        for (name, vendor, base, expected) in [
            ("openai", None, None, "openai"),
            ("mine", None, None, "openai"),
            ("mine", None, local, "generic"),
            ("openai", None, local, "generic"),
            ("openai", Some("openai"), local, "openai"),
            ("groq", None, None, "groq"),
            ("mistral", None, local, "mistral"),
            ("mine", Some("DeepSeek"), local, "deepseek"),
            ("mine", Some("moonshotai"), local, "moonshot"),
            ("mine", Some("unheard-of"), local, "generic"),
            ("deepseek", Some("xai"), local, "xai"),
            ("mine", None, Some("https://api.x.ai/v1"), "xai"),
            ("mine", None, Some("https://my.openai.azure.com/openai/v1"), "azure"),
            ("mine", None, Some("https://fakeapi.x.ai.example.com/v1"), "generic"),
            ("mine", None, Some("https://notapi.x.ai/v1"), "generic"),
            ("mine", None, Some("nonsense"), "generic"),
        ] {
            let found = imitator(name, vendor, base);
            assert_eq!(found.names[0], expected, "{name} {vendor:?} {base:?}");
        }
    }

    #[test]
    fn names_and_hosts_are_nobody_elses() {
        let mut seen = std::collections::HashSet::new();
        for name in VENDORS.iter().flat_map(|vendor| vendor.names.iter().chain(vendor.hosts)) {
            assert!(seen.insert(name), "{name} stands there twice");
        }
    }

    #[test]
    fn models_that_take_the_new_limit_only() {
        for (model, expected) in [
            ("o1", "max_completion_tokens"),
            ("o3-mini", "max_completion_tokens"),
            ("openai/o4-mini", "max_completion_tokens"),
            ("gpt-5-nano", "max_completion_tokens"),
            ("gpt-5.1", "max_completion_tokens"),
            ("gpt-10", "max_completion_tokens"),
            ("gpt-4o", "max_tokens"),
            ("gpt-oss-120b", "max_tokens"),
            ("olmo-2", "max_tokens"),
            ("orca", "max_tokens"),
            ("qwen3", "max_tokens"),
            ("", "max_tokens"),
        ] {
            assert_eq!(GENERIC.limit_name(model), expected, "{model}");
        }
        assert_eq!(OPENAI.limit_name("gpt-4o"), "max_completion_tokens");
    }

    #[test]
    fn models_that_are_not_told_how_to_sample() {
        let moonshot = named("moonshot").unwrap();
        for (vendor, model, samples) in [
            (moonshot, "kimi-k3", false),
            (moonshot, "moonshot-v1-128k", true),
            (&GENERIC, "kimi-k3", true),
            (&GENERIC, "gpt-5.1", false),
            (&OPENAI, "gpt-4.1", true),
        ] {
            assert_eq!(vendor.samples(model), samples, "{model}");
        }
    }

    #[test]
    fn what_is_listed_makes_sense() {
        for Vendor { models: table, .. } in VENDORS {
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
}
