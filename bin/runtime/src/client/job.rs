//! What it takes to open a session, and to prompt it.

use std::sync::Arc;

use leftfold_actors::{Models, Open, World};
use leftfold_events::event::{ModelRef, Session};
use leftfold_events::kit::AskMode;
use leftfold_events::{Kit, POLICY};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use crate::gather::Setup;
use crate::home::Place;
use crate::project::Project;
use crate::turn_config::{self, SessionConfigs};

/// What goes with a prompt: the configuration, and who is to answer with which model.
#[derive(Clone, Debug)]
pub struct Equipment {
    pub kit: Kit,
    pub agent: String,
    pub model: ModelRef,
}

/// All that a session needs to know of the world.
#[derive(Clone)]
pub struct Job {
    pub place: Place,
    pub setup: Setup,
    pub provider: (String, Arc<dyn Provider>),
    /// Those that later prompts may need.
    pub others: Vec<(String, Arc<dyn Provider>)>,
    pub workspace: Workspace,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Job {
    /// The configuration in force right now.
    pub fn kit(&self) -> Kit {
        turn_config::gather(self.setup.clone(), &self.workspace.mcp, &self.workspace.plugins)
    }

    /// What a client needs to prompt after this job's own prompt.
    pub fn equipment(&self) -> Equipment {
        let (agent, model) = (self.setup.agent.name.clone(), self.setup.model.name());
        Equipment { kit: self.kit(), agent, model }
    }

    /// Whether somebody is there to be asked.
    pub fn asks(&self) -> bool {
        self.setup.options.ask == AskMode::Ask
    }

    fn birth(&self) -> Session {
        Session::Created {
            directory: self.setup.directory.display().to_string(),
            worktree: self.setup.worktree.display().to_string(),
            parent: None,
            agent: self.setup.agent.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: POLICY,
        }
    }

    pub(super) fn open(&self) -> Open {
        let (name, provider) = &self.provider;
        let others = self.others.iter().cloned();
        let models = Models::new(others.chain([(name.clone(), Arc::clone(provider))]));
        Open {
            store: self.place.store.clone(),
            session: self.place.session,
            world: World::new(
                models,
                Arc::new(self.workspace.clone()),
                Some(Arc::new(SessionConfigs {
                    project: Project::new(
                        self.setup.directory.clone(),
                        self.setup.worktree.clone(),
                    ),
                    plan: self.setup.plan.clone(),
                    mcp: self.workspace.mcp.clone(),
                    plugins: self.workspace.plugins.clone(),
                })),
            ),
            birth: self.birth(),
        }
    }
}
