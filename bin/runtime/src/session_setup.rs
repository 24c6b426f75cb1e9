//! What it takes to open a session, and to prompt it.

use std::path::PathBuf;
use std::sync::Arc;

use leftfold_actors::{Models, OpenSession, World};
use leftfold_config::Settings;
use leftfold_events::event::{ModelRef, Session};
use leftfold_events::turn_config::AskMode;
use leftfold_events::{POLICY, SessionId, TurnConfig};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use crate::agents::Agents;
use crate::gather::TurnSettings;
use crate::project::{Project, servers};
use crate::resolved_settings::ResolvedSettings;
use crate::session_paths::Place;
use crate::turn_config::{
    self, Extensions, Inherited, Overrides, Resolved, SessionConfigs, resolve,
};
use crate::{gather, secrets, session_paths, warnings};

/// What goes with a prompt: the configuration, and who is to answer with which model.
#[derive(Clone, Debug)]
pub struct PromptConfig {
    pub config: TurnConfig,
    pub agent: String,
    pub model: ModelRef,
}

/// All that a session needs to know of the world.
#[derive(Clone)]
pub struct SessionSetup {
    pub place: Place,
    pub turn_settings: TurnSettings,
    pub provider: (String, Arc<dyn Provider>),
    /// Those that later prompts may need.
    pub others: Vec<(String, Arc<dyn Provider>)>,
    pub workspace: Workspace,
    pub extensions: Extensions,
}

impl std::fmt::Debug for SessionSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSetup").field("place", &self.place).finish_non_exhaustive()
    }
}

impl SessionSetup {
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
        let ResolvedSettings { settings, plugins } = ResolvedSettings::of(project, &place.store)?;
        warnings::tell(&settings.warnings);
        let inherited = match resumes {
            true => Inherited::Resumed(project.given.as_deref()),
            false => Inherited::Nothing,
        };
        let plan = plan(&settings, project, place.session)?;
        let Resolved { turn_settings, provider, others } =
            resolve(&settings, project, overrides, inherited, plan)?;
        if settings.snapshot() && !turn_settings.options.snapshot {
            warnings::tell(&[leftfold_snapshots::Error::NoGit.to_string()]);
        }
        let mut workspace = project.workspace(&place.store, &settings);
        let mcp = servers(&project.directory, &settings, &project.servers);
        let extensions = Extensions { mcp, plugins };
        workspace.sources = extensions.sources();
        workspace.secrets = secrets::known(&settings, &leftfold_config::environment)?;
        workspace.subagents =
            turn_settings.subagents.iter().map(|(name, _)| name.clone()).collect();
        Ok(Self { place, turn_settings, provider, others, workspace, extensions })
    }

    /// The configuration in force right now.
    pub fn config(&self) -> TurnConfig {
        turn_config::gather(self.turn_settings.clone(), &self.extensions)
    }

    /// What a client needs to prompt after this setup's own prompt.
    pub fn prompt_config(&self) -> PromptConfig {
        let (agent, model) =
            (self.turn_settings.agent.name.clone(), self.turn_settings.model.name());
        PromptConfig { config: self.config(), agent, model }
    }

    /// Whether somebody is there to be asked.
    pub fn asks(&self) -> bool {
        self.turn_settings.options.ask == AskMode::Ask
    }

    fn created_event(&self) -> Session {
        Session::Created {
            directory: self.turn_settings.directory.display().to_string(),
            worktree: self.turn_settings.worktree.display().to_string(),
            parent: None,
            agent: self.turn_settings.agent.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: POLICY,
        }
    }

    pub(crate) fn open(&self) -> OpenSession {
        let (name, provider) = &self.provider;
        let others = self.others.iter().cloned();
        let models = Models::new(others.chain([(name.clone(), Arc::clone(provider))]));
        OpenSession {
            store: self.place.store.clone(),
            session: self.place.session,
            world: World::new(
                models,
                Arc::new(self.workspace.clone()),
                Some(Arc::new(SessionConfigs {
                    project: Project::new(
                        self.turn_settings.directory.clone(),
                        self.turn_settings.worktree.clone(),
                    ),
                    plan: self.turn_settings.plan.clone(),
                    extensions: self.extensions.clone(),
                })),
            )
            .with_plugins(self.extensions.plugins.clone()),
            created_event: self.created_event(),
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
    let file = gather::plan::file(&project.worktree, &session_paths::data_dir()?, session);
    let can_switch = ["plan", "build"].into_iter().all(|name| agents.to_prompt(name).is_ok());
    Ok(can_switch.then_some(file))
}
