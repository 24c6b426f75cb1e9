//! One model of a provider in settings.

use serde_json::{Map, Value};

use super::provider::{headers, object};
use super::view::View;
use super::{Error, Place, Secret};

/// A model as settings give it; what is `None` is for the catalog to say.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Model {
    /// What people call it.
    pub name: Option<String>,
    /// What the provider calls it, if not as settings do.
    pub id: Option<String>,
    pub limit: Limits,
    pub cost: Costs,
    pub headers: Vec<(String, Secret)>,
    /// Passed on in the request body.
    pub options: Map<String, Value>,
    /// Sets of options by name.
    pub variants: Map<String, Value>,
    pub family: Option<String>,
    pub abilities: Abilities,
    /// Where it is defined.
    pub at: Option<Place>,
}

/// What a model can do; `None` is for the catalog to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Abilities {
    pub tools: Option<bool>,
    /// Takes images and other files.
    pub images: Option<bool>,
    pub reasoning: Option<bool>,
    pub temperature: Option<bool>,
}

/// In tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    pub context: Option<u64>,
    pub input: Option<u64>,
    pub output: Option<u64>,
}

/// In US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Costs {
    pub input: Option<f64>,
    pub output: Option<f64>,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// Keys of a model: Leftfold's, and those of OpenCode's catalog, most of which change nothing here.
pub(super) const KEYS: [&str; 22] = [
    "limit",
    "cost",
    "options",
    "variants",
    "id",
    "name",
    "headers",
    "attachment",
    "experimental",
    "family",
    "interleaved",
    "knowledge",
    "last_updated",
    "modalities",
    "open_weights",
    "provider",
    "reasoning",
    "release_date",
    "status",
    "structured_output",
    "temperature",
    "tool_call",
];

pub(super) const LIMITS: [&str; 3] = ["context", "input", "output"];

/// The last five are of OpenCode's catalog.
pub(super) const COSTS: [&str; 9] = [
    "input",
    "output",
    "cache_read",
    "cache_write",
    "reasoning",
    "context_over_200k",
    "tiers",
    "input_audio",
    "output_audio",
];

/// The models of a provider, by the names that settings give them.
pub(super) fn all(view: &View<'_>) -> Result<Vec<(String, Model)>, Error> {
    let entries = view.entries()?.into_iter();
    entries.map(|(id, view)| Ok((id.to_owned(), Model::read(&view)?))).collect()
}

impl Model {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut model = Self { at: Some(view.key_place().clone()), ..Self::default() };
        for (key, view) in view.known(&KEYS)? {
            match key {
                "id" => model.id = view.filled()?,
                "name" => model.name = view.filled()?,
                "limit" => model.limit = Limits::read(&view)?,
                "cost" => model.cost = Costs::read(&view)?,
                "headers" => model.headers = headers(&view)?,
                "options" => model.options = object(&view)?,
                "variants" => model.variants = object(&view)?,
                "family" => model.family = view.filled()?,
                "tool_call" => model.abilities.tools = Some(view.boolean()?),
                "attachment" => model.abilities.images = Some(view.boolean()?),
                "reasoning" => model.abilities.reasoning = Some(view.boolean()?),
                "temperature" => model.abilities.temperature = Some(view.boolean()?),
                _ => {}
            }
        }
        Ok(model)
    }
}

impl Limits {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut limits = Self::default();
        for (key, view) in view.known(&LIMITS)? {
            let limit = Some(view.count()?);
            match key {
                "context" => limits.context = limit,
                "input" => limits.input = limit,
                _ => limits.output = limit,
            }
        }
        Ok(limits)
    }
}

impl Costs {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut costs = Self::default();
        for (key, view) in view.known(&COSTS)? {
            match key {
                "input" => costs.input = Some(view.amount()?),
                "output" => costs.output = Some(view.amount()?),
                "cache_read" => costs.cache_read = Some(view.amount()?),
                "cache_write" => costs.cache_write = Some(view.amount()?),
                _ => {}
            }
        }
        Ok(costs)
    }
}
