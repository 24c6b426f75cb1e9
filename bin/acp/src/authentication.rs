//! Keys. They are not told over the protocol: a client is told how a person gives them.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodTerminal, AuthenticateResponse, ClientCapabilities,
};

use super::errors::to_error;
use leftfold_runtime::{model, resolved_settings};

const LOGIN: &str = "leftfold-auth-login";

/// What a client that has a terminal can run; the environment's and stored keys need nothing.
pub(super) fn methods(client: &ClientCapabilities) -> Vec<AuthMethod> {
    if !client.auth.terminal {
        return Vec::new();
    }
    let login = AuthMethodTerminal::new(LOGIN, "Store a key")
        .description("Asks for the key of a provider and stores it for you alone".to_owned())
        .args(vec!["auth".to_owned(), "login".to_owned()]);
    vec![AuthMethod::Terminal(login)]
}

/// Whether there is a model that can be asked, as far as settings and keys tell.
pub(super) fn check() -> Result<AuthenticateResponse, Error> {
    let directory = std::env::current_dir().map_err(|error| to_error(&error.into()))?;
    let settings =
        resolved_settings::without_plugins(&directory).map_err(|error| to_error(&error))?;
    let mut summaries = settings.provider_summaries(&model::environment).into_iter();
    if summaries.any(|summary| summary.is_usable()) {
        return Ok(AuthenticateResponse::new());
    }
    let why = "there is no key for any provider: `leftfold auth login PROVIDER` stores one";
    Err(Error::auth_required().data(why))
}
