//! Which providers and models there are, which one to use, and all that is needed to reach it.
//!
//! A key comes from settings, then from variables, then from `leftfold auth login`.

use std::fmt;

use indexmap::IndexMap;
use leftfold_events::kit::{self, Limit, Prices};
use leftfold_events::providers::{Builtin, KnownProviders, KnownWire};
use serde_json::{Map, Value};

use crate::error::{Error, Hint, Listed, Npm, Origin, alternatives};
use crate::provider::{Abilities, Costs, Limits, Model, Provider, Script};
use crate::secrecy::Secret;
use crate::settings::Settings;
use crate::source::Env;
use crate::tree::below;
use crate::typed::At;

/// A model that can be used.
#[derive(Clone, PartialEq)]
pub struct Chosen {
    pub provider: String,
    pub wire: KnownWire,
    pub vendor: Option<String>,
    /// The model as settings and users call it.
    pub model: String,
    /// The model as the provider calls it.
    pub model_id: String,
    /// `None`: the vendor's own.
    pub base_url: Option<BaseUrl>,
    pub api_key: Option<Secret>,
    /// Those of the model replace those of the provider.
    pub headers: Vec<(String, Secret)>,
    /// Milliseconds of silence.
    pub timeout: u64,
    /// Milliseconds of silence within an answer; `None`: the wire's own default.
    pub stall: Option<u64>,
    pub script: Option<Script>,
    pub limit: Limits,
    pub cost: Costs,
    pub abilities: Abilities,
    /// The model's options, for the request body.
    pub options: Map<String, Value>,
    /// The provider's options that have no field here.
    pub provider_options: Map<String, Value>,
    pub variants: Map<String, Value>,
}

/// Leaves out addresses and options, which may hold passwords, as well as what is a secret.
impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("wire", &self.wire)
            .field("has_key", &self.api_key.is_some())
            .finish_non_exhaustive()
    }
}

/// An endpoint. Settings give it with its version (`https://host/v1`), as OpenCode users write
/// it; the vendors' variables usually hold the bare host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseUrl {
    Settings(String),
    Variable { name: &'static str, value: String },
}

impl Limits {
    /// These limits, and `known` where nothing is said.
    pub fn over(self, known: Limit) -> Limit {
        Limit {
            context: self.context.unwrap_or(known.context),
            input: self.input.unwrap_or(known.input),
            output: self.output.unwrap_or(known.output),
        }
    }
}

impl Costs {
    /// These prices, and `known` where nothing is said.
    pub fn over(self, known: Prices) -> Prices {
        Prices {
            input: self.input.unwrap_or(known.input),
            output: self.output.unwrap_or(known.output),
            cache_read: self.cache_read.unwrap_or(known.cache_read),
            cache_write: self.cache_write.unwrap_or(known.cache_write),
        }
    }
}

impl Abilities {
    /// These abilities, and `known` where nothing is said.
    pub fn over(self, known: kit::Abilities) -> kit::Abilities {
        kit::Abilities {
            tools: self.tools.unwrap_or(known.tools),
            media: self.images.unwrap_or(known.media),
            sampling: self.temperature.unwrap_or(known.sampling),
        }
    }
}

/// A model by name, on its way to be found.
struct Wanted<'a> {
    /// `PROVIDER/MODEL`.
    name: &'a str,
    provider: &'a str,
    id: &'a str,
    origin: Origin,
    /// The key that `leftfold auth login` was given.
    stored: Option<Secret>,
    known: &'static KnownProviders,
}

impl Settings {
    /// The model `wanted` (`PROVIDER/MODEL`; the part after the first slash may have more of
    /// them), or else the one that settings name, or else the default of a built-in provider
    /// whose key is there, or else the only one that settings list.
    ///
    /// A provider that lists models in settings has no others, unless it is built in.
    ///
    /// # Errors
    /// No such provider or model, with the nearest that exist; a key or another variable that is
    /// missing, by name; nothing to choose from.
    pub fn resolve_model(&self, wanted: Option<&str>, env: Env<'_>) -> Result<Chosen, Error> {
        match (wanted, &self.model) {
            (Some(name), _) => self.find(name, Origin(None), env),
            (None, Some(name)) => self.find(name, Origin(Some(name.place().clone())), env),
            (None, None) => self.find(&self.default_model(env)?.0, Origin(None), env),
        }
    }

    /// Whether the provider may be used at all.
    pub(crate) fn allows(&self, provider: &str) -> Result<(), &'static str> {
        let named = |names: &[String]| names.iter().any(|name| name == provider);
        if named(&self.disabled_providers) {
            return Err("disabled_providers");
        }
        match &self.enabled_providers {
            Some(enabled) if !named(enabled) => Err("enabled_providers"),
            Some(_) | None => Ok(()),
        }
    }

    /// The model that is used where settings name none, and why.
    pub(crate) fn default_model(&self, env: Env<'_>) -> Result<(String, String), Error> {
        let has_key = |builtin: &Builtin| {
            let settings = self.provider(builtin.name).cloned().unwrap_or_default();
            let stored = self.stored.of(builtin.name);
            !builtin.model.is_empty()
                && self.allows(builtin.name).is_ok()
                && settings.shows(builtin.model).is_ok()
                && key(&settings, Some(builtin), stored.as_ref(), env).is_some()
        };
        // keys are there for many programs: what was set up for this one comes first
        let listed = self.listed();
        if let [only] = listed.as_slice() {
            return Ok((only.clone(), "no other is listed".to_owned()));
        }
        match self.known().builtin.iter().find(|builtin| has_key(builtin)) {
            Some(Builtin { name, model, .. }) => {
                Ok((format!("{name}/{model}"), format!("there is a key for {name}")))
            }
            None => Err(Error::NoModel { listed: Listed(listed) }),
        }
    }

    /// Every model that settings name.
    fn listed(&self) -> Vec<String> {
        let usable = self.providers.iter().filter(|(name, _)| self.allows(name).is_ok());
        usable
            .flat_map(|(name, provider)| {
                let shown = provider.models.iter().filter(|(id, _)| provider.shows(id).is_ok());
                shown.map(move |(id, _)| format!("{name}/{id}"))
            })
            .collect()
    }

    fn find(&self, name: &str, origin: Origin, env: Env<'_>) -> Result<Chosen, Error> {
        let wanted = self.split(name, origin)?;
        if let Err(by) = self.allows(wanted.provider) {
            let (model, provider) = (name.to_owned(), wanted.provider.to_owned());
            return Err(Error::Disabled { model, origin: wanted.origin, provider, by });
        }
        if let Err(list) = self.shows(wanted.provider, wanted.id) {
            let by = format!("{}.{list}", wanted.path());
            return Err(Error::Hidden { model: name.to_owned(), origin: wanted.origin, by });
        }
        let builtin = self.known().builtin(wanted.provider);
        let default;
        let provider = match (self.provider(wanted.provider), builtin) {
            (Some(provider), _) => provider,
            (None, Some(_)) => {
                default = Provider::default();
                &default
            }
            (None, None) => return Err(self.no_provider(wanted)),
        };
        let model = wanted.model_of(provider, builtin.is_some())?;
        wanted.choose(provider, model, builtin, env)
    }

    fn split<'a>(&self, name: &'a str, origin: Origin) -> Result<Wanted<'a>, Error> {
        if let Some((provider, id)) = name.split_once('/')
            && !provider.is_empty()
            && !id.is_empty()
        {
            let stored = self.stored.of(provider);
            return Ok(Wanted { name, provider, id, origin, stored, known: self.known() });
        }
        let listed = self.listed();
        let ending = format!("/{name}");
        let hint = match listed.iter().find(|listed| listed.ends_with(&ending)) {
            Some(right) => Hint::exactly(right),
            None => Hint::toward(name, listed),
        };
        Err(Error::ModelName { model: name.to_owned(), origin, hint })
    }

    /// The names of all providers, the built-in ones first.
    pub fn provider_names(&self) -> Vec<&str> {
        let known = self.known().builtin.iter().map(|builtin| builtin.name);
        let others = self.providers.iter().map(|(name, _)| name.as_str());
        known.chain(others.filter(|name| self.known().builtin(name).is_none())).collect()
    }

    fn no_provider(&self, wanted: Wanted<'_>) -> Error {
        Error::UnknownProvider {
            model: wanted.name.to_owned(),
            origin: wanted.origin,
            provider: wanted.provider.to_owned(),
            hint: Hint::toward(wanted.provider, self.provider_names()),
        }
    }
}

impl Wanted<'_> {
    /// What settings say of the model.
    fn model_of(&self, provider: &Provider, open: bool) -> Result<Model, Error> {
        match provider.models.get(self.id) {
            Some(model) => Ok(Model::clone(model)),
            None if open || provider.models.is_empty() => Ok(Model::default()),
            None => Err(Error::UnknownModel {
                model: self.name.to_owned(),
                origin: self.origin.clone(),
                provider: self.provider.to_owned(),
                id: self.id.to_owned(),
                hint: Hint::toward(self.id, provider.models.keys()),
            }),
        }
    }

    fn choose(
        &self,
        provider: &Provider,
        model: Model,
        builtin: Option<&Builtin>,
        env: Env<'_>,
    ) -> Result<Chosen, Error> {
        let wire = self.wire(provider)?;
        if wire.is_remote {
            self.complete(provider, builtin, env)?;
        }
        Ok(Chosen {
            provider: self.provider.to_owned(),
            wire,
            vendor: provider.vendor.clone(),
            model: self.id.to_owned(),
            headers: headers(provider, &model),
            abilities: model.abilities(),
            model_id: model.id.unwrap_or_else(|| self.id.to_owned()),
            base_url: base_url(provider, builtin, env),
            api_key: self.key(provider, builtin, env),
            timeout: provider.timeout(),
            stall: provider.stall(),
            script: provider.script(),
            limit: model.limit,
            cost: model.cost,
            options: model.options,
            provider_options: provider.own_options(),
            variants: model.variants,
        })
    }

    fn wire(&self, provider: &Provider) -> Result<KnownWire, Error> {
        wire(self.known, self.provider, provider).ok_or_else(|| Error::NoWire {
            provider: self.provider.to_owned(),
            npm: Npm(provider.npm.clone()),
            path: self.path(),
            known: alternatives(&self.known.wires.iter().map(|wire| wire.name).collect::<Vec<_>>()),
        })
    }

    fn key(&self, provider: &Provider, builtin: Option<&Builtin>, env: Env<'_>) -> Option<Secret> {
        key(provider, builtin, self.stored.as_ref(), env).map(|(key, _)| key)
    }

    /// Whether nothing is missing of what settings refer to, and a key where one is sure to be
    /// needed: with the built-in providers at their own address, and where variables for it are
    /// named.
    fn complete(
        &self,
        provider: &Provider,
        builtin: Option<&Builtin>,
        env: Env<'_>,
    ) -> Result<(), Error> {
        if let Some(unset) = provider.unset().next() {
            return Err(unset);
        }
        let at_home = builtin.filter(|_| provider.base_url().is_none());
        let variables: Vec<&str> = variables(provider, at_home).collect();
        if self.key(provider, builtin, env).is_some() || variables.is_empty() {
            return Ok(());
        }
        Err(Error::MissingKey {
            provider: self.provider.to_owned(),
            path: self.path(),
            variables: variables.join(" or "),
        })
    }

    fn path(&self) -> String {
        below("provider", self.provider)
    }
}

/// What is said outright, or what the npm package, the name or an address alone lead to.
pub(crate) fn wire(known: &KnownProviders, name: &str, provider: &Provider) -> Option<KnownWire> {
    let by_npm = || provider.npm.as_deref().and_then(|package| known.wire_of_npm(package));
    // an address without more is what most servers of other people's models need
    let by_address =
        || known.usual_wire.filter(|_| provider.npm.is_none() && provider.base_url().is_some());
    let named = provider.wire.as_ref().and_then(|name| known.wire(name));
    named.or_else(by_npm).or_else(|| known.wire_of(name)).or_else(by_address)
}

pub(crate) fn base_url(
    provider: &Provider,
    builtin: Option<&Builtin>,
    env: Env<'_>,
) -> Option<BaseUrl> {
    if let Some(url) = provider.base_url() {
        return Some(BaseUrl::Settings(url.to_owned()));
    }
    let name = builtin?.base_url;
    set(env, name).map(|value| BaseUrl::Variable { name, value })
}

/// Header names do not depend on case.
fn headers(provider: &Provider, model: &Model) -> Vec<(String, Secret)> {
    let is_replaced =
        |name: &str| model.headers.keys().any(|other| other.eq_ignore_ascii_case(name));
    let below = provider.options.headers.iter().filter(|(name, _)| !is_replaced(name));
    let below = below.map(|(name, value)| (name.clone(), Secret::clone(value)));
    below.chain(model.headers.clone()).collect()
}

/// How many of the built-in providers are shown to those who have not asked for them.
pub(crate) const MAIN: usize = 3;

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    Settings,
    Variable(String),
    /// `leftfold auth login`.
    Stored,
}

/// The variables that may hold the key, if settings do not give it.
pub(crate) fn variables<'a>(
    provider: &'a Provider,
    builtin: Option<&'a Builtin>,
) -> impl Iterator<Item = &'a str> {
    let own = builtin.map_or(&[] as &[&str], |builtin| builtin.keys);
    provider.env.iter().map(String::as_str).chain(own.iter().copied())
}

/// What a variable says, if anything.
pub(crate) fn set(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The key, and where it comes from.
pub(crate) fn key(
    provider: &Provider,
    builtin: Option<&Builtin>,
    stored: Option<&Secret>,
    env: Env<'_>,
) -> Option<(Secret, KeySource)> {
    let settings = || Some((provider.api_key()?.clone(), KeySource::Settings));
    let variable = || {
        variables(provider, builtin)
            .find_map(|name| Some((set(env, name)?, name)))
            .map(|(value, name)| (Secret::new(value), KeySource::Variable(name.to_owned())))
    };
    let stored = || Some((stored?.clone(), KeySource::Stored));
    settings().or_else(variable).or_else(stored)
}

/// A provider as `leftfold models` and `leftfold auth` show it.
#[derive(Clone, Debug)]
pub struct Offer {
    pub name: String,
    /// `None`: settings do not say enough.
    pub wire: Option<KnownWire>,
    pub vendor: Option<String>,
    pub base_url: Option<BaseUrl>,
    pub key: KeyState,
    /// What settings say of its models.
    pub models: IndexMap<String, At<Model>>,
    /// Whether it also has models that settings do not name.
    pub open: bool,
    pub builtin: bool,
    /// The setting by which it may not be used.
    pub disabled: Option<&'static str>,
}

/// Whether there is a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    From(KeySource),
    /// None is sure to be needed.
    Unneeded,
    /// The variables where it is looked for, of which there may be none.
    Missing(Vec<String>),
}

impl Offer {
    /// Whether a model of it could be asked, as far as settings tell.
    pub fn is_usable(&self) -> bool {
        self.disabled.is_none() && !matches!(self.key, KeyState::Missing(_))
    }
}

impl Settings {
    /// The built-in providers, then the others that settings name.
    pub fn offers(&self, env: Env<'_>) -> Vec<Offer> {
        self.provider_names().into_iter().map(|name| self.offer(name, env)).collect()
    }

    fn offer(&self, name: &str, env: Env<'_>) -> Offer {
        let provider = self.provider(name).cloned().unwrap_or_default();
        let builtin = self.known().builtin(name);
        Offer {
            name: name.to_owned(),
            wire: wire(self.known(), name, &provider),
            vendor: provider.vendor.clone(),
            base_url: base_url(&provider, builtin, env),
            key: self.key_state(name, &provider, env),
            open: builtin.is_some() || provider.models.is_empty(),
            builtin: builtin.is_some(),
            disabled: self.allows(name).err(),
            models: provider.models,
        }
    }

    fn key_state(&self, name: &str, provider: &Provider, env: Env<'_>) -> KeyState {
        let builtin = self.known().builtin(name);
        let unset = provider.unset_of_key();
        if !unset.is_empty() {
            return KeyState::Missing(unset);
        }
        if let Some((_, source)) = key(provider, builtin, self.stored.of(name).as_ref(), env) {
            return KeyState::From(source);
        }
        let at_home = builtin.filter(|_| provider.base_url().is_none());
        let names: Vec<String> = variables(provider, at_home).map(str::to_owned).collect();
        if names.is_empty() { KeyState::Unneeded } else { KeyState::Missing(names) }
    }

    /// Whether the lists of the provider let the model be used; else the setting that does not.
    pub(crate) fn shows(&self, provider: &str, id: &str) -> Result<(), &'static str> {
        self.provider(provider).map_or(Ok(()), |provider| provider.shows(id))
    }

    /// Whether the model may be listed.
    pub fn is_shown(&self, provider: &str, id: &str) -> bool {
        self.shows(provider, id).is_ok()
    }

    /// The model that is used if none is asked for.
    pub fn default_name(&self, env: Env<'_>) -> Option<String> {
        self.model_name()
            .map(str::to_owned)
            .or_else(|| self.default_model(env).ok().map(|(name, _)| name))
    }
}

/// A setting of a provider that can come from a variable.
pub(crate) struct FromEnv {
    pub(crate) provider: String,
    /// The key below the provider's `options`.
    pub(crate) option: &'static str,
    pub(crate) variable: String,
    pub(crate) value: Option<String>,
}

impl Settings {
    /// Keys and addresses that no file gives to the providers which may be used: from the variable
    /// that is set, or from the first that could be.
    pub(crate) fn in_variables(&self, env: Env<'_>) -> Vec<FromEnv> {
        let builtin = self.known().builtin.iter().map(|builtin| builtin.name);
        let mut names: Vec<&str> = self.providers.keys().map(String::as_str).collect();
        names.extend(builtin.filter(|name| self.provider(name).is_none()));
        names.retain(|name| self.allows(name).is_ok());
        names
            .into_iter()
            .flat_map(|name| [self.key_variable(name, env), self.address_variable(name, env)])
            .flatten()
            .collect()
    }

    /// The providers whose keys come from what was stored.
    pub(crate) fn by_stored_key(&self, env: Env<'_>) -> Vec<&str> {
        let counts = |name: &&str| {
            let provider = self.provider(name).cloned().unwrap_or_default();
            let variables: Vec<&str> = variables(&provider, self.known().builtin(name)).collect();
            provider.api_key().is_none() && variables.iter().all(|name| set(env, name).is_none())
        };
        let usable = |name: &&str| self.allows(name).is_ok();
        self.stored.providers().filter(usable).filter(counts).collect()
    }

    fn key_variable(&self, name: &str, env: Env<'_>) -> Option<FromEnv> {
        let provider = self.provider(name).cloned().unwrap_or_default();
        let names: Vec<&str> = variables(&provider, self.known().builtin(name)).collect();
        let found = names.iter().find(|name| set(env, name).is_some());
        let of_few = self.known().builtin.iter().skip(MAIN).any(|builtin| builtin.name == name);
        if found.is_none()
            && (of_few && self.provider(name).is_none() || self.stored.of(name).is_some())
        {
            return None;
        }
        let variable = found.or(names.first()).filter(|_| provider.api_key().is_none())?;
        Some(FromEnv::new(name, "apiKey", variable, env))
    }

    fn address_variable(&self, name: &str, env: Env<'_>) -> Option<FromEnv> {
        let given = self.provider(name).is_some_and(|provider| provider.base_url().is_some());
        let builtin = self.known().builtin(name).filter(|_| !given)?;
        Some(FromEnv::new(name, "baseURL", builtin.base_url, env))
    }
}

impl FromEnv {
    fn new(provider: &str, option: &'static str, variable: &str, env: Env<'_>) -> Self {
        let value = set(env, variable);
        Self { provider: provider.to_owned(), option, variable: variable.to_owned(), value }
    }
}
