//! How a remote server comes to know its user: OAuth 2.1 as the protocol has it (SPEC X5).
//!
//! Somebody signs in on purpose (`sign_in`): where to is discovered from the server's own challenge, the
//! consent is given on a page in a browser, and what it leads back with is exchanged for tokens, under
//! PKCE and with its state and issuer checked. Sessions only use what is kept and refresh it; they open
//! no browser. The protocol's steps are those of `rmcp`.

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

/// How long a consent is waited for.
const CONSENT: Duration = Duration::from_secs(5 * 60);

/// What servers are told of who asks.
const CLIENT: &str = "Leftfold";

/// Bytes of what a server says is wrong.
const MAX_WHY: usize = 1_000;

/// How to sign in at a server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    /// The file with the tokens of all servers; none: nobody can sign in.
    pub token_store: Option<PathBuf>,
    /// Of a client that the server knows already, with its secret if it has one.
    pub client: Option<(String, Option<String>)>,
    /// Where a document about this client is, for servers that read such.
    pub client_metadata: Option<String>,
    /// What to ask for, instead of what the server says.
    pub scopes: Vec<String>,
    /// Of this machine, where the browser is sent back to; any that is free.
    pub port: Option<u16>,
}

/// Shows nothing that may be secret.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// Whoever can bring a page before a person.
pub trait Consent: Sync {
    /// Shows the page, and may say where it has led: an address with a `code`, or that code. Who knows only
    /// that the person has seen it need never come to an end: the browser comes back by itself.
    fn ask(&self, page: &str) -> impl Future<Output = Result<String, String>> + Send;
}

/// Asks for the page and takes where it leads at once. Servers do so that trust whoever asks, as those do
/// that clients are tested with.
#[derive(Clone, Copy, Debug)]
pub struct Follow;

impl Consent for Follow {
    async fn ask(&self, page: &str) -> Result<String, String> {
        let client = tokio::task::spawn_blocking(http::client).await;
        let client = client.map_err(|error| error.to_string())??;
        let asked = client.get(page).send().await;
        let answer = asked.map_err(|error| format!("its page does not answer: {error}"))?;
        let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(to) = to else {
            return Err(format!("its page leads nowhere by itself ({})", answer.status()));
        };
        let base = Url::parse(page).map_err(|error| error.to_string())?;
        base.join(to).map(String::from).map_err(|error| error.to_string())
    }
}

/// For requests with what is kept of the server, if there is something.
///
/// # Errors
/// The tokens can not be read; the server no longer says where they are from.
pub(super) async fn client(
    url: &str,
    oauth: &OAuth,
    http: &reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, String> {
    let Some(path) = &oauth.token_store else { return Ok(None) };
    let store = TokenStore::new(path, url);
    let Some(grant) = store.grant()? else { return Ok(None) };
    let mut manager = manager(url, &store).await?;
    let known = manager.initialize_from_store().await.map_err(|error| why(&error))?;
    if let (true, Some(secret)) = (known, grant.client_secret) {
        let client = OAuthClientConfig::new(grant.credentials.client_id, url);
        let configured = manager.configure_client(client.with_client_secret(secret));
        configured.map_err(|error| why(&error))?;
    }
    Ok(Some(AuthClient::new(http.clone(), manager)))
}

/// Has a person consent, and keeps what that grants. What had been granted before is asked for as well.
///
/// # Errors
/// Why there is no grant, in words for people.
pub(super) async fn sign_in(
    url: &str,
    oauth: &OAuth,
    challenge: Option<&str>,
    consent: &impl Consent,
) -> Result<(), String> {
    let path = oauth.token_store.as_ref().ok_or("there is no place for tokens: set HOME")?;
    let store = TokenStore::new(path, url);
    let mut manager = manager(url, &store).await?;
    let found = manager.resolve_metadata_from_challenge(challenge).await;
    let metadata = found.map_err(|error| why(&error))?.metadata;
    let documents = metadata.additional_fields.get("client_id_metadata_document_supported");
    let reads_documents = documents.is_some_and(|documents| documents == true);
    manager.set_metadata(metadata);
    let callback = Callback::open(oauth.port).await?;
    let scopes = scopes(url, oauth, challenge, &store, &manager).await;
    let document = oauth.client_metadata.as_ref().filter(|_| reads_documents);
    let (request, secret) = request(oauth, document, &mut manager, &callback, scopes).await?;
    let session = AuthorizationSession::new(manager, request).await;
    let session = session.map_err(|(_, error)| why(&error))?;
    let answer = answer(&session.auth_url, &callback, consent, CONSENT).await?;
    let granted = session.handle_callback_url(answer.as_str()).await;
    granted.map_err(|error| why(&error))?;
    secret.map_or(Ok(()), |secret| store.keep_secret(&secret))
}

/// Forgets what the server has granted. Whether there was something.
///
/// # Errors
/// The file can not be changed.
pub fn sign_out(url: &str, oauth: &OAuth) -> Result<bool, String> {
    oauth.token_store.as_ref().map_or(Ok(false), |path| TokenStore::new(path, url).forget())
}

/// The server is one that its user has named, so it may well be in a network of theirs.
async fn manager(url: &str, store: &TokenStore) -> Result<AuthorizationManager, String> {
    http::use_ring();
    let manager = AuthorizationManager::new_allowing_private_addresses(url).await;
    let mut manager = manager.map_err(|error| why(&error))?;
    manager.set_credential_store(store.clone());
    Ok(manager)
}

/// What to ask for: all that had been granted, if more is wanted now.
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

/// Who asks: a client that the server knows, one that has a document, or one that is registered now, whose
/// secret is told.
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
                let why = why(&error);
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

/// Where the page has led to: what the browser has brought, or what its user has.
async fn answer(
    page: &str,
    callback: &Callback,
    consent: &impl Consent,
    limit: Duration,
) -> Result<Url, String> {
    let address =
        Url::parse(page).map_err(|error| format!("its page is at no address: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err("its page is at no address of the web".to_owned());
    }
    let state = of(&address, "state").ok_or("its page has no state")?;
    let url = tokio::select! {
        url = callback.answer(&state) => url,
        told = consent.ask(page) => read(told?.trim(), callback.address(), &state)?,
        () = tokio::time::sleep(limit) => {
            let minutes = limit.as_secs() / 60;
            return Err(format!("nobody has consented within {minutes} minutes"));
        }
    };
    let Some(refused) = of(&url, "error") else { return Ok(url) };
    let about = of(&url, "error_description").map(|about| format!(" ({about})"));
    let refused = format!("there was no consent: {refused}{}", about.unwrap_or_default());
    Err(clip(refused, MAX_WHY))
}

/// An address that a person has pasted, or a code.
fn read(told: &str, address: &str, state: &str) -> Result<Url, String> {
    if told.contains("://") {
        let url = Url::parse(told).map_err(|error| format!("that is no address: {error}"))?;
        return match of(&url, "state") {
            Some(known) if known == state => Ok(url),
            Some(_) | None => Err(STRANGE.to_owned()),
        };
    }
    let query = [("code", told), ("state", state)];
    Url::parse_with_params(address, query).map_err(|error| error.to_string())
}

const STRANGE: &str = "that address is no answer to this question (its `state` is another): open the page \
    that was shown now, and paste the address to which it leads";

/// With all that is behind it, as the outermost words seldom say what happened.
fn why(error: &AuthError) -> String {
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
        assert!(why.starts_with("nobody has consented within"), "{why}");
    }

    #[tokio::test]
    async fn a_page_is_one_of_the_web() {
        let callback = Callback::open(None).await.unwrap();
        let why = answer("file:///etc/passwd?state=s", &callback, &Says(None), CONSENT).await;
        assert_eq!(why.unwrap_err(), "its page is at no address of the web");
    }
}
