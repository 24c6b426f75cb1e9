//! The parts of the outside world that a session's workers may use: models, the project's files and
//! turn configurations, or in a rerun, its recording. It knows no actor.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use leftfold_events::event::{CallSpec, Files, Hook, Resolution};
use leftfold_events::{Secrets, Seq, State, Time, TurnConfig};
use leftfold_plugins::Plugins;
use leftfold_providers::{Extra, Provider};
use leftfold_tools::{Output, Workspace};

/// The providers of a session, by their names in settings.
#[derive(Clone, Default)]
pub struct Models(Arc<HashMap<String, Arc<dyn Provider>>>);

impl Models {
    pub fn new(providers: impl IntoIterator<Item = (String, Arc<dyn Provider>)>) -> Self {
        Self(Arc::new(providers.into_iter().collect()))
    }

    /// The provider of this name, which also sends `extra`.
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

/// Builds the turn configuration of another agent that a call needs, from the current settings and
/// project files. Implementations may block: actors call them outside their handlers.
pub trait TurnConfigs: fmt::Debug + Send + Sync {
    /// The configuration of a child session that runs `agent`, below a parent with the
    /// configuration `parent`.
    ///
    /// # Errors
    /// Why there is no such child, as a text for the model.
    fn for_child(&self, agent: &str, parent: &TurnConfig) -> Result<ChildConfig, String>;

    /// The configuration of a session in which `agent` takes over; `before` is in force until then.
    ///
    /// # Errors
    /// Why the agent cannot take over, as a text for the model.
    fn for_switch(&self, agent: &str, before: &TurnConfig) -> Result<TurnConfig, String>;
}

/// A child session's turn configuration and the providers that it may use.
#[derive(Debug)]
pub struct ChildConfig {
    pub config: TurnConfig,
    pub models: Models,
}

/// The log of a rerun. It gives the outcomes of tools, files, plugins and the clock. Each function
/// takes the intent `of` whose effect a worker was about to perform, and completes when the log's
/// own outcome of it is due; it never completes if the log has none.
pub(crate) trait Recording: fmt::Debug + Send + Sync {
    /// The time of the next event of a session in `state`.
    fn now(&self, state: &State) -> Time;

    /// The intents whose deadlines pass here in the log.
    fn overdue(&self, state: &State) -> Vec<Seq>;

    fn resolve(&self, of: Seq, call: CallSpec) -> BoxFuture<'_, Resolution>;

    fn run(&self, of: Seq, resolution: Box<Resolution>) -> BoxFuture<'_, Output>;

    /// The outcome of a call that switches agents, and the configuration that it brought.
    fn switch(&self, of: Seq) -> BoxFuture<'_, (Output, Option<TurnConfig>)>;

    fn files(&self, of: Seq) -> BoxFuture<'_, Files>;

    fn hook(&self, of: Seq) -> BoxFuture<'_, Hook>;
}

/// The outside world for a session and its workers.
#[derive(Clone, Debug)]
pub struct World {
    pub models: Models,
    pub workspace: Arc<Workspace>,
    /// The plugins whose hooks are called.
    pub plugins: Plugins,
    /// `None`: calls start no child sessions and switch no agents.
    pub turn_configs: Option<Arc<dyn TurnConfigs>>,
    /// Set only in a rerun: nothing outside is then used.
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

    /// Uses these secrets instead of the known ones.
    pub(crate) fn hide(&mut self, secrets: &Secrets) {
        Arc::make_mut(&mut self.workspace).secrets = secrets.clone();
    }

    /// This world for a session that rests: without the servers and plugins, which come with its next prompt.
    pub(crate) fn at_rest(mut self) -> Self {
        let workspace = Arc::make_mut(&mut self.workspace);
        workspace.sources.clear();
        workspace.language_servers = None;
        Self { plugins: Plugins::default(), turn_configs: None, ..self }
    }

    /// This world for a session that has used `old` so far. Values that were secret stay secret, since
    /// earlier calls may still print them. The client's files and terminals and the recording stay.
    pub(crate) fn after(mut self, old: &Self) -> Self {
        let workspace = Arc::make_mut(&mut self.workspace);
        match workspace.secrets.with_all_of(&old.workspace.secrets) {
            Ok(secrets) => workspace.secrets = secrets,
            Err(error) => tracing::warn!("{error}"),
        }
        if workspace.host.is_none() {
            workspace.host.clone_from(&old.workspace.host);
        }
        Self { recording: old.recording.clone(), ..self }
    }
}
