//! From what settings choose to what a session uses.

use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::equip;
use leftfold_events::Json;
use leftfold_events::kit::{ModelSpec, Options};
use leftfold_providers::{Config, Provider, ScriptSource, Wire, catalog};
use serde_json::Value;

use crate::settings::{BaseUrl, Chosen, Script, Settings};
use crate::{Usage, note, variant};

/// A model that is ready to be asked.
pub(crate) struct Model {
    pub(crate) spec: ModelSpec,
    pub(crate) provider: (String, Arc<dyn Provider>),
    /// Milliseconds of silence.
    pub(crate) timeout: u64,
    /// The model's options, for the request body.
    pub(crate) request: Json,
    /// Sets of options by name, to be laid over `request`.
    pub(crate) variants: Vec<(String, Value)>,
}

pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The model that `wanted` names, or the one in the settings; with the options of its `variant`, if
/// it has one of this name.
pub(crate) fn choose(
    settings: &Settings,
    wanted: Option<&str>,
    variant: Option<&str>,
) -> anyhow::Result<Model> {
    let chosen = settings.resolve_model(wanted, &environment).map_err(usage)?;
    let wire: Wire = chosen.wire.name().parse().map_err(usage)?;
    let name = chosen.provider.clone();
    let vendor = vendor(wire, &name, chosen.vendor.as_deref(), chosen.base_url.as_ref());
    let known = catalog::describe(wire, vendor, &chosen.model_id);
    let spec = ModelSpec {
        provider: chosen.provider.clone(),
        id: chosen.model_id.clone(),
        limit: chosen.limit.over(known.limit),
        cost: chosen.cost.over(known.cost),
        abilities: chosen.abilities.over(known.abilities),
    };
    let timeout = chosen.timeout;
    let reasons = chosen.abilities.reasoning;
    let variants = variant::known(wire, vendor, &chosen.model_id, reasons, &chosen.variants);
    let mut request = chosen.options.clone().into();
    let of_agent = variant.and_then(|name| variants.iter().find(|(known, _)| known == name));
    if let Some((_, options)) = of_agent {
        equip::agent::merge(&mut request, options.clone());
    }
    let request = Json::from_value(&request);
    let config = config(chosen, wire);
    let encrypted = config.base_url.as_ref().is_none_or(|url| url.starts_with("https:"));
    if wire != Wire::Scripted {
        // while the store is being opened
        std::thread::spawn(move || leftfold_providers::warm(encrypted));
    }
    let provider = leftfold_providers::build(config).map_err(usage)?;
    Ok(Model { spec, provider: (name, provider), timeout, request, variants })
}

/// The model for titles, if settings name one that can be used.
fn small(settings: &Settings) -> Option<ModelSpec> {
    let name = settings.small_model.as_deref()?;
    let chosen = choose(settings, Some(name), None);
    let chosen = chosen.inspect_err(|error| note(&format!("leftfold: small_model: {error:#}")));
    Some(chosen.ok()?.spec)
}

/// The providers of the models that agents and commands name: in a conversation the next prompt may
/// be for one of them. What is wrong with one is told when it is used.
pub(crate) fn others(settings: &Settings) -> Vec<(String, Arc<dyn Provider>)> {
    let agents = settings.agents.iter().filter_map(|(_, agent)| agent.model.as_deref());
    let commands = settings.commands.iter().filter_map(|(_, command)| command.model.as_deref());
    let named = agents.chain(commands).chain(settings.small_model.as_deref());
    named.filter_map(|name| Some(choose(settings, Some(name), None).ok()?.provider)).collect()
}

/// Whose models to expect.
pub(crate) fn vendor(
    wire: Wire,
    provider: &str,
    vendor: Option<&str>,
    base_url: Option<&BaseUrl>,
) -> &'static str {
    let mut config = Config::new(provider, wire);
    config.vendor = vendor.map(str::to_owned);
    config.base_url = base_url.map(|url| address(wire, url));
    leftfold_providers::vendor(&config)
}

fn address(wire: Wire, url: &BaseUrl) -> String {
    match url {
        BaseUrl::Settings(url) => url.clone(),
        BaseUrl::Variable { value, .. } => leftfold_providers::base_from_env(wire, value),
    }
}

fn config(chosen: Chosen, wire: Wire) -> Config {
    let mut config = Config::new(chosen.provider, wire);
    config.vendor = chosen.vendor;
    config.base_url = chosen.base_url.as_ref().map(|url| address(wire, url));
    config.api_key = chosen.api_key.map(|key| key.reveal().to_owned());
    let headers = chosen.headers.into_iter();
    config.headers = headers.map(|(name, value)| (name, value.reveal().to_owned())).collect();
    if let Some(stall) = chosen.stall {
        config.stall = Duration::from_millis(stall);
    }
    config.script = chosen.script.map(|script| match script {
        Script::Path(path) => ScriptSource::Path(path),
        Script::Inline(text) => ScriptSource::Inline(text),
    });
    config
}

/// What settings and model say of how a session goes.
pub(crate) fn options(settings: &Settings, model: &Model) -> Options {
    Options {
        timeout: model.timeout,
        retries: settings.retry.attempts,
        reserved: settings.compaction.reserved,
        compact: settings.compaction.auto,
        prune: settings.compaction.prune,
        title_prompt: if settings.title { equip::TITLE } else { "" }.to_owned(),
        request: model.request.clone(),
        small_model: small(settings),
        snapshot: settings.snapshot && leftfold_tools::snapshots::is_possible(),
        ..Options::default()
    }
}

pub(crate) fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Usage(error.to_string()).into()
}
