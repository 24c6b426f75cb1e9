//! The settings of one provider, and [`Protocol`], the trait of the wire formats. The rest of this
//! crate and of the program uses wire formats only through this trait.
//!
//! This module never names a wire format: the table of them is [`WIRES`](crate::WIRES).

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use reqwest::Url;
use serde_json::{Map, Value, json};

use crate::authorization::Authorization;
use crate::history::History;
use crate::stream::{Decoder, Provider};
use crate::vendors::{Model, Vendor, listed};

/// The default for the longest time without a byte of an answer.
pub const DEFAULT_STALL: Duration = Duration::from_secs(60);

/// The settings of one provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// The provider's name in settings and for users.
    pub name: String,
    pub wire: Wire,
    /// The vendor whose quirks to expect on the wire; `None`: derived from address and name.
    pub vendor: Option<String>,
    /// The address to which the endpoint's path is appended; `None`: the vendor's own.
    pub base_url: Option<String>,
    /// The parts of the vendor's own address that the user chooses: their names and values.
    pub parameters: Vec<(String, String)>,
    pub api_key: Option<String>,
    /// How requests are authorised if not by `api_key`. It takes precedence over the headers below.
    pub authorization: Option<Authorization>,
    /// Headers of every request. They replace headers of the same name.
    pub headers: Vec<(String, String)>,
    /// The longest silence within an answer, counted from the answer's head. It does not limit the
    /// time before that: the caller limits it by dropping the stream.
    pub stall: Duration,
    /// How to treat requests that their API would refuse.
    pub on_fault: OnFault,
    /// The script of a scripted provider.
    pub script: Option<ScriptSource>,
}

impl Config {
    /// A provider with only a name and a wire.
    pub fn new(name: impl Into<String>, wire: Wire) -> Self {
        Self {
            name: name.into(),
            wire,
            vendor: None,
            base_url: None,
            parameters: Vec::new(),
            api_key: None,
            authorization: None,
            headers: Vec::new(),
            stall: DEFAULT_STALL,
            on_fault: OnFault::IN_THIS_BUILD,
            script: None,
        }
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty())
    }
}

/// Omits everything that may be a secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("vendor", &self.vendor)
            .field("has_key", &self.api_key.is_some())
            .field("authorization", &self.authorization)
            .field("headers", &names)
            .field("stall", &self.stall)
            .field("on_fault", &self.on_fault)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// The script of a [`scripted`](crate::scripted) provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    Path(PathBuf),
    /// The script as JSON text.
    Inline(String),
}

/// How to treat a request that its API would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// Do not send it, and report its fault. Release builds cannot do this, because they do not
    /// have the rules.
    Refuse,
    /// Give calls without results a result, log that, and send it.
    Mend,
}

impl OnFault {
    /// The choice of this build. Nothing else depends on the kind of build, so tests can try both.
    pub const IN_THIS_BUILD: Self = if cfg!(debug_assertions) { Self::Refuse } else { Self::Mend };
}

/// A wire format: one line of [`WIRES`](crate::WIRES).
#[derive(Clone, Copy)]
pub struct Wire(&'static dyn Protocol);

impl Wire {
    pub(crate) const fn new(protocol: &'static dyn Protocol) -> Self {
        Self(protocol)
    }

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        self.0
    }

    /// The name in settings.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The npm package that names this format in OpenCode's settings.
    pub fn npm(self) -> Option<&'static str> {
        self.0.npm()
    }

    /// Whether requests go to a server, which may need a key.
    pub fn is_remote(self) -> bool {
        self.0.http().is_some()
    }
}

impl PartialEq for Wire {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Wire {}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One wire format. Its folder has a struct that implements this trait. Nothing outside that folder
/// knows the format.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// The name in settings.
    fn name(&self) -> &'static str;

    /// The npm package that names this format in OpenCode's settings.
    fn npm(&self) -> Option<&'static str> {
        None
    }

    /// The vendor whose quirks, models and address to expect.
    fn vendor(&self, config: &Config) -> &'static Vendor;

    /// The listed models of `vendor`, newest first.
    fn models(&self, vendor: &Vendor) -> &'static [Model] {
        vendor.models
    }

    /// The listed model with this id.
    fn model(&self, vendor: &Vendor, id: &str) -> Option<&'static Model> {
        listed(self.models(vendor), id)
    }

    /// The efforts that an unlisted model accepts.
    fn unlisted_efforts(&self, _model: &str) -> &'static [&'static str] {
        &[]
    }

    /// The options that set the model's effort of reasoning.
    fn effort(&self, effort: &str) -> Value {
        json!({ "reasoningEffort": effort })
    }

    /// Whether bodies leave out an option of settings, because it is one of other APIs.
    fn leaves_out(&self, _model: &str, _option: &str, _value: &Value) -> bool {
        false
    }

    /// The base URL for the value of a vendor's environment variable.
    fn base_from_env(&self, value: &str) -> String {
        value.trim().to_owned()
    }

    /// The id by which the model `id` of settings is called. `parameters` and `base_url` are those of [`Config`].
    fn model_id<'a>(
        &self,
        _parameters: &[(String, String)],
        _base_url: Option<&str>,
        id: &'a str,
    ) -> Cow<'a, str> {
        Cow::Borrowed(id)
    }

    /// Where requests go.
    fn transport(&self) -> Transport;

    /// The HTTP form of requests and answers; `None` if the format does not use a server.
    fn http(&self) -> Option<&'static dyn Http> {
        match self.transport() {
            Transport::Http(http) => Some(http),
            Transport::Own(_) => None,
        }
    }
}

/// Where requests of a wire format go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    /// To a server.
    Http(&'static dyn Http),
    /// To no server. The function makes a provider; it may read a file, and does no other I/O.
    Own(fn(Config) -> Result<Arc<dyn Provider>, Error>),
}

/// How a stream is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// `application/vnd.amazon.eventstream`.
    EventStream,
}

/// A wire format over HTTP: a POST whose answer is a stream of events.
pub(crate) trait Http: fmt::Debug + Send + Sync {
    /// The endpoint's path below the base URL. Empty: each model has its own address there.
    fn path(&self, _vendor: &Vendor) -> &'static [&'static str] {
        &[]
    }

    /// The address of a request to `model`, given the endpoint's address.
    fn address(&self, _vendor: &Vendor, endpoint: &Url, _model: &str) -> Url {
        endpoint.clone()
    }

    /// The header of the key, and the prefix of the key in it.
    fn key_header(&self, vendor: &Vendor) -> (&'static str, &'static str);

    /// Headers besides those that every wire format sends.
    fn headers(&self, _vendor: &Vendor) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header whose value settings extend instead of replacing it.
    fn joined_header(&self) -> Option<&'static str> {
        None
    }

    /// How answers are cut into events.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// The member of a body that has the conversation. It is the last one, so that each body begins with the bytes of the
    /// previous one as far as the conversation does.
    fn conversation(&self) -> &'static str {
        "messages"
    }

    /// The other members of the body of a request. They depend only on what is no message, on `lacks_thinking` (see
    /// [`History`]), and if no tools are offered, on the calls.
    fn head(&self, vendor: &Vendor, request: &Request, lacks_thinking: bool) -> Map<String, Value>;

    /// The conversation of such requests, before its first message.
    fn history(&self, vendor: &'static Vendor, request: &Request) -> Box<dyn History>;

    /// The decoder of one answer. `provider` is its name in settings, for errors.
    fn decoder(&self, provider: &str, vendor: &'static Vendor) -> Box<dyn Decoder>;

    /// The rules for `body`.
    #[cfg(any(debug_assertions, test))]
    fn api(&self, vendor: &Vendor, model: &str, body: &Value) -> Api;
}

/// Settings that do not make a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{wire}` is not a wire format of this build: expected {known}")]
    UnknownWire { wire: String, known: String },
    #[error("`{vendor}` is not a vendor of this build on the wire format `{wire}`")]
    UnknownVendor { vendor: String, wire: String },
    #[error(
        "provider `{provider}` has no API key: run `leftfold auth login {provider}`, or {variable}set `provider.{provider}.options.apiKey` in leftfold.json"
    )]
    /// `variable` is a clause that names an environment variable, or empty.
    MissingKey { provider: String, variable: String },
    #[error(
        "`provider.{provider}.options.baseURL` is `{url}`, which cannot be used: {reason}; expected something like `https://api.example.com/v1`"
    )]
    BadBaseUrl { provider: String, url: String, reason: String },
    #[error(
        "provider `{provider}` has no address: set `provider.{provider}.options.baseURL` in leftfold.json, for example to `https://api.example.com/v1`"
    )]
    MissingBaseUrl { provider: String },
    #[error(
        "provider `{provider}` has no address without `provider.{provider}.options.{parameter}`: set it in leftfold.json"
    )]
    MissingParameter { provider: String, parameter: String },
    #[error(
        "provider `{provider}` has no AWS region: set `provider.{provider}.options.region` in leftfold.json, AWS_REGION, or `region` in your profile of ~/.aws/config"
    )]
    MissingRegion { provider: String },
    #[error(
        "`provider.{provider}.options.{parameter}` cannot be part of an address: expected {expected}"
    )]
    BadParameter { provider: String, parameter: String, expected: &'static str },
    #[error(
        "`provider.{provider}.options.apiKey` has characters that are not allowed in an HTTP header: check for line breaks and quotation marks"
    )]
    BadKey { provider: String },
    #[error(
        "`provider.{provider}.options.headers` has a name or value that is not valid in HTTP: `{header}`"
    )]
    BadHeader { provider: String, header: String },
    #[error(
        "provider `{provider}` is scripted but has no script: set `provider.{provider}.options.script` to the path of a script or to the script itself"
    )]
    MissingScript { provider: String },
    #[error("the script {source_name} cannot be read: {reason}")]
    UnreadableScript { source_name: String, reason: String },
    #[error("the script {source_name} is not valid: {reason}")]
    BadScript { source_name: String, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_secrets() {
        let mut config = Config::new("a", Wire::ANTHROPIC);
        config.api_key = Some("sk-secret".into());
        config.headers = vec![("authorization".into(), "Bearer hidden".into())];
        config.base_url = Some("https://user:pass@host/v1".into());
        let text = format!("{config:?}");
        for secret in ["sk-secret", "hidden", "pass"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
