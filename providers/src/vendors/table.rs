//! The table of vendors, from their public API references.

use super::models::{ALIBABA, CHATGPT, DEEPSEEK, GROQ, MISTRAL, MOONSHOT, XAI};
use super::{CLAUDES, GEMINIS, GPTS, Header, LimitName, MarkPlace, Marks, Vendor, When};
use crate::ids::IdForm;
use leftfold_events::providers::{Builtin, Parameter};

/// Every vendor. The built-in ones are in the order in which lists show them.
pub(crate) const VENDORS: &[Vendor] = &[
    ANTHROPIC,
    OPENAI,
    GOOGLE,
    Vendor {
        names: &["xai", "x.ai", "grok"],
        hosts: &["api.x.ai"],
        base: Some("https://api.x.ai/v1"),
        builtin: chat("xai", &["XAI_API_KEY"], "XAI_BASE_URL", "grok-4.7", Some("@ai-sdk/xai")),
        models: XAI,
        limit: LimitName::MaxCompletionTokens,
        excludes_reasoning: true,
        ..CLOUD
    },
    Vendor {
        names: &["deepseek"],
        hosts: &["api.deepseek.com"],
        base: Some("https://api.deepseek.com/v1"),
        builtin: chat(
            "deepseek",
            &["DEEPSEEK_API_KEY"],
            "DEEPSEEK_BASE_URL",
            "deepseek-flash",
            Some("@ai-sdk/deepseek"),
        ),
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
        builtin: chat(
            "mistral",
            &["MISTRAL_API_KEY"],
            "MISTRAL_BASE_URL",
            "mistral-medium-3.5",
            Some("@ai-sdk/mistral"),
        ),
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
        builtin: chat(
            "groq",
            &["GROQ_API_KEY"],
            "GROQ_BASE_URL",
            "openai/gpt-oss-120b",
            Some("@ai-sdk/groq"),
        ),
        models: GROQ,
        limit: LimitName::MaxCompletionTokens,
        ..CLOUD
    },
    Vendor {
        names: &["moonshot", "moonshotai", "moonshotai-cn", "kimi"],
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        base: Some("https://api.moonshot.ai/v1"),
        builtin: chat(
            "moonshotai",
            &["MOONSHOT_API_KEY"],
            "MOONSHOT_BASE_URL",
            "kimi-k3",
            Some("@ai-sdk/moonshotai"),
        ),
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
        builtin: chat(
            "alibaba",
            &["DASHSCOPE_API_KEY"],
            "DASHSCOPE_BASE_URL",
            "qwen3.7-max",
            Some("@ai-sdk/alibaba"),
        ),
        models: ALIBABA,
        limit: LimitName::MaxTokens,
        marks: Marks::Always,
        ..CLOUD
    },
    Vendor {
        names: &["openrouter"],
        hosts: &["openrouter.ai"],
        base: Some("https://openrouter.ai/api/v1"),
        builtin: chat(
            "openrouter",
            &["OPENROUTER_API_KEY"],
            "OPENROUTER_BASE_URL",
            "",
            Some("@openrouter/ai-sdk-provider"),
        ),
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
        builtin: chat("ollama", &[], "OLLAMA_BASE_URL", "", None),
        ..LOCAL
    },
    Vendor {
        names: &["lmstudio", "lm-studio"],
        base: Some("http://127.0.0.1:1234/v1"),
        builtin: chat("lmstudio", &[], "LMSTUDIO_BASE_URL", "", None),
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
        base: Some("https://{resourceName}.openai.azure.com/openai/v1"),
        builtin: Some(Builtin {
            name: "azure",
            wire: "openai-responses",
            keys: &["AZURE_API_KEY"],
            npm: Some("@ai-sdk/azure"),
            parameters: &[Parameter {
                option: "resourceName",
                variables: &["AZURE_RESOURCE_NAME"],
                default: None,
                is_unneeded_with_key: false,
            }],
            ..Builtin::PLAIN
        }),
        key_header: Some("api-key"),
        retries_not_found: false,
        ..OPENAI
    },
    Vendor {
        names: &["cerebras"],
        hosts: &["api.cerebras.ai"],
        base: Some("https://api.cerebras.ai/v1"),
        builtin: chat("cerebras", &["CEREBRAS_API_KEY"], "", "", Some("@ai-sdk/cerebras")),
        limit: LimitName::MaxCompletionTokens,
        overflows_silently: true,
        ..CLOUD
    },
    Vendor {
        names: &["github-copilot", "copilot"],
        hosts: &["githubcopilot.com"],
        base: Some("https://api.githubcopilot.com"),
        builtin: Some(Builtin {
            name: "github-copilot",
            wire: "openai-chat",
            // as OpenCode decides
            wires: &[
                ("gpt-5-mini", "openai-chat"),
                ("gpt-5", "openai-responses"),
                ("gpt-6", "openai-responses"),
                ("gpt-7", "openai-responses"),
            ],
            base_url: "COPILOT_BASE_URL",
            ..Builtin::PLAIN
        }),
        marks: Marks::Claude,
        mark_place: MarkPlace::Message,
        headers: &[
            Header { name: "openai-intent", value: "conversation-edits", when: When::Always },
            Header { name: "x-initiator", value: "user", when: When::ByUser },
            Header { name: "x-initiator", value: "agent", when: When::ByAgent },
            Header { name: "copilot-vision-request", value: "true", when: When::Images },
            Header {
                name: "anthropic-beta",
                value: "interleaved-thinking-2025-05-14",
                when: When::Claude,
            },
        ],
        ..CLOUD
    },
    // OpenAI's models for those who have signed in with a ChatGPT account
    Vendor {
        names: &["chatgpt"],
        hosts: &["chatgpt.com"],
        base: Some("https://chatgpt.com/backend-api/codex"),
        builtin: None,
        models: CHATGPT,
        limits_output: false,
        instructions: true,
        headers: &[Header { name: "originator", value: "leftfold", when: When::Always }],
        ..OPENAI
    },
    Vendor {
        names: &["perplexity"],
        hosts: &["api.perplexity.ai"],
        base: Some("https://api.perplexity.ai"),
        builtin: chat("perplexity", &["PERPLEXITY_API_KEY"], "", "", Some("@ai-sdk/perplexity")),
        stream_options: false,
        limit: LimitName::MaxTokens,
        alternates: true,
        ends_in_done: false,
        ..CLOUD
    },
    Vendor {
        names: &["deepinfra"],
        hosts: &["api.deepinfra.com"],
        base: Some("https://api.deepinfra.com/v1/openai"),
        builtin: chat("deepinfra", &["DEEPINFRA_API_KEY"], "", "", Some("@ai-sdk/deepinfra")),
        ..RESELLER
    },
    Vendor {
        names: &["togetherai", "together"],
        hosts: &["api.together.xyz", "api.together.ai"],
        base: Some("https://api.together.xyz/v1"),
        builtin: chat("togetherai", &["TOGETHER_API_KEY"], "", "", Some("@ai-sdk/togetherai")),
        ..RESELLER
    },
    Vendor {
        names: &["fireworks-ai", "fireworks"],
        hosts: &["api.fireworks.ai"],
        base: Some("https://api.fireworks.ai/inference/v1"),
        builtin: chat("fireworks-ai", &["FIREWORKS_API_KEY"], "", "", Some("@ai-sdk/fireworks")),
        ..RESELLER
    },
    Vendor {
        names: &["vercel"],
        hosts: &["ai-gateway.vercel.sh"],
        base: Some("https://ai-gateway.vercel.sh/v1"),
        builtin: chat("vercel", &["AI_GATEWAY_API_KEY"], "", "", Some("@ai-sdk/gateway")),
        ..RESELLER
    },
    Vendor {
        names: &["cloudflare-workers-ai"],
        hosts: &["api.cloudflare.com"],
        base: Some("https://api.cloudflare.com/client/v4/accounts/{accountId}/ai/v1"),
        builtin: Some(Builtin {
            name: "cloudflare-workers-ai",
            wire: "openai-chat",
            keys: &["CLOUDFLARE_API_KEY"],
            parameters: &[Parameter {
                option: "accountId",
                variables: &["CLOUDFLARE_ACCOUNT_ID"],
                default: None,
                is_unneeded_with_key: false,
            }],
            ..Builtin::PLAIN
        }),
        ..RESELLER
    },
    Vendor {
        names: &["google-vertex"],
        builtin: Some(Builtin {
            name: "google-vertex",
            wire: "gemini",
            keys: &["GOOGLE_VERTEX_API_KEY"],
            npm: Some("@ai-sdk/google-vertex"),
            ..VERTEX
        }),
        base: Some(
            "https://{google-host}/v1/projects/{project}/locations/{location}/publishers/google",
        ),
        base_with_key: Some("https://aiplatform.googleapis.com/v1/publishers/google"),
        needs_key: false,
        ..GOOGLE
    },
    Vendor {
        names: &["google-vertex-anthropic"],
        builtin: Some(Builtin {
            name: "google-vertex-anthropic",
            wire: "anthropic",
            npm: Some("@ai-sdk/google-vertex/anthropic"),
            ..VERTEX
        }),
        base: Some(
            "https://{google-host}/v1/projects/{project}/locations/{location}/publishers/anthropic/models",
        ),
        needs_key: false,
        anthropic_version: Some("vertex-2023-10-16"),
        ..ANTHROPIC
    },
    BEDROCK,
    GENERIC,
];

/// Google Vertex AI: its own address and credentials, other makers' wires.
const VERTEX: Builtin = Builtin {
    parameters: &[
        Parameter {
            option: "project",
            variables: &[
                "GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT",
            ],
            default: None,
            is_unneeded_with_key: true,
        },
        Parameter {
            option: "location",
            variables: &["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"],
            default: Some("global"),
            is_unneeded_with_key: true,
        },
    ],
    finds_credentials: true,
    ..Builtin::PLAIN
};

/// An unknown server.
pub(crate) const GENERIC: Vendor = Vendor {
    names: &["generic"],
    hosts: &[],
    wire: "openai-chat",
    builtin: None,
    models: &[],
    base: None,
    base_with_key: None,
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
    anthropic_version: None,
    fixed: None,
    excludes_reasoning: false,
    ends_in_done: false,
    cache_key: false,
    retries_not_found: false,
    limits_output: true,
    instructions: false,
    headers: &[],
    overflows_silently: false,
};

/// A cloud vendor that behaves like OpenAI.
const CLOUD: Vendor = Vendor { needs_key: true, alternates: false, ends_in_done: true, ..GENERIC };

/// A cloud vendor of other makers' models.
const RESELLER: Vendor = Vendor { ends_in_done: false, ..CLOUD };

/// A server on the user's machine.
const LOCAL: Vendor = Vendor { limit: LimitName::MaxTokens, ends_in_done: true, ..GENERIC };

pub(crate) const ANTHROPIC: Vendor = Vendor {
    names: &["anthropic"],
    wire: "anthropic",
    builtin: Some(Builtin {
        name: "anthropic",
        wire: "anthropic",
        keys: &["ANTHROPIC_API_KEY"],
        base_url: "ANTHROPIC_BASE_URL",
        model: "claude-sonnet-5-5",
        ..Builtin::PLAIN
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
        wire: "openai-responses",
        keys: &["OPENAI_API_KEY"],
        base_url: "OPENAI_BASE_URL",
        model: "gpt-6.2-sol",
        ..Builtin::PLAIN
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
        ..Builtin::PLAIN
    }),
    models: GEMINIS,
    base: Some("https://generativelanguage.googleapis.com/v1beta"),
    needs_key: true,
    ..GENERIC
};

/// Its address depends on the region, and its models on the model's vendor.
pub(crate) const BEDROCK: Vendor = Vendor {
    names: &["amazon-bedrock", "bedrock"],
    wire: "bedrock",
    builtin: Some(Builtin {
        name: "amazon-bedrock",
        aliases: &["bedrock"],
        wire: "bedrock",
        keys: &["AWS_BEARER_TOKEN_BEDROCK"],
        base_url: "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        model: "anthropic.claude-sonnet-5-5",
        optional_parameters: &[
            optional("region", &["AWS_REGION", "AWS_DEFAULT_REGION"]),
            optional("profile", &[]),
            optional("endpoint", &[]),
            optional("accessKeyId", &[]),
            optional("secretAccessKey", &[]),
            optional("sessionToken", &[]),
        ],
        finds_credentials: true,
        credential_signs: &["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION"],
        hidden: &["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
        ..Builtin::PLAIN
    }),
    base: Some("https://{aws-host}"),
    needs_key: true,
    ..GENERIC
};

const fn optional(option: &'static str, variables: &'static [&'static str]) -> Parameter {
    Parameter { option, variables, default: None, is_unneeded_with_key: false }
}

/// A built-in provider over Chat Completions.
const fn chat(
    name: &'static str,
    keys: &'static [&'static str],
    base_url: &'static str,
    model: &'static str,
    npm: Option<&'static str>,
) -> Option<Builtin> {
    Some(Builtin { name, wire: "openai-chat", keys, base_url, model, npm, ..Builtin::PLAIN })
}
