//! The credentials that plugins' sign-ins make. They are kept beside the keys, each with the plugin that made it, and go to
//! no other plugin. The plugin turns its credential into a key or headers for each request.

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_config::auth::{self, Credential, Keys, PluginCredential, SignInPlugin, SignedIn};
use leftfold_config::{Secret, environment};
use leftfold_events::event::FailureClass;
use leftfold_plugins::{CredentialStore, OpenCredential};
use leftfold_providers::{Authorization, Authorize, Credentials, Failure, Outgoing};
use serde_json::Value;

use super::sign_in;

/// The longest name of an account or host, in bytes.
const MAX_NAME: usize = 300;

/// Keeps the credentials of one plugin.
pub(crate) struct PluginCredentials {
    plugin: SignInPlugin,
    identity: String,
}

impl PluginCredentials {
    pub(crate) fn new(plugin: SignInPlugin) -> Self {
        let identity = format!("{:?}", (&plugin.source, &plugin.program));
        Self { plugin, identity }
    }

    fn stored(&self, provider: &str) -> Result<Option<Credential>, String> {
        let keys = Keys::load(&environment).map_err(|error| error.to_string())?;
        let stored = keys.of_plugin(provider).filter(|stored| stored.plugin.is(&self.plugin));
        Ok(stored.map(|stored| stored.credential))
    }

    fn read(&self, name: &str, said: &Value) -> Result<PluginCredential, String> {
        let plugin = SignInPlugin { name: name.to_owned(), ..self.plugin.clone() };
        Ok(PluginCredential { plugin, credential: credential(said)? })
    }
}

impl CredentialStore for PluginCredentials {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn open(&self, provider: &str) -> Result<Option<OpenCredential>, String> {
        let Some(found) = self.stored(provider)? else { return Ok(None) };
        let ends_soon =
            matches!(&found, Credential::Tokens(signed_in) if sign_in::ends_soon(signed_in));
        if !ends_soon {
            return Ok(Some(OpenCredential { value: found.entry(), lock: None }));
        }
        let lock = auth::lock_refresh(&environment, provider).map_err(|error| error.to_string())?;
        // another process may have renewed it meanwhile
        let open = |found: Credential| OpenCredential { value: found.entry(), lock: Some(lock) };
        Ok(self.stored(provider)?.map(open))
    }

    fn store(&self, provider: &str, name: &str, said: &Value) -> Result<(), String> {
        let credential = self.read(name, said)?;
        auth::store_of_plugin(&environment, provider, &credential)
            .map_err(|error| error.to_string())?;
        sign_in::learn_credential(provider, &credential.credential);
        Ok(())
    }

    fn renew(&self, provider: &str, name: &str, said: &Value) -> Result<(), String> {
        let credential = self.read(name, said)?;
        match auth::renew_of_plugin(&environment, provider, &credential) {
            Ok(true) => {
                sign_in::learn_credential(provider, &credential.credential);
                Ok(())
            }
            Ok(false) => Err("nobody is signed in with this plugin any more".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Reads a plugin's credential: `{"key"}`, or `{"access", "refresh", "expires", "accountId", "enterpriseUrl"}`. The error
/// quotes nothing of it.
fn credential(said: &Value) -> Result<Credential, String> {
    let secret = |name: &str| -> Result<Option<Secret>, String> {
        match &said[name] {
            Value::Null => Ok(None),
            Value::String(text) => {
                auth::parse_key(text).map(Some).map_err(|why| format!("`{name}`: {why}"))
            }
            _ => Err(format!("`{name}`: expected a string")),
        }
    };
    let name = |name: &str| -> Result<Option<String>, String> {
        match said[name].as_str() {
            None if said[name].is_null() => Ok(None),
            Some(text)
                if text.len() <= MAX_NAME && text.bytes().all(|it| it.is_ascii_graphic()) =>
            {
                Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
            }
            _ => Err(format!("`{name}`: expected a short text")),
        }
    };
    if let Some(key) = secret("key")? {
        return Ok(Credential::Key(key));
    }
    let Some(access) = secret("access")? else {
        return Err("it has neither `key` nor `access`".to_owned());
    };
    let expires = match &said["expires"] {
        Value::Null => 0,
        Value::Number(number) if number.is_u64() => number.as_u64().unwrap_or_default(),
        _ => return Err("`expires`: expected milliseconds since 1970".to_owned()),
    };
    Ok(Credential::Tokens(SignedIn {
        refresh: secret("refresh")?.unwrap_or_else(|| access.clone()),
        access,
        expires,
        account: name("accountId")?,
        host: name("enterpriseUrl")?,
    }))
}

/// Requests whose key or headers a plugin gives.
struct ByPlugin {
    plugin: String,
    provider: String,
    identity: String,
}

/// The authorization of requests to a provider at which somebody signed in with a plugin.
pub(crate) fn authorization(provider: &str, plugin: &str) -> Authorization {
    let identity = format!("plugin {plugin:?} {provider:?}");
    Authorization::new(ByPlugin {
        plugin: plugin.to_owned(),
        provider: provider.to_owned(),
        identity,
    })
}

leftfold_events::debug_fields!(ByPlugin { identity });

impl Authorize for ByPlugin {
    fn identity(&self) -> &str {
        &self.identity
    }

    /// A key of the plugin replaces this authorization, and its headers are in the request already.
    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>> {
        async move {
            if request.headers.values().any(|value| value.is_sensitive()) {
                return Ok(Credentials::default());
            }
            let Self { plugin, provider, .. } = self;
            Err(Failure::fatal(
                FailureClass::Auth,
                format!(
                    "the plugin `{plugin}`, with which you are signed in at {provider}, gave no key: see `leftfold plugins`, \
                     or sign in again with `leftfold auth login {provider}`"
                ),
            ))
        }
        .boxed()
    }
}
