//! Signing in at a vendor instead of storing a key: a person consents, the tokens are stored beside the keys, and every
//! request is sent with a token that is still valid.
//!
//! Tokens are in the file of keys and in the memory of the one who sends a request. No turn configuration, log, event or
//! error has one.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_config::auth::{self, Credential, SignedIn};
use leftfold_config::{Secret, environment};
use leftfold_events::Secrets;
use leftfold_events::event::FailureClass;
use leftfold_events::secrets;
pub use leftfold_oauth::{AutoConsent, Consent, Method, SignIn};
use leftfold_oauth::{Error, Server, Started, Tokens};
use leftfold_providers::{Authorization, Authorize, Credentials, Failure, Outgoing};
pub use leftfold_providers::{sign_in as for_provider, sign_ins};

use crate::{Usage, account_models, redact_output};

/// A token is refreshed this long before its end.
const REFRESH_MARGIN: Duration = Duration::from_secs(60);
/// How long the vendor is waited for when it is asked for the models of an account.
const MODELS_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two attempts to replace an old list of models while a process runs.
const MODELS_RETRY_INTERVAL: Duration = Duration::from_secs(60 * 60);

fn server(row: &'static SignIn, host: Option<&str>) -> Result<Server, String> {
    let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    Server::new(row, host, set)
}

/// The methods of a sign-in, the usual one first.
pub fn methods(row: &SignIn) -> Vec<Method> {
    Server::methods(row)
}

/// A sign-in that waits for a person. Dropping it ends it.
#[derive(Debug)]
pub struct Pending {
    row: &'static SignIn,
    host: Option<String>,
    started: Started,
}

/// Begins to sign in. `host`: an organization's own.
///
/// # Errors
/// The host cannot be used, or the authorization server refuses or is not available.
pub async fn begin(
    row: &'static SignIn,
    method: Method,
    host: Option<&str>,
) -> anyhow::Result<Pending> {
    let server = server(row, host).map_err(Usage)?;
    let started = server.begin(method).await?;
    Ok(Pending { row, host: host.map(str::to_owned), started })
}

impl Pending {
    /// The page to open.
    pub fn page(&self) -> String {
        self.started.page()
    }

    /// The code to type there.
    pub fn code(&self) -> Option<&str> {
        self.started.code()
    }

    /// Waits for consent and stores the tokens, in the place of an earlier key or sign-in.
    ///
    /// # Errors
    /// There is no consent within some minutes, or the tokens cannot be stored.
    pub async fn finish(self, consent: &impl Consent) -> anyhow::Result<()> {
        let tokens = self.started.finish(consent).await?;
        store(self.row, &entry(tokens, None, self.host.as_deref()))?;
        account_models::forget(self.row.provider);
        if self.row.models.is_some()
            && let Err(why) = refresh_models(self.row).await
        {
            tracing::warn!("the models of {} are not known: {why}", self.row.label);
        }
        Ok(())
    }
}

/// Stores tokens in the place of an earlier key or sign-in.
///
/// # Errors
/// Their host cannot be used, or they cannot be stored.
pub fn store(row: &'static SignIn, signed_in: &SignedIn) -> anyhow::Result<()> {
    server(row, signed_in.host.as_deref()).map_err(Usage)?;
    learn(row.provider, signed_in);
    auth::store_sign_in(&environment, row.provider, signed_in)?;
    Ok(())
}

/// Ends a sign-in: removes its tokens, and has the vendor revoke them if it offers that.
///
/// Returns false if there was none, and the reason why the vendor could not revoke it.
///
/// # Errors
/// The file cannot be changed.
pub async fn sign_out(row: &'static SignIn) -> anyhow::Result<(bool, Option<String>)> {
    let Some(signed_in) = auth::sign_in(&environment, row.provider)? else {
        return Ok((false, None));
    };
    let was_there = auth::forget(&environment, row.provider)?;
    account_models::forget(row.provider);
    let revoked = async {
        let server = server(row, signed_in.host.as_deref())?;
        let revoked = server.revoke(signed_in.refresh.reveal()).await;
        revoked.map_err(|error| error.to_string())
    };
    let why = match revoked.await {
        Ok(true) => None,
        Ok(false) => Some(format!("{} has no way to revoke it from here", row.label)),
        Err(why) => Some(why),
    };
    Ok((was_there, why))
}

/// Asks the vendor for the models of the account, and keeps the list.
///
/// # Errors
/// Nobody is signed in, or the vendor does not answer: the reason, for people. An older list is kept.
async fn refresh_models(row: &'static SignIn) -> Result<(), String> {
    let signed_in = auth::sign_in(&environment, row.provider).map_err(|error| error.to_string())?;
    let signed_in = signed_in.ok_or("nobody is signed in")?;
    let access = authorization(row, &signed_in).map_err(|error| error.to_string())?;
    let models = leftfold_providers::account_models(row, &access, MODELS_TIMEOUT).await?;
    let keep = move || account_models::keep(row.provider, models);
    let kept = tokio::task::spawn_blocking(keep).await.map_err(|error| error.to_string())?;
    kept.map_err(|error| error.to_string())
}

/// Asks for the models of the account at a provider, if its vendor has a list and there is none, or an old one.
///
/// # Errors
/// There is no new list: the reason, for people.
pub async fn bring_models_up_to_date(provider: &str) -> Result<(), String> {
    match for_provider(provider)
        .filter(|row| row.models.is_some() && account_models::is_due(provider))
    {
        Some(row) => refresh_models(row).await,
        None => Ok(()),
    }
}

/// Calls [`bring_models_up_to_date`] in the background, if there is an async runtime.
pub(crate) fn bring_models_up_to_date_soon(provider: &str) {
    static ASKED: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if asked.get(provider).is_some_and(|last| last.elapsed() < MODELS_RETRY_INTERVAL) {
        return;
    }
    let provider = provider.to_owned();
    asked.insert(provider.clone(), Instant::now());
    runtime.spawn(async move {
        if let Err(why) = bring_models_up_to_date(&provider).await {
            tracing::debug!("the models of {provider} are as they were: {why}");
        }
    });
}

/// Opens consent pages in a browser of this machine, which returns by itself.
#[derive(Clone, Copy, Debug)]
pub struct InBrowser;

impl Consent for InBrowser {
    async fn ask(&self, page: &str) -> Result<String, String> {
        open_browser(page).map_err(|error| format!("no browser opens: {error}"))?;
        std::future::pending().await
    }
}

/// The consent page is shown elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere;

impl Consent for Elsewhere {
    async fn ask(&self, _: &str) -> Result<String, String> {
        std::future::pending().await
    }
}

/// The program that opens pages in the user's browser.
pub const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a page in the user's browser.
///
/// # Errors
/// The opener cannot be started.
pub fn open_browser(page: &str) -> io::Result<()> {
    let mut browser = leftfold_programs::for_person(OPENER)?;
    browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut browser = browser.spawn()?;
    // The opener ends once the browser has the address.
    drop(std::thread::Builder::new().spawn(move || browser.wait()));
    Ok(())
}

/// A browser that gets its page later. Programs that a node has started may not use it: on Linux they and their
/// children count as part of a call. So the opener is started before there is a node, and outlives its parent.
#[derive(Debug)]
pub struct LaterBrowser(Mutex<ChildStdin>);

impl LaterBrowser {
    /// # Errors
    /// There is no shell.
    pub fn prepare() -> io::Result<Self> {
        /// Waits for the address as a child of nobody.
        const WAIT: &str =
            "exec 3<&0; { read -r page <&3 && exec \"$0\" \"$page\" 3<&-; } </dev/null &";
        let mut shell = leftfold_programs::for_person("sh")?;
        shell.args(["-c", WAIT, OPENER]);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut shell = shell.spawn()?;
        let address = shell.stdin.take();
        shell.wait()?;
        address.map(|address| Self(Mutex::new(address))).ok_or(io::ErrorKind::BrokenPipe.into())
    }

    /// Opens the page. Nothing happens if this machine has no browser.
    pub fn open(&self, page: &str) {
        let mut address = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(address, "{page}");
    }
}

/// The way to authorise requests with a stored sign-in, and the address of the API that accepts them.
///
/// # Errors
/// An address in a variable cannot be used.
pub(crate) fn authorization(
    row: &'static SignIn,
    signed_in: &SignedIn,
) -> Result<(Authorization, String), Usage> {
    let server = server(row, signed_in.host.as_deref()).map_err(Usage)?;
    let api = server.api().to_owned();
    let identity = format!("sign-in {} {server:?}", row.provider);
    let tokens = StoredTokens { server, identity, memory: Mutex::default() };
    Ok((Authorization::new(tokens), api))
}

/// Authorises requests with the stored tokens of one sign-in.
struct StoredTokens {
    server: Server,
    identity: String,
    memory: Mutex<Memory>,
}

/// The tokens that this process keeps in memory, beside those in the file.
#[derive(Default)]
struct Memory {
    /// The last access token that the API did not accept.
    refused: Option<Secret>,
    /// The access token that came after it.
    after_refusal: Option<Secret>,
    /// Refreshed tokens that could not be stored, and the refresh token that they came from.
    unsaved: Option<(Secret, SignedIn)>,
}

leftfold_events::debug_fields!(StoredTokens { identity });

impl Authorize for StoredTokens {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>> {
        async move {
            let mut signed_in = self.stored().await?;
            if self.is_due(&signed_in) {
                signed_in = self.refreshed().await?;
            }
            request.set("authorization", &format!("Bearer {}", signed_in.access.reveal()))?;
            let account = self.server.row.account.as_ref().zip(signed_in.account.as_ref());
            if let Some((named, account)) = account {
                request.set(named.header, account)?;
            }
            Ok(Credentials(named(self.server.row.provider, &signed_in)))
        }
        .boxed()
    }

    fn refused(&self, used: &Credentials) -> bool {
        let Some((_, access)) = used.0.first() else { return false };
        let mut memory = self.memory();
        let is_new = memory.after_refusal.as_ref().is_some_and(|after| after.reveal() == access);
        memory.refused = Some(Secret::new(access.as_str()));
        // tokens that are not refreshed have one value for both
        !is_new && used.0.get(1).is_some_and(|(_, refresh)| refresh != access)
    }
}

impl StoredTokens {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stored(&self) -> Result<SignedIn, Failure> {
        let provider = self.server.row.provider;
        let read = blocking(move || auth::sign_in(&environment, provider)).await?;
        let Some(stored) = read else {
            return Err(self.failed("nobody is signed in any more"));
        };
        let unsaved = self.memory().unsaved.clone();
        let newer = unsaved.filter(|(from, _)| *from == stored.refresh);
        Ok(newer.map_or(stored, |(_, newer)| newer))
    }

    /// Whether the access token must be replaced before it is used.
    fn is_due(&self, signed_in: &SignedIn) -> bool {
        ends_soon(signed_in) || self.memory().refused.as_ref() == Some(&signed_in.access)
    }

    /// Refreshes the tokens, unless another process has done so meanwhile.
    async fn refreshed(&self) -> Result<SignedIn, Failure> {
        let row = self.server.row;
        let lock = blocking(move || auth::lock_refresh(&environment, row.provider)).await?;
        let old = self.stored().await?;
        if !self.is_due(&old) {
            return Ok(old);
        }
        let is_refused = self.memory().refused.as_ref() == Some(&old.access);
        if !old.is_refreshable() {
            return Err(self.failed("the token has expired or was revoked"));
        }
        let new = match self.server.refresh(old.refresh.reveal()).await {
            Ok(tokens) => entry(tokens, Some(&old), None),
            // it is still good for this request
            Err(Error::Unavailable(_)) if !is_refused && old.expires > now() => return Ok(old),
            Err(Error::Unavailable(why)) => {
                let why = format!("the sign-in at {} cannot be refreshed: {why}", row.label);
                return Err(Failure::new(FailureClass::Network, why));
            }
            Err(Error::Refused(why)) => return Err(self.failed(&why)),
        };
        learn(row.provider, &new);
        let from = old.refresh.clone();
        let stored = {
            let new = new.clone();
            blocking(move || auth::replace_sign_in(&environment, row.provider, &old, &new)).await
        };
        let mut memory = self.memory();
        memory.after_refusal = is_refused.then(|| new.access.clone());
        match stored {
            Ok(true) => memory.unsaved = None,
            // somebody has signed out or in again meanwhile
            Ok(false) => {}
            Err(failure) => {
                tracing::warn!("refreshed tokens are not stored: {}", failure.message);
                memory.unsaved = Some((from, new.clone()));
            }
        }
        drop(memory);
        drop(lock);
        Ok(new)
    }

    fn failed(&self, why: &str) -> Failure {
        let (label, provider) = (self.server.row.label, self.server.row.provider);
        let message = format!(
            "the sign-in at {label} is over: {why}: sign in again with `leftfold auth login {provider}`"
        );
        Failure::fatal(FailureClass::Auth, message)
    }
}

/// Work with the file of keys, which may wait for another process.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, auth::Error> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed = |why: String| Failure::fatal(FailureClass::Auth, why);
    done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

/// The entry for tokens. What the server did not repeat stays as it was.
fn entry(tokens: Tokens, old: Option<&SignedIn>, host: Option<&str>) -> SignedIn {
    let access = Secret::new(tokens.access.as_str());
    let refresh = tokens.refresh.map(Secret::new).or_else(|| Some(old?.refresh.clone()));
    SignedIn {
        refresh: refresh.unwrap_or_else(|| access.clone()),
        access,
        expires: tokens.expires.unwrap_or_default(),
        account: tokens.account.or_else(|| old?.account.clone()),
        host: host.map(str::to_owned).or_else(|| old?.host.clone()),
    }
}

fn named(provider: &str, signed_in: &SignedIn) -> Vec<(String, String)> {
    let all = [("access", &signed_in.access), ("refresh", &signed_in.refresh)];
    let named = |(name, value): (&str, &Secret)| {
        (format!("auth.{provider}.{name}"), value.reveal().to_owned())
    };
    all.map(named).into()
}

/// Whether an access token ends before a request with it is sure to be answered.
pub(super) fn ends_soon(signed_in: &SignedIn) -> bool {
    signed_in.expires != 0 && signed_in.expires <= now() + millis(REFRESH_MARGIN)
}

/// [`learn`] for the credential of a plugin.
pub(super) fn learn_credential(provider: &str, credential: &Credential) {
    match credential {
        Credential::Tokens(signed_in) => learn(provider, signed_in),
        Credential::Key(key) => {
            learn_values([(format!("auth.{provider}"), key.reveal().to_owned())]);
        }
    }
}

/// Keeps tokens out of texts for people from now on.
fn learn(provider: &str, signed_in: &SignedIn) {
    learn_values(named(provider, signed_in));
}

fn learn_values(known: impl IntoIterator<Item = (String, String)>) {
    let known = known.into_iter();
    let known = known.map(|(name, value)| secrets::Secret { name, value, usable: false });
    match Secrets::new(known) {
        Ok(known) => redact_output::learn(&known),
        Err(error) => tracing::warn!("{error}"),
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
