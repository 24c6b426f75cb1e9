//! One provider as settings give it, and [`Protocol`], the trait of the wire formats: all that the
//! rest of this crate and of the program knows of a wire format, it asks of this trait.
//!
//! Never names a wire format: the table of them is [`WIRES`](crate::WIRES).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::Request;
use reqwest::Url;
use serde_json::{Value, json};

#[cfg(any(debug_assertions, test))]
use crate::check::{Fault, Faults, Place};
use crate::stream::{Decoder, Provider};
use crate::vendors::{Model, Vendor};

/// How long an answer may stay without a byte unless settings say otherwise.
pub const DEFAULT_STALL: Duration = Duration::from_secs(60);

/// One provider as settings give it.
#[derive(Clone)]
pub struct Config {
    /// The name under which settings and users know it.
    pub name: String,
    pub wire: Wire,
    /// Whose quirks to expect on that wire; `None`: as address and name suggest.
    pub vendor: Option<String>,
    /// The endpoint's path is appended to it; `None`: the vendor's own.
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    /// Sent with every request; they replace headers of the same name.
    pub headers: Vec<(String, String)>,
    /// The longest silence within an answer. It begins with the answer's head: how long a model
    /// may take before that, the caller decides by dropping the stream.
    pub stall: Duration,
    /// What becomes of requests that are not as they should be.
    pub faulty: Faulty,
    /// What a scripted provider plays.
    pub script: Option<ScriptSource>,
}

impl Config {
    /// A provider of which only name and wire are known.
    pub fn new(name: impl Into<String>, wire: Wire) -> Self {
        Self {
            name: name.into(),
            wire,
            vendor: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            stall: DEFAULT_STALL,
            faulty: Faulty::IN_THIS_BUILD,
            script: None,
        }
    }

    /// Everything in `body` that this provider would refuse. `model` is the model that the request
    /// is for, which not every wire names in its body. A scripted provider refuses nothing.
    ///
    /// Release builds do not have the rules, nor this function.
    #[cfg(any(debug_assertions, test))]
    pub fn faults(&self, model: &str, body: &Value) -> Vec<Fault> {
        let protocol = self.wire.protocol();
        let http = protocol.http();
        http.map_or_else(Vec::new, |http| faults(http, protocol.vendor(self), model, body))
    }
}

/// Everything in `body` that `vendor` would refuse on this wire.
#[cfg(any(debug_assertions, test))]
pub(crate) fn faults(http: &dyn Http, vendor: &Vendor, model: &str, body: &Value) -> Vec<Fault> {
    let mut faults = Faults::default();
    let body = Place::root(body);
    if body.value.is_object() {
        http.check(vendor, model, &body, &mut faults);
    } else {
        faults.add("shape", &body, "the body is no JSON object");
    }
    faults.into_vec()
}

/// Leaves out whatever may be a secret.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("wire", &self.wire)
            .field("vendor", &self.vendor)
            .field("has_key", &self.api_key.is_some())
            .field("headers", &names)
            .field("stall", &self.stall)
            .field("faulty", &self.faulty)
            .field("script", &self.script)
            .finish_non_exhaustive()
    }
}

/// A script for [`scripted`](crate::scripted).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    Path(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

/// What becomes of a request that its API would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faulty {
    /// It is not sent, and its fault is told. Only builds that have the rules can tell, which
    /// release builds do not.
    Refused,
    /// Calls without results get some, which is logged, and it is sent.
    Mended,
}

impl Faulty {
    /// As this build has it. Nothing else asks which build it is, so that tests can have both.
    pub const IN_THIS_BUILD: Self =
        if cfg!(debug_assertions) { Self::Refused } else { Self::Mended };
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

    /// The npm package by which OpenCode's settings name the same format.
    pub fn npm(self) -> Option<&'static str> {
        self.0.npm()
    }

    /// Whether a server is asked, which may want a key.
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

/// One wire format. Its folder has a struct that implements this, and nothing outside that folder
/// says how the format goes.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// The name in settings.
    fn name(&self) -> &'static str;

    /// The npm package by which OpenCode's settings name the same format.
    fn npm(&self) -> Option<&'static str> {
        None
    }

    /// Whose quirks, models and address to expect.
    fn vendor(&self, config: &Config) -> &'static Vendor;

    /// The models that are listed for `vendor`, newest first.
    fn models(&self, vendor: &Vendor) -> &'static [Model] {
        vendor.models
    }

    /// The efforts that a model takes which is not listed.
    fn unlisted_efforts(&self, _model: &str) -> &'static [&'static str] {
        &[]
    }

    /// The options by which a model is told how hard to think.
    fn effort(&self, effort: &str) -> Value {
        json!({ "reasoningEffort": effort })
    }

    /// The base URL that the value of a vendor's environment variable means.
    fn base_from_env(&self, value: &str) -> String {
        value.trim().to_owned()
    }

    /// Makes a provider. No I/O but reading a script is done before the first request.
    fn build(&self, config: Config) -> Result<Arc<dyn Provider>, Error>;

    /// How requests and answers go over HTTP; `None` if no server is asked.
    fn http(&self) -> Option<&'static dyn Http> {
        None
    }
}

/// The part of a wire format that goes over HTTP: a POST whose answer is a stream of server-sent
/// events.
pub(crate) trait Http: fmt::Debug + Send + Sync {
    /// The endpoint's path below the base URL.
    fn path(&self) -> &'static [&'static str];

    /// The address of a request to `model`, from that of the endpoint.
    fn address(&self, endpoint: &Url, _model: &str) -> Url {
        endpoint.clone()
    }

    /// The header of the key, and what stands before the key there.
    fn key_header(&self, vendor: &Vendor) -> (&'static str, &'static str);

    /// Headers beyond those that every wire sends.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The header to whose value settings add, rather than replace it.
    fn joined_header(&self) -> Option<&'static str> {
        None
    }

    /// The body of a request: a pure function of it.
    fn body(&self, vendor: &Vendor, request: &Request) -> Value;

    /// Reads one answer. `provider` is its name in settings, for errors.
    fn decoder(&self, provider: &str, vendor: &'static Vendor) -> Box<dyn Decoder>;

    /// Adds each rule of the vendor's that `body` breaks.
    #[cfg(any(debug_assertions, test))]
    fn check(&self, vendor: &Vendor, model: &str, body: &Place<'_>, faults: &mut Faults);
}

/// Settings from which no provider can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{wire}` is no wire format that this build speaks: expected {known}")]
    UnknownWire { wire: String, known: String },
    #[error(
        "provider `{provider}` has no API key: run `leftfold auth login {provider}`, or {variable}set `provider.{provider}.options.apiKey` in leftfold.json"
    )]
    /// `variable` is a clause that names one, or empty.
    MissingKey { provider: String, variable: String },
    #[error(
        "`provider.{provider}.options.baseURL` is `{url}`, which can not be used: {reason}; expected something like `https://api.example.com/v1`"
    )]
    BadBaseUrl { provider: String, url: String, reason: String },
    #[error(
        "provider `{provider}` has no address: set `provider.{provider}.options.baseURL` in leftfold.json, for example to `https://api.example.com/v1`"
    )]
    MissingBaseUrl { provider: String },
    #[error(
        "`provider.{provider}.options.apiKey` has characters that no HTTP header can carry: check for line breaks and quotation marks"
    )]
    BadKey { provider: String },
    #[error(
        "`provider.{provider}.options.headers` has a name or value that is no valid HTTP header: `{header}`"
    )]
    BadHeader { provider: String, header: String },
    #[error(
        "provider `{provider}` is scripted but has no script: give `provider.{provider}.options.script` the path of a script or the script itself"
    )]
    MissingScript { provider: String },
    #[error("the script {source_name} can not be read: {reason}")]
    UnreadableScript { source_name: String, reason: String },
    #[error("the script {source_name} is not right: {reason}")]
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
