//! The table of vendors, from their public API references.

use super::models::{ALIBABA, DEEPSEEK, GROQ, MISTRAL, MOONSHOT, XAI};
use super::{CLAUDES, GEMINIS, GPTS, LimitName, MarkPlace, Marks, Vendor};
use crate::ids::IdForm;
use leftfold_events::providers::Builtin;

/// Every vendor. The built-in ones are in the order in which lists show them.
pub(crate) const VENDORS: &[Vendor] = &[
    ANTHROPIC,
    OPENAI,
    GOOGLE,
    Vendor {
        names: &["xai", "x.ai", "grok"],
        hosts: &["api.x.ai"],
        base: Some("https://api.x.ai/v1"),
        builtin: chat("xai", &["XAI_API_KEY"], "XAI_BASE_URL", "grok-4.7"),
        models: XAI,
        limit: LimitName::MaxCompletionTokens,
        excludes_reasoning: true,
        ..CLOUD
    },
    Vendor {
        names: &["deepseek"],
        hosts: &["api.deepseek.com"],
        base: Some("https://api.deepseek.com/v1"),
        builtin: chat("deepseek", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL", "deepseek-flash"),
        models: DEEPSEEK,
        limit: LimitName::MaxTokens,
        returns_reasoning: true,
        images: false,
        ..CLOUD
    },
    Vendor {
        names: &["mistral", "mistralai"],
        hosts: &["api.mistral.ai"],
        base: Some("https://api.mistral.ai/v1"),
        builtin: chat("mistral", &["MISTRAL_API_KEY"], "MISTRAL_BASE_URL", "mistral-medium-3.5"),
        models: MISTRAL,
        stream_options: false,
        limit: LimitName::MaxTokens,
        ids: IdForm::Nine,
        needs_answer_after_results: true,
        overflows_silently: true,
        ..CLOUD
    },
    Vendor {
        names: &["groq"],
        hosts: &["api.groq.com"],
        base: Some("https://api.groq.com/openai/v1"),
        builtin: chat("groq", &["GROQ_API_KEY"], "GROQ_BASE_URL", "openai/gpt-oss-120b"),
        models: GROQ,
        limit: LimitName::MaxCompletionTokens,
        ..CLOUD
    },
    Vendor {
        names: &["moonshot", "moonshotai", "moonshotai-cn", "kimi"],
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        base: Some("https://api.moonshot.ai/v1"),
        builtin: chat("moonshotai", &["MOONSHOT_API_KEY"], "MOONSHOT_BASE_URL", "kimi-k3"),
        models: MOONSHOT,
        limit: LimitName::MaxTokens,
        returns_reasoning: true,
        fixed: Some("kimi-"),
        ..CLOUD
    },
    Vendor {
        names: &["alibaba", "alibaba-cn", "dashscope", "qwen"],
        hosts: &["dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"],
        base: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        builtin: chat("alibaba", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL", "qwen3.7-max"),
        models: ALIBABA,
        limit: LimitName::MaxTokens,
        marks: Marks::Always,
        ..CLOUD
    },
    Vendor {
        names: &["openrouter"],
        hosts: &["openrouter.ai"],
        base: Some("https://openrouter.ai/api/v1"),
        builtin: chat("openrouter", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL", ""),
        limit: LimitName::MaxTokens,
        files: true,
        marks: Marks::Claude,
        nests_effort: true,
        ..CLOUD
    },
    Vendor {
        names: &["ollama"],
        hosts: &["ollama.com"],
        base: Some("http://127.0.0.1:11434/v1"),
        builtin: chat("ollama", &[], "OLLAMA_BASE_URL", ""),
        ..LOCAL
    },
    Vendor {
        names: &["lmstudio", "lm-studio"],
        base: Some("http://127.0.0.1:1234/v1"),
        builtin: chat("lmstudio", &[], "LMSTUDIO_BASE_URL", ""),
        ..LOCAL
    },
    Vendor {
        names: &["llama.cpp", "llamacpp", "llama-cpp"],
        base: Some("http://127.0.0.1:8080/v1"),
        ..LOCAL
    },
    Vendor {
        names: &["azure", "azure-openai", "azure-cognitive-services"],
        hosts: &["openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"],
        base: None,
        builtin: None,
        key_header: Some("api-key"),
        retries_not_found: false,
        ..OPENAI
    },
    Vendor {
        names: &["cerebras"],
        hosts: &["api.cerebras.ai"],
        base: Some("https://api.cerebras.ai/v1"),
        limit: LimitName::MaxCompletionTokens,
        overflows_silently: true,
        ..CLOUD
    },
    Vendor {
        names: &["github-copilot", "copilot"],
        hosts: &["githubcopilot.com"],
        base: Some("https://api.githubcopilot.com"),
        marks: Marks::Claude,
        mark_place: MarkPlace::Message,
        ..CLOUD
    },
    Vendor {
        names: &["perplexity"],
        hosts: &["api.perplexity.ai"],
        base: Some("https://api.perplexity.ai"),
        stream_options: false,
        limit: LimitName::MaxTokens,
        alternates: true,
        ends_in_done: false,
        ..CLOUD
    },
    GENERIC,
];

/// An unknown server.
pub(crate) const GENERIC: Vendor = Vendor {
    names: &["generic"],
    hosts: &[],
    wire: "openai-chat",
    builtin: None,
    models: &[],
    base: None,
    needs_key: false,
    key_header: None,
    stream_options: true,
    limit: LimitName::ByModel,
    ids: IdForm::Short,
    needs_answer_after_results: false,
    alternates: true,
    returns_reasoning: false,
    images: true,
    files: false,
    marks: Marks::Never,
    mark_place: MarkPlace::Part,
    nests_effort: false,
    fixed: None,
    excludes_reasoning: false,
    ends_in_done: false,
    cache_key: false,
    retries_not_found: false,
    overflows_silently: false,
};

/// A cloud vendor that behaves like OpenAI.
const CLOUD: Vendor = Vendor { needs_key: true, alternates: false, ends_in_done: true, ..GENERIC };

/// A server on the user's machine.
const LOCAL: Vendor = Vendor { limit: LimitName::MaxTokens, ends_in_done: true, ..GENERIC };

pub(crate) const ANTHROPIC: Vendor = Vendor {
    names: &["anthropic"],
    wire: "anthropic",
    builtin: Some(Builtin {
        name: "anthropic",
        aliases: &[],
        wire: "anthropic",
        keys: &["ANTHROPIC_API_KEY"],
        base_url: "ANTHROPIC_BASE_URL",
        model: "claude-sonnet-5-5",
    }),
    models: CLAUDES,
    base: Some("https://api.anthropic.com/v1"),
    needs_key: true,
    ..GENERIC
};

pub(crate) const OPENAI: Vendor = Vendor {
    names: &["openai"],
    hosts: &["api.openai.com"],
    wire: "openai-responses",
    builtin: Some(Builtin {
        name: "openai",
        aliases: &[],
        wire: "openai-responses",
        keys: &["OPENAI_API_KEY"],
        base_url: "OPENAI_BASE_URL",
        model: "gpt-6.2-sol",
    }),
    models: GPTS,
    base: Some("https://api.openai.com/v1"),
    limit: LimitName::MaxCompletionTokens,
    files: true,
    cache_key: true,
    retries_not_found: true,
    ..CLOUD
};

pub(crate) const GOOGLE: Vendor = Vendor {
    names: &["google"],
    wire: "gemini",
    builtin: Some(Builtin {
        name: "google",
        aliases: &["gemini"],
        wire: "gemini",
        keys: &["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
        base_url: "GEMINI_BASE_URL",
        model: "gemini-3.8-flash",
    }),
    models: GEMINIS,
    base: Some("https://generativelanguage.googleapis.com/v1beta"),
    needs_key: true,
    ..GENERIC
};

/// A built-in provider over Chat Completions.
const fn chat(
    name: &'static str,
    keys: &'static [&'static str],
    base_url: &'static str,
    model: &'static str,
) -> Option<Builtin> {
    Some(Builtin { name, aliases: &[], wire: "openai-chat", keys, base_url, model })
}
