//! What it takes to open a session, and to prompt it.

use std::path::PathBuf;
use std::sync::Arc;

use leftfold_actors::{Models, Open, World};
use leftfold_config::Settings;
use leftfold_events::event::{ModelRef, Session};
use leftfold_events::kit::AskMode;
use leftfold_events::{Kit, POLICY, SessionId};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use crate::agents::Agents;
use crate::configured::Configured;
use crate::gather::Setup;
use crate::home::Place;
use crate::project::{Project, servers};
use crate::turn_config::{
    self, Extensions, Inherited, Overrides, Resolved, SessionConfigs, resolve,
};
use crate::{gather, home, secrets, warnings};

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
    pub extensions: Extensions,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Job {
    /// Reads settings, and resolves agent, model and limits. Waits for plugins, so it may block. With `resumes`
    /// the turn goes on with what it was given before it was cut off.
    ///
    /// # Errors
    /// [`Usage`]: settings, agent, model or variant are wrong.
    pub fn new(
        place: Place,
        project: &Project,
        overrides: &Overrides,
        resumes: bool,
    ) -> anyhow::Result<Self> {
        let Configured { settings, plugins } = Configured::of(project, &place.store)?;
        warnings::tell(&settings.warnings);
        let inherited = match resumes {
            true => Inherited::Resumed(project.given.as_deref()),
            false => Inherited::Nothing,
        };
        let plan = plan(&settings, project, place.session)?;
        let Resolved { setup, provider, others } =
            resolve(&settings, project, overrides, inherited, plan)?;
        if settings.snapshot() && !setup.options.snapshot {
            warnings::tell(&[leftfold_snapshots::Error::NoGit.to_string()]);
        }
        let mut workspace = project.workspace(&place.store, &settings);
        let mcp = servers(&project.directory, &settings, &project.servers);
        let extensions = Extensions { mcp, plugins };
        workspace.sources = extensions.sources();
        workspace.secrets = secrets::known(&settings, &leftfold_config::environment)?;
        workspace.subagents = setup.subagents.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { place, setup, provider, others, workspace, extensions })
    }

    /// The configuration in force right now.
    pub fn kit(&self) -> Kit {
        turn_config::gather(self.setup.clone(), &self.extensions)
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

    pub(crate) fn open(&self) -> Open {
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
                    extensions: self.extensions.clone(),
                })),
            )
            .with_plugins(self.extensions.plugins.clone()),
            birth: self.birth(),
            fork_of: None,
        }
    }
}

/// The file for the session's plan, if there are both agents, so that one can take over from the other.
fn plan(
    settings: &Settings,
    project: &Project,
    session: SessionId,
) -> anyhow::Result<Option<PathBuf>> {
    let agents = Agents::of(settings);
    let file = gather::plan::file(&project.worktree, &home::home()?, session);
    let can_switch = ["plan", "build"].into_iter().all(|name| agents.to_prompt(name).is_ok());
    Ok(can_switch.then_some(file))
}
