//! Authentication. Keys are never sent over the protocol; a client learns how a person stores them.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodTerminal, AuthenticateResponse, ClientCapabilities,
};

use super::errors::to_error;
use leftfold_runtime::{model, resolved_settings};

const LOGIN: &str = "leftfold-auth-login";

/// The methods for a client with a terminal. Keys in the environment and stored keys need no
/// method.
pub(super) fn methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    if !client.auth.terminal {
        return Vec::new();
    }
    let login = AuthMethodTerminal::new(LOGIN, "Store a key")
        .description("Asks for a provider's key and stores it for your user only".to_owned())
        .args(vec!["auth".to_owned(), "login".to_owned()]);
    vec![AuthMethod::Terminal(login)]
}

/// Whether settings and keys allow requests to any model.
pub(super) fn check() -> Result<AuthenticateResponse, Error> {
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
