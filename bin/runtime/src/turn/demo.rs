//! The data of the demo: a small project with a mistake in it, and the script of its repair.

use leftfold_events::Json;
use leftfold_events::turn_config::{Limit, ModelSpec};
use leftfold_providers::{Config, ScriptSource, Wire};

use crate::model::{self, Model};

pub const MODEL: &str = "demo/tour";
pub const PROMPT: &str = "The tests fail. Find out why and repair it.";
pub const PROJECT: [(&str, &str); 3] = [
    ("README.md", include_str!("demo/README.md")),
    ("slug.sh", include_str!("demo/slug.sh")),
    ("test.sh", include_str!("demo/test.sh")),
];

const SCRIPT: &str = include_str!("demo/script.json");
/// Milliseconds of silence after which a request fails.
const TIMEOUT: u64 = 60_000;

pub fn is_model(name: &str) -> bool {
    name == MODEL
}

/// The model that plays the script.
pub fn model() -> anyhow::Result<Model> {
    let (provider, id) = MODEL.split_once('/').unwrap_or((MODEL, ""));
    let mut config = Config::new(provider, Wire::SCRIPTED);
    config.script = Some(ScriptSource::Inline(SCRIPT.to_owned()));
    let spec = ModelSpec {
        provider: provider.to_owned(),
        id: id.to_owned(),
        limit: Limit { context: 100_000, ..Limit::default() },
        wire: Wire::SCRIPTED.name().to_owned(),
        ..ModelSpec::default()
    };
    let built = leftfold_providers::build(config).map_err(model::usage)?;
    let provider = (provider.to_owned(), built);
    Ok(Model { spec, provider, timeout: TIMEOUT, request: Json::object(), variants: Vec::new() })
}
