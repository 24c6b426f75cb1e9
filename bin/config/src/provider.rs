//! One provider of settings, and its models.

use std::fmt;
use std::path::PathBuf;

use leftfold_events::providers::KnownWire;
use serde_json::{Map, Value};

use super::model::{self, Model};
use super::view::View;
use super::{Error, Place};

/// How long a provider may stay silent unless settings say otherwise, in milliseconds.
pub(crate) const TIMEOUT: u64 = 300_000;
/// What `false` means for a time limit, in milliseconds: a year. Every wait has an end, so that
/// times stay within what a log can write down.
pub const NEVER: u64 = 365 * 24 * 60 * 60 * 1000;

/// A value that is shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// What a scripted provider plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    Path(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

/// A variable that the provider needs and that is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unset {
    pub place: Place,
    pub key: String,
    pub variable: String,
}

/// A provider as settings give it.
#[derive(Clone, PartialEq)]
pub struct Provider {
    /// What people call it.
    pub name: Option<String>,
    pub wire: Option<KnownWire>,
    pub npm: Option<String>,
    /// Whose quirks to expect on that wire.
    pub vendor: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// Variables that may hold the key, the first that is set counts.
    pub env: Vec<String>,
    pub headers: Vec<(String, Secret)>,
    /// The longest silence of the provider in milliseconds, at most [`NEVER`].
    pub timeout: u64,
    /// The longest silence within an answer, likewise; `None`: the wire's own default.
    pub stall: Option<u64>,
    pub script: Option<Script>,
    /// What else stands in `options`.
    pub options: Map<String, Value>,
    /// In the order of the files.
    pub models: Vec<(String, Model)>,
    /// If given, no other models may be used.
    pub whitelist: Option<Vec<String>>,
    pub blacklist: Vec<String>,
    /// Variables missing from key, address and headers.
    pub unset: Vec<Unset>,
}

/// Leaves out addresses and options, which may hold passwords, as well as what is a secret.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("wire", &self.wire)
            .field("npm", &self.npm)
            .field("vendor", &self.vendor)
            .field("has_key", &self.api_key.is_some())
            .field("script", &self.script)
            .field("models", &self.models.iter().map(|(id, _)| id).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            name: None,
            wire: None,
            npm: None,
            vendor: None,
            base_url: None,
            api_key: None,
            env: Vec::new(),
            headers: Vec::new(),
            timeout: TIMEOUT,
            stall: None,
            script: None,
            options: Map::new(),
            models: Vec::new(),
            whitelist: None,
            blacklist: Vec::new(),
            unset: Vec::new(),
        }
    }
}

pub(super) const KEYS: [&str; 11] = [
    "wire",
    "vendor",
    "options",
    "models",
    "npm",
    "name",
    "id",
    "api",
    "env",
    "whitelist",
    "blacklist",
];

/// Those of `options` that Leftfold reads; any others are the provider's own.
pub(super) const OPTIONS: [&str; 6] =
    ["baseURL", "apiKey", "headers", "timeout", "chunkTimeout", "script"];

impl Provider {
    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut provider = Self::default();
        let mut api = None;
        for (key, view) in view.known(&KEYS)? {
            match key {
                "wire" => provider.wire = Some(view.wire()?),
                "npm" => provider.npm = view.filled()?,
                "vendor" => provider.vendor = view.filled()?,
                "name" => provider.name = view.filled()?,
                "env" => provider.env = view.strings()?,
                "api" => api = provider.needed(&view)?,
                "options" => provider.read_options(&view)?,
                "models" => provider.models = model::all(&view)?,
                "whitelist" => provider.whitelist = Some(view.strings()?),
                "blacklist" => provider.blacklist = view.strings()?,
                _ => {}
            }
        }
        provider.base_url = provider.base_url.take().or(api);
        Ok(provider)
    }

    fn read_options(&mut self, options: &View<'_>) -> Result<(), Error> {
        for (key, view) in options.entries()? {
            match key {
                "baseURL" => self.base_url = self.needed(&view)?,
                "apiKey" => self.api_key = self.needed(&view)?.map(Secret),
                "headers" => self.headers = self.read_headers(&view)?,
                "timeout" => self.timeout = time(&view)?,
                "chunkTimeout" => self.stall = Some(time(&view)?),
                "script" => self.script = script(&view)?,
                _ => {
                    view.no_slip_of(key, &OPTIONS)?;
                    self.options.insert(key.to_owned(), view.value());
                }
            }
        }
        Ok(())
    }

    fn read_headers(&mut self, view: &View<'_>) -> Result<Vec<(String, Secret)>, Error> {
        for (_, header) in view.entries()? {
            self.needed(&header)?;
        }
        headers(view)
    }

    /// A string without which the provider is not what its user meant: remembers what is missing.
    fn needed(&mut self, view: &View<'_>) -> Result<Option<String>, Error> {
        let unset = view.text()?.unset().map(|variable| Unset {
            place: view.at().clone(),
            key: view.path.clone(),
            variable: variable.to_owned(),
        });
        self.unset.extend(unset);
        view.filled()
    }
}

pub(super) fn headers(view: &View<'_>) -> Result<Vec<(String, Secret)>, Error> {
    let entries = view.entries()?.into_iter();
    entries.map(|(name, view)| Ok((name.to_owned(), Secret(view.string()?)))).collect()
}

pub(super) fn object(view: &View<'_>) -> Result<Map<String, Value>, Error> {
    Ok(view.entries()?.into_iter().map(|(key, view)| (key.to_owned(), view.value())).collect())
}

/// Milliseconds, or `false` for no limit.
fn time(view: &View<'_>) -> Result<u64, Error> {
    if view.is_false() {
        return Ok(NEVER);
    }
    let expected = "milliseconds (a whole number above 0), or false for no limit";
    view.positive().map(|time| time.min(NEVER)).map_err(|_| view.wrong(expected))
}

/// A path, or the script itself: as JSON, or as a string that holds JSON.
fn script(view: &View<'_>) -> Result<Option<Script>, Error> {
    if view.is_map() || view.list().is_ok() {
        return Ok(Some(Script::Inline(view.value().to_string())));
    }
    let text = view.filled().map_err(|_| view.wrong("the path of a script, or a script"))?;
    Ok(text.map(|text| match text.trim_start().starts_with(['{', '[']) {
        true => Script::Inline(text),
        false => Script::Path(view.resolve(&text)),
    }))
}
