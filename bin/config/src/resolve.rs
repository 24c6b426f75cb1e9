//! Resolves providers and models: which exist, which one to use, and how to reach it.
//!
//! A key comes from settings, else from variables, else from `leftfold auth login`, which also stores sign-ins.

use std::sync::LazyLock;

use indexmap::IndexMap;
use leftfold_events::providers::{Builtin, KnownProviders, KnownSignIn, KnownWire, Parameter};
use leftfold_events::turn_config::{self, Limit, Prices};
use serde_json::{Map, Value};

use crate::auth::{Credential, PluginCredential, SignedIn};
use crate::error::{Error, Hint, alternatives};
use crate::models_dev::{ListedModel, ListedProvider, ModelList};
use crate::provider::{Abilities, Costs, Limits, Model, Provider, Script};
use crate::secrecy::Secret;
use crate::settings::Settings;
use crate::source::{Env, set};
use crate::tree::below;
use crate::typed::At;

/// The option that holds the address of some vendors.
const ENDPOINT: &str = "endpoint";

/// A usable model.
#[derive(Clone, PartialEq)]
pub struct Chosen {
    pub provider: String,
    pub wire: KnownWire,
    pub vendor: Option<String>,
    /// The model's name in settings and for users.
    pub model: String,
    /// The provider's name for the model.
    pub model_id: String,
    /// `None`: the vendor's own.
    pub base_url: Option<BaseUrl>,
    /// The parts of the vendor's own address and other values that the user chooses: their names and values.
    pub parameters: Vec<(&'static str, String)>,
    pub api_key: Option<Secret>,
    /// The sign-in that authorises requests in the place of a key.
    pub sign_in: Option<SignedIn>,
    /// The plugin with which somebody signed in. It gives each request its key or headers.
    pub sign_in_plugin: Option<String>,
    /// The model's headers replace the provider's.
    pub headers: Vec<(String, Secret)>,
    /// Milliseconds of silence after which a request fails.
    pub timeout: u64,
    /// Milliseconds of silence within an answer; `None`: the wire's own default.
    pub stall: Option<u64>,
    pub script: Option<Script>,
    pub limit: Limits,
    pub cost: Costs,
    pub abilities: Abilities,
    /// The model's options for the request body.
    pub options: Map<String, Value>,
    /// The provider's options that have no field here.
    pub provider_options: Map<String, Value>,
    pub variants: Map<String, Value>,
}

leftfold_events::debug_fields!(Chosen {});

/// An endpoint. In settings it includes the version (`https://host/v1`), as OpenCode users write
/// it; the vendors' variables usually hold only the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseUrl {
    Settings(String),
    Variable {
        name: &'static str,
        value: String,
    },
    /// From the list of models.dev.
    Listed(String),
}

impl Limits {
    /// These limits, completed from `known`.
    pub fn over(self, known: Limit) -> Limit {
        Limit {
            context: self.context.unwrap_or(known.context),
            input: self.input.unwrap_or(known.input),
            output: self.output.unwrap_or(known.output),
        }
    }
}

impl Costs {
    /// These prices, completed from `known`.
    pub fn over(&self, known: Prices) -> Prices {
        Prices {
            input: self.input.unwrap_or(known.input),
            output: self.output.unwrap_or(known.output),
            cache_read: self.cache_read.unwrap_or(known.cache_read),
            cache_write: self.cache_write.unwrap_or(known.cache_write),
        }
    }
}

impl Abilities {
    /// These capabilities, and those of `others` that are not among them.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            tools: self.tools.or(others.tools),
            images: self.images.or(others.images),
            reasoning: self.reasoning.or(others.reasoning),
            temperature: self.temperature.or(others.temperature),
        }
    }

    /// These capabilities, completed from `known`.
    pub fn over(self, known: turn_config::Abilities) -> turn_config::Abilities {
        turn_config::Abilities {
            tools: self.tools.unwrap_or(known.tools),
            media: self.images.unwrap_or(known.media),
            sampling: self.temperature.unwrap_or(known.sampling),
        }
    }
}

/// A provider for `leftfold models` and `leftfold auth`.
#[derive(Clone, Debug)]
pub struct ProviderSummary {
    pub name: String,
    /// `None`: settings do not define it.
    pub wire: Option<KnownWire>,
    pub vendor: Option<String>,
    pub base_url: Option<BaseUrl>,
    /// The parts of the vendor's own address, and other values that the user chooses.
    pub parameters: Vec<(&'static str, String)>,
    pub key: KeyState,
    /// The variables that may hold a key.
    pub key_variables: Vec<String>,
    /// Its models in settings.
    pub models: IndexMap<String, At<Model>>,
    /// Whether it accepts models that settings do not name.
    pub open: bool,
    pub builtin: bool,
    /// Whether it is a provider of the list of models.dev.
    pub listed: bool,
    /// Why it cannot be used, if it cannot: the list of models.dev names an API that this build does not speak.
    pub unavailable: Option<String>,
    /// The setting that turns it off.
    pub disabled: Option<&'static str>,
}

/// The status of a provider's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    From(KeySource),
    /// There is no key. The provider looks for the vendor's credentials when it needs them.
    Credentials,
    /// It is not certain that a key is needed.
    Unneeded,
    /// The variables that may hold the key, or a part of the address without which there is none. If there are none,
    /// people sign in.
    Missing(Vec<String>),
}

impl ProviderSummary {
    /// Whether settings allow requests to its models.
    pub fn is_usable(&self) -> bool {
        self.disabled.is_none()
            && self.unavailable.is_none()
            && !matches!(self.key, KeyState::Missing(_))
    }
}

/// The source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    Settings,
    Variable(String),
    /// `leftfold auth login`.
    Stored,
    /// `leftfold auth login` with this account.
    SignIn(&'static str),
    /// `leftfold auth login` with this plugin.
    Plugin(String),
}

/// A variable that a key or an address can come from.
pub(crate) struct FromEnv<'a> {
    /// The key below the provider's `options`.
    pub(crate) option: &'static str,
    pub(crate) variable: &'a str,
    pub(crate) value: Option<String>,
}

impl Settings {
    /// Resolves the model `wanted` (`PROVIDER/MODEL`; the model's name may contain slashes).
    /// Without it, uses the model in settings, else the default of a built-in provider that has a
    /// key, else the only model listed in settings.
    ///
    /// A provider that lists models in settings has no others, unless it is built in.
    ///
    /// # Errors
    /// No such provider or model, with the closest names; a missing key or variable, by name; or no
    /// model to choose.
    pub fn resolve_model(&self, wanted: Option<&str>, env: Env<'_>) -> Result<Chosen, Error> {
        match (wanted, &self.model) {
            (Some(name), _) => self.find(name, "", env),
            (None, Some(name)) => self.find(name, &format!(" ({})", name.place()), env),
            (None, None) => self.find(&self.default_model(env)?.0, "", env),
        }
    }

    /// The default model.
    pub fn default_name(&self, env: Env<'_>) -> Option<String> {
        let named = self.model_name().map(str::to_owned);
        named.or_else(|| self.default_model(env).ok().map(|(name, _)| name))
    }

    /// The default model if settings name none, and the reason.
    pub(crate) fn default_model(&self, env: Env<'_>) -> Result<(String, String), Error> {
        // Keys may be meant for other programs; settings are for this one and win.
        let listed = self.listed();
        if let [only] = listed.as_slice() {
            return Ok((only.clone(), "no other is listed".to_owned()));
        }
        let is_usable = |builtin: &&Builtin| {
            !builtin.model.is_empty()
                && self.allows(builtin.name).is_ok()
                && self.is_shown(builtin.name, builtin.model)
                && matches!(self.candidate(builtin.name).key_state(env), KeyState::From(_))
        };
        match self.known().builtin.iter().find(is_usable) {
            Some(Builtin { name, model, .. }) => {
                Ok((format!("{name}/{model}"), format!("{name} has a key")))
            }
            None => Err(Error::NoModel { listed, untrusted: self.trust.left_out_models() }),
        }
    }

    /// Every model in settings.
    fn listed(&self) -> Vec<String> {
        let usable = self.providers.iter().filter(|(name, _)| self.allows(name).is_ok());
        let models = usable.flat_map(|(name, provider)| {
            let shown = provider.models.keys().filter(|id| provider.shows(id).is_ok());
            shown.map(move |id| format!("{name}/{id}"))
        });
        models.collect()
    }

    /// `origin`: the source of the name, for the end of errors.
    fn find(&self, name: &str, origin: &str, env: Env<'_>) -> Result<Chosen, Error> {
        let (model, origin) = (name.to_owned(), origin.to_owned());
        let split = name.split_once('/').filter(|(name, id)| !name.is_empty() && !id.is_empty());
        let Some((name, id)) = split else {
            let listed = self.listed();
            let ending = format!("/{name}");
            let hint = match listed.iter().find(|listed| listed.ends_with(&ending)) {
                Some(right) => Hint::exactly(right),
                None => Hint::toward(name, listed),
            };
            return Err(Error::ModelName { model, origin, hint });
        };
        let provider = name.to_owned();
        if let Err(by) = self.allows(name) {
            return Err(Error::Disabled { model, origin, provider, by });
        }
        let candidate = self.candidate(name);
        let Candidate { settings, builtin, listed, .. } = candidate;
        if let Err(list) = settings.shows(id) {
            let by = format!("{}.{list}", below("provider", name));
            return Err(Error::Hidden { model, origin, by });
        }
        if builtin.is_none() && listed.is_none() && self.provider(name).is_none() {
            let hint = Hint::toward(name, self.provider_names());
            return Err(Error::UnknownProvider { model, origin, provider, hint });
        }
        let model_settings = match settings.models.get(id) {
            Some(settings) => Model::clone(settings),
            None if candidate.is_open() => Model::default(),
            None => {
                let (id, hint) = (id.to_owned(), Hint::toward(id, settings.models.keys()));
                return Err(Error::UnknownModel { model, origin, provider, id, hint });
            }
        };
        candidate.choose(id, model_settings, env)
    }

    /// The names of all providers, built-in ones first.
    pub fn provider_names(&self) -> Vec<&str> {
        let known = self.known().builtin.iter().map(|builtin| builtin.name);
        let others = self.providers.keys().map(String::as_str);
        known.chain(others.filter(|name| self.known().builtin(name).is_none())).collect()
    }

    /// The built-in providers, then the others that settings name, then those of the list of models.dev that have a key.
    pub fn provider_summaries(&self, env: Env<'_>) -> Vec<ProviderSummary> {
        let names = self.provider_names();
        let others = self.models_list().providers.iter().filter(|(name, listed)| {
            let has_key = listed.keys().any(|key| set(env, key).is_some());
            let is_stored = || {
                self.stored.for_provider(name).is_some() || self.stored.of_plugin(name).is_some()
            };
            (has_key || is_stored()) && !names.contains(&name.as_str())
        });
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        names
            .into_iter()
            .chain(others)
            .map(|name| self.candidate(name).summary(self, env))
            .collect()
    }

    /// One provider: a built-in one, one in settings, or one of the list of models.dev.
    pub fn provider_summary(&self, name: &str, env: Env<'_>) -> Option<ProviderSummary> {
        let candidate = self.candidate(name);
        let is_known = candidate.builtin.is_some() || candidate.is_in_settings;
        (is_known || candidate.listed.is_some()).then(|| candidate.summary(self, env))
    }

    fn models_list(&self) -> &ModelList {
        self.list.get(self.known())
    }

    /// The date and the origin of the list of models.dev, for people, and the number of its providers.
    pub fn about_models_list(&self) -> (&str, usize) {
        let list = self.models_list();
        (&list.about, list.providers.len())
    }

    /// The faults of the list of models.dev, if it was read.
    pub fn faults_of_models_list(&self) -> &[String] {
        self.list.if_read().map_or(&[] as &[String], |list| &list.faults)
    }

    /// Those of a file that the user has named.
    pub fn faults_of_models_file(&self) -> &[String] {
        if self.list.is_named() { self.faults_of_models_list() } else { &[] }
    }

    /// The models of a provider in the list of models.dev that its wire formats can call; none if settings name a wire
    /// format.
    pub fn listed_models(&self, provider: &str) -> Vec<(&str, Option<KnownWire>, &ListedModel)> {
        let candidate = self.candidate(provider);
        if candidate.settings.wire.is_some() {
            return Vec::new();
        }
        let Some(listed) = self.list.provider(provider, self.known()) else { return Vec::new() };
        let callable = listed.models.iter().filter_map(|(id, model)| {
            let wire = candidate.wire_of_model(id);
            // built-in providers have their own addresses
            let has_own = model.npm.is_some() || model.api.is_some();
            (wire.is_some() && !(candidate.builtin.is_some() && has_own)).then_some((
                id.as_str(),
                wire,
                model,
            ))
        });
        callable.collect()
    }

    /// A model in the list of models.dev.
    pub fn listed_model(&self, provider: &str, id: &str) -> Option<&ListedModel> {
        let is_described = self.provider(provider).is_some_and(|provider| provider.wire.is_some());
        if is_described { None } else { self.list.provider(provider, self.known())?.models.get(id) }
    }

    /// Whether the program has the provider built in.
    pub fn is_builtin(&self, provider: &str) -> bool {
        self.known().builtin(provider).is_some()
    }

    /// Whether the provider may be used; otherwise the setting that turns it off.
    fn allows(&self, provider: &str) -> Result<(), &'static str> {
        let named = |names: &[String]| names.iter().any(|name| name == provider);
        if named(&self.disabled_providers) {
            return Err("disabled_providers");
        }
        match &self.enabled_providers {
            Some(enabled) if !named(enabled) => Err("enabled_providers"),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the model may be listed.
    pub fn is_shown(&self, provider: &str, id: &str) -> bool {
        self.candidate(provider).settings.shows(id).is_ok()
    }

    /// Keys and addresses that come from variables, for the providers that may be used: the
    /// variable that is set, or the first possible one.
    pub(crate) fn in_variables(&self, env: Env<'_>) -> Vec<(&str, FromEnv<'_>)> {
        // The number of built-in providers to show without a request for more.
        const MAIN: usize = 3;
        let builtin = self.known().builtin.iter().map(|builtin| builtin.name);
        let default_answer = builtin.clone().filter(|name| self.provider(name).is_none());
        let names = self.providers.keys().map(String::as_str).chain(default_answer);
        let mut all = Vec::new();
        for name in names.filter(|name| self.allows(name).is_ok()) {
            let candidate = self.candidate(name);
            let Candidate { settings, builtin: build, .. } = candidate;
            let variables: Vec<&str> = candidate.variables(build).collect();
            let found = variables.iter().find(|name| set(env, name).is_some());
            let is_asked_for = self.provider(name).is_some()
                || !builtin.clone().skip(MAIN).any(|builtin| builtin == name);
            let first = variables.first().filter(|_| is_asked_for && candidate.stored.is_none());
            let key = found.or(first).filter(|_| settings.api_key().is_none());
            let key = key.map(|variable| ("apiKey", *variable));
            let address = build.filter(|builtin| {
                candidate.own_address().is_none() && !builtin.base_url.is_empty()
            });
            let address = address.map(|builtin| ("baseURL", builtin.base_url));
            let unsaid = |parameter: &&Parameter| settings.option(parameter.option).is_none();
            let parts = candidate.all_parameters().filter(unsaid).filter_map(|parameter| {
                let set = |name: &&&str| set(env, name).is_some();
                Some((parameter.option, *parameter.variables.iter().find(set)?))
            });
            let found = key.into_iter().chain(address).chain(parts);
            all.extend(found.map(|(option, variable)| {
                (name, FromEnv { option, variable, value: set(env, variable) })
            }));
        }
        all
    }

    /// The providers whose keys come from `leftfold auth login`.
    pub(crate) fn by_stored_key(&self, env: Env<'_>) -> Vec<&str> {
        let is_used = |name: &&str| {
            let key = self.candidate(name).key(env);
            self.allows(name).is_ok() && key.is_some_and(|(_, from)| from == KeySource::Stored)
        };
        self.stored.providers().filter(is_used).collect()
    }

    fn candidate<'a>(&'a self, name: &'a str) -> Candidate<'a> {
        static NOTHING: LazyLock<Provider> = LazyLock::new(Provider::default);
        let known = self.known();
        let settings = self.provider(name).unwrap_or_else(|| &NOTHING);
        let of_vendor = settings.vendor.as_deref().and_then(|vendor| known.builtin(vendor));
        let builtin = known.builtin(name);
        // settings with a wire format describe a provider in full
        let is_listed = builtin.is_none() && settings.wire.is_none();
        let listed = if is_listed { self.list.provider(name, known) } else { None };
        let npm = settings.npm.as_deref().or_else(|| listed?.package(None));
        let of_npm = || known.builtin_of_npm(npm?);
        Candidate {
            name,
            settings,
            builtin,
            kind: of_vendor.or_else(of_npm).or(builtin),
            listed,
            npm,
            is_in_settings: self.provider(name).is_some(),
            stored: self.stored.for_provider(name),
            stored_sign_in: self.stored.sign_in(name),
            plugin_sign_in: self.plugin_sign_in(name),
            known,
        }
    }

    /// The sign-in at a provider that a plugin offered. The error has the plugin's name, if settings no longer have it.
    fn plugin_sign_in(&self, provider: &str) -> Option<Result<String, String>> {
        let PluginCredential { plugin, credential: Credential::Tokens(_) } =
            self.stored.of_plugin(provider)?
        else {
            return None;
        };
        let is_there = self.plugins.iter().any(|candidate| {
            let program = candidate.program().and_then(Result::ok);
            let known = program.and_then(|program| candidate.for_sign_ins(&program.code));
            known.is_some_and(|known| known.is(&plugin))
        });
        Some(if is_there { Ok(plugin.name) } else { Err(plugin.name) })
    }
}

/// A provider with its settings and its built-in definition.
struct Candidate<'a> {
    name: &'a str,
    settings: &'a Provider,
    builtin: Option<&'static Builtin>,
    /// The built-in provider whose address it has, perhaps under another name.
    kind: Option<&'static Builtin>,
    /// The provider in the list of models.dev, unless it is built in.
    listed: Option<&'a ListedProvider>,
    /// The package by which OpenCode names its wire format.
    npm: Option<&'a str>,
    /// Whether settings describe it.
    is_in_settings: bool,
    /// The key from `leftfold auth login`.
    stored: Option<Secret>,
    /// The sign-in from `leftfold auth login`.
    stored_sign_in: Option<SignedIn>,
    plugin_sign_in: Option<Result<String, String>>,
    known: &'static KnownProviders,
}

impl<'a> Candidate<'a> {
    fn choose(&self, id: &str, model: Model, env: Env<'_>) -> Result<Chosen, Error> {
        let settings = self.settings;
        let (provider, path) = (self.name.to_owned(), below("provider", self.name));
        let called = model.id.as_deref().unwrap_or(id);
        let Some(wire) = self.wire_of_model(called) else {
            let wires: Vec<&str> = self.known.wires.iter().map(|wire| wire.name).collect();
            let npm = self.npm_of_model(called);
            let npm = npm.map(|name| format!(" (its npm package `{name}` is not known)"));
            let (npm, known) = (npm.unwrap_or_default(), alternatives(&wires));
            return Err(Error::NoWire { provider, npm, path, known });
        };
        let address = self.base_url_of(Some(called), env);
        if wire.is_remote {
            if let Some(unset) = settings.unset().next() {
                return Err(unset);
            }
            if let Some(Parameter { option, variables, .. }) = self.missing_parameter(env) {
                let (option, variables) = ((*option).to_owned(), variables.join(" or "));
                return Err(Error::MissingParameter { provider, path, option, variables });
            }
            if address.is_none()
                && let Some(Err(variables)) =
                    self.listed.and_then(|listed| listed.address(Some(called), env))
            {
                let option = "baseURL".to_owned();
                return Err(Error::MissingParameter { provider, path, option, variables });
            }
            if let KeyState::Missing(variables) = self.key_state(env) {
                if variables.is_empty() {
                    return Err(Error::NotSignedIn { provider, path });
                }
                let variables = variables.join(" or ");
                return Err(Error::MissingKey { provider, path, variables });
            }
        }
        // Header names are case-insensitive.
        let is_replaced = |name: &str| model.headers.keys().any(|k| k.eq_ignore_ascii_case(name));
        let headers = settings.options.headers.iter().filter(|(name, _)| !is_replaced(name));
        let headers = headers.map(|(name, value)| (name.clone(), Secret::clone(value)));
        Ok(Chosen {
            provider,
            wire,
            vendor: self.vendor(env),
            model: id.to_owned(),
            headers: headers.chain(model.headers.clone()).collect(),
            abilities: model.abilities(),
            model_id: model.id.unwrap_or_else(|| id.to_owned()),
            base_url: address,
            parameters: self.parameters(env),
            api_key: self.key(env).map(|(key, _)| key),
            sign_in: self.sign_in(env).map(|(signed_in, _)| signed_in.clone()),
            sign_in_plugin: match self.key_state(env) {
                KeyState::From(KeySource::Plugin(plugin)) => Some(plugin),
                _ => None,
            },
            timeout: settings.timeout(),
            stall: settings.stall(),
            script: settings.script(),
            limit: model.limit,
            cost: model.cost,
            options: model.options,
            provider_options: settings.own_options(),
            variants: model.variants,
        })
    }

    /// Whether it accepts models that settings do not name.
    fn is_open(&self) -> bool {
        self.builtin.is_some() || self.listed.is_some() || self.settings.models.is_empty()
    }

    fn summary(&self, settings: &Settings, env: Env<'_>) -> ProviderSummary {
        let wire = self.wire();
        let npm = self.npm.filter(|_| self.listed.is_some() && wire.is_none());
        ProviderSummary {
            name: self.name.to_owned(),
            wire,
            vendor: self.vendor(env),
            base_url: self.base_url(env),
            parameters: self.parameters(env),
            key: self.key_state(env),
            key_variables: self.variables(self.builtin).map(str::to_owned).collect(),
            models: self.settings.models.clone(),
            open: self.is_open(),
            builtin: self.builtin.is_some(),
            listed: self.listed.is_some(),
            unavailable: npm.map(|npm| {
                format!("models.dev names no API for it that Leftfold speaks (npm package `{npm}`)")
            }),
            disabled: settings.allows(self.name).err(),
        }
    }

    /// The wire format in settings, else the one of the npm package, else of the provider's name,
    /// else the one for servers with only an address.
    fn wire(&self) -> Option<KnownWire> {
        let (settings, known) = (self.settings, self.known);
        let by_npm = || known.wire_of_npm(settings.npm.as_deref()?);
        // An address alone means a server for other vendors' models, most of which speak this wire.
        let is_bare = settings.npm.is_none() && settings.base_url().is_some();
        let named = settings.wire.as_ref().and_then(|name| known.wire(name.text()));
        let found = named.or_else(by_npm).or_else(|| known.wire_of(self.name));
        let found = found.or_else(|| self.listed_wire(None));
        found.or(known.usual_wire.filter(|_| is_bare))
    }

    /// The wire format of a model. Some providers have several, unless settings name one.
    fn wire_of_model(&self, model: &str) -> Option<KnownWire> {
        if self.settings.wire.is_some() || self.settings.npm.is_some() {
            return self.wire();
        }
        let is_apart = self.listed.is_some_and(|listed| listed.package(Some(model)) != self.npm);
        if is_apart {
            return self.listed_wire(Some(model));
        }
        let of_model = || self.known.wire_of_model(self.builtin?, model);
        of_model().or_else(|| self.wire())
    }

    fn npm_of_model(&self, model: &str) -> Option<&'a str> {
        let own = self.settings.npm.as_deref();
        own.or_else(|| self.listed?.package(Some(model)))
    }

    /// The wire format of a provider or model of the list. Its package needs an address, because the vendor of the wire
    /// would get the key otherwise, and must not stand for an API that gets credentials of this machine.
    fn listed_wire(&self, model: Option<&str>) -> Option<KnownWire> {
        let listed = self.listed?;
        let known = self.known;
        let npm = listed.package(model).filter(|_| listed.template(model).is_some())?;
        let wire = known.wire_of_npm(npm)?;
        let is_meant = |builtin: &&Builtin| match builtin.npm {
            Some(package) => package == npm,
            None => builtin.wire == wire.name,
        };
        let finds = known.builtin.iter().filter(is_meant).any(|builtin| builtin.finds_credentials);
        (!finds).then_some(wire)
    }

    /// The value of a part of the address: from settings, else from a variable, else the default.
    fn parameter(&self, parameter: &Parameter, env: Env<'_>) -> Option<String> {
        let from_env = || parameter.variables.iter().find_map(|name| set(env, name));
        let given = self.settings.option(parameter.option).or_else(from_env);
        given.or_else(|| parameter.default.map(str::to_owned))
    }

    fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        let kind = self.kind.into_iter();
        kind.flat_map(|kind| kind.parameters.iter().chain(kind.optional_parameters))
    }

    fn parameters(&self, env: Env<'_>) -> Vec<(&'static str, String)> {
        let all = self.all_parameters();
        all.filter_map(|parameter| Some((parameter.option, self.parameter(parameter, env)?)))
            .collect()
    }

    /// The first part of the vendor's own address that is needed and has no value.
    fn missing_parameter(&self, env: Env<'_>) -> Option<&'static Parameter> {
        if self.base_url(env).is_some() {
            return None;
        }
        let has_key = self.key(env).is_some();
        let mut all = self.kind?.parameters.iter();
        all.find(|parameter| {
            let is_needed = !(has_key && parameter.is_unneeded_with_key);
            is_needed && self.parameter(parameter, env).is_none()
        })
    }

    /// The address in settings. Some vendors' users call it `endpoint`.
    fn own_address(&self) -> Option<String> {
        let mut options = self.all_parameters().filter(|parameter| parameter.option == ENDPOINT);
        let endpoint = options.next().and_then(|_| self.settings.option(ENDPOINT));
        endpoint.or_else(|| self.settings.base_url().map(str::to_owned))
    }

    /// The address. Tokens of a sign-in go to the address that they are for, whatever settings say.
    fn base_url(&self, env: Env<'_>) -> Option<BaseUrl> {
        self.base_url_of(None, env)
    }

    /// The address of a model, or of the provider.
    fn base_url_of(&self, model: Option<&str>, env: Env<'_>) -> Option<BaseUrl> {
        if self.sign_in(env).is_some() {
            return None;
        }
        if let Some(url) = self.own_address() {
            return Some(BaseUrl::Settings(url));
        }
        match self.builtin {
            Some(builtin) => {
                let name = builtin.base_url;
                set(env, name).map(|value| BaseUrl::Variable { name, value })
            }
            None => self.listed?.address(model, env)?.ok().map(BaseUrl::Listed),
        }
    }

    /// The variables that may hold the key if settings do not set it.
    fn variables(&self, builtin: Option<&'static Builtin>) -> impl Iterator<Item = &'a str> {
        let own = builtin.map_or(&[] as &[&str], |builtin| builtin.keys);
        let listed = self.listed.into_iter().flat_map(ListedProvider::keys);
        self.settings.env.iter().map(String::as_str).chain(own.iter().copied()).chain(listed)
    }

    /// The key and its source.
    fn key(&self, env: Env<'_>) -> Option<(Secret, KeySource)> {
        if let Some(key) = self.settings.api_key() {
            return Some((key.clone(), KeySource::Settings));
        }
        let set = |name| Some((Secret::new(set(env, name)?), KeySource::Variable(name.to_owned())));
        let stored = || Some((self.stored.clone()?, KeySource::Stored));
        self.variables(self.builtin).find_map(set).or_else(stored)
    }

    /// The sign-in that is used, and what is known of it. A key in settings or in a variable takes precedence.
    fn sign_in(&self, env: Env<'_>) -> Option<(&SignedIn, &'static KnownSignIn)> {
        let stored = self.stored_sign_in.as_ref()?;
        let known = self.known.sign_in(self.name)?;
        self.key(env).is_none().then_some((stored, known))
    }

    /// The vendor of the sign-in, else the one in settings, else the built-in provider of the npm package.
    fn vendor(&self, env: Env<'_>) -> Option<String> {
        let signed_in = self.sign_in(env).map(|(_, known)| known.vendor.to_owned());
        let by_npm = || Some(self.known.builtin_of_npm(self.npm?)?.name.into());
        signed_in.or_else(|| self.settings.vendor.clone()).or_else(by_npm)
    }

    /// The status of the key. A key is certainly needed by built-in providers at their own address,
    /// and if variables for it are named.
    fn key_state(&self, env: Env<'_>) -> KeyState {
        let unset = self.settings.unset_of_key();
        if !unset.is_empty() {
            return KeyState::Missing(unset);
        }
        if let Some((_, source)) = self.key(env) {
            return KeyState::From(source);
        }
        if let Some((_, known)) = self.sign_in(env) {
            return KeyState::From(KeySource::SignIn(known.label));
        }
        if let Some(Ok(plugin)) = &self.plugin_sign_in {
            return KeyState::From(KeySource::Plugin(plugin.clone()));
        }
        let finds = self.kind.is_some_and(|kind| kind.finds_credentials);
        let signs = self.kind.map_or(&[] as &[&str], |kind| kind.credential_signs);
        let has_sign = signs.is_empty()
            || self.is_in_settings
            || signs.iter().any(|name| set(env, name).is_some());
        let missing = self.missing_parameter(env).filter(|_| finds);
        if finds && missing.is_none() && has_sign {
            return KeyState::Credentials;
        }
        let at_home = self.builtin.filter(|_| self.own_address().is_none());
        let parts = missing.map_or(&[] as &[&str], |parameter| parameter.variables);
        let names = self.variables(at_home).chain(parts.iter().copied());
        let names = names.chain(signs.iter().copied().filter(|_| !has_sign));
        let names: Vec<String> = names.map(str::to_owned).collect();
        let signs_in = self.plugin_sign_in.is_some()
            || (at_home.is_some() && self.known.sign_in(self.name).is_some());
        if names.is_empty() && !signs_in { KeyState::Unneeded } else { KeyState::Missing(names) }
    }
}
