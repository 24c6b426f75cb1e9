//! What settings say of signing in at a remote server of tools.

use std::path::PathBuf;

use leftfold_mcp::OAuth;

use super::Error;
use super::provider::Secret;
use super::view::View;
use crate::{auth, environment};

pub(super) const KEYS: [&str; 5] =
    ["clientId", "clientSecret", "scope", "clientMetadata", "callbackPort"];

/// By default whoever is asked to sign in can.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Settings {
    /// Nobody is to sign in.
    off: bool,
    client_id: Option<String>,
    client_secret: Option<Secret>,
    scope: Option<String>,
    client_metadata: Option<String>,
    port: Option<u16>,
}

impl Settings {
    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut settings = Self { off: view.is_false(), ..Self::default() };
        if settings.off {
            return Ok(settings);
        }
        for (key, view) in view.known(&KEYS)? {
            match key {
                "clientId" => settings.client_id = view.filled()?,
                "clientSecret" => settings.client_secret = view.filled()?.map(Secret::new),
                "scope" => settings.scope = view.filled()?,
                "clientMetadata" => settings.client_metadata = view.filled()?,
                _ => {
                    let port = u16::try_from(view.positive()?);
                    settings.port = Some(port.map_err(|_| view.wrong("a port: at most 65535"))?);
                }
            }
        }
        Ok(settings)
    }

    /// As it is to be used.
    pub(super) fn oauth(&self) -> OAuth {
        let secret = self.client_secret.as_ref().map(|secret| secret.reveal().to_owned());
        let scopes = self.scope.iter().flat_map(|scope| scope.split_whitespace());
        OAuth {
            token_store: token_store().filter(|_| !self.off),
            client: self.client_id.clone().map(|id| (id, secret)),
            client_metadata: self.client_metadata.clone(),
            scopes: scopes.map(str::to_owned).collect(),
            port: self.port,
        }
    }
}

/// The file with the tokens of servers of tools, beside the keys of providers.
pub fn token_store() -> Option<PathBuf> {
    auth::path(&environment).map(|keys| keys.with_file_name("mcp-auth.json"))
}
