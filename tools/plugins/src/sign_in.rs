//! Signing in with a plugin: the plugin names a page, a person consents there, and the plugin gets a credential, which is kept
//! for it. Credentials appear in no error.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leftfold_framing::clip;
use leftfold_json_rpc::RequestError;
use serde_json::{Value, json};

use super::answer::kind;
use super::credentials::Credentials;
use super::handshake::SignInMethod;
use super::plugin::Running;

/// Time limit for the page of a sign-in, and for the check of a key.
const AUTHORIZE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a person's consent.
const CONSENT_TIMEOUT: Duration = Duration::from_secs(600);
/// Limits in bytes.
const MAX_INSTRUCTIONS: usize = 2_000;
const MAX_URL: usize = 8_192;

/// A way to sign in at a provider, with the running plugin that offers it.
#[derive(Clone)]
pub struct SignInOffer {
    /// The plugin's name.
    pub plugin: String,
    pub provider: String,
    pub method: SignInMethod,
    /// Its place among the plugin's methods.
    pub(super) at: usize,
    pub(super) running: Arc<Running>,
    pub(super) credentials: Credentials,
}

impl fmt::Debug for SignInOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SignInOffer").field(&self.plugin).field(&self.method.label).finish()
    }
}

/// A sign-in that waits for a person.
#[derive(Debug)]
pub struct StartedSignIn {
    /// The page to open; it may be empty.
    pub url: String,
    pub instructions: String,
    /// Whether the page shows a code that the plugin needs.
    pub needs_code: bool,
    offer: SignInOffer,
}

impl SignInOffer {
    /// Asks the plugin for the page of a sign-in. A plugin has one sign-in at a time: another one replaces it.
    ///
    /// # Errors
    /// There is none: the reason, for people.
    pub async fn authorize(
        self,
        inputs: &BTreeMap<String, String>,
    ) -> Result<StartedSignIn, String> {
        let params = json!({ "provider": self.provider, "method": self.at, "inputs": inputs });
        let said = self.ask("auth.authorize", params, AUTHORIZE_TIMEOUT).await?;
        let wrong = |field: &str, expected: &str| {
            let found = kind(&said[field]);
            self.failed(&format!("`{field}`: expected {expected}, found {found}"))
        };
        let url = said["url"].as_str().unwrap_or_default();
        let is_page = url.starts_with("https://") || url.starts_with("http://");
        let is_plain = url.len() <= MAX_URL && url.bytes().all(|byte| byte.is_ascii_graphic());
        if !(said["url"].is_string() && is_plain && (is_page || url.is_empty())) {
            return Err(wrong("url", "the address of a page"));
        }
        let needs_code = match said["method"].as_str() {
            Some("code") => true,
            Some("auto") => false,
            _ => return Err(wrong("method", "code or auto")),
        };
        let instructions = said["instructions"].as_str().unwrap_or_default().to_owned();
        let instructions = clip(instructions, MAX_INSTRUCTIONS);
        Ok(StartedSignIn { url: url.to_owned(), instructions, needs_code, offer: self })
    }

    /// Lets the plugin check or replace a key, and stores it.
    ///
    /// # Errors
    /// The plugin refuses it, or it cannot be stored: the reason, for people.
    pub async fn accept_key(
        self,
        key: &str,
        inputs: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let params =
            json!({ "provider": self.provider, "method": self.at, "inputs": inputs, "key": key });
        let mut said = self.ask("auth.authorize", params, AUTHORIZE_TIMEOUT).await?;
        if said["type"] == "success" && said["key"].is_null() {
            said["key"] = key.into();
        }
        self.store(said).await
    }

    async fn ask(&self, method: &str, params: Value, limit: Duration) -> Result<Value, String> {
        let said = self.running.link.ask(method, params, limit).await.map_err(|error| {
            self.failed(&match error {
                RequestError::Refused { why, .. } | RequestError::Gone(why) => why,
                RequestError::TimedOut => format!("no answer within {} s", limit.as_secs()),
            })
        })?;
        if !said.is_object() {
            return Err(self.failed(&format!("expected an object, found {}", kind(&said))));
        }
        match said["type"].as_str() {
            Some("failed") => {
                Err(self.failed(said["message"].as_str().unwrap_or("the sign-in failed")))
            }
            _ => Ok(said),
        }
    }

    async fn store(self, said: Value) -> Result<(), String> {
        if said["type"] != "success" {
            return Err(self.failed("`type`: expected success or failed"));
        }
        let other = said["provider"].as_str().filter(|other| *other != self.provider);
        if other.is_some() {
            return Err(self.failed("its credential is for another provider"));
        }
        let failed = self.failed("");
        let Self { plugin, provider, credentials, .. } = self;
        let stored = credentials.with(move |store| store.store(&provider, &plugin, &said)).await;
        stored.map_err(|why| failed + &why)
    }

    fn failed(&self, why: &str) -> String {
        format!("plugin `{}`: {why}", self.plugin)
    }
}

impl StartedSignIn {
    /// Waits until the plugin has the credential, at most 10 minutes, and stores it. `code`: the one that the page showed.
    ///
    /// # Errors
    /// There is none, or it cannot be stored: the reason, for people.
    pub async fn finish(self, code: Option<&str>) -> Result<(), String> {
        let offer = self.offer;
        let mut params = json!({ "provider": offer.provider, "method": offer.at });
        if let Some(code) = code {
            params["code"] = code.into();
        }
        let said = offer.ask("auth.callback", params, CONSENT_TIMEOUT).await?;
        offer.store(said).await
    }
}
