//! Providers that need no settings, and where keys come from: settings, then variables, then what
//! `leftfold auth login` was given.

use super::{Env, Provider, Secret, Wire};

/// A provider that needs no settings.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) wire: Wire,
    /// Variables with a key, of which the first that is set counts.
    pub(super) keys: &'static [&'static str],
    pub(super) base_url: &'static str,
    /// Used if no model is set and the key is there; empty: none is.
    pub(super) model: &'static str,
}

/// How many of [`BUILTIN`] are shown to those who have not asked for them.
pub(super) const MAIN: usize = 3;

pub(super) const BUILTIN: [Builtin; 12] = [
    Builtin {
        name: "anthropic",
        wire: Wire::Anthropic,
        keys: &["ANTHROPIC_API_KEY"],
        base_url: "ANTHROPIC_BASE_URL",
        model: "claude-sonnet-5-5",
    },
    Builtin {
        name: "openai",
        wire: Wire::OpenaiResponses,
        keys: &["OPENAI_API_KEY"],
        base_url: "OPENAI_BASE_URL",
        model: "gpt-6.2-sol",
    },
    Builtin {
        name: "google",
        wire: Wire::Gemini,
        keys: &["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        base_url: "GEMINI_BASE_URL",
        model: "gemini-3.8-flash",
    },
    chat("xai", &["XAI_API_KEY"], "XAI_BASE_URL", "grok-4.7"),
    chat("deepseek", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL", "deepseek-flash"),
    chat("mistral", &["MISTRAL_API_KEY"], "MISTRAL_BASE_URL", "mistral-medium-3.5"),
    chat("groq", &["GROQ_API_KEY"], "GROQ_BASE_URL", "openai/gpt-oss-120b"),
    chat("moonshotai", &["MOONSHOT_API_KEY"], "MOONSHOT_BASE_URL", "kimi-k3"),
    chat("alibaba", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL", "qwen3.7-max"),
    chat("openrouter", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL", ""),
    chat("ollama", &[], "OLLAMA_BASE_URL", ""),
    chat("lmstudio", &[], "LMSTUDIO_BASE_URL", ""),
];

/// One that speaks Chat Completions, at an address that its wire knows.
const fn chat(
    name: &'static str,
    keys: &'static [&'static str],
    base_url: &'static str,
    model: &'static str,
) -> Builtin {
    Builtin { name, wire: Wire::OpenaiChat, keys, base_url, model }
}

pub(super) fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|builtin| builtin.name == name)
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    Settings,
    Variable(String),
    /// `leftfold auth login`.
    Stored,
}

/// The variables that may hold the key, if settings do not give it.
pub(super) fn variables<'a>(
    provider: &'a Provider,
    builtin: Option<&'a Builtin>,
) -> impl Iterator<Item = &'a str> {
    let own = builtin.map_or(&[] as &[&str], |builtin| builtin.keys);
    provider.env.iter().map(String::as_str).chain(own.iter().copied())
}

/// What a variable says, if anything.
pub(super) fn set(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The key, and where it comes from.
pub(super) fn key(
    provider: &Provider,
    builtin: Option<&Builtin>,
    stored: Option<&Secret>,
    env: Env<'_>,
) -> Option<(Secret, KeySource)> {
    let settings = || Some((provider.api_key.clone()?, KeySource::Settings));
    let variable = || {
        variables(provider, builtin)
            .find_map(|name| Some((set(env, name)?, name)))
            .map(|(value, name)| (Secret::new(value), KeySource::Variable(name.to_owned())))
    };
    let stored = || Some((stored?.clone(), KeySource::Stored));
    settings().or_else(variable).or_else(stored)
}
