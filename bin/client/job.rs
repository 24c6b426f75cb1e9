//! What it takes to open a session, and to prompt it.

use std::sync::Arc;

use leftfold_actors::equip::Setup;
use leftfold_actors::{Models, Open, World};
use leftfold_events::event::Session;
use leftfold_events::kit::AskMode;
use leftfold_events::{Kit, POLICY};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use super::Equipment;
use crate::approvals;
use crate::home::Place;
use crate::outfit::{self, Wardrobe};

/// All that a session needs to know of the world.
pub(crate) struct Job<'a> {
    pub(crate) place: Place,
    pub(crate) setup: Setup<'a>,
    pub(crate) provider: (String, Arc<dyn Provider>),
    /// Those that later prompts may need.
    pub(crate) others: Vec<(String, Arc<dyn Provider>)>,
    pub(crate) workspace: Workspace,
}

impl Job<'_> {
    /// What is in force right now, with what the project remembers.
    pub(crate) fn kit(&self) -> Kit {
        let mut setup = self.setup.clone();
        setup.options.approved = approvals::of(setup.worktree);
        outfit::gather(setup, &self.workspace.mcp, &self.workspace.plugins)
    }

    /// What a client needs to prompt after this job's own prompt.
    pub(crate) fn equipment(&self) -> Equipment {
        let (agent, model) = (self.setup.agent.name.clone(), self.setup.model.name());
        Equipment { kit: self.kit(), agent, model }
    }

    /// Whether somebody is there to be asked.
    pub(crate) fn asks(&self) -> bool {
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
                Some(Arc::new(Wardrobe {
                    directory: self.setup.directory.to_owned(),
                    worktree: self.setup.worktree.to_owned(),
                    plan: self.setup.plan.clone(),
                    mcp: self.workspace.mcp.clone(),
                    plugins: self.workspace.plugins.clone(),
                })),
            ),
            birth: self.birth(),
        }
    }
}
