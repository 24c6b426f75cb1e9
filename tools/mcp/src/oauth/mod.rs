//! Signs a user in at a remote server with OAuth 2.1, as the protocol specifies it.
//!
//! `sign_in` runs only on request: it discovers the authorization server from the MCP server's
//! challenge, opens the consent page in a browser, and exchanges the returned code for tokens, with
//! PKCE and with checks of state and issuer. Sessions only use and refresh stored tokens; they
//! never open a browser. The protocol steps are those of `rmcp`.

mod token_store;

use std::path::PathBuf;

use leftfold_framing::clip;
use leftfold_oauth::{CONSENT_TIMEOUT, Callback, Consent, Redirect, answer, http};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig, WWWAuthenticateParams,
};

use super::streamable_http::RepairingClient;
use token_store::TokenStore;

/// The client name that authorization servers see.
const CLIENT: &str = "Leftfold";

/// Bytes kept of a server's error.
const MAX_WHY: usize = 1_000;

/// Settings for signing in at a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The file with the tokens of all servers. Without it nobody can sign in.
    pub token_store: Option<PathBuf>,
    /// Id, and secret if it has one, of a client that is registered at the server already.
    pub client: Option<(String, Option<String>)>,
    /// Address of a metadata document about this client, for servers that read such documents.
    pub client_metadata: Option<String>,
    /// Scopes to ask for, instead of those that the server names.
    pub scopes: Vec<String>,
    /// Local port for the browser's redirect; any free port if not set.
    pub port: Option<u16>,
}

// Shows nothing that may be secret.
leftfold_events::debug_fields!(OAuth { scopes });

/// An HTTP client that uses the stored tokens of the server, if there are any.
///
/// # Errors
/// The tokens cannot be read, or the server no longer names its authorization server.
pub(super) async fn client(
    url: &str,
    oauth: &OAuth,
    http: &reqwest::Client,
) -> Result<Option<AuthClient<RepairingClient>>, String> {
    let Some(path) = &oauth.token_store else { return Ok(None) };
    let store = TokenStore::new(path, url);
    let Some(grant) = store.grant()? else { return Ok(None) };
    let mut manager = manager(url, &store).await?;
    let known = manager.initialize_from_store().await.map_err(|error| error_chain(&error))?;
    if let (true, Some(secret)) = (known, grant.client_secret) {
        let client = OAuthClientConfig::new(grant.credentials.client_id, url);
        let configured = manager.configure_client(client.with_client_secret(secret));
        configured.map_err(|error| error_chain(&error))?;
    }
    Ok(Some(AuthClient::new(RepairingClient(http.clone()), manager)))
}

/// Asks a person for consent and stores the granted tokens. Scopes granted earlier are asked for
/// again.
///
/// # Errors
/// The reason why there is no grant, in words for people.
pub(super) async fn sign_in(
    url: &str,
    oauth: &OAuth,
    challenge: Option<&str>,
    consent: &impl Consent,
) -> Result<(), String> {
    let path = oauth.token_store.as_ref().ok_or("there is no place to store tokens: set HOME")?;
    let store = TokenStore::new(path, url);
    let mut manager = manager(url, &store).await?;
    let found = manager.resolve_metadata_from_challenge(challenge).await;
    let metadata = found.map_err(|error| error_chain(&error))?.metadata;
    let documents = metadata.additional_fields.get("client_id_metadata_document_supported");
    let reads_documents = documents.is_some_and(|documents| documents == true);
    manager.set_metadata(metadata);
    let ports = oauth.port.as_slice();
    let redirect = Redirect { host: "127.0.0.1", ports, path: "/callback" };
    let callback = Callback::open(redirect).await?;
    let scopes = scopes(url, oauth, challenge, &store, &manager).await;
    let document = oauth.client_metadata.as_ref().filter(|_| reads_documents);
    let (request, secret) = request(oauth, document, &mut manager, &callback, scopes).await?;
    let session = AuthorizationSession::new(manager, request).await;
    let session = session.map_err(|(_, error)| error_chain(&error))?;
    let answer = answer(&session.auth_url, &callback, consent, CONSENT_TIMEOUT).await?;
    let granted = session.handle_callback_url(answer.as_str()).await;
    granted.map_err(|error| error_chain(&error))?;
    secret.map_or(Ok(()), |secret| store.keep_secret(&secret))
}

/// Deletes the stored grant of a server. Returns whether there was one.
///
/// # Errors
/// The file cannot be changed.
pub fn sign_out(url: &str, oauth: &OAuth) -> Result<bool, String> {
    oauth.token_store.as_ref().map_or(Ok(false), |path| TokenStore::new(path, url).forget())
}

/// Allows addresses of private networks: the user has named the server.
async fn manager(url: &str, store: &TokenStore) -> Result<AuthorizationManager, String> {
    http::use_ring();
    let manager = AuthorizationManager::new_allowing_private_addresses(url).await;
    let mut manager = manager.map_err(|error| error_chain(&error))?;
    manager.set_credential_store(store.clone());
    Ok(manager)
}

/// The scopes to ask for, including all that were granted earlier.
async fn scopes(
    url: &str,
    oauth: &OAuth,
    challenge: Option<&str>,
    store: &TokenStore,
    manager: &AuthorizationManager,
) -> Vec<String> {
    let mut scopes = oauth.scopes.clone();
    let base = Url::parse(url).ok();
    let challenge =
        challenge.zip(base).map(|(said, base)| WWWAuthenticateParams::parse(said, &base));
    if let Some(more) = challenge.filter(WWWAuthenticateParams::is_insufficient_scope) {
        let granted = store.grant().ok().flatten();
        scopes.extend(granted.into_iter().flat_map(|grant| grant.credentials.granted_scopes));
        scopes.extend(
            more.scope.iter().flat_map(|scope| scope.split_whitespace().map(str::to_owned)),
        );
    }
    if scopes.is_empty() {
        scopes = manager.select_initial_scopes(&[]).await;
    }
    let mut asked: Vec<String> = Vec::new();
    for scope in scopes {
        if !asked.contains(&scope) {
            asked.push(scope);
        }
    }
    asked
}

/// Builds the authorization request. Uses the registered client of the settings, the client's
/// metadata document, or registers a client now. Returns the new client's secret, if it was given
/// one.
async fn request(
    oauth: &OAuth,
    document: Option<&String>,
    manager: &mut AuthorizationManager,
    callback: &Callback,
    scopes: Vec<String>,
) -> Result<(AuthorizationRequest, Option<String>), String> {
    let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let request = AuthorizationRequest::new(callback.address()).with_initial_scope_selection();
    let request = request.with_scopes(scopes.clone());
    let (id, secret) = match (&oauth.client, document) {
        (Some((id, secret)), _) => (id.clone(), secret.clone()),
        (None, Some(document)) => return Ok((request.with_client_metadata_url(document), None)),
        (None, None) => {
            let registered = manager.register_client(CLIENT, callback.address(), &names).await;
            let registered = registered.map_err(|error| {
                let why = error_chain(&error);
                format!("{why}: register a client there and name it in settings, under `oauth`")
            })?;
            (registered.client_id, registered.client_secret)
        }
    };
    let request = request.with_preregistered_client(id);
    Ok(match &secret {
        Some(known) => (request.with_client_secret(known), secret),
        None => (request, None),
    })
}

/// The error with its sources: the outermost text seldom says what happened.
fn error_chain(error: &AuthError) -> String {
    let mut said = error.to_string();
    let mut inner: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = inner {
        let more = error.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        inner = error.source();
    }
    clip(said, MAX_WHY)
}
