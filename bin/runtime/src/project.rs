//! A project, and what a session of it did last.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_config::{Settings, SkillFolder};
use leftfold_events::SessionId;
use leftfold_events::event::SessionChoices;
use leftfold_events::turn_config::Options;
use leftfold_mcp::{ServerSpec, Servers};
use leftfold_plugins::Plugins;
use leftfold_tools::{OutputLimits, UserFolders, Workspace, skills};

use crate::Usage;
use crate::gather::{Named, Sources};
use crate::session_paths::{self, Place};
use crate::specs;

/// The id of a session that is about to be made.
pub fn new_id() -> SessionId {
    SessionId::from_ulid(ulid::Ulid::new())
}

/// The plugins of a project that were asked for settings last. They keep running until a session works with
/// them, and from prompt to prompt. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HeldPlugins(Arc<Mutex<Plugins>>);

impl HeldPlugins {
    pub(crate) fn hold(&self, plugins: &Plugins) {
        plugins.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Where a session works, with which model and agent it did so last, and what a turn that was cut
/// off was given.
#[derive(Clone, Debug)]
pub struct Project {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    pub model: Option<String>,
    pub agent: Option<String>,
    /// What a client has chosen for its prompts.
    pub choices: SessionChoices,
    pub given: Option<Box<Options>>,
    /// Servers of tools besides those in settings, before any of the same name there.
    pub servers: Vec<ServerSpec>,
    pub plugins: HeldPlugins,
}

impl Project {
    /// Of a session that does not exist yet.
    pub fn new(directory: PathBuf, worktree: PathBuf) -> Self {
        Self {
            directory,
            worktree,
            model: None,
            agent: None,
            choices: SessionChoices::default(),
            given: None,
            servers: Vec::new(),
            plugins: HeldPlugins::default(),
        }
    }

    /// Of a session that exists already.
    ///
    /// # Errors
    /// There is no such session, or its log cannot be read.
    pub fn of(place: &Place) -> anyhow::Result<Self> {
        let events = leftfold_store::Reader::open(&place.store)?.read(place.session, 1)?;
        let state = leftfold_events::fold(&events);
        let origin = state.origin.ok_or_else(|| {
            Usage(format!("there is no session {} in {}", place.session, place.store.display()))
        })?;
        Ok(Self {
            model: Some(state.config.model.name().to_string()),
            agent: Some(state.agent),
            choices: state.choices,
            given: state.turn.map(|_| Box::new(state.config.options)),
            ..Self::new(origin.directory.into(), origin.worktree.into())
        })
    }

    /// Where the tools of a session of this project work, with the settings' limits. Plugins, secrets and
    /// subagents are for the caller to add.
    pub(crate) fn workspace(&self, store: &Path, settings: &Settings) -> Workspace {
        let mut workspace = Workspace::new(&self.directory, &self.worktree, store.join("spill"));
        workspace.limits = output_limits(settings);
        workspace.user_folders = user_folders(settings);
        workspace.private_addresses = settings.webfetch.private;
        workspace.task_timeout = settings.task.timeout;
        workspace.environment = settings.environment();
        workspace.socket = Some(store.join(session_paths::SOCKET));
        workspace.data = session_paths::data_dir().ok();
        workspace
    }
}

/// Where instruction files and skills are looked for, besides the project.
pub fn sources(settings: &Settings) -> Sources {
    let named = settings.instructions.iter();
    let named =
        named.map(|item| Named { base: item.place().source.base.clone(), text: item.to_string() });
    Sources {
        user_folders: user_folders(settings),
        instructions: named.collect(),
        private_addresses: settings.webfetch.private,
    }
}

/// Where the user's own skills and instructions are, and the skills that settings name.
pub fn user_folders(settings: &Settings) -> UserFolders {
    let folders = settings.skill_folders.iter();
    let folders = folders
        .map(|SkillFolder { path, own }| skills::SkillFolder { path: path.clone(), own: *own });
    UserFolders { skills: folders.collect(), ..UserFolders::of_environment() }
}

/// The MCP servers that settings name, and those that a client `handed` over, which win.
pub fn servers(directory: &Path, settings: &Settings, handed: &[ServerSpec]) -> Servers {
    let specs = settings.mcp.iter().map(|(name, mcp)| specs::server(name, mcp));
    let specs = specs.filter(|spec| handed.iter().all(|other| other.name != spec.name));
    let specs: Vec<ServerSpec> = specs.chain(handed.iter().cloned()).collect();
    Servers::of(directory, &settings.environment(), &specs)
}

/// How much of a tool's output the model is shown.
pub fn output_limits(settings: &Settings) -> OutputLimits {
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    OutputLimits {
        max_lines: whole(settings.tool_output.max_lines),
        max_bytes: whole(settings.tool_output.max_bytes),
    }
}
