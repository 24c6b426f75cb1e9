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

/// Gathers what agents are to work with that calls bring in: in sessions of their own, or in theirs.
pub trait Outfit: fmt::Debug + Send + Sync {
    /// The kit for the child of a session with `parent`'s. Looks at the world, so it may block.
    ///
    /// # Errors
    /// Why there is no such child, for the model.
    fn child(&self, agent: &str, parent: &Kit) -> Result<Outfitted, String>;

    /// The kit for a session with the kit `before` in which another agent takes over. Looks at the
    /// world, so it may block.
    ///
    /// # Errors
    /// Why that agent can not take over, for the model.
    fn switch(&self, agent: &str, before: &Kit) -> Result<Kit, String>;
}

/// What a child works with.
#[derive(Debug)]
pub struct Outfitted {
    pub kit: Kit,
    pub models: Models,
}

/// Models and workspace.
#[derive(Clone, Debug)]
pub struct World {
    pub models: Models,
    pub workspace: Arc<Workspace>,
    /// Without it calls start no sessions and change no agents.
    pub outfit: Option<Arc<dyn Outfit>>,
    /// A log that is run again: nothing of the world is reached then.
    pub(crate) tape: Option<Arc<Tape>>,
}

impl World {
    pub fn new(models: Models, workspace: Arc<Workspace>, outfit: Option<Arc<dyn Outfit>>) -> Self {
        Self { models, workspace, outfit, tape: None }
    }
}
