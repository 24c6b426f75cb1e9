//! What a session's workers reach of the world outside: models and the project's files.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use leftfold_events::Kit;
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use crate::plugins::Given;
use crate::rerun::Tape;

/// The providers of a session, by the name that settings give them.
#[derive(Clone, Default)]
pub struct Models {
    all: Arc<HashMap<String, Arc<dyn Provider>>>,
    given: Given,
}

impl Models {
    pub fn new(providers: impl IntoIterator<Item = (String, Arc<dyn Provider>)>) -> Self {
        Self { all: Arc::new(providers.into_iter().collect()), given: Given::default() }
    }

    /// Those that send what is `given` for them.
    pub(crate) fn with(&self, given: &Given) -> Self {
        Self { all: Arc::clone(&self.all), given: given.clone() }
    }

    /// As it is to be asked right now.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let provider = self.all.get(name)?;
        let extra = self.given.extra(name);
        let with = if extra.is_empty() { None } else { provider.with(&extra) };
        Some(with.unwrap_or_else(|| Arc::clone(provider)))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.keys()).finish()
    }
}

/// Builds the turn configuration of an agent that a call brings in, from settings and project files
/// as they are at that moment. Implementations may block: actors call them outside their handlers.
pub trait TurnConfigs: fmt::Debug + Send + Sync {
    /// The configuration of a child session that runs `agent`, under a parent with `parent`'s.
    ///
    /// # Errors
    /// Why there is no such child, in words for the model.
    fn for_child(&self, agent: &str, parent: &Kit) -> Result<ChildConfig, String>;

    /// The configuration of a session in which `agent` takes over; `before` is in force until then.
    ///
    /// # Errors
    /// Why the agent cannot take over, in words for the model.
    fn for_switch(&self, agent: &str, before: &Kit) -> Result<Kit, String>;
}

/// A child session's turn configuration and the providers that it may ask.
#[derive(Debug)]
pub struct ChildConfig {
    pub kit: Kit,
    pub models: Models,
}

/// Models and workspace.
#[derive(Clone, Debug)]
pub struct World {
    pub models: Models,
    pub workspace: Arc<Workspace>,
    /// `None`: calls start no child sessions and switch no agents.
    pub turn_configs: Option<Arc<dyn TurnConfigs>>,
    /// A log that is run again: nothing of the world is reached then.
    pub(crate) tape: Option<Arc<Tape>>,
}

impl World {
    pub fn new(
        models: Models,
        workspace: Arc<Workspace>,
        turn_configs: Option<Arc<dyn TurnConfigs>>,
    ) -> Self {
        Self { models, workspace, turn_configs, tape: None }
    }
}
