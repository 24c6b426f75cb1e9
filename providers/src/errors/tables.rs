//! Error codes and messages of vendors, as data. Texts are compared in lower case.

/// Whether one of the error's names contains one of `codes`.
pub(super) fn has_code(kinds: &[String], codes: &[&str]) -> bool {
    kinds.iter().any(|kind| codes.iter().any(|code| kind.contains(code)))
}

/// Whether `text` contains one of `phrases`.
pub(super) fn has_phrase(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Whether the text has a phrase that means "too long" only together with the thing that is too
/// long.
pub(super) fn is_too_long(text: &str) -> bool {
    let of_size = ["token", "context", "prompt", "input length", "input size"];
    let too_much = [
        "too long", "too large", "too many", "exceeds the", "exceed the", "exceeded the",
        "exceeds limit", "longer than", "greater than the context", "larger than the context",
    ];
    let limit = ["context", "maximum", "limit", "too long", "too large", "too many input tokens"];
    // `max_tokens: 64000 > 32000, which is the maximum ... output tokens` is a wrong setting
    let output = ["max_tokens", "max_completion_tokens", "max_output_tokens", "output token"];
    has_phrase(text, &of_size)
        && has_phrase(text, &too_much)
        && has_phrase(text, &limit)
        && !has_phrase(text, &output)
}

/// Whether the text says that an image cannot be used: its size, its type, or the model.
pub(super) fn refuses_image(text: &str) -> bool {
    let why = [
        "exceed", "too large", "too big", "too small", "too many", "at most", "maximum",
        "dimension", "invalid", "not valid", "not represent", "not support", "n't support",
        "unsupported", "support image", "not supported", "only supported", "not process",
        "unable to process", "not read", "not decode", "failed to decode", "corrupt", "media type",
        // DeepSeek and others that take only text
        "unknown variant", "expected `text`",
    ];
    text.contains("image") && has_phrase(text, &why)
}

pub(super) const OVERFLOW_CODES: &[&str] = &[
    "context_length_exceeded", "context_window_exceeded", "model_context_window_exceeded",
    "request_too_large", "string_above_max_length", "tokens_limit_reached",
    "exceed_context_size_error",
];

/// One line per vendor or server, from its documentation or known answers.
pub(super) const OVERFLOW: &[&str] = &[
    // Anthropic
    "prompt is too long",
    "input length and `max_tokens` exceed context limit",
    // Bedrock
    "input is too long for requested model",
    // OpenAI, Azure
    "maximum context length",
    "exceeds the context window",
    "exceeds the model's context",
    // Gemini, Vertex
    "input token count",
    // xAI
    "maximum prompt length is",
    // Groq
    "reduce the length of the messages",
    // OpenRouter, DeepSeek, vLLM
    "context length is only",
    "longer than the model's context length",
    // llama.cpp
    "exceeds the available context size",
    // LM Studio
    "greater than the context length",
    "trying to keep the first",
    // MiniMax, Moonshot
    "context window exceeds limit",
    "exceeded model token limit",
    // Mistral
    "too large for model with",
    // LiteLLM and similar gateways, with Anthropic's stop reason as the message
    "context_window_exceeded",
    // Cerebras, Ollama, Alibaba
    "request entity too large",
    "prompt too long; exceeded",
    "range of input length should be",
    "context_length_exceeded",
    "context length exceeded",
];

/// The request fit, but not the reply: one line per vendor.
pub(super) const OUTPUT_LENGTH: &[&str] = &[
    // OpenAI, Azure
    "max_tokens or model output limit was reached",
    // Groq
    "max completion tokens reached before",
];

pub(super) const RATE_CODES: &[&str] =
    &["rate_limit", "too_many_requests", "resource_exhausted", "throttling", "ratelimit"];

pub(super) const RATE: &[&str] = &[
    "rate limit", "rate-limit", "ratelimit", "too many requests", "tokens per minute",
    "tokens per day", "requests per minute", "per minute (tpm)", "per min (tpm)", "throttl",
];

pub(super) const OVERLOADED_CODES: &[&str] = &[
    "overloaded", "unavailable", "server_is_busy", "engine_overloaded", "capacity_exceeded",
    "slow_down",
];

pub(super) const OVERLOADED: &[&str] = &[
    "overloaded", "temporarily unavailable", "server is busy", "server busy", "at capacity",
    "over capacity", "try again later",
];

pub(super) const QUOTA_CODES: &[&str] = &[
    "insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active",
    "insufficient_credits", "insufficient_balance", "payment_required", "usage_not_included",
    // Bedrock
    "servicequotaexceeded", "exceeded_current_quota", "arrearage",
    // Alibaba
    "allocationquota.freetieronly",
];

pub(super) const QUOTA: &[&str] = &[
    "credit balance is too low",
    "exceeded your current quota, please check your plan",
    "insufficient balance",
    "insufficient credits",
    "insufficient quota",
    "requires more credits",
    "out of credits",
    "billing hard limit",
    // Anthropic
    "reached your specified api usage limits",
    // OpenRouter, whose free models are available again the next day
    "free-models-per-day",
    "payment required",
    // xAI
    "doesn't have any credits",
    "used all available credits",
];

/// Signs of a limit of free use, and the page where it can be lifted.
pub(super) const FREE_USE: &[(&str, &str)] = &[
    ("free-models-per-day", "https://openrouter.ai/settings/credits"),
    ("allocationquota.freetieronly", "https://modelstudio.console.alibabacloud.com"),
    ("free_tier", "https://ai.google.dev/gemini-api/docs/billing"),
    ("freetier", "https://ai.google.dev/gemini-api/docs/billing"),
    ("freeusagelimiterror", "https://opencode.ai/zen"),
];

/// The last are those of AWS.
pub(super) const AUTH_CODES: &[&str] = &[
    "authentication_error", "permission_error", "invalid_api_key", "invalid_authentication",
    "unauthenticated", "permission_denied", "accessdenied", "expiredtoken", "unrecognizedclient",
    "invalidclienttokenid", "invalidsignature", "incompletesignature",
    "missingauthenticationtoken",
];

/// The last are those of Gemini.
pub(super) const AUTH: &[&str] = &[
    "incorrect api key", "invalid api key", "invalid_api_key", "no auth credentials",
    "api key is missing", "api key not valid", "api key expired",
];

/// The HTTP status of errors whose names have no part in the tables above. An error inside a stream has only its name,
/// and is treated as one with this status.
const STATUSES: &[(&str, u16)] = &[
    // OpenCode Zen
    ("freeusagelimiterror", 429),
    ("gousagelimiterror", 429),
    ("subscriptionusagelimiterror", 429),
    // ChatGPT
    ("usage_limit_reached", 429),
    // Anthropic
    ("timeout_error", 504),
    // OpenAI
    ("unsupported_country_region_territory", 403),
    // Google
    ("aborted", 409),
    ("deadline_exceeded", 504),
    ("failed_precondition", 400),
    // Bedrock
    ("modelnotreadyexception", 429),
    ("modelstreamerrorexception", 424),
    ("modeltimeoutexception", 408),
    ("resourcenotfoundexception", 404),
];

/// The HTTP status that comes with one of these names of an error.
pub(super) fn status_of(kinds: &[String]) -> Option<u16> {
    STATUSES
        .iter()
        .find(|(name, _)| kinds.iter().any(|kind| kind == name))
        .map(|(_, status)| *status)
}

/// Content that a vendor refuses. A retry gets the same refusal.
pub(super) const POLICY_CODES: &[&str] =
    &["content_filter", "content_policy", "data_inspection_failed", "responsibleaipolicy"];

pub(super) const POLICY: &[&str] =
    &["content management policy", "was flagged", "requires moderation", "inappropriate content"];

pub(super) const INVALID_CODES: &[&str] = &[
    "invalid_request", "not_found", "invalid_prompt", "invalid_argument", "unprocessable",
    "validation",
];

/// Names of faults of the server itself.
pub(super) const SERVER_CODES: &[&str] = &[
    "api_error", "server_error", "internal", "timeout", "bad_gateway", "modelerror",
    "modelstreamerror",
];

/// Words of servers and gateways that report a fault of their own within an answer, without a code.
pub(super) const SERVER: &[&str] = &[
    "internal", "server error", "stream error", "network", "upstream", "connection", "socket",
    "econn", "eof", "timed out", "timeout", "terminated", "bad gateway", "unexpectedly",
];

/// Errors of AWS about who asks, and what the user can do.
pub(super) const AWS_ADVICE: &[(&str, &str)] = &[
    ("expiredtoken", "get new AWS keys, and set them: `leftfold doctor` says which are in use"),
    (
        "accessdenied",
        "check that the account may call the model and that the model is enabled in the region: `leftfold doctor` says \
         whose keys are in use",
    ),
    ("unrecognizedclient", CHECK_KEYS),
    ("invalidclienttokenid", CHECK_KEYS),
    ("invalidsignature", CHECK_KEYS),
    ("incompletesignature", CHECK_KEYS),
    ("missingauthenticationtoken", CHECK_KEYS),
];

const CHECK_KEYS: &str =
    "check the AWS keys, the region and the clock: `leftfold doctor` says which keys are in use";
