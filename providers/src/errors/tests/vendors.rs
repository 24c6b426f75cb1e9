//! Errors of the vendors of Chat Completions, as their documentation or their servers word them.

use super::*;

const ROWS: &[(u16, &str, FailureClass, bool)] = &[
    // OpenAI
    (
        401,
        r#"{"error":{"message":"Incorrect API key provided: sk-x.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
        Auth,
        false,
    ),
    (
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        Overflow,
        false,
    ),
    (
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Quota,
        false,
    ),
    (
        429,
        r#"{"error":{"message":"Rate limit reached for m on tokens per min (TPM): Limit 30000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        RateLimit,
        true,
    ),
    (
        503,
        r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error"}}"#,
        Overloaded,
        true,
    ),
    // Azure
    (
        400,
        r#"{"error":{"code":"content_filter","message":"The response was filtered due to the prompt triggering content management policy.","status":400}}"#,
        Invalid,
        false,
    ),
    (
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        Invalid,
        false,
    ),
    (
        429,
        r#"{"error":{"code":"429","message":"Requests have exceeded call rate limit of your current tier."}}"#,
        RateLimit,
        true,
    ),
    // Groq
    (
        413,
        r#"{"error":{"message":"Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 9000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Overflow,
        false,
    ),
    (
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Overflow,
        false,
    ),
    (
        498,
        r#"{"error":{"message":"flex tier capacity exceeded","type":"capacity_exceeded"}}"#,
        Overloaded,
        true,
    ),
    // xAI
    (
        400,
        r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}"#,
        Auth,
        false,
    ),
    (
        403,
        r#"{"code":"The caller does not have permission","error":"Your newly created team doesn't have any credits yet."}"#,
        Quota,
        false,
    ),
    (
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
        Overflow,
        false,
    ),
    // DeepSeek
    (
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        Quota,
        false,
    ),
    (
        422,
        r#"{"error":{"message":"Failed to deserialize the JSON body","type":"invalid_request_error"}}"#,
        Invalid,
        false,
    ),
    // Mistral
    (
        422,
        r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"]}]},"type":"invalid_request_error"}"#,
        Invalid,
        false,
    ),
    (
        429,
        r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}"#,
        RateLimit,
        true,
    ),
    (
        400,
        r#"{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#,
        Overflow,
        false,
    ),
    (401, r#"{"detail":"Unauthorized"}"#, Auth, false),
    // Moonshot
    (
        429,
        r#"{"error":{"type":"engine_overloaded_error","message":"The engine is currently overloaded"}}"#,
        RateLimit,
        true,
    ),
    (
        429,
        r#"{"error":{"type":"exceeded_current_quota_error","message":"Your account is suspended"}}"#,
        Quota,
        false,
    ),
    (
        400,
        r#"{"error":{"type":"invalid_request_error","message":"Invalid request: Your request exceeded model token limit: 8192"}}"#,
        Overflow,
        false,
    ),
    // Alibaba
    (
        400,
        r#"{"error":{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}}"#,
        Quota,
        false,
    ),
    (
        400,
        r#"{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content."}}"#,
        Invalid,
        false,
    ),
    (
        400,
        r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 129024]"}}"#,
        Overflow,
        false,
    ),
    // OpenRouter
    (402, r#"{"error":{"code":402,"message":"This request requires more credits"}}"#, Quota, false),
    (
        403,
        r#"{"error":{"code":403,"message":"m requires moderation, your input was flagged for x"}}"#,
        Invalid,
        false,
    ),
    (502, r#"{"error":{"code":502,"message":"Provider returned error"}}"#, Other, true),
    (401, r#"{"error":{"code":401,"message":"No auth credentials found"}}"#, Auth, false),
    // Ollama, LM Studio, llama.cpp, vLLM
    (
        404,
        r#"{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}}"#,
        Invalid,
        false,
    ),
    (
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        Overloaded,
        true,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":8192}}"#,
        Overflow,
        false,
    ),
    (
        400,
        r#"{"error":"Trying to keep the first 5000 tokens when context the overflows."}"#,
        Overflow,
        false,
    ),
    (
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
        Overflow,
        false,
    ),
];

#[test]
fn classes_and_retries_of_many_vendors() {
    for (status, body, class, retryable) in ROWS {
        let failure = respond(*status, &[], body);
        assert_eq!((failure.class, failure.retryable), (*class, *retryable), "{status} {body}");
    }
}
