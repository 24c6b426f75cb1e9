//! Says why a server cannot be used or a call has no result, in words for people and for models.

use std::error::Error as StdError;

use leftfold_framing::clip;
use leftfold_tools::Error;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use super::content;
use super::stdio::UNREADABLE;

/// Bytes kept of an error's text.
const LONGEST: usize = 300;

/// The reason why there is no connection.
#[derive(Debug)]
pub(super) struct Failure {
    /// The reason, in words for people.
    pub(super) why: String,
    /// The server's `WWW-Authenticate` challenge, if it sent one.
    pub(super) challenge: Option<String>,
    /// Whether the server wants its user to sign in.
    pub(super) wants_sign_in: bool,
}

impl Failure {
    /// The server wants its user to sign in.
    pub(super) fn sign_in(challenge: Option<String>) -> Self {
        Self { why: SIGN_IN.to_owned(), challenge, wants_sign_in: true }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self { why, challenge: None, wants_sign_in: false }
    }
}

/// Says why a server could not be started.
pub(super) fn of_start(error: &ClientInitializeError) -> Failure {
    if let Some(challenge) = error.auth_challenge() {
        return Failure::sign_in(Some(challenge.to_owned()));
    }
    if error.is_authorization_required() {
        return Failure::sign_in(None);
    }
    format!("no connection: {}", innermost(error)).into()
}

const SIGN_IN: &str = "it requires you to sign in: run `leftfold mcp login` with its name, or set a header for it in settings";

/// The `WWW-Authenticate` challenge with which the server refused the request, if that is the
/// error.
pub(super) fn challenge(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else { return None };
    let mut inner: Option<&(dyn StdError + 'static)> = Some(error.error.as_ref());
    while let Some(error) = inner {
        if let Some(wanted) = error.downcast_ref::<AuthRequiredError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        if let Some(wanted) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        inner = error.source();
    }
    None
}

pub(super) fn innermost(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return "it closed the connection before it answered".to_owned();
    }
    // this error does not name the error it wraps as its source
    if let ClientInitializeError::TransportError { error, .. } = error {
        return innermost_of(error.error.as_ref());
    }
    innermost_of(error)
}

/// The text of the innermost error in the chain of sources.
fn innermost_of(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    clip(without_address(innermost.to_string()), LONGEST)
}

/// Removes the address from an HTTP error: it may contain a key, and these messages go into logs.
fn without_address(said: String) -> String {
    const ADDRESS: &str = " for url (";
    let address = said.find(ADDRESS).zip(said.rfind(')')).filter(|(start, end)| start < end);
    let Some((start, end)) = address else { return said };
    format!("{}{}", &said[..start], &said[end + 1..])
}

/// Error code of a server that requires a URL to be opened first (MCP 2025-11-25).
const URL_REQUIRED: i32 = -32_042;

fn required_urls(data: &serde_json::Value) -> String {
    let wanted = data["elicitations"].as_array().into_iter().flatten();
    let visit = |wanted: &serde_json::Value| {
        let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
        format!("{} ({})", text("url"), text("message"))
    };
    clip(wanted.map(visit).collect::<Vec<_>>().join(", "), MAX_URLS)
}

/// Bytes kept of the list of URLs.
const MAX_URLS: usize = 4 * 1_024;

/// Says why a request has no answer, for people.
pub(super) fn reason(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(failed) = error {
        return innermost_of(failed.error.as_ref());
    }
    if let ServiceError::McpError(error) = error
        && error.code == UNREADABLE
    {
        return clip(format!("its answer cannot be read: {}", error.message), LONGEST);
    }
    error.to_string()
}

/// Says why a request has no answer, for the model.
pub(super) fn of_request(error: &ServiceError) -> Error {
    if let ServiceError::McpError(error) = error {
        if error.code == UNREADABLE {
            let why = clip(error.message.to_string(), LONGEST);
            return content::error(format!("The server's answer cannot be read: {why}. {UNKNOWN}"));
        }
        let (said, code) = (&error.message, error.code.0);
        if let (URL_REQUIRED, Some(data)) = (code, &error.data) {
            return content::error(format!(
                "The server did nothing: {said}. The user must open an address first. Ask them to do so, then repeat the call: {}",
                required_urls(data)
            ));
        }
        return content::error(format!("The server refused the call: {said} (code {code})."));
    }
    if challenge(error).is_some() {
        return content::error(format!("The server did nothing: {SIGN_IN}."));
    }
    if let ServiceError::TransportSend(failed) = error {
        let why = clip(innermost_of(failed.error.as_ref()), LONGEST);
        return content::error(format!("The server did not answer: {why}. {UNKNOWN}"));
    }
    if matches!(error, ServiceError::TransportClosed) {
        return content::error(GONE.to_owned());
    }
    content::error(format!("The call failed: {error}."))
}

const GONE: &str = "The server ended before the call did. The call may have taken effect fully, partly or not at all. Check the current state before you repeat it.";

const UNKNOWN: &str =
    "The call may have taken effect: check the current state before you repeat it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_told() {
        for (said, told) in [
            (
                "no answer for url (https://host/mcp?key=canary(1)): timed out",
                "no answer: timed out",
            ),
            ("no answer for url (https://host/mcp?key=canary)", "no answer"),
            ("HTTP 500", "HTTP 500"),
            (") for url (", ") for url ("),
        ] {
            assert_eq!(without_address(said.to_owned()), told);
        }
    }
}
