//! What environment variables say of providers where files say nothing.

use super::builtin::{MAIN, set, variables};
use super::{Env, Settings};

/// A setting of a provider that can come from a variable.
pub(super) struct FromEnv {
    pub(super) provider: String,
    /// The key below the provider's `options`.
    pub(super) option: &'static str,
    pub(super) variable: String,
    pub(super) value: Option<String>,
}

impl Settings {
    /// Keys and addresses that no file gives to the providers which may be used: from the variable
    /// that is set, or from the first that could be.
    pub(super) fn in_variables(&self, env: Env<'_>) -> Vec<FromEnv> {
        let builtin = self.known.builtin.iter().map(|builtin| builtin.name);
        let mut names: Vec<&str> = self.providers.iter().map(|(name, _)| name.as_str()).collect();
        names.extend(builtin.filter(|name| self.provider(name).is_none()));
        names.retain(|name| self.allows(name).is_ok());
        names
            .into_iter()
            .flat_map(|name| [self.key(name, env), self.address(name, env)])
            .flatten()
            .collect()
    }

    /// The providers whose keys come from what was stored.
    pub(super) fn by_stored_key(&self, env: Env<'_>) -> Vec<&str> {
        let counts = |name: &&str| {
            let provider = self.provider(name).cloned().unwrap_or_default();
            let variables: Vec<&str> = variables(&provider, self.known.builtin(name)).collect();
            provider.api_key.is_none() && variables.iter().all(|name| set(env, name).is_none())
        };
        let usable = |name: &&str| self.allows(name).is_ok();
        self.stored.providers().filter(usable).filter(counts).collect()
    }

    fn key(&self, name: &str, env: Env<'_>) -> Option<FromEnv> {
        let provider = self.provider(name).cloned().unwrap_or_default();
        let names: Vec<&str> = variables(&provider, self.known.builtin(name)).collect();
        let found = names.iter().find(|name| set(env, name).is_some());
        let of_few = self.known.builtin.iter().skip(MAIN).any(|builtin| builtin.name == name);
        if found.is_none()
            && (of_few && self.provider(name).is_none() || self.stored_key(name).is_some())
        {
            return None;
        }
        let variable = found.or(names.first()).filter(|_| provider.api_key.is_none())?;
        Some(FromEnv::new(name, "apiKey", variable, env))
    }

    fn address(&self, name: &str, env: Env<'_>) -> Option<FromEnv> {
        let given = self.provider(name).is_some_and(|provider| provider.base_url.is_some());
        let builtin = self.known.builtin(name).filter(|_| !given)?;
        Some(FromEnv::new(name, "baseURL", builtin.base_url, env))
    }
}

impl FromEnv {
    fn new(provider: &str, option: &'static str, variable: &str, env: Env<'_>) -> Self {
        let value = set(env, variable);
        Self { provider: provider.to_owned(), option, variable: variable.to_owned(), value }
    }
}
