//! Agents and commands in settings.

use std::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::permission::Permission;
use crate::typed::{At, amount, filled, model_name};

/// The names of the agents that are always there.
pub const BUILT_IN_AGENTS: [&str; 7] =
    ["build", "plan", "general", "explore", "compaction", "title", "summary"];

/// The built-in agents that people prompt, the default first.
pub(crate) const PRIMARY_AGENTS: [&str; 2] = ["build", "plan"];

/// The built-in agent for tasks of another agent.
pub(crate) const GENERAL: &str = "general";

leftfold_events::named! {
    /// The senders of prompts that an agent accepts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[schemars(inline)]
    pub enum Mode {
        /// People.
        Primary = "primary",
        /// Other agents.
        Subagent = "subagent",
        All = "all",
    }
}

impl Mode {
    /// Whether people can prompt it.
    pub fn is_primary(self) -> bool {
        self != Self::Subagent
    }
}

/// An agent. Fields that settings do not set keep the built-in agent's values.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Agent {
    #[serde(deserialize_with = "filled")]
    pub description: Option<String>,
    pub mode: Option<Mode>,
    /// Its system prompt.
    #[serde(deserialize_with = "filled")]
    pub prompt: Option<String>,
    /// `PROVIDER/MODEL`.
    #[serde(deserialize_with = "model_name")]
    #[schemars(extend("x-effect" = "chooses the model that gets this agent's prompts"))]
    pub model: Option<At<String>>,
    /// The variant of its model.
    #[serde(deserialize_with = "filled")]
    pub variant: Option<String>,
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub temperature: Option<f64>,
    #[serde(alias = "topP", deserialize_with = "amount")]
    #[schemars(range(min = 0))]
    pub top_p: Option<f64>,
    /// The limit of model requests in one turn.
    #[serde(alias = "maxSteps")]
    pub steps: Option<NonZeroU32>,
    #[schemars(extend("x-effect" = "removes an agent"))]
    pub disable: bool,
    /// Whether lists leave it out.
    pub hidden: Option<bool>,
    #[serde(deserialize_with = "filled")]
    pub color: Option<String>,
    /// Options for the request body.
    options: Map<String, Value>,
    #[schemars(extend("x-rules" = true))]
    pub(crate) permission: Option<At<Permission>>,
    /// The older form of `permission`.
    #[schemars(extend("x-rules" = true))]
    pub(crate) tools: IndexMap<String, At<bool>>,
    /// More options.
    #[serde(rename = "@rest")]
    #[schemars(flatten)]
    rest: IndexMap<String, At<Value>>,
}

impl Agent {
    /// The options under `options`, and every key that has no other meaning.
    pub fn options(&self) -> Map<String, Value> {
        let mut options = self.options.clone();
        // The entry's key is the name.
        let rest = self.rest.iter().filter(|(key, _)| *key != "name");
        options.extend(rest.map(|(key, value)| (key.clone(), Value::clone(value))));
        options
    }

    /// An agent may have any keys, but misspelt rules would be noticed too late, so keys close to
    /// those of rules are errors.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.rest.iter().try_for_each(|(key, at)| at.no_slip_of(key, &["permission", "tools"]))
    }
}

/// A command that people type as `/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Command {
    /// The text of its prompt.
    #[serde(deserialize_with = "filled")]
    pub template: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub description: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub agent: Option<String>,
    /// `PROVIDER/MODEL`.
    #[serde(deserialize_with = "model_name")]
    pub model: Option<At<String>>,
    /// Whether an agent runs it in a session of its own.
    pub subtask: Option<bool>,
    #[serde(rename = "@rest")]
    #[schemars(flatten)]
    rest: IndexMap<String, At<Value>>,
}

impl Command {
    pub(crate) fn check(&self) -> Result<(), Error> {
        const KEYS: [&str; 5] = ["template", "description", "agent", "model", "subtask"];
        self.rest.iter().try_for_each(|(key, at)| at.no_slip_of(key, &KEYS))
    }
}
