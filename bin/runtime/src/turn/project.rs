//! A project, and the last agent and model of a session in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_config::Settings;
use leftfold_events::event::SessionChoices;
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::{Options, Sources as TurnSources};
use leftfold_events::{Envelope, Secrets, Seq, SessionId};
use leftfold_mcp::{Endpoint, ServerSpec, Servers};
use leftfold_plugins::Plugins;
use leftfold_tools::{OutputLimits, Workspace};

use crate::Usage;
use crate::executors::NO_PROJECT;
use crate::gather::{Named, Sources};
use crate::session_paths::{self, SessionPlace};
use crate::{
    executors, formatting, language_servers, model, redact_output, search, specs, warnings,
};

/// The ids of this process, each greater than the one before.
static IDS: Mutex<ulid::Generator> = Mutex::new(ulid::Generator::new());

/// The id for a new session.
pub fn new_id() -> SessionId {
    let next = IDS.lock().unwrap_or_else(PoisonError::into_inner).generate();
    // a generator fails only after 2^80 ids within a millisecond
    SessionId::from_ulid(next.unwrap_or_else(|_| ulid::Ulid::new()))
}

/// The plugins of a project that were last asked for settings. They keep running until a session
/// uses them, and from prompt to prompt. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HeldPlugins(Arc<Mutex<Plugins>>);

impl HeldPlugins {
    pub(crate) fn hold(&self, plugins: &Plugins) {
        plugins.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A session's directory, its last model and agent, and the options of an interrupted turn.
#[derive(Clone, Debug)]
pub struct Project {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    pub model: Option<String>,
    pub agent: Option<String>,
    /// The client's choices for its prompts.
    pub choices: SessionChoices,
    /// The session's own permission rules.
    pub rules: Vec<Rule>,
    pub given: Option<Box<Options>>,
    /// Where the model and the options of the session's last turn come from.
    pub sources: Option<Box<TurnSources>>,
    /// The executor beside the directory, by its name in settings. `None`: the directory is on this machine.
    pub executor: Option<String>,
    /// MCP servers besides those in settings; they win over servers of the same name there.
    pub servers: Vec<ServerSpec>,
    pub plugins: HeldPlugins,
}

impl Project {
    /// A project for a new session.
    pub fn new(directory: PathBuf, worktree: PathBuf) -> Self {
        Self {
            directory,
            worktree,
            model: None,
            agent: None,
            choices: SessionChoices::default(),
            rules: Vec::new(),
            given: None,
            sources: None,
            executor: None,
            servers: Vec::new(),
            plugins: HeldPlugins::default(),
        }
    }

    /// The project of an existing session. An imported log names the folder, the model and nothing
    /// else.
    ///
    /// # Errors
    /// There is no such session, or its log cannot be read.
    pub fn for_session(place: &SessionPlace) -> anyhow::Result<Self> {
        let events = leftfold_store::Reader::open(&place.store)?.read(place.session, 1)?;
        Self::of_events(place, &events)
    }

    /// The project of an existing session with these events.
    pub(crate) fn of_events(place: &SessionPlace, events: &[Envelope]) -> anyhow::Result<Self> {
        let mut state = leftfold_events::fold(events);
        let imported = leftfold_store::imported(&place.store, events)?;
        let mut given = state.turn.is_some();
        if imported > state.imported {
            given = false;
            state.distrust(imported);
        }
        let agent = state.last_agent().map(str::to_owned);
        // an imported log does not choose a machine
        let executor = state.config.options.executor.clone().filter(|_| state.imported == 0);
        let origin = state.origin.ok_or_else(|| {
            Usage(format!("there is no session {} in {}", place.session, place.store.display()))
        })?;
        let directory = PathBuf::from(origin.directory);
        let worktree = worktree(&directory, origin.worktree.into(), imported);
        Ok(Self {
            // a session without a prompt has none yet
            model: Some(&state.config.model)
                .filter(|model| !model.id.is_empty())
                .map(|model| model.name().to_string()),
            agent,
            choices: state.choices,
            rules: state.rules,
            sources: Some(Box::new(state.config.options.sources.clone())),
            executor,
            given: given.then(|| Box::new(state.config.options)),
            ..Self::new(directory, worktree)
        })
    }

    /// A project for another new session in this one's folder, at its executor if it has one.
    pub fn anew(&self) -> Self {
        let executor = self.executor.clone();
        Self { executor, ..Self::new(self.directory.clone(), self.worktree.clone()) }
    }

    /// A project at the executor with this name, for a new session. Asks the executor, so it may block.
    ///
    /// # Errors
    /// Settings name no such executor, or it cannot be reached.
    pub fn at_executor(name: &str) -> anyhow::Result<Self> {
        let known = leftfold_providers::known();
        let settings = leftfold_config::load_shared(Path::new(NO_PROJECT), known);
        let settings = settings.map_err(model::usage)?;
        let there = executors::describe(&settings, name)?.there;
        let executor = Some(name.to_owned());
        Ok(Self { executor, ..Self::new(there.directory, there.worktree) })
    }

    /// The folder whose settings count: the user's own alone, if the directory is on another machine.
    pub fn settings_directory(&self) -> &Path {
        if self.executor.is_some() { Path::new(NO_PROJECT) } else { &self.directory }
    }

    /// The workspace for the tools of a session, with the settings' limits. The caller adds
    /// plugins, secrets and subagents.
    pub(crate) fn workspace(&self, store: &Path, settings: &Settings) -> Workspace {
        let mut workspace = Workspace::new(&self.directory, &self.worktree, store.join("spill"));
        workspace.limits = output_limits(settings);
        workspace.user_folders = session_paths::user_folders(settings);
        workspace.private_addresses = settings.webfetch.private;
        search::set_up(&mut workspace, settings);
        if self.executor.is_none() {
            Self::set_up_programs(&mut workspace, settings);
        }
        workspace.task_timeout = settings.task.timeout;
        workspace.environment = settings.environment();
        workspace.shell.clone_from(&settings.shell_program);
        workspace.socket = Some(store.join(session_paths::SOCKET));
        workspace.data = session_paths::data_dir().ok();
        workspace
    }

    /// Adds the programs of this machine that look at files after calls have written them.
    fn set_up_programs(workspace: &mut Workspace, settings: &Settings) {
        if let Some((formatting, problems)) = formatting::formatting(settings) {
            warnings::print_once(&problems);
            workspace.formatting = Some(Arc::new(formatting));
        }
        language_servers::set_up(workspace, settings);
    }
}

/// The project's root. An imported log does not say how far up the project reaches, because calls may
/// use everything in it.
pub(crate) fn worktree(directory: &Path, logged: PathBuf, imported: Seq) -> PathBuf {
    if imported > 0 { leftfold_config::worktree_of(directory) } else { logged }
}

/// The places of instruction files and skills, besides the project.
pub fn sources(settings: &Settings) -> Sources {
    let named = settings.instructions.iter();
    let named = named.map(|item| {
        let source = &item.place().source;
        let text = item.to_string();
        // a text that leads out of the worktree was trusted, or it would not be here
        let out = leftfold_config::is_outside(&source.path(&text), &settings.trust.worktree);
        Named { base: source.base.clone(), confined: source.of_project && !out, text }
    });
    Sources {
        user_folders: session_paths::user_folders(settings),
        instructions: named.collect(),
        private_addresses: settings.webfetch.private,
    }
}

/// MCP servers that clients have turned on or off, by directory and name.
static SWITCHED: Mutex<BTreeMap<(PathBuf, String), bool>> = Mutex::new(BTreeMap::new());

/// Turns an MCP server in settings on or off in a directory, until this process ends. The next prompt there
/// goes by it.
pub fn switch_server(directory: &Path, name: &str, on: bool) {
    let mut switched = SWITCHED.lock().unwrap_or_else(PoisonError::into_inner);
    switched.insert((directory.to_owned(), name.to_owned()), on);
}

/// An MCP server that a client has added.
struct AddedServer {
    spec: ServerSpec,
    /// The credentials for it.
    secrets: Secrets,
}

/// MCP servers that clients have added, by directory.
static ADDED: Mutex<BTreeMap<PathBuf, Vec<AddedServer>>> = Mutex::new(BTreeMap::new());

/// Servers that clients may add to a directory.
const MAX_ADDED: usize = 32;

/// Adds an MCP server on another machine to a directory, until this process ends. The next prompt there has it. `secrets`
/// are the credentials for it.
///
/// # Errors
/// The directory has as many added servers as it may have.
pub fn add_server(directory: &Path, spec: ServerSpec, secrets: Secrets) -> Result<(), Usage> {
    redact_output::learn(&secrets);
    let mut all = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    let added = all.entry(directory.to_owned()).or_default();
    added.retain(|known| known.spec.name != spec.name);
    if added.len() >= MAX_ADDED {
        return Err(Usage(format!(
            "{MAX_ADDED} MCP servers were added to {} already: name them in leftfold.json",
            directory.display()
        )));
    }
    added.push(AddedServer { spec, secrets });
    Ok(())
}

/// Calls `see` with the servers that clients have added to a directory, and returns the results.
fn added<T>(directory: &Path, see: impl Fn(&AddedServer) -> T) -> Vec<T> {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    added.get(directory).into_iter().flatten().map(see).collect()
}

/// The names of the MCP servers that clients have added to a directory.
pub(crate) fn added_names(directory: &Path) -> Vec<String> {
    added(directory, |server| server.spec.name.clone())
}

/// `known` and the credentials for MCP servers that clients have added to a directory.
///
/// # Errors
/// Gigabytes of values.
pub(crate) fn with_secrets_of_added(known: Secrets, directory: &Path) -> anyhow::Result<Secrets> {
    let all = added(directory, |server| server.secrets.clone());
    all.iter().try_fold(known, |known, more| Ok(known.with_all_of(more)?))
}

/// The MCP server of this name in settings, or that a client has added, turned on whatever settings say.
pub fn server(directory: &Path, settings: &Settings, name: &str) -> Option<ServerSpec> {
    if let Some(mcp) = settings.mcp.get(name) {
        return Some(specs::switched(name, mcp, settings, true));
    }
    let all = added(directory, |server| server.spec.clone());
    all.into_iter().find(|spec| spec.name == name)
}

/// The MCP servers of a project at an executor: those that are on other machines. No program of this machine is
/// started for it.
pub(crate) fn remote_servers(settings: &Settings) -> Servers {
    let all = specs::servers(settings);
    let (here, elsewhere): (Vec<ServerSpec>, Vec<ServerSpec>) =
        all.partition(|spec| matches!(spec.endpoint, Endpoint::Local { .. }));
    let left_out = here.iter().map(|spec| {
        format!("the MCP server `{}` is a program, and is left out at an executor", spec.name)
    });
    warnings::print_once(&left_out.collect::<Vec<_>>());
    Servers::from_specs(Path::new(NO_PROJECT), &settings.environment(), &elsewhere)
}

/// The MCP servers in settings, those that clients have added, and those that a client `handed` over, which win.
pub fn servers(directory: &Path, settings: &Settings, handed: &[ServerSpec]) -> Servers {
    let switched = SWITCHED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let own = settings.mcp.iter().map(|(name, mcp)| {
        let on = switched.get(&(directory.to_owned(), name.clone())).copied();
        specs::switched(name, mcp, settings, on.unwrap_or_else(|| mcp.is_enabled()))
    });
    let more = added(directory, |server| server.spec.clone()).into_iter();
    let more = more.filter(|spec| !settings.mcp.contains_key(&spec.name)).map(|spec| {
        let spec = specs::supplied(spec, settings);
        match switched.get(&(directory.to_owned(), spec.name.clone())) {
            Some(false) => ServerSpec { endpoint: Endpoint::Disabled, ..spec },
            Some(true) | None => spec,
        }
    });
    let own = own.chain(more);
    let own = own.filter(|spec| handed.iter().all(|other| other.name != spec.name));
    let handed = handed.iter().map(|spec| specs::supplied(spec.clone(), settings));
    let specs: Vec<ServerSpec> = own.chain(handed).collect();
    Servers::from_specs(directory, &settings.environment(), &specs)
}

/// The limits for a tool's output to the model.
pub fn output_limits(settings: &Settings) -> OutputLimits {
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    OutputLimits {
        max_lines: count(settings.tool_output.max_lines),
        max_bytes: count(settings.tool_output.max_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_greater_than_the_one_before() {
        let ids: Vec<SessionId> = (0..10_000).map(|_| new_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
