//! Signs a user in at a remote server with OAuth 2.1, as the protocol specifies it (SPEC X5).
//!
//! `sign_in` runs only on request: it discovers the authorization server from the MCP server's
//! challenge, opens the consent page in a browser, and exchanges the returned code for tokens, with
//! PKCE and with checks of state and issuer. Sessions only use and refresh stored tokens; they
//! never open a browser. The protocol steps are those of `rmcp`.

mod callback;
mod token_store;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leftfold_framing::clip;
use reqwest::Url;
use reqwest::header::LOCATION;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig, WWWAuthenticateParams,
};

use callback::{Callback, of};
use token_store::TokenStore;

use crate::http;

/// How long to wait for consent.
const CONSENT: Duration = Duration::from_secs(5 * 60);

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

/// Shows nothing that may be secret.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// A way to show a consent page to a person.
pub trait Consent: Sync {
    /// Shows the page. May return where it has led: an address with a `code`, or the code. An
    /// implementation that learns nothing of the result may wait for ever: the browser reports back
    /// by itself.
    fn ask(&self, page: &str) -> impl Future<Output = Result<String, String>> + Send;
}

/// Requests the page and follows its redirect at once, without a person. This works with servers
/// that trust every client, such as those of conformance suites.
#[derive(Clone, Copy, Debug)]
pub struct AutoConsent;

impl Consent for AutoConsent {
    async fn ask(&self, page: &str) -> Result<String, String> {
        let client = tokio::task::spawn_blocking(http::client).await;
        let client = client.map_err(|error| error.to_string())??;
        let asked = client.get(page).send().await;
        let answer = asked.map_err(|error| format!("its consent page does not answer: {error}"))?;
        let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(to) = to else {
            return Err(format!(
                "its consent page does not redirect by itself ({})",
                answer.status()
            ));
        };
        let base = Url::parse(page).map_err(|error| error.to_string())?;
        base.join(to).map(String::from).map_err(|error| error.to_string())
    }
}

/// An HTTP client that uses the stored tokens of the server, if there are any.
///
/// # Errors
/// The tokens cannot be read, or the server no longer names its authorization server.
pub(super) async fn client(
    url: &str,
    oauth: &OAuth,
    http: &reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, String> {
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
    Ok(Some(AuthClient::new(http.clone(), manager)))
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
    let callback = Callback::open(oauth.port).await?;
    let scopes = scopes(url, oauth, challenge, &store, &manager).await;
    let document = oauth.client_metadata.as_ref().filter(|_| reads_documents);
    let (request, secret) = request(oauth, document, &mut manager, &callback, scopes).await?;
    let session = AuthorizationSession::new(manager, request).await;
    let session = session.map_err(|(_, error)| error_chain(&error))?;
    let answer = answer(&session.auth_url, &callback, consent, CONSENT).await?;
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

/// Waits for the address that consent led to: from the browser, or pasted by its user.
async fn answer(
    page: &str,
    callback: &Callback,
    consent: &impl Consent,
    limit: Duration,
) -> Result<Url, String> {
    let address = Url::parse(page)
        .map_err(|error| format!("the address of its consent page is invalid: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err("the address of its consent page is not on the web".to_owned());
    }
    let state = of(&address, "state").ok_or("the address of its consent page has no `state`")?;
    let url = tokio::select! {
        url = callback.answer(&state) => url,
        told = consent.ask(page) => read(told?.trim(), callback.address(), &state)?,
        () = tokio::time::sleep(limit) => {
            let minutes = limit.as_secs() / 60;
            return Err(format!("there was no consent within {minutes} minutes"));
        }
    };
    let Some(refused) = of(&url, "error") else { return Ok(url) };
    let about = of(&url, "error_description").map(|about| format!(" ({about})"));
    let refused = format!("there was no consent: {refused}{}", about.unwrap_or_default());
    Err(clip(refused, MAX_WHY))
}

/// Reads a pasted address or code.
fn read(told: &str, address: &str, state: &str) -> Result<Url, String> {
    if told.contains("://") {
        let url = Url::parse(told).map_err(|error| format!("that is not an address: {error}"))?;
        return match of(&url, "state") {
            Some(known) if known == state => Ok(url),
            Some(_) | None => Err(STRANGE.to_owned()),
        };
    }
    let query = [("code", told), ("state", state)];
    Url::parse_with_params(address, query).map_err(|error| error.to_string())
}

const STRANGE: &str = "that address belongs to another request (its `state` differs): open the page shown now, and paste the address to which it leads";

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

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(Option<&'static str>);

    impl Consent for Says {
        async fn ask(&self, page: &str) -> Result<String, String> {
            match self.0 {
                Some(said) => {
                    Ok(said.replace("STATE", &of(&Url::parse(page).unwrap(), "state").unwrap()))
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn answered(said: Option<&'static str>, limit: Duration) -> Result<Url, String> {
        let callback = Callback::open(None).await.unwrap();
        let page = "https://auth.test/authorize?state=s-1&client_id=c";
        answer(page, &callback, &Says(said), limit).await
    }

    #[tokio::test]
    async fn what_is_pasted_is_an_address_with_the_right_state_or_a_code() {
        for told in ["  c-1 \n", "http://127.0.0.1:1/callback?code=c-1&state=STATE"] {
            let url = answered(Some(told), CONSENT).await.unwrap();
            assert_eq!(
                (of(&url, "code").unwrap(), of(&url, "state").unwrap()),
                ("c-1".into(), "s-1".into())
            );
        }
        for (told, expected) in [
            ("http://127.0.0.1:1/callback?code=c-1&state=other", STRANGE),
            ("http://127.0.0.1:1/callback?code=c-1", STRANGE),
            (
                "http://h/?state=STATE&error=access_denied&error_description=no",
                "there was no consent: access_denied (no)",
            ),
        ] {
            assert_eq!(answered(Some(told), CONSENT).await.unwrap_err(), expected);
        }
    }

    #[tokio::test]
    async fn nobody_is_waited_for_for_ever() {
        let why = answered(None, Duration::from_millis(20)).await.unwrap_err();
        assert!(why.starts_with("there was no consent within"), "{why}");
    }

    /// SPEC X5.
    #[test]
    fn consent_may_take_five_minutes() {
        assert_eq!(CONSENT, Duration::from_millis(300_000));
    }

    #[tokio::test]
    async fn a_page_is_one_of_the_web() {
        let callback = Callback::open(None).await.unwrap();
        let why = answer("file:///etc/passwd?state=s", &callback, &Says(None), CONSENT).await;
        assert_eq!(why.unwrap_err(), "the address of its consent page is not on the web");
    }
}
