//! Failures: what went wrong, in the eight words that the core decides by, and in words a person
//! can act on.

mod body;
mod google;
mod hints;
mod mask;
mod tables;

use std::time::{Duration, SystemTime};

use leftfold_events::event::FailureClass;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::vendors::key_variable;
pub(crate) use body::{Details, is_markup};
pub use hints::LONGEST_WAIT_MS;
pub(crate) use mask::Mask;

/// Why there is no complete reply. No key that is in use stands in `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    pub retryable: bool,
    /// How long the server asked to wait, in milliseconds; at most [`LONGEST_WAIT_MS`].
    pub retry_after: Option<u64>,
}

impl Failure {
    /// A failure whose class alone tells whether trying again may help.
    pub(crate) fn new(class: FailureClass, message: impl Into<String>) -> Self {
        let retryable = may_pass(class);
        Self { class, message: message.into(), status: None, retryable, retry_after: None }
    }

    pub(crate) fn fatal(class: FailureClass, message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(class, message) }
    }

    /// The stream ended, and nothing said that the reply was complete.
    pub(crate) fn cut_off() -> Self {
        Self::new(
            FailureClass::Network,
            "the connection was closed in the middle of the answer; the answer so far can not be used",
        )
    }

    /// Not a byte for so long.
    pub(crate) fn stalled(stall: Duration) -> Self {
        let message = format!("the provider has sent nothing for {} s", stall.as_secs_f64());
        Self::new(FailureClass::Stalled, message)
    }

    /// An error that the server reported inside a stream that had begun well.
    pub(crate) fn in_stream(provider: &str, details: &Details) -> Self {
        let status = details.status();
        let class = class_of(status, details);
        let message = message(provider, class, None, details);
        let transient = details.is_server_error() || status.is_some_and(is_transient);
        Self {
            retryable: may_pass(class) || transient && !is_settled(class),
            retry_after: details.retry_after,
            ..Self::new(class, message)
        }
    }

    /// An answer whose HTTP status says that it is none.
    pub(crate) fn of_response(
        provider: &str,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        let details = Details::read(body);
        let class = class_of(Some(status), &details);
        let may = may_pass(class) || is_transient(status);
        let retryable = match hints::should_retry(headers) {
            Some(false) => false,
            Some(true) => !is_settled(class),
            None => may && !is_settled(class),
        };
        Self {
            class,
            message: message(provider, class, Some((status, headers)), &details),
            status: Some(status.as_u16()),
            retryable,
            retry_after: hints::retry_after(headers, now).or(details.retry_after),
        }
    }
}

/// Classes of which time alone may be the cure.
const fn may_pass(class: FailureClass) -> bool {
    match class {
        FailureClass::RateLimit
        | FailureClass::Overloaded
        | FailureClass::Network
        | FailureClass::Stalled => true,
        FailureClass::Overflow
        | FailureClass::Auth
        | FailureClass::Quota
        | FailureClass::Invalid
        | FailureClass::Aborted
        | FailureClass::Other => false,
    }
}

/// Classes that the same request meets again whatever its status says.
const fn is_settled(class: FailureClass) -> bool {
    matches!(class, FailureClass::Overflow | FailureClass::Auth | FailureClass::Quota)
}

fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// What the server says of itself weighs more than its status, but words about a rate that
/// mention tokens are no overflow.
fn class_of(status: Option<StatusCode>, details: &Details) -> FailureClass {
    let code = status.map_or(0, |s| s.as_u16());
    let text = details.message.to_lowercase();
    if let Some(soon) = details.passes_soon.filter(|_| is_limit(code, details)) {
        return if soon { FailureClass::RateLimit } else { FailureClass::Quota };
    }
    if tables::names(&details.kinds, tables::QUOTA_CODES) || tables::says(&text, tables::QUOTA) {
        return FailureClass::Quota;
    }
    if tables::names(&details.kinds, tables::OVERFLOW_CODES) {
        return FailureClass::Overflow;
    }
    let rate = code == 429 || tables::names(&details.kinds, tables::RATE_CODES);
    let says_rate = !matches!(code, 401 | 403) && tables::says(&text, tables::RATE);
    // more than a minute's allowance at once is too much in any minute (SPEC R4)
    if code != 413 && (rate || says_rate) {
        return FailureClass::RateLimit;
    }
    if tables::says(&text, tables::OVERFLOW) || tables::is_too_long(&text) {
        return FailureClass::Overflow;
    }
    if tables::names(&details.kinds, tables::OVERLOADED_CODES)
        || tables::says(&text, tables::OVERLOADED)
    {
        return FailureClass::Overloaded;
    }
    if tables::names(&details.kinds, tables::AUTH_CODES) || tables::says(&text, tables::AUTH) {
        return FailureClass::Auth;
    }
    // some refuse words with the status that others have for keys
    if tables::names(&details.kinds, tables::POLICY_CODES) || tables::says(&text, tables::POLICY) {
        return FailureClass::Invalid;
    }
    class_of_status(code, details)
}

fn is_limit(code: u16, details: &Details) -> bool {
    code == 429 || tables::names(&details.kinds, &["resource_exhausted"])
}

fn class_of_status(code: u16, details: &Details) -> FailureClass {
    match code {
        // a page that forbids comes from a firewall, not from an API
        403 if details.markup => FailureClass::Invalid,
        401 | 403 => FailureClass::Auth,
        402 => FailureClass::Quota,
        408 | 504 => FailureClass::Network,
        413 => FailureClass::Overflow,
        503 | 529 => FailureClass::Overloaded,
        409 | 425 => FailureClass::Other,
        300..=499 => FailureClass::Invalid,
        0 if tables::names(&details.kinds, tables::INVALID_CODES) => FailureClass::Invalid,
        _ => FailureClass::Other,
    }
}

/// One line for a person: what it is, what the server said, what to do.
fn message(
    provider: &str,
    class: FailureClass,
    response: Option<(StatusCode, &HeaderMap)>,
    details: &Details,
) -> String {
    let status = response.map(|(status, _)| body::status_text(status));
    let said = if details.markup {
        let page = status.as_deref().unwrap_or("200 OK");
        format!("the server answered with an HTML page ({page})")
    } else if details.message.is_empty() {
        status.unwrap_or_else(|| "the server gave no reason".to_owned())
    } else {
        details.message.clone()
    };
    let said = match friendly(class, details) {
        Some(friendly) if said.eq_ignore_ascii_case(friendly) => said,
        Some(friendly) => format!("{friendly}: {said}"),
        None => said,
    };
    match advice(provider, class, response, details) {
        Some(advice) => format!("{}; {advice}", said.trim_end_matches('.')),
        None => said,
    }
}

fn friendly(class: FailureClass, details: &Details) -> Option<&'static str> {
    match class {
        FailureClass::RateLimit if tables::names(&details.kinds, &["rate_limit"]) => {
            Some("Rate Limited")
        }
        FailureClass::RateLimit => Some("Too Many Requests"),
        FailureClass::Overloaded => Some("Provider is overloaded"),
        FailureClass::Overflow => Some("The conversation is too long for the model"),
        FailureClass::Auth
        | FailureClass::Quota
        | FailureClass::Network
        | FailureClass::Stalled
        | FailureClass::Invalid
        | FailureClass::Aborted
        | FailureClass::Other => None,
    }
}

fn advice(
    provider: &str,
    class: FailureClass,
    response: Option<(StatusCode, &HeaderMap)>,
    details: &Details,
) -> Option<String> {
    if let Some((status, headers)) = response
        && status.is_redirection()
    {
        let to = headers.get("location").and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
        return Some(format!(
            "it redirects to {to}; redirects are not followed, set `provider.{provider}.options.baseURL` to the final address"
        ));
    }
    match class {
        FailureClass::Auth => Some(format!(
            "check the API key of provider `{provider}` and what it is allowed to use: `leftfold auth login {provider}` stores another, {}",
            match key_variable(provider) {
                Some(variable) => format!("but settings and {variable} come first"),
                None => "but settings come first".to_owned(),
            }
        )),
        FailureClass::Quota => {
            Some(format!("check plan and billing of the account behind provider `{provider}`"))
        }
        FailureClass::Invalid if details.markup || details.message.is_empty() => Some(format!(
            "check `provider.{provider}.options.baseURL`, which may lead to something else than the API"
        )),
        FailureClass::Invalid
        | FailureClass::Overflow
        | FailureClass::RateLimit
        | FailureClass::Overloaded
        | FailureClass::Network
        | FailureClass::Stalled
        | FailureClass::Aborted
        | FailureClass::Other => None,
    }
}

#[cfg(test)]
mod tests;
