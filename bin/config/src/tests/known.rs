//! The built-in providers for these tests.

use std::sync::LazyLock;

use leftfold_events::providers::{Builtin, KnownProviders, KnownSignIn, KnownWire, Parameter};

const WIRES: [(&str, Option<&str>); 5] = [
    ("anthropic", Some("@ai-sdk/anthropic")),
    ("openai-chat", Some("@ai-sdk/openai-compatible")),
    ("openai-responses", Some("@ai-sdk/openai")),
    ("gemini", Some("@ai-sdk/google")),
    ("scripted", None),
];

/// Name, variables with a key, variable with a base URL, model.
type OverChat = (&'static str, &'static [&'static str], &'static str, &'static str);

const OVER_CHAT: [OverChat; 9] = [
    ("xai", &["XAI_API_KEY"], "XAI_BASE_URL", "grok-4.7"),
    ("deepseek", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL", "deepseek-flash"),
    ("mistral", &["MISTRAL_API_KEY"], "MISTRAL_BASE_URL", "mistral-medium-3.5"),
    ("groq", &["GROQ_API_KEY"], "GROQ_BASE_URL", "openai/gpt-oss-120b"),
    ("moonshotai", &["MOONSHOT_API_KEY"], "MOONSHOT_BASE_URL", "kimi-k3"),
    ("alibaba", &["DASHSCOPE_API_KEY"], "DASHSCOPE_BASE_URL", "qwen3.7-max"),
    ("openrouter", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL", ""),
    ("ollama", &[], "OLLAMA_BASE_URL", ""),
    ("lmstudio", &[], "LMSTUDIO_BASE_URL", ""),
];

pub(super) fn known() -> &'static KnownProviders {
    static KNOWN: LazyLock<KnownProviders> = LazyLock::new(|| {
        let wire = |(name, npm)| KnownWire { name, npm, is_remote: name != "scripted" };
        let wires: Vec<KnownWire> = WIRES.map(wire).to_vec();
        let mut builtin = vec![
            Builtin {
                name: "anthropic",
                aliases: &[],
                wire: "anthropic",
                keys: &["ANTHROPIC_API_KEY"],
                base_url: "ANTHROPIC_BASE_URL",
                model: "claude-sonnet-5-5",
                ..Builtin::PLAIN
            },
            Builtin {
                name: "openai",
                aliases: &[],
                wire: "openai-responses",
                keys: &["OPENAI_API_KEY"],
                base_url: "OPENAI_BASE_URL",
                model: "gpt-6.2-sol",
                ..Builtin::PLAIN
            },
            Builtin {
                name: "google",
                aliases: &["gemini"],
                wire: "gemini",
                keys: &["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
                base_url: "GEMINI_BASE_URL",
                model: "gemini-3.8-flash",
                ..Builtin::PLAIN
            },
            Builtin {
                name: "google-vertex",
                wire: "gemini",
                keys: &["GOOGLE_VERTEX_API_KEY"],
                npm: Some("@ai-sdk/google-vertex"),
                parameters: &[
                    Parameter {
                        option: "project",
                        variables: &["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT"],
                        default: None,
                        is_unneeded_with_key: true,
                    },
                    Parameter {
                        option: "location",
                        variables: &["GOOGLE_VERTEX_LOCATION"],
                        default: Some("global"),
                        is_unneeded_with_key: true,
                    },
                ],
                finds_credentials: true,
                ..Builtin::PLAIN
            },
        ];
        builtin.extend(OVER_CHAT.map(|(name, keys, base_url, model)| Builtin {
            name,
            aliases: &[],
            wire: "openai-chat",
            keys,
            base_url,
            model,
            ..Builtin::PLAIN
        }));
        let usual_wire = wires.iter().copied().find(|wire| wire.name == "openai-chat");
        let sign_ins =
            vec![KnownSignIn { provider: "openai", label: "ChatGPT", vendor: "chatgpt" }];
        KnownProviders { wires, builtin, sign_ins, usual_wire }
    });
    &KNOWN
}
