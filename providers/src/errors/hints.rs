//! Reads response headers that concern retries.

use std::time::SystemTime;

use reqwest::header::HeaderMap;

/// The longest wait that a server's hint can ask for, in milliseconds (about 24.8 days).
pub const LONGEST_WAIT_MS: u64 = 2_147_483_647;

/// Milliseconds to wait: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date in the
/// future. Invalid values are ignored.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let millis = value(headers, "retry-after-ms").and_then(|text| wait(text, 1.0));
    millis.or_else(|| {
        let text = value(headers, "retry-after")?;
        wait(text, 1_000.0).or_else(|| until(text, now))
    })
}

/// Whether the server itself says that a retry makes sense.
pub(super) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match value(headers, "x-should-retry")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The name of the error, in the form in which AWS puts it into a header (`NAME:ADDRESS`).
pub(super) fn error_type(headers: &HeaderMap) -> &str {
    let name = value(headers, "x-amzn-errortype").unwrap_or_default();
    name.split(':').next().unwrap_or_default()
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
#[expect(clippy::cast_precision_loss, reason = "the limit is far below 2^52")]
fn wait(text: &str, unit_ms: f64) -> Option<u64> {
    let amount: f64 = text.parse().ok()?;
    let millis = (amount * unit_ms).ceil();
    (millis >= 0.0).then(|| millis.min(LONGEST_WAIT_MS as f64) as u64)
}

fn until(text: &str, now: SystemTime) -> Option<u64> {
    let wait = httpdate::parse_http_date(text).ok()?.duration_since(now).ok()?;
    Some(u64::try_from(wait.as_millis()).unwrap_or(LONGEST_WAIT_MS).min(LONGEST_WAIT_MS))
}
