//! Gathers everything needed to open a session and to prompt it.

use std::path::PathBuf;
use std::sync::Arc;

use leftfold_actors::{Models, OpenSession, World};
use leftfold_config::{Settings, Terminal};
use leftfold_events::event::{ModelRef, Session};
use leftfold_events::rules::{self, Rule};
use leftfold_events::turn_config::{AskMode, RuleSource};
use leftfold_events::{POLICY, SessionId, TurnConfig};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;

use crate::agents::Agents;
use crate::gather::TurnSettings;
use crate::project::{Project, remote_servers, servers, with_secrets_of_added};
use crate::quota::PromptQuota;
use crate::resolved_settings::ResolvedSettings;
use crate::session_paths::SessionPlace;
use crate::turn_config::{
    self, Extensions, Inherited, Overrides, PromptOptions, Resolved, SessionConfigs, resolve,
};
use crate::workplace::Workplace;
use crate::{gather, sandbox, secrets, session_paths, texts, warnings};

/// The parts of a prompt besides its text: the configuration, the world that it is for, and the agent
/// and model that answer.
#[derive(Clone, Debug)]
pub struct PromptConfig {
    pub config: TurnConfig,
    pub world: World,
    pub agent: String,
    pub model: ModelRef,
    /// The quota of the project, which the prompt has to fit.
    pub quota: Option<PromptQuota>,
}

/// Everything that a session needs to know of the world.
#[derive(Clone)]
pub struct SessionSetup {
    pub place: SessionPlace,
    pub turn_settings: TurnSettings,
    pub provider: (String, Arc<dyn Provider>),
    /// Providers that later prompts may need.
    pub others: Vec<(String, Arc<dyn Provider>)>,
    pub workspace: Workspace,
    pub extensions: Extensions,
    /// The settings of conversations on a terminal.
    pub terminal: Terminal,
    /// The agent and model that the prompt's command names. The node of another process gets them with the prompt.
    pub(crate) of_command: PromptOptions,
    pub(crate) quota: Option<PromptQuota>,
}

leftfold_events::debug_fields!(SessionSetup { place });

impl SessionSetup {
    /// Reads settings, and resolves agent, model and limits. Waits for plugins, so it may block.
    /// With `resumes`, the interrupted turn's own options apply.
    ///
    /// # Errors
    /// [`Usage`]: settings, agent, model or variant are wrong.
    pub fn new(
        place: SessionPlace,
        project: &Project,
        overrides: &Overrides,
        resumes: bool,
    ) -> anyhow::Result<Self> {
        let ResolvedSettings { settings, plugins } =
            ResolvedSettings::for_project(project, &place.store)?;
        warnings::print_once(&settings.warnings);
        let inherited = match resumes {
            true => Inherited::Resumed(project.given.as_deref()),
            false => Inherited::Nothing,
        };
        let plan = plan(&settings, project, place.session)?;
        let Resolved { turn_settings, provider, others } =
            resolve(&settings, project, overrides, inherited, plan)?;
        let is_here = turn_settings.workplace.is_none();
        if let Some(line) = sandbox::about_home(&project.worktree).filter(|_| is_here) {
            warnings::print_once(&[line]);
        }
        if settings.snapshot() && !leftfold_snapshots::is_possible() && is_here {
            warnings::print_once(&[leftfold_snapshots::Error::NoGit.to_string()]);
        }
        let mut workspace = project.workspace(&place.store, &settings);
        let mcp = match &turn_settings.workplace {
            Some(_) => remote_servers(&settings),
            None => servers(&project.directory, &settings, &project.servers),
        };
        workspace.remote = turn_settings.workplace.as_ref().map(Workplace::remote);
        let extensions = Extensions { mcp, plugins };
        workspace.sources = extensions.sources();
        let of_agents = settings.agents.keys().flat_map(|agent| settings.rules_of(agent));
        let of_agents: Vec<Rule> = of_agents.chain(rules::defaults()).collect();
        let in_force = turn_settings.options.restricting().flatten();
        workspace.guarded =
            leftfold_tools::guarded(of_agents.iter().chain(&turn_settings.rules).chain(in_force));
        let known = secrets::known(&settings, &leftfold_config::environment)?;
        workspace.secrets = with_secrets_of_added(known, &project.directory)?;
        workspace.subagents =
            turn_settings.subagents.iter().map(|(name, _)| name.clone()).collect();
        workspace.sandbox.clone_from(&turn_settings.options.sandbox);
        if is_here {
            leftfold_tools::prepare_places(&workspace);
        }
        let of_command = PromptOptions::default();
        let terminal = settings.terminal.clone();
        let worktree = turn_settings.worktree.clone();
        let quota = PromptQuota::new(settings.quota_of(&worktree), worktree, place.clone());
        Ok(Self {
            place,
            turn_settings,
            provider,
            others,
            workspace,
            extensions,
            terminal,
            of_command,
            quota,
        })
    }

    /// The configuration in force right now.
    pub fn config(&self) -> TurnConfig {
        texts::name(&self.turn_settings);
        turn_config::gather(self.turn_settings.clone(), &self.extensions)
    }

    /// The permission rules of the configuration and where they come from. Unlike `config`, it waits for nothing.
    pub fn rules(&self) -> (Vec<Rule>, Vec<RuleSource>) {
        gather::merged(&self.turn_settings)
    }

    /// The instruction files that go with the next prompt. Unlike `config`, it waits for nothing.
    pub fn instruction_files(&self) -> Vec<String> {
        gather::instruction_files(&self.turn_settings)
    }

    /// The configuration for prompts after this setup's own.
    pub fn prompt_config(&self) -> PromptConfig {
        let (agent, model) =
            (self.turn_settings.agent.name.clone(), self.turn_settings.model.name());
        let quota = self.quota.clone();
        PromptConfig { config: self.config(), world: self.world(), agent, model, quota }
    }

    /// Whether a person can be asked.
    pub fn asks(&self) -> bool {
        self.turn_settings.options.ask == AskMode::Ask
    }

    /// A copy that is not on the stack, where it would take much of a thread's room.
    pub(crate) fn shared_settings(&self) -> Arc<TurnSettings> {
        Arc::new(self.turn_settings.clone())
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

    /// The models, files, servers and plugins that the session uses.
    pub(crate) fn world(&self) -> World {
        let (name, provider) = &self.provider;
        let others = self.others.iter().cloned();
        let models = Models::new(others.chain([(name.clone(), Arc::clone(provider))]));
        let configs = SessionConfigs {
            project: Project {
                executor: self.turn_settings.options.executor.clone(),
                ..Project::new(
                    self.turn_settings.directory.clone(),
                    self.turn_settings.worktree.clone(),
                )
            },
            plan: self.turn_settings.plan.clone(),
            extensions: self.extensions.clone(),
        };
        World::new(models, Arc::new(self.workspace.clone()), Some(Arc::new(configs)))
            .with_plugins(self.extensions.plugins.clone())
    }

    pub(crate) fn open(&self) -> OpenSession {
        OpenSession {
            store: self.place.store.clone(),
            session: self.place.session,
            world: self.world(),
            created_event: self.created_event(),
            fork_of: None,
        }
    }
}

/// OpenCode's switch: `false` or `0` leave out the plan's file and the change from agent to agent.
const PLAN_MODE: &str = "OPENCODE_EXPERIMENTAL_PLAN_MODE";

fn is_off(variable: &str) -> bool {
    let value = leftfold_config::environment(variable);
    value.is_some_and(|value| matches!(value.trim(), "false" | "0"))
}

/// The file for the session's plan, if both agents exist, so that one can take over from the other.
fn plan(
    settings: &Settings,
    project: &Project,
    session: SessionId,
) -> anyhow::Result<Option<PathBuf>> {
    if is_off(PLAN_MODE) {
        return Ok(None);
    }
    let agents = Agents::from_settings(settings);
    let file = gather::plan::file(&project.worktree, &session_paths::data_dir()?, session);
    let can_switch = ["plan", "build"].into_iter().all(|name| agents.to_prompt(name).is_ok());
    Ok(can_switch.then_some(file))
}
