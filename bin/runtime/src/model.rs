//! From what settings choose to what a session uses.

use std::sync::Arc;
use std::time::Duration;

use crate::gather::{self, Agent};
use leftfold_events::Json;
use leftfold_events::kit::{ModelSpec, Options};
use leftfold_providers::{Config, Provider, ScriptSource, Wire, catalog};
use serde_json::Value;

use crate::Usage;
use crate::note;
use crate::scribes;
use crate::variant;
use leftfold_config::{BaseUrl, Chosen, Script, Settings};

/// A model that is ready to be asked.
pub struct Model {
    pub spec: ModelSpec,
    pub provider: (String, Arc<dyn Provider>),
    /// Milliseconds of silence.
    pub timeout: u64,
    /// The model's options, for the request body.
    pub request: Json,
    /// Sets of options by name, to be laid over `request`.
    pub variants: Vec<(String, Value)>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("spec", &self.spec).finish_non_exhaustive()
    }
}

pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The model that `wanted` names, or the one in the settings.
pub fn choose(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<Model> {
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
    let request = Json::from_value(&chosen.options.clone().into());
    let config = config(chosen, wire);
    let encrypted = config.base_url.as_ref().is_none_or(|url| url.starts_with("https:"));
    if wire.is_remote() {
        // while the store is being opened
        std::thread::spawn(move || leftfold_providers::warm(encrypted));
    }
    let provider = leftfold_providers::build(config).map_err(usage)?;
    Ok(Model { spec, provider: (name, provider), timeout, request, variants })
}

/// The model that an agent names for itself.
///
/// # Errors
/// It can not be used: which agent's it is, and where settings say so.
pub fn of_agent(settings: &Settings, agent: &Agent) -> Option<anyhow::Result<Model>> {
    let name = agent.model.as_deref()?;
    let chosen = choose(settings, Some(name));
    Some(chosen.map_err(|error| {
        let said = settings.agents.iter().find(|(known, _)| *known == agent.name);
        let place = said.and_then(|(_, said)| said.model_at.as_ref());
        let place = place.map_or_else(String::new, |place| format!("{place}: "));
        usage(format!("{place}agent `{}`: {error:#}", agent.name))
    }))
}

/// Lays over the model's options those of its agent, and then those of the agent's variant, if the
/// model has one of this name (SPEC M8).
pub fn tune(agent: &Agent, model: &Model, options: &mut Options) {
    agent.tune(options, model.spec.abilities);
    let named = |name: &String| model.variants.iter().find(|(known, _)| known == name);
    if let Some((_, variant)) = agent.variant.as_ref().and_then(named) {
        let mut request = options.request.value();
        gather::agent::merge(&mut request, variant.clone());
        options.request = Json::from_value(&request);
    }
}

/// The model for titles, if settings name one that can be used.
fn small(settings: &Settings) -> Option<ModelSpec> {
    let name = settings.small_model.as_deref()?;
    let chosen = choose(settings, Some(name));
    let chosen = chosen.inspect_err(|error| note(&format!("leftfold: small_model: {error:#}")));
    Some(chosen.ok()?.spec)
}

/// The providers of the models that agents and commands name: in a conversation the next prompt may
/// be for one of them. What is wrong with one is told when it is used.
pub fn others(settings: &Settings) -> Vec<(String, Arc<dyn Provider>)> {
    let agents = settings.agents.iter().filter_map(|(_, agent)| agent.model.as_deref());
    let commands = settings.commands.iter().filter_map(|(_, command)| command.model.as_deref());
    let named = agents.chain(commands).chain(settings.small_model.as_deref());
    named.filter_map(|name| Some(choose(settings, Some(name)).ok()?.provider)).collect()
}

/// Whose models to expect.
pub fn vendor(
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
///
/// # Errors
/// An agent that writes for Leftfold itself names a model that can not be used.
pub fn options(settings: &Settings, model: &Model) -> anyhow::Result<Options> {
    let mut options = Options {
        timeout: model.timeout,
        retries: settings.retry.attempts,
        reserved: settings.compaction.reserved,
        compact: settings.compaction.auto,
        prune: settings.compaction.prune,
        title_prompt: if settings.title { gather::TITLE } else { "" }.to_owned(),
        request: model.request.clone(),
        small_model: small(settings),
        snapshot: settings.snapshot && leftfold_tools::snapshots::is_possible(),
        ..Options::default()
    };
    scribes::lay_over(&mut options, settings, model)?;
    Ok(options)
}

pub fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Usage(error.to_string()).into()
}
