//! Servers that are reached over HTTP.

use std::collections::HashMap;
use std::error::Error;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::serve_client;
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig,
};

use super::connect::{Failure, innermost};
use super::desk::Desk;
use super::oauth::{self, OAuth};
use super::sse;

pub(super) async fn connect(
    url: &str,
    headers: &[(String, String)],
    oauth: &OAuth,
    desk: &Desk,
) -> Result<RunningService<RoleClient, Desk>, Failure> {
    let building = tokio::task::spawn_blocking(client).await;
    let client = building.map_err(|error| error.to_string())??;
    let all = all(headers)?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(all.clone())
        .reinit_on_expired_session(true);
    // whoever has named a key of their own wants that one to be used
    let named = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let signed_in = if named { None } else { oauth::client(url, oauth, &client).await? };
    let older = sse::Teller::new(&client, signed_in.clone(), &all);
    let served = match signed_in {
        Some(client) => {
            let transport = StreamableHttpClientTransport::with_client(client, config);
            serve_client(desk.clone(), transport).await
        }
        None => {
            let transport = StreamableHttpClientTransport::with_client(client, config);
            serve_client(desk.clone(), transport).await
        }
    };
    let failed = match served {
        Ok(service) => return Ok(service),
        Err(error) => error,
    };
    let wanted = failure(&failed);
    if wanted.challenge.is_some() || !sse::has_answered(&failed) {
        return Err(wanted);
    }
    match older.open(url).await {
        Some(transport) => {
            serve_client(desk.clone(), transport).await.map_err(|error| failure(&error))
        }
        None => Err(wanted),
    }
}

fn all(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let wrong = |()| {
            format!(
                "the header `{name}` can not be sent: it has characters that HTTP does not take"
            )
        };
        let header = HeaderName::try_from(name).map_err(|_| ()).map_err(wrong)?;
        let mut value = HeaderValue::try_from(value).map_err(|_| ()).map_err(wrong)?;
        value.set_sensitive(true);
        all.insert(header, value);
    }
    Ok(all)
}

/// TLS is on ring, for whoever makes a client in this process.
pub(super) fn use_ring() {
    // fails if one has been installed already, which is just as well
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Reads the system's certificates, which may take 100 ms. Redirects are not followed: headers may
/// hold a key that is for this address alone.
pub(super) fn client() -> Result<reqwest::Client, String> {
    use_ring();
    reqwest::Client::builder()
        .tls_backend_rustls()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("no HTTP client could be made: {error}"))
}

fn failure(error: &ClientInitializeError) -> Failure {
    if let Some(challenge) = error.auth_challenge() {
        return Failure { why: SIGN_IN.to_owned(), challenge: Some(challenge.to_owned()) };
    }
    if error.is_authorization_required() {
        return Failure { why: SIGN_IN.to_owned(), challenge: None };
    }
    format!("no connection: {}", innermost(error)).into()
}

pub(super) const SIGN_IN: &str = "it wants its user to sign in: run `leftfold mcp login` with its name, or \
    give it a header in settings";

/// What the server wants before it answers, as it says it in `WWW-Authenticate`.
pub(super) fn challenge(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(error) = error else { return None };
    let mut inner: Option<&(dyn Error + 'static)> = Some(error.error.as_ref());
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
