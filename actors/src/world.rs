//! What a session's workers may reach of the world outside: models, the project's files, turn
//! configurations, or, when a log is run again, its recording. It knows no actor.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use leftfold_events::event::{CallSpec, Files, Hook, Resolution};
use leftfold_events::{Seq, State, Time, TurnConfig};
use leftfold_plugins::Plugins;
use leftfold_providers::{Extra, Provider};
use leftfold_tools::{Output, Workspace};

/// The providers of a session, by the name that settings give them.
#[derive(Clone, Default)]
pub struct Models(Arc<HashMap<String, Arc<dyn Provider>>>);

impl Models {
    pub fn new(providers: impl IntoIterator<Item = (String, Arc<dyn Provider>)>) -> Self {
        Self(Arc::new(providers.into_iter().collect()))
    }

    /// The provider of this name, which sends `extra` besides what settings say.
    pub(crate) fn get(&self, name: &str, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let provider = self.0.get(name)?;
        let with = if extra.is_empty() { None } else { provider.with(extra) };
        Some(with.unwrap_or_else(|| Arc::clone(provider)))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Builds the turn configuration of an agent that a call brings in, from settings and project files
/// as they are at that moment. Implementations may block: actors call them outside their handlers.
pub trait TurnConfigs: fmt::Debug + Send + Sync {
    /// The configuration of a child session that runs `agent`, under a parent with `parent`'s.
    ///
    /// # Errors
    /// Why there is no such child, in words for the model.
    fn for_child(&self, agent: &str, parent: &TurnConfig) -> Result<ChildConfig, String>;

    /// The configuration of a session in which `agent` takes over; `before` is in force until then.
    ///
    /// # Errors
    /// Why the agent cannot take over, in words for the model.
    fn for_switch(&self, agent: &str, before: &TurnConfig) -> Result<TurnConfig, String>;
}

/// A child session's turn configuration and the providers that it may ask.
#[derive(Debug)]
pub struct ChildConfig {
    pub config: TurnConfig,
    pub models: Models,
    /// Whether the child may start children of its own.
    pub has_subagents: bool,
}

/// A log that is run again: it answers in place of tools, files, plugins and clock. Each function
/// takes the intent `of` whose effect a worker was about to have, and ends when the log's own
/// outcome of it is due; never, if the log has none.
pub(crate) trait Recording: fmt::Debug + Send + Sync {
    /// The time of the event that comes next in a session that is in `state`.
    fn now(&self, state: &State) -> Time;

    /// The intents whose waits the log has ended here.
    fn overdue(&self, state: &State) -> Vec<Seq>;

    fn resolve(&self, of: Seq, call: CallSpec) -> BoxFuture<'_, Resolution>;

    fn run(&self, of: Seq, resolution: Box<Resolution>) -> BoxFuture<'_, Output>;

    /// The outcome of a call that switches agents, and the configuration that it brought.
    fn switch(&self, of: Seq) -> BoxFuture<'_, (Output, Option<TurnConfig>)>;

    fn files(&self, of: Seq) -> BoxFuture<'_, Files>;

    fn hook(&self, of: Seq) -> BoxFuture<'_, Hook>;
}

/// What a session and its workers are given when the session is opened.
#[derive(Clone, Debug)]
pub struct World {
    pub models: Models,
    pub workspace: Arc<Workspace>,
    /// Those whose hooks are called.
    pub plugins: Plugins,
    /// `None`: calls start no child sessions and switch no agents.
    pub turn_configs: Option<Arc<dyn TurnConfigs>>,
    /// `None`, but when a log is run again: then nothing of the world outside is reached.
    pub(crate) recording: Option<Arc<dyn Recording>>,
}

impl World {
    pub fn new(
        models: Models,
        workspace: Arc<Workspace>,
        turn_configs: Option<Arc<dyn TurnConfigs>>,
    ) -> Self {
        Self { models, workspace, plugins: Plugins::default(), turn_configs, recording: None }
    }

    /// Adds plugins, whose hooks the session calls.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }
}
