//! Collects the values that must never reach a log: `secrets` in settings, the keys of providers
//! from any source, and headers with a credential.

use std::path::Path;

use leftfold_events::Secrets;
use leftfold_events::secrets::{SHORTEST, Secret};

use crate::model;
use crate::redact_output;
use crate::warnings;
use leftfold_config::{self as settings, Env, Settings};

/// The secrets of a project whose settings were read without errors before; none if they have
/// errors now.
pub fn for_directory(directory: &Path) -> Secrets {
    let known = settings::load(directory, &model::environment, leftfold_providers::known())
        .map_err(model::usage)
        .and_then(|settings| known(&settings, &model::environment));
    known.inspect_err(|error| tracing::warn!("{error:#}")).unwrap_or_default()
}

/// All known secrets, first those that settings name, which calls may use.
pub fn known(settings: &Settings, env: Env<'_>) -> anyhow::Result<Secrets> {
    let named = settings.secrets.iter().map(|(name, value)| Secret {
        name: name.clone(),
        value: value.reveal().to_owned(),
        usable: true,
    });
    let named: Vec<Secret> = named.collect();
    let short = named.iter().filter(|secret| secret.value.trim().len() < SHORTEST);
    let short = short.map(|Secret { name, .. }| {
        format!(
            "secrets.{name} has fewer than {SHORTEST} characters: it is not kept out of the log, \
             and calls can not use it"
        )
    });
    warnings::print_once(&short.collect::<Vec<_>>());
    let own = settings.credentials(env).into_iter();
    let own = own.map(|(name, value)| Secret { name, value, usable: false });
    let known = Secrets::new(named.into_iter().chain(own))?;
    redact_output::learn(&known);
    Ok(known)
}
