//! Settings: found, read, merged, and asked which model to use.
//!
//! Files are JSON with comments, or Markdown for agents and commands. Each is judged by itself, so that nothing wrong hides behind a
//! file that overrides it, and then laid over the ones before: objects are merged, `plugin` and
//! `instructions` joined, permission rules put after the earlier ones, and everything else
//! replaced. [`load`] reads files and the variables it is given, and changes nothing.

mod agent;
pub mod auth;
mod builtin;
mod credentials;
mod error;
mod inventory;
mod keys;
mod layers;
mod legacy;
mod lookup;
mod markdown;
mod mcp;
mod model;
mod oauth;
mod offer;
mod permission;
mod plugin;
mod provider;
mod reach;
mod resolve;
mod secrecy;
mod skills;
mod sources;
mod substitute;
mod survey;
mod told;
mod tree;
mod variables;
mod view;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_events::providers::KnownProviders;
use leftfold_events::rules::Rule;
use serde_json::{Map, Value};

use crate::auth::Keys;
use permission::Said;

pub use agent::{Agent, Command, Mode, meant};
pub use builtin::KeySource;
pub use error::{Error, Hint, Place};
pub use inventory::{Inventory, Item, Origin, Shown, inventory};
pub use layers::Layers;
pub use mcp::Mcp;
pub use model::{Abilities, Costs, Limits, Model};
pub use oauth::token_store;
pub use offer::{KeyState, Offer};
pub use plugin::Plugin;
pub use provider::{NEVER, Provider, Script, Secret};
pub use resolve::{BaseUrl, Chosen};
pub use secrecy::{has_credential, masked};
pub use sources::{Kind, Source, worktree_of};
pub use substitute::Reference;
pub use survey::{Survey, is_of_project, survey};

/// The process's own environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Environment variables, asked by name.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What all sources together say.
#[derive(Clone, PartialEq)]
pub struct Settings {
    /// `PROVIDER/MODEL`.
    pub model: Option<String>,
    model_at: Option<Place>,
    /// `PROVIDER/MODEL` for titles and the like.
    pub small_model: Option<String>,
    /// The agent that takes prompts, and where that stands.
    pub default_agent: Option<(String, Place)>,
    /// In the order in which they are first named.
    pub providers: Vec<(String, Provider)>,
    /// The wire formats and providers that this build knows.
    known: &'static KnownProviders,
    /// If given, no others may be used.
    pub enabled_providers: Option<Vec<String>>,
    pub disabled_providers: Vec<String>,
    /// Keys for which no settings are needed.
    pub stored: Keys,
    /// In merge order: the last match wins.
    pub rules: Vec<Rule>,
    /// Rules for one agent only, by its name; likewise.
    pub agent_rules: Vec<(String, Vec<Rule>)>,
    /// In the order in which they are first named; their rules are in `agent_rules`.
    pub agents: Vec<(String, Agent)>,
    pub commands: Vec<(String, Command)>,
    /// Servers of tools, in the order in which they are first named.
    pub mcp: Vec<(String, Mcp)>,
    /// Whether a model is asked for a title.
    pub title: bool,
    /// Whether files are snapshotted.
    pub snapshot: bool,
    pub tool_output: ToolOutput,
    pub webfetch: WebFetch,
    pub task: Task,
    /// Names of variables that commands are given besides the usual ones.
    pub environment: Vec<String>,
    pub compaction: Compaction,
    pub retry: Retry,
    /// Values that must not come into a log, by name.
    pub secrets: Vec<(String, Secret)>,
    pub instructions: Vec<Relative<String>>,
    pub plugins: Vec<Relative<Plugin>>,
    skills: skills::Skills,
    /// The keys that have no field here, merged, strings substituted.
    pub kept: Map<String, Value>,
    /// What was read, the weakest first.
    pub sources: Vec<Arc<Source>>,
    /// What is of no use in them, for people.
    pub warnings: Vec<String>,
}

/// A value that may be a relative path, and the folder where that would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relative<T> {
    pub base: PathBuf,
    pub value: T,
}

/// How much of a tool's output a model gets to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    pub max_lines: u64,
    pub max_bytes: u64,
}

impl Default for ToolOutput {
    fn default() -> Self {
        Self { max_lines: 2_000, max_bytes: 51_200 }
    }
}

/// What the web tool may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebFetch {
    /// Addresses that are not public, too: this machine and the networks it is in.
    pub private: bool,
}

/// What a subagent is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Milliseconds until it is interrupted.
    pub timeout: u64,
}

impl Default for Task {
    fn default() -> Self {
        Self { timeout: leftfold_tools::TASK_TIMEOUT }
    }
}

/// What is done about a conversation that grows too long. Numbers but turns are tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub auto: bool,
    pub prune: bool,
    /// `None`: as much as the model's longest reply, and 20 000 at most.
    pub reserved: Option<u64>,
    pub tail_turns: Option<u64>,
    pub preserve_recent_tokens: Option<u64>,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            auto: true,
            prune: true,
            reserved: None,
            tail_turns: None,
            preserve_recent_tokens: None,
        }
    }
}

/// How often a failed request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 10 }
    }
}

static NONE_KNOWN: KnownProviders =
    KnownProviders { wires: Vec::new(), builtin: Vec::new(), usual_wire: None };

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            model_at: None,
            small_model: None,
            default_agent: None,
            providers: Vec::new(),
            known: &NONE_KNOWN,
            enabled_providers: None,
            disabled_providers: Vec::new(),
            stored: Keys::default(),
            rules: Vec::new(),
            agent_rules: Vec::new(),
            agents: Vec::new(),
            commands: Vec::new(),
            mcp: Vec::new(),
            title: true,
            snapshot: true,
            tool_output: ToolOutput::default(),
            webfetch: WebFetch::default(),
            task: Task::default(),
            environment: Vec::new(),
            compaction: Compaction::default(),
            retry: Retry::default(),
            secrets: Vec::new(),
            instructions: Vec::new(),
            plugins: Vec::new(),
            skills: skills::Skills::default(),
            kept: Map::new(),
            sources: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Tells what was read, and none of the values: any of them may be a secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, Provider)]| -> Vec<String> {
            pairs.iter().map(|(name, _)| name.clone()).collect()
        };
        f.debug_struct("Settings")
            .field("model", &self.model)
            .field("providers", &names(&self.providers))
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

impl Settings {
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|(known, _)| known == name).map(|(_, provider)| provider)
    }

    /// The rules that settings give to one agent.
    pub fn rules_of(&self, agent: &str) -> &[Rule] {
        let found = self.agent_rules.iter().find(|(name, _)| name == agent);
        found.map_or(&[], |(_, rules)| rules)
    }
}

/// Reads all settings that are in force in `directory`, and the stored keys. `env` gives the
/// variables: `HOME`, `XDG_CONFIG_HOME`, `LEFTFOLD_HOME`, `XDG_DATA_HOME`, `LEFTFOLD_CONFIG`, `LEFTFOLD_CONFIG_CONTENT`, `OPENCODE_CONFIG`,
/// `OPENCODE_CONFIG_DIR`, `OPENCODE_CONFIG_CONTENT` and what files refer to.
///
/// # Errors
/// The first thing that is wrong in any source, with file, line, column and key: see [`Error`].
pub fn load(
    directory: &Path,
    env: Env<'_>,
    providers: &'static KnownProviders,
) -> Result<Settings, Error> {
    load_with(directory, env, &Layers::new(providers))
}

/// The same, with what plugins add.
pub fn load_with(directory: &Path, env: Env<'_>, layers: &Layers) -> Result<Settings, Error> {
    let mut settings = merge(directory, env, layers)?.settings;
    settings.warnings.extend(layers.warnings().iter().cloned());
    Ok(settings)
}

/// What all sources came to, and how they say it.
struct Merged {
    settings: Settings,
    /// `None` if there are no sources.
    tree: Option<tree::Node>,
    rules: Vec<Said>,
    agent_rules: Vec<(String, Vec<Said>)>,
}

fn merge(directory: &Path, env: Env<'_>, layers: &Layers) -> Result<Merged, Error> {
    let mut tree: Option<tree::Node> = None;
    let mut rules = Vec::new();
    let mut agent_rules: Vec<(String, Vec<Said>)> = Vec::new();
    let mut sources = Vec::new();
    let mut strangers = Vec::new();
    for document in sources::read_all(directory, env, layers.all())? {
        let node = legacy::node(&document, env)?;
        let root = view::View::root(&node, layers.providers);
        keys::read(&root)?;
        rules.extend(permission::rules(&root, &[])?);
        for (agent, part) in permission::agents(&root)? {
            match agent_rules.iter_mut().find(|(name, _)| *name == agent) {
                Some((_, rules)) => rules.extend(part),
                None => agent_rules.push((agent, part)),
            }
        }
        if !document.source.own && document.entered.is_none() {
            strangers.extend(survey::strangers(&node));
        }
        sources.push(document.source);
        match &mut tree {
            Some(tree) => tree.merge(node, &keys::JOINED),
            None => tree = Some(node),
        }
    }
    let mut settings = match &tree {
        Some(tree) => keys::read(&view::View::root(tree, layers.providers))?,
        None => Settings::default(),
    };
    // rules go one after the other, which a merge of objects would not keep
    let bare = |said: &[Said]| said.iter().map(|said| said.rule.clone()).collect();
    settings.rules = bare(&rules);
    settings.agent_rules =
        agent_rules.iter().map(|(name, said)| (name.clone(), bare(said))).collect();
    settings.sources = sources;
    settings.known = layers.providers;
    let of_agents = agent_rules.iter().map(|(_, said)| said);
    let of_all = [&rules].into_iter().chain(of_agents);
    settings.warnings = of_all.flat_map(|said| permission::without_effect(said)).collect();
    settings.warnings.extend(strangers);
    settings.find_skills(directory, &survey::Project::of(directory, env));
    settings.stored = Keys::load(env)?;
    Ok(Merged { settings, tree, rules, agent_rules })
}
