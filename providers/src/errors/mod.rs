//! Failures of requests (rate limit, overload, quota, context overflow and others): a class that the core decides by, and a message that a person can act on.

mod body;
mod google;
mod hints;
mod mask;
mod tables;

use std::time::{Duration, SystemTime};

use leftfold_events::event::FailureClass;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::vendors::{finds_credentials, key_variable};
pub(crate) use body::{Details, LONGEST_ERROR, is_markup};
pub use hints::LONGEST_WAIT_MS;
pub(crate) use mask::Mask;

/// Whether a server does not accept the credentials of a request. Amazon does not use the status for it.
pub(crate) fn refuses_credentials(status: StatusCode, headers: &HeaderMap) -> bool {
    let kinds = ["ExpiredTokenException", "UnrecognizedClientException"];
    status == StatusCode::UNAUTHORIZED
        || status == StatusCode::FORBIDDEN && kinds.contains(&hints::error_type(headers))
}

/// Why there is no complete reply. `message` contains no key that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    pub retryable: bool,
    /// The wait that the server asked for, in milliseconds; at most [`LONGEST_WAIT_MS`].
    pub retry_after: Option<u64>,
}

impl Failure {
    /// A failure whose class alone decides whether a retry may help.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        let retryable = class_is_transient(class);
        Self { class, message: message.into(), status: None, retryable, retry_after: None }
    }

    /// A failure that a retry does not overcome.
    pub fn fatal(class: FailureClass, message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(class, message) }
    }

    /// The stream ended without saying that the reply was complete.
    pub(crate) fn cut_off() -> Self {
        Self::new(
            FailureClass::Network,
            "the connection was closed in the middle of the answer; the answer so far cannot be used",
        )
    }

    /// The bytes of the answer are not those that the server sent.
    pub(crate) fn damaged(damage: impl std::fmt::Display) -> Self {
        Self::new(FailureClass::Network, format!("the answer arrived damaged: {damage}"))
    }

    /// The model has ended its answer with neither text nor a call. It usually does better when it is asked again.
    pub(crate) fn unanswered() -> Self {
        let message = "the model ended its answer without any text or call";
        Self { retryable: true, ..Self::new(FailureClass::Other, message) }
    }

    /// No byte arrived for the time `stall`.
    pub(crate) fn stalled(stall: Duration) -> Self {
        let message = format!("the provider has sent nothing for {} s", stall.as_secs_f64());
        Self::new(FailureClass::Stalled, message)
    }

    /// An error response without a body, with which some vendors answer a request that is too long.
    pub(crate) fn silent_overflow(provider: &str, status: StatusCode) -> Self {
        let message = message(provider, FailureClass::Overflow, None, &Details::default());
        let status = Some(status.as_u16());
        Self { status, ..Self::new(FailureClass::Overflow, message) }
    }

    /// An error that the server reported inside a stream.
    pub(crate) fn in_stream(provider: &str, details: &Details) -> Self {
        let status = details.status();
        let class = class_of(status, details);
        let message = message(provider, class, None, details);
        let transient = details.is_server_error()
            || status.is_some_and(status_is_transient)
            || class == FailureClass::Other && details.names_server_fault();
        Self {
            retryable: class_is_transient(class) || transient && !is_permanent(class),
            retry_after: details.retry_after,
            ..Self::new(class, message)
        }
    }

    /// The failure of a response with an HTTP error status.
    pub(crate) fn of_response(
        provider: &str,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        let details = Details::read(body).with([hints::error_type(headers)]);
        let class = class_of(Some(status), &details);
        let may = class_is_transient(class) || status_is_transient(status);
        let retryable = match hints::should_retry(headers) {
            Some(false) => false,
            Some(true) => !is_permanent(class),
            None => may && !is_permanent(class),
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

/// Classes that a later retry may overcome.
const fn class_is_transient(class: FailureClass) -> bool {
    use FailureClass::{Network, Overloaded, RateLimit, Stalled};
    matches!(class, RateLimit | Overloaded | Network | Stalled)
}

/// Classes for which a retry fails again, whatever the status.
const fn is_permanent(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::Overflow
            | FailureClass::OutputLength
            | FailureClass::Image
            | FailureClass::Auth
            | FailureClass::Quota
    )
}

fn status_is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 424 | 425 | 429) || status.is_server_error()
}

/// The class of an error. The body weighs more than the status, except that a message about a rate
/// limit that mentions tokens is not an overflow.
fn class_of(status: Option<StatusCode>, details: &Details) -> FailureClass {
    let code = status.map_or(0, |s| s.as_u16());
    let text = details.message.to_lowercase();
    if let Some(soon) = details.passes_soon.filter(|_| is_limit(code, details)) {
        return if soon { FailureClass::RateLimit } else { FailureClass::Quota };
    }
    if tables::has_code(&details.kinds, tables::QUOTA_CODES)
        || tables::has_phrase(&text, tables::QUOTA)
    {
        return FailureClass::Quota;
    }
    if tables::has_phrase(&text, tables::OUTPUT_LENGTH) {
        return FailureClass::OutputLength;
    }
    if tables::has_code(&details.kinds, tables::OVERFLOW_CODES) {
        return FailureClass::Overflow;
    }
    let rate = code == 429 || tables::has_code(&details.kinds, tables::RATE_CODES);
    let says_rate = !matches!(code, 401 | 403) && tables::has_phrase(&text, tables::RATE);
    // a request over the allowance of a minute fails in every minute
    if code != 413 && (rate || says_rate) {
        return FailureClass::RateLimit;
    }
    if matches!(code, 0 | 400 | 404 | 413 | 415 | 422) && tables::refuses_image(&text) {
        return FailureClass::Image;
    }
    if tables::has_phrase(&text, tables::OVERFLOW) || tables::is_too_long(&text) {
        return FailureClass::Overflow;
    }
    if tables::has_code(&details.kinds, tables::OVERLOADED_CODES)
        || tables::has_phrase(&text, tables::OVERLOADED)
    {
        return FailureClass::Overloaded;
    }
    if tables::has_code(&details.kinds, tables::AUTH_CODES)
        || tables::has_phrase(&text, tables::AUTH)
    {
        return FailureClass::Auth;
    }
    // some vendors refuse content with the status that others use for keys
    if tables::has_code(&details.kinds, tables::POLICY_CODES)
        || tables::has_phrase(&text, tables::POLICY)
    {
        return FailureClass::Invalid;
    }
    class_of_status(code, details)
}

fn is_limit(code: u16, details: &Details) -> bool {
    code == 429 || tables::has_code(&details.kinds, &["resource_exhausted"])
}

fn class_of_status(code: u16, details: &Details) -> FailureClass {
    match code {
        // an HTML page with status 403 comes from a firewall, not from an API
        403 if details.markup => FailureClass::Invalid,
        401 | 403 => FailureClass::Auth,
        402 => FailureClass::Quota,
        408 | 504 => FailureClass::Network,
        413 => FailureClass::Overflow,
        503 | 529 => FailureClass::Overloaded,
        // with 424 Bedrock reports a fault of the model
        409 | 424 | 425 => FailureClass::Other,
        300..=499 => FailureClass::Invalid,
        0 if tables::has_code(&details.kinds, tables::INVALID_CODES) => FailureClass::Invalid,
        _ => FailureClass::Other,
    }
}

/// One line for a person: the kind of error, the server's message, and advice.
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
        FailureClass::RateLimit if tables::has_code(&details.kinds, &["rate_limit"]) => {
            Some("Rate Limited")
        }
        FailureClass::RateLimit => Some("Too Many Requests"),
        FailureClass::Overloaded => Some("Provider is overloaded"),
        FailureClass::Overflow => Some("The conversation is too long for the model"),
        FailureClass::OutputLength => {
            Some("The model reached its output limit before it could answer")
        }
        _ => None,
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
            "it redirects to {to}, and redirects are not followed; set `provider.{provider}.options.baseURL` to the final address"
        ));
    }
    if let Some(link) = details.link
        && matches!(class, FailureClass::Quota | FailureClass::RateLimit)
    {
        return Some(format!("the limit of free use is reached; for more see {link}"));
    }
    if let Some(advice) = details.advice
        && matches!(class, FailureClass::Auth | FailureClass::Invalid)
    {
        return Some(advice.to_owned());
    }
    match class {
        FailureClass::Auth if finds_credentials(provider) => Some(format!(
            "check the credentials of provider `{provider}` and the permissions of their account: `leftfold doctor` \
             says where they come from"
        )),
        FailureClass::Auth => Some(format!(
            "check the API key of provider `{provider}` and its permissions: `leftfold auth login {provider}` stores another, \
             which is used if there is none in {}",
            match key_variable(provider) {
                Some(variable) => format!("the settings and in {variable}"),
                None => "the settings".to_owned(),
            }
        )),
        FailureClass::Quota => {
            Some(format!("check plan and billing of the account behind provider `{provider}`"))
        }
        FailureClass::Invalid if details.markup || details.message.is_empty() => Some(format!(
            "check `provider.{provider}.options.baseURL`, which may not be the address of the API"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
