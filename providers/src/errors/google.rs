//! Reads errors from Google's APIs: their `details`, a list of typed messages, and the words of Vertex AI.

use serde_json::Value;

use super::LONGEST_WAIT_MS;

/// The wait of the `RetryInfo` in the details, in milliseconds.
pub(super) fn retry_after(error: &Value) -> Option<u64> {
    let delay = of_type(error, "RetryInfo").find_map(|info| info.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    millis(seconds)
}

/// Whether a limit passes within minutes. The message is the same for all limits; the id of the
/// quota distinguishes them. A limit of 0 never passes.
pub(super) fn passes_soon(error: &Value, message: &str) -> Option<bool> {
    let failures = of_type(error, "QuotaFailure");
    let violations: Vec<&Value> =
        failures.filter_map(|failure| failure.get("violations")?.as_array()).flatten().collect();
    let says = |words: &str| {
        violations.iter().any(|violation| {
            violation.get("quotaId").and_then(Value::as_str).is_some_and(|id| id.contains(words))
        })
    };
    if says("PerDay") || says("PerMonth") || has_limit_zero(message) {
        return Some(false);
    }
    let hinted = of_type(error, "RetryInfo").next().is_some();
    (hinted || says("PerMinute") || says("PerSecond")).then_some(true)
}

/// The ids of the limits that were reached, in lower case.
pub(super) fn quotas(error: &Value) -> impl Iterator<Item = String> {
    let failures = of_type(error, "QuotaFailure");
    let violations = failures.filter_map(|failure| failure.get("violations")?.as_array()).flatten();
    violations.filter_map(|violation| Some(violation.get("quotaId")?.as_str()?.to_lowercase()))
}

/// The reason that a service of Google's gives besides the status.
fn reason(error: &Value) -> Option<&str> {
    of_type(error, "ErrorInfo").find_map(|info| info.get("reason")?.as_str())
}

/// Whether the project has no billing account.
pub(super) fn lacks_billing(error: &Value) -> bool {
    reason(error) == Some("BILLING_DISABLED")
}

/// Advice for the user about an error of Vertex AI. Its words are never taken from the body.
pub(super) fn advice(error: &Value, message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    match reason(error) {
        Some("SERVICE_DISABLED") => {
            return Some("enable the API in the project, and wait some minutes");
        }
        Some("IAM_PERMISSION_DENIED") => return Some(ROLE),
        Some(_) | None => {}
    }
    if message.contains("permission 'aiplatform.") {
        return Some(ROLE);
    }
    (message.contains("publisher model") && message.contains("not found")).then_some(
        "check the model's name and the provider's `location`: most models are served at `global`, few in each \
         region; Claude models belong to the provider `google-vertex-anthropic`",
    )
}

const ROLE: &str = "give the account of the credentials the role `Vertex AI User` (roles/aiplatform.user) in the project";

fn has_limit_zero(message: &str) -> bool {
    message
        .split("limit: 0")
        .skip(1)
        .any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

fn of_type<'a>(error: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    details.filter(move |detail| {
        let kind = detail.get("@type").and_then(Value::as_str).unwrap_or_default();
        kind.rsplit('.').next() == Some(name)
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
#[expect(clippy::cast_precision_loss, reason = "the limit is far below 2^52")]
fn millis(seconds: f64) -> Option<u64> {
    let millis = (seconds * 1_000.0).ceil();
    (millis >= 0.0).then(|| millis.min(LONGEST_WAIT_MS as f64) as u64)
}
