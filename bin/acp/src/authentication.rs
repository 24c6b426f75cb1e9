//! Authentication. Keys and tokens are never sent over the protocol; a client learns how a person stores keys and signs
//! in.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateResponse, ClientCapabilities,
};

use super::errors::to_error;
use leftfold_runtime::sign_in::{self, InBrowser, Method};
use leftfold_runtime::{model, resolved_settings};

const LOGIN: &str = "leftfold-auth-login";

/// The prefix of a sign-in in a browser, before the provider's name.
const SIGN_IN: &str = "leftfold-sign-in-";

/// Sign-ins in a browser, and for a client with a terminal those with a code, and storing a key. Keys in the environment
/// and what is stored need no method.
pub(super) fn methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    let rows = sign_in::sign_ins().iter();
    let in_browser = rows.clone().filter(|row| row.browser.is_some()).map(|row| {
        let method = AuthMethodAgent::new(
            format!("{SIGN_IN}{}", row.provider),
            format!("Sign in with {}", row.label),
        );
        let about = format!("Opens a browser, for the models of {}", row.provider);
        AuthMethod::Agent(method.description(about))
    });
    let mut methods: Vec<AuthMethod> = in_browser.collect();
    if !client.auth.terminal {
        return methods;
    }
    methods.extend(rows.map(|row| {
        let args = ["auth", "login", row.provider, "--method", "code"];
        let id = format!("{LOGIN}-{}", row.provider);
        let name = format!("Sign in with {} and a code", row.label);
        AuthMethod::Terminal(AuthMethodTerminal::new(id, name).args(args.map(str::to_owned).into()))
    }));
    let login = AuthMethodTerminal::new(LOGIN, "Store a key")
        .description("Asks for a provider's key and stores it for your user only".to_owned())
        .args(vec!["auth".to_owned(), "login".to_owned()]);
    methods.push(AuthMethod::Terminal(login));
    methods
}

/// Signs in with a browser if the method says so, and else checks whether anything more is needed.
pub(super) async fn authenticate(method: &str) -> Result<AuthenticateResponse, Error> {
    let Some(provider) = method.strip_prefix(SIGN_IN) else { return check() };
    let row = sign_in::for_provider(provider).filter(|row| row.browser.is_some());
    let row = row.ok_or_else(|| Error::invalid_params().data(format!("no method `{method}`")))?;
    let signed_in =
        async { sign_in::begin(row, Method::Browser, None).await?.finish(&InBrowser).await };
    signed_in.await.map_err(|error| Error::auth_required().data(format!("{error:#}")))?;
    Ok(AuthenticateResponse::new())
}

/// Whether settings and keys allow requests to any model.
fn check() -> Result<AuthenticateResponse, Error> {
    let directory = std::env::current_dir().map_err(|error| to_error(&error.into()))?;
    let settings =
        resolved_settings::without_plugins(&directory).map_err(|error| to_error(&error))?;
    let mut summaries = settings.provider_summaries(&model::environment).into_iter();
    if summaries.any(|summary| summary.is_usable()) {
        return Ok(AuthenticateResponse::new());
    }
    let why = "no provider has a key: store one with `leftfold auth login PROVIDER`";
    Err(Error::auth_required().data(why))
}
