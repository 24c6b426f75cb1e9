//! Where keys come from: settings, then variables, then what
//! `leftfold auth login` was given.

use leftfold_events::providers::Builtin;

use super::{Env, Provider, Secret};

/// How many of the built-in providers are shown to those who have not asked for them.
pub(super) const MAIN: usize = 3;

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    Settings,
    Variable(String),
    /// `leftfold auth login`.
    Stored,
}

/// The variables that may hold the key, if settings do not give it.
pub(super) fn variables<'a>(
    provider: &'a Provider,
    builtin: Option<&'a Builtin>,
) -> impl Iterator<Item = &'a str> {
    let own = builtin.map_or(&[] as &[&str], |builtin| builtin.keys);
    provider.env.iter().map(String::as_str).chain(own.iter().copied())
}

/// What a variable says, if anything.
pub(super) fn set(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The key, and where it comes from.
pub(super) fn key(
    provider: &Provider,
    builtin: Option<&Builtin>,
    stored: Option<&Secret>,
    env: Env<'_>,
) -> Option<(Secret, KeySource)> {
    let settings = || Some((provider.api_key.clone()?, KeySource::Settings));
    let variable = || {
        variables(provider, builtin)
            .find_map(|name| Some((set(env, name)?, name)))
            .map(|(value, name)| (Secret::new(value), KeySource::Variable(name.to_owned())))
    };
    let stored = || Some((stored?.clone(), KeySource::Stored));
    settings().or_else(variable).or_else(stored)
}
