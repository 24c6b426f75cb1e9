//! From what settings choose to what a session uses.

use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::equip;
use leftfold_events::Json;
use leftfold_events::kit::{ModelSpec, Options};
use leftfold_providers::{Config, Provider, ScriptSource, Wire, catalog};

use crate::Usage;
use crate::settings::{BaseUrl, Chosen, Script, Settings};

/// A model that is ready to be asked.
pub(crate) struct Model {
    pub(crate) spec: ModelSpec,
    pub(crate) provider: (String, Arc<dyn Provider>),
    /// Milliseconds of silence.
    pub(crate) timeout: u64,
    /// The model's options, for the request body.
    pub(crate) request: Json,
}

pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The model that `wanted` names, or the one in the settings.
pub(crate) fn choose(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<Model> {
    let chosen = settings.resolve_model(wanted, &environment).map_err(usage)?;
    let wire: Wire = chosen.wire.name().parse().map_err(usage)?;
    let known = catalog::find(wire, &chosen.model_id).unwrap_or_default();
    let spec = ModelSpec {
        provider: chosen.provider.clone(),
        id: chosen.model_id.clone(),
        limit: chosen.limit.over(known.limit),
        cost: chosen.cost.over(known.cost),
    };
    let timeout = chosen.timeout;
    let request = Json::from_value(&chosen.options.clone().into());
    let name = chosen.provider.clone();
    let config = config(chosen, wire);
    let encrypted = config.base_url.as_ref().is_none_or(|url| url.starts_with("https:"));
    if wire != Wire::Scripted {
        // while the store is being opened
        std::thread::spawn(move || leftfold_providers::warm(encrypted));
    }
    let provider = leftfold_providers::build(config).map_err(usage)?;
    Ok(Model { spec, provider: (name, provider), timeout, request })
}

fn config(chosen: Chosen, wire: Wire) -> Config {
    let mut config = Config::new(chosen.provider, wire);
    config.vendor = chosen.vendor;
    config.base_url = chosen.base_url.map(|url| match url {
        BaseUrl::Settings(url) => url,
        BaseUrl::Variable { value, .. } => leftfold_providers::base_from_env(wire, &value),
    });
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
        ..Options::default()
    }
}

pub(crate) fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    Usage(error.to_string()).into()
}
