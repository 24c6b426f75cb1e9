//! Who speaks this wire, and how each of them differs from OpenAI, as data.
//!
//! What an answer says is read the same from everybody (see `wire.rs` and `usage.rs`): usage and
//! reasoning are taken from wherever they stand. Here is what can not be told from an answer.

use reqwest::Url;

use crate::Config;
use crate::ids::{Form, SHORT};

/// One vendor, or one server that people run themselves.
#[derive(Debug, PartialEq)]
pub(crate) struct Quirks {
    /// Names in settings, ours first.
    pub(crate) names: &'static [&'static str],
    /// Ends of the names of its hosts.
    hosts: &'static [&'static str],
    /// Where it is without `baseURL`; `None`: only its user knows.
    pub(crate) base: Option<&'static str>,
    /// Whether it is reached at `base` only with a key.
    pub(super) needs_key: bool,
    /// The header of the key, where that is not `authorization: Bearer`.
    pub(super) key_header: Option<&'static str>,
    /// Whether it takes `stream_options`.
    pub(super) stream_options: bool,
    pub(super) limit: LimitName,
    ids: Form,
    /// Whether an assistant message must stand between tool results and a user message.
    pub(crate) closes_loops: bool,
    /// Whether user and assistant must alternate, as some chat templates demand.
    pub(crate) alternates: bool,
    /// Whether assistant messages with calls must carry their `reasoning_content`.
    pub(crate) echoes: bool,
    pub(crate) images: bool,
    /// Whether user messages take PDF files.
    pub(crate) files: bool,
    pub(super) marks: Marks,
    /// Whether the effort of reasoning is `reasoning.effort` rather than `reasoning_effort`.
    pub(super) nests_effort: bool,
    /// How the names of models begin that refuse to be told how to sample, if any do.
    pub(super) fixed: Option<&'static str>,
    /// Whether `completion_tokens` leaves out reasoning, where the total does not tell.
    pub(super) reasoning_apart: bool,
    /// Whether every stream ends in `[DONE]`, so that one without it was cut off. Otherwise a
    /// stream may also just end once it has given its reason to finish.
    pub(super) ends_in_done: bool,
    /// Whether requests that begin alike are kept together by a key.
    pub(crate) cache_key: bool,
    /// Whether 404 is at times said of models that are there.
    pub(super) missing_may_pass: bool,
}

/// The body's name for the limit on output tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LimitName {
    MaxTokens,
    MaxCompletionTokens,
    /// The new one for OpenAI's reasoning models, which refuse the old one; else the old one.
    ByModel,
}

/// Whether messages are marked for caching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Marks {
    Never,
    /// For Anthropic's models only.
    Claude,
    Always,
}

/// A server of which nothing is known.
pub(crate) const GENERIC: Quirks = Quirks {
    names: &["generic"],
    hosts: &[],
    base: None,
    needs_key: false,
    key_header: None,
    stream_options: true,
    limit: LimitName::ByModel,
    ids: Form::Short,
    closes_loops: false,
    alternates: true,
    echoes: false,
    images: true,
    files: false,
    marks: Marks::Never,
    nests_effort: false,
    fixed: None,
    reasoning_apart: false,
    ends_in_done: false,
    cache_key: false,
    missing_may_pass: false,
};

/// A vendor in the cloud that does as OpenAI does.
const VENDOR: Quirks = Quirks { needs_key: true, alternates: false, ends_in_done: true, ..GENERIC };

/// A server on one's own machine.
const LOCAL: Quirks = Quirks { ends_in_done: true, ..GENERIC };

const OPENAI: Quirks = Quirks {
    names: &["openai"],
    hosts: &["api.openai.com"],
    base: Some("https://api.openai.com/v1"),
    limit: LimitName::MaxCompletionTokens,
    files: true,
    cache_key: true,
    missing_may_pass: true,
    ..VENDOR
};

/// Everybody who is known, after their public API references.
const ALL: &[Quirks] = &[
    OPENAI,
    Quirks {
        names: &["azure", "azure-openai", "azure-cognitive-services"],
        hosts: &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"],
        base: None,
        key_header: Some("api-key"),
        missing_may_pass: false,
        ..OPENAI
    },
    Quirks {
        names: &["groq"],
        hosts: &["api.groq.com"],
        base: Some("https://api.groq.com/openai/v1"),
        limit: LimitName::MaxCompletionTokens,
        ..VENDOR
    },
    Quirks {
        names: &["xai", "x.ai", "grok"],
        hosts: &["api.x.ai"],
        base: Some("https://api.x.ai/v1"),
        limit: LimitName::MaxCompletionTokens,
        reasoning_apart: true,
        ..VENDOR
    },
    Quirks {
        names: &["deepseek"],
        hosts: &["api.deepseek.com"],
        base: Some("https://api.deepseek.com/v1"),
        limit: LimitName::MaxTokens,
        echoes: true,
        images: false,
        ..VENDOR
    },
    Quirks {
        names: &["mistral", "mistralai"],
        hosts: &["api.mistral.ai"],
        base: Some("https://api.mistral.ai/v1"),
        stream_options: false,
        limit: LimitName::MaxTokens,
        ids: Form::Nine,
        closes_loops: true,
        ..VENDOR
    },
    Quirks {
        names: &["moonshot", "moonshotai", "moonshotai-cn", "kimi"],
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        base: Some("https://api.moonshot.ai/v1"),
        limit: LimitName::MaxTokens,
        echoes: true,
        fixed: Some("kimi-"),
        ..VENDOR
    },
    Quirks {
        names: &["alibaba", "alibaba-cn", "dashscope", "qwen"],
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"],
        base: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        limit: LimitName::MaxTokens,
        marks: Marks::Always,
        ..VENDOR
    },
    Quirks {
        names: &["perplexity"],
        hosts: &["api.perplexity.ai"],
        base: Some("https://api.perplexity.ai"),
        stream_options: false,
        limit: LimitName::MaxTokens,
        alternates: true,
        ends_in_done: false,
        ..VENDOR
    },
    Quirks {
        names: &["openrouter"],
        hosts: &["openrouter.ai"],
        base: Some("https://openrouter.ai/api/v1"),
        limit: LimitName::MaxTokens,
        files: true,
        marks: Marks::Claude,
        nests_effort: true,
        ..VENDOR
    },
    Quirks {
        names: &["ollama"],
        hosts: &["ollama.com"],
        base: Some("http://127.0.0.1:11434/v1"),
        limit: LimitName::MaxTokens,
        ..LOCAL
    },
    Quirks {
        names: &["lmstudio", "lm-studio"],
        base: Some("http://127.0.0.1:1234/v1"),
        limit: LimitName::MaxTokens,
        ..LOCAL
    },
    Quirks {
        names: &["llama.cpp", "llamacpp", "llama-cpp"],
        base: Some("http://127.0.0.1:8080/v1"),
        limit: LimitName::MaxTokens,
        ..LOCAL
    },
    GENERIC,
];

/// Those of the vendor that settings name, or else of the one whose address it is, or else of the
/// one after whom the provider is called; without any address, of OpenAI.
pub(crate) fn of(config: &Config) -> &'static Quirks {
    if let Some(vendor) = config.vendor.as_deref() {
        return named(vendor).unwrap_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|quirks| quirks.names[0]).collect();
            tracing::warn!(vendor, ?known, "a vendor without known quirks");
            &GENERIC
        });
    }
    let Some(base) = &config.base_url else {
        return named(&config.name).unwrap_or(&OPENAI);
    };
    let url = Url::parse(base.trim()).ok();
    if let Some(found) = url.as_ref().and_then(Url::host_str).and_then(hosted) {
        return found;
    }
    // the name of the one whom everybody imitates says nothing about another address
    named(&config.name).filter(|quirks| **quirks != OPENAI).unwrap_or(&GENERIC)
}

fn named(name: &str) -> Option<&'static Quirks> {
    let name = name.trim().to_lowercase();
    ALL.iter().find(|quirks| quirks.names.contains(&name.as_str()))
}

fn hosted(host: &str) -> Option<&'static Quirks> {
    let within = |end: &str| {
        host.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    ALL.iter().find(|quirks| quirks.hosts.iter().any(|end| within(end)))
}

impl Quirks {
    /// The name of the limit on output tokens for `model`.
    pub(super) fn limit_name(&self, model: &str) -> &'static str {
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
    pub(super) fn samples(&self, model: &str) -> bool {
        let is_fixed = self.fixed.is_some_and(|start| model.to_lowercase().starts_with(start));
        !is_fixed && !is_openai_reasoner(model)
    }

    pub(super) fn marks(&self, model: &str) -> bool {
        match self.marks {
            Marks::Never => false,
            Marks::Claude => is_claude(model),
            Marks::Always => true,
        }
    }
}

/// Anthropic's models, whoever resells them, keep Anthropic's rules for ids and tools.
pub(super) fn is_claude(model: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wire;

    fn config(name: &str, vendor: Option<&str>, base: Option<&str>) -> Config {
        let mut config = Config::new(name, Wire::OpenaiChat);
        config.vendor = vendor.map(str::to_owned);
        config.base_url = base.map(str::to_owned);
        config
    }

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
            let quirks = of(&config(name, vendor, base));
            assert_eq!(quirks.names[0], expected, "{name} {vendor:?} {base:?}");
        }
    }

    #[test]
    fn names_and_hosts_are_nobody_elses() {
        let mut seen = std::collections::HashSet::new();
        for name in ALL.iter().flat_map(|quirks| quirks.names.iter().chain(quirks.hosts)) {
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
        for (quirks, model, samples) in [
            (moonshot, "kimi-k3", false),
            (moonshot, "moonshot-v1-128k", true),
            (&GENERIC, "kimi-k3", true),
            (&GENERIC, "gpt-5.1", false),
            (&OPENAI, "gpt-4.1", true),
        ] {
            assert_eq!(quirks.samples(model), samples, "{model}");
        }
    }
}
