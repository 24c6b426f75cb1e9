//! Every provider that there is, with what is known of it, whether it can be used or not.

use leftfold_events::providers::KnownWire;

use super::builtin::{KeySource, key, variables};
use super::{BaseUrl, Env, Model, Provider, Secret, Settings, resolve};

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
    pub models: Vec<(String, Model)>,
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
        let builtin = self.known.builtin(name);
        Offer {
            name: name.to_owned(),
            wire: resolve::wire(self.known, name, &provider),
            vendor: provider.vendor.clone(),
            base_url: resolve::base_url(&provider, builtin, env),
            key: self.key_state(name, &provider, env),
            open: builtin.is_some() || provider.models.is_empty(),
            builtin: builtin.is_some(),
            disabled: self.allows(name).err(),
            models: provider.models,
        }
    }

    fn key_state(&self, name: &str, provider: &Provider, env: Env<'_>) -> KeyState {
        let builtin = self.known.builtin(name);
        let of_key = |key: &str| key.ends_with(".apiKey");
        let unset = provider.unset.iter().find(|unset| of_key(&unset.key));
        if let Some(unset) = unset {
            return KeyState::Missing(vec![unset.variable.clone()]);
        }
        if let Some((_, source)) = key(provider, builtin, self.stored.of(name).as_ref(), env) {
            return KeyState::From(source);
        }
        let at_home = builtin.filter(|_| provider.base_url.is_none());
        let names: Vec<String> = variables(provider, at_home).map(str::to_owned).collect();
        if names.is_empty() { KeyState::Unneeded } else { KeyState::Missing(names) }
    }

    /// The key of a provider that `leftfold auth login` was given.
    pub(super) fn stored_key(&self, provider: &str) -> Option<Secret> {
        self.stored.of(provider)
    }

    /// Whether the lists of the provider let the model be used; else the setting that does not.
    pub(super) fn shows(&self, provider: &str, id: &str) -> Result<(), &'static str> {
        self.provider(provider).map_or(Ok(()), |provider| provider.shows(id))
    }

    /// Whether the model may be listed.
    pub fn is_shown(&self, provider: &str, id: &str) -> bool {
        self.shows(provider, id).is_ok()
    }

    /// The model that is used if none is asked for.
    pub fn default_name(&self, env: Env<'_>) -> Option<String> {
        self.model.clone().or_else(|| self.default_model(env).ok().map(|(name, _)| name))
    }
}

impl Provider {
    pub(super) fn shows(&self, id: &str) -> Result<(), &'static str> {
        let named = |names: &[String]| names.iter().any(|name| name == id);
        if named(&self.blacklist) {
            return Err("blacklist");
        }
        match &self.whitelist {
            Some(whitelist) if !named(whitelist) => Err("whitelist"),
            Some(_) | None => Ok(()),
        }
    }
}
