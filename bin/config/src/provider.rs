//! Providers and their models in settings.

use std::num::NonZeroU64;
use std::path::PathBuf;

use indexmap::IndexMap;
use leftfold_events::providers::KnownProviders;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::secrecy::Secret;
use crate::typed::{At, Idle, amount, filled};

/// The default limit for a provider's silence, in milliseconds.
pub(crate) const TIMEOUT: u64 = 300_000;
/// The time limit that `false` stands for, in milliseconds: a year. Every wait has an end, so that
/// times stay within the range of a log.
pub const NEVER: u64 = 365 * 24 * 60 * 60 * 1000;

/// A provider.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Provider {
    /// The wire format; `leftfold models` shows those of the built-in providers.
    #[schemars(with = "String", extend("x-name" = true))]
    pub(crate) wire: Option<At<Value>>,
    /// The vendor whose quirks to expect on that wire.
    #[serde(deserialize_with = "filled")]
    #[schemars(extend("x-name" = true))]
    pub vendor: Option<String>,
    pub(crate) options: ProviderOptions,
    #[schemars(extend("x-named" = true))]
    pub models: IndexMap<String, At<Model>>,
    /// The package by which OpenCode names a wire format.
    #[serde(deserialize_with = "filled")]
    #[schemars(extend("x-name" = true))]
    pub npm: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub name: Option<String>,
    id: Idle<Value>,
    /// The address, if `options.baseURL` gives none.
    api: Option<At<String>>,
    /// Variables that may hold the key; the first that is set counts.
    pub env: Vec<String>,
    /// If given, no other models may be used.
    pub whitelist: Option<Vec<String>>,
    pub blacklist: Vec<String>,
}

#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub(crate) struct ProviderOptions {
    #[serde(rename = "baseURL")]
    base_url: Option<At<String>>,
    #[serde(rename = "apiKey")]
    api_key: Option<At<Secret>>,
    pub(crate) headers: IndexMap<String, At<Secret>>,
    /// The longest silence of the provider in milliseconds, or `false` for no limit.
    timeout: Option<TimeLimit>,
    /// The longest silence within an answer in milliseconds, or `false` for no limit.
    #[serde(rename = "chunkTimeout")]
    chunk_timeout: Option<TimeLimit>,
    /// The script that a provider with the wire `scripted` plays, or its path.
    script: Option<At<ScriptText>>,
    /// The provider's own options.
    #[serde(rename = "@rest")]
    #[schemars(flatten)]
    rest: IndexMap<String, At<Value>>,
}

/// The keys of [`ProviderOptions`].
pub(crate) const OPTIONS: [&str; 6] =
    ["baseURL", "apiKey", "headers", "timeout", "chunkTimeout", "script"];

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@milliseconds (a whole number above 0), or false for no limit")]
#[schemars(untagged, inline)]
enum TimeLimit {
    #[serde(rename = "false")]
    Never(#[schemars(extend("const" = false))] bool),
    #[serde(rename = "a number")]
    Milliseconds(NonZeroU64),
}

impl TimeLimit {
    fn milliseconds(self) -> u64 {
        match self {
            Self::Never(_) => NEVER,
            Self::Milliseconds(time) => time.get().min(NEVER),
        }
    }
}

#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@the path of a script, or a script")]
#[schemars(untagged, inline)]
enum ScriptText {
    #[serde(rename = "a string")]
    Text(String),
    #[serde(rename = "a list")]
    List(Vec<Value>),
    #[serde(rename = "an object")]
    Object(Map<String, Value>),
}

/// The script that a scripted provider plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    Path(PathBuf),
    /// The JSON text itself.
    Inline(String),
}

leftfold_events::debug_fields!(Provider {});

impl Provider {
    pub fn base_url(&self) -> Option<&str> {
        let given = self.options.base_url.iter().chain(&self.api).map(|url| url.as_str());
        given.into_iter().find(|url| !url.trim().is_empty())
    }

    pub fn api_key(&self) -> Option<&Secret> {
        self.options.api_key.as_deref().filter(|key| !key.is_blank())
    }

    /// Variables that the key refers to and that are not set.
    pub(crate) fn unset_of_key(&self) -> Vec<String> {
        self.options.api_key.as_ref().map(|key| key.unset_variables().to_vec()).unwrap_or_default()
    }

    /// An error for each variable that key, address or headers refer to and that is not set.
    pub(crate) fn unset(&self) -> impl Iterator<Item = Error> {
        let urls = self.options.base_url.iter().chain(&self.api).flat_map(At::unset);
        let headers = self.options.headers.values().flat_map(At::unset);
        self.options.api_key.iter().flat_map(At::unset).chain(urls).chain(headers)
    }

    /// The longest silence of the provider in milliseconds, at most [`NEVER`].
    pub fn timeout(&self) -> u64 {
        self.options.timeout.map_or(TIMEOUT, TimeLimit::milliseconds)
    }

    /// The longest silence within an answer; `None`: the wire's own default.
    pub fn stall(&self) -> Option<u64> {
        self.options.chunk_timeout.map(TimeLimit::milliseconds)
    }

    pub fn script(&self) -> Option<Script> {
        let script = self.options.script.as_ref()?;
        match &**script {
            ScriptText::Text(text) if text.trim().is_empty() => None,
            ScriptText::Text(text) if text.trim_start().starts_with(['{', '[']) => {
                Some(Script::Inline(text.clone()))
            }
            ScriptText::Text(path) => Some(Script::Path(script.place().source.path(path))),
            ScriptText::List(items) => Some(Script::Inline(Value::from(items.clone()).to_string())),
            ScriptText::Object(map) => Some(Script::Inline(Value::from(map.clone()).to_string())),
        }
    }

    /// The text of one of the provider's own options; `None` if it is empty.
    pub(crate) fn option(&self, name: &str) -> Option<String> {
        let text = self.options.rest.get(name)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The provider's own options.
    pub fn own_options(&self) -> Map<String, Value> {
        let rest = self.options.rest.iter();
        rest.map(|(key, value)| (key.clone(), Value::clone(value))).collect()
    }

    /// Whether the provider's lists allow a model; otherwise the setting that excludes it.
    pub(crate) fn shows(&self, id: &str) -> Result<(), &'static str> {
        let named = |names: &[String]| names.iter().any(|name| name == id);
        if named(&self.blacklist) {
            return Err("blacklist");
        }
        match &self.whitelist {
            Some(whitelist) if !named(whitelist) => Err("whitelist"),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn check(&self, known: &KnownProviders) -> Result<(), Error> {
        if let Some(wire) = &self.wire {
            wire.one_of(&known.wires.iter().map(|wire| wire.name).collect::<Vec<_>>())?;
        }
        self.options.rest.iter().try_for_each(|(key, at)| at.no_slip_of(key, &OPTIONS))
    }
}

/// A model. The catalog supplies the rest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Model {
    pub limit: Limits,
    pub cost: Costs,
    /// For the request body.
    pub options: Map<String, Value>,
    /// Sets of options by name.
    pub variants: Map<String, Value>,
    /// The provider's name for it, if that differs.
    #[serde(deserialize_with = "filled")]
    pub id: Option<String>,
    /// The name for people.
    #[serde(deserialize_with = "filled")]
    pub name: Option<String>,
    pub headers: IndexMap<String, Secret>,
    /// Whether it accepts images and other files.
    attachment: Option<bool>,
    experimental: Idle<Value>,
    #[serde(deserialize_with = "filled")]
    pub family: Option<String>,
    interleaved: Idle<Value>,
    knowledge: Idle<Value>,
    last_updated: Idle<Value>,
    modalities: Idle<Value>,
    open_weights: Idle<Value>,
    provider: Idle<Value>,
    reasoning: Option<bool>,
    release_date: Idle<Value>,
    status: Idle<Value>,
    structured_output: Idle<Value>,
    /// Whether it accepts a temperature.
    temperature: Option<bool>,
    /// Whether it can call tools.
    tool_call: Option<bool>,
}

impl Model {
    pub fn abilities(&self) -> Abilities {
        Abilities {
            tools: self.tool_call,
            images: self.attachment,
            reasoning: self.reasoning,
            temperature: self.temperature,
        }
    }
}

/// A model's capabilities; for `None` the catalog decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Abilities {
    pub tools: Option<bool>,
    /// Accepts images and other files.
    pub images: Option<bool>,
    pub reasoning: Option<bool>,
    pub temperature: Option<bool>,
}

/// In tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Limits {
    pub context: Option<u64>,
    pub input: Option<u64>,
    pub output: Option<u64>,
}

/// In US dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Costs {
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub input: Option<f64>,
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub output: Option<f64>,
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
    reasoning: Idle<Value>,
    context_over_200k: Idle<Value>,
    tiers: Idle<Value>,
    input_audio: Idle<Value>,
    output_audio: Idle<Value>,
}
