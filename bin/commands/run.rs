//! `leftfold run`: one prompt to its end.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use leftfold_actors::equip::{self, Agent, Named, Setup, Sources};
use leftfold_events::SessionId;
use leftfold_events::event::PromptPart;
use leftfold_events::kit::{AskMode, Options};
use leftfold_tools::mcp::{Servers, Spec};
use leftfold_tools::{Homes, OutputLimits, Workspace};

use super::fork;
use crate::agents::{self, Agents};
use crate::cli::{PermissionMode, Run, Turn};
use crate::client::Job;
use crate::configured::{Configured, Held};
use crate::drive::{self, Task};
use crate::forking::Wanted;
use crate::home::{self, Place};
use crate::model::{self, Model};
use crate::question;
use crate::secrets;
use crate::settings::{self, Settings};
use crate::slash::{Given, Prepared};
use crate::{Usage, attach, demo, limits, socket, switch, variant};

pub(crate) fn run(args: Run) -> anyhow::Result<ExitCode> {
    let worktree = settings::worktree_of(&std::env::current_dir()?);
    let prompt = prompt(args.prompt)?;
    let files = attach::files(&args.file)?;
    let place = if args.r#continue {
        Some(home::find("last", &worktree)?)
    } else {
        args.session.as_deref().map(|session| home::find(session, &worktree)).transpose()?
    };
    let place = match place {
        Some(place) if args.fork => Some(fork::begin(&place, Wanted::default())?),
        None if args.fork => {
            bail!(Usage("--fork goes with --session or --continue: what is to be forked?".into()))
        }
        place => place,
    };
    take(place, prompt, files, &args.turn)
}

/// Takes a prompt to its end in that session, or in a new one.
pub(crate) fn take(
    place: Option<Place>,
    prompt: String,
    files: Vec<PromptPart>,
    turn: &Turn,
) -> anyhow::Result<ExitCode> {
    let project = match &place {
        Some(place) => Project::of(place)?,
        None => {
            let directory = std::env::current_dir()?;
            let worktree = settings::worktree_of(&directory);
            Project::new(directory, worktree)
        }
    };
    let place = place.map_or_else(|| home::new_place(new_id()), Ok)?;
    // within, for plugins may have to be started
    let outcome = crate::run_async(async {
        let prepared =
            Prepared::new((&project, place.store.as_path()), turn, &prompt, Given::ForPrompt)?;
        let job = job(place, &prepared.project, &prepared.turn, false)?;
        let mut parts = prepared.parts(&job, vec![PromptPart::text(prompt)]).await?;
        parts.extend(files);
        drive::drive(job, Task::Prompt(parts), turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
}

pub(crate) fn new_id() -> SessionId {
    SessionId::from_ulid(ulid::Ulid::new())
}

/// Where a session works, with which model and agent it did so last, and what a turn that was cut
/// off was given.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) directory: PathBuf,
    pub(crate) worktree: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) given: Option<Box<Options>>,
    /// Servers of tools besides those in settings, before any of the same name there.
    pub(crate) servers: Vec<Spec>,
    pub(crate) plugins: Held,
}

impl Project {
    /// Of a session that is to be.
    pub(crate) fn new(directory: PathBuf, worktree: PathBuf) -> Self {
        let (servers, plugins) = (Vec::new(), Held::default());
        Self { directory, worktree, model: None, agent: None, given: None, servers, plugins }
    }

    /// Of a session that exists already.
    pub(crate) fn of(place: &Place) -> anyhow::Result<Self> {
        let events = leftfold_store::Reader::open(&place.store)?.read(place.session, 1)?;
        let state = leftfold_events::fold(&events);
        let origin = state.origin.ok_or_else(|| {
            Usage(format!("there is no session {} in {}", place.session, place.store.display()))
        })?;
        Ok(Self {
            model: Some(state.kit.model.name().to_string()),
            agent: Some(state.agent),
            given: state.turn.map(|_| Box::new(state.kit.options)),
            ..Self::new(origin.directory.into(), origin.worktree.into())
        })
    }
}

/// One turn in a project, with whatever settings and command line say.
pub(crate) fn turn(
    place: Place,
    project: &Project,
    turn: &Turn,
    task: Task,
) -> anyhow::Result<ExitCode> {
    let outcome = crate::run_async(async {
        let job = job(place, project, turn, task == Task::Resume)?;
        drive::drive(job, task, turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// What a session needs, from settings and command line. Waits for plugins, so it may block.
pub(crate) fn job<'a>(
    place: Place,
    project: &'a Project,
    turn: &Turn,
    resumes: bool,
) -> anyhow::Result<Job<'a>> {
    let Configured { settings, plugins } = Configured::of(project, &place.store)?;
    crate::warnings::tell(&settings.warnings);
    let agent = agent(&settings, project, turn)?;
    let mut model = chosen(&settings, project, turn, &agent, resumes)?;
    let mut options = model::options(&settings, &model)?;
    model::tune(&agent, &model, &mut options);
    model.request.clone_from(&options.request);
    // what it was given outlives the crash, with the turn
    let given = project.given.as_deref().filter(|_| resumes);
    options.variant = variant::choose(&mut model, turn, given)?;
    options.request.clone_from(&model.request);
    options.max_steps = agent.steps.unwrap_or(options.max_steps);
    options.ask = ask_mode(turn.yes, turn.permission_mode);
    limits::lay_over(&mut options, turn, given);
    if settings.snapshot && !options.snapshot {
        crate::warnings::tell(&[leftfold_tools::snapshots::Error::NoGit.to_string()]);
    }
    let agents = Agents::of(&settings);
    let plan = plan(&place, project, &agents)?;
    let planned = equip::plan::rules(&agent, plan.as_deref(), &project.worktree);
    let setup = Setup {
        directory: &project.directory,
        worktree: &project.worktree,
        model: model.spec,
        rules: agents::rules(&settings, &agent, &planned),
        options,
        subagents: agents.to_call(&agent, &settings),
        agent,
        sources: sources(&settings),
        plan,
    };
    let mut workspace = workspace(project, &place.store, &settings);
    workspace.plugins = plugins;
    workspace.secrets = secrets::known(&settings, &model::environment)?;
    workspace.subagents = setup.subagents.iter().map(|(name, _)| name.clone()).collect();
    let others = model::others(&settings);
    Ok(Job { place, setup, provider: model.provider, others, workspace })
}

/// The file for the session's plan, if there is an agent that plans.
fn plan(place: &Place, project: &Project, agents: &Agents) -> anyhow::Result<Option<PathBuf>> {
    let file = equip::plan::file(&project.worktree, &home::home()?, place.session);
    Ok(switch::is_possible(agents).then_some(file))
}

/// The agent that is named, or the session's last, or the default one.
fn agent(settings: &Settings, project: &Project, turn: &Turn) -> anyhow::Result<Agent> {
    let agents = Agents::of(settings);
    let agent = match (&turn.agent, &project.agent) {
        (Some(name), _) => agents.to_prompt(name)?,
        // of a subagent's own session, perhaps
        (None, Some(last)) => agents.find(last).map_err(|Usage(why)| {
            Usage(format!("the session's last agent is gone: {why}; --agent names another"))
        })?,
        (None, None) => agents.default(settings)?,
    };
    Ok(agent.clone())
}

/// The model that is named, or the agent's, or the session's last, or the one in the settings. What
/// is resumed goes on with the model that it was begun with.
fn chosen(
    settings: &Settings,
    project: &Project,
    turn: &Turn,
    agent: &Agent,
    resumes: bool,
) -> anyhow::Result<Model> {
    let last = project.model.as_deref();
    let wanted = turn.model.as_deref().or(last.filter(|_| resumes));
    if let Some(name) = wanted.or(agent.model.as_deref()).or(last)
        && demo::is_model(name)
    {
        return demo::model();
    }
    match (wanted, wanted.is_none().then(|| model::of_agent(settings, agent)).flatten()) {
        (None, Some(own)) => own,
        (None, None) => model::choose(settings, last),
        (Some(name), _) => model::choose(settings, Some(name)),
    }
}

/// Where the prompt comes from, besides the project.
pub(crate) fn sources(settings: &Settings) -> Sources {
    let named = settings.instructions.iter();
    let named = named.map(|item| Named { base: item.base.clone(), text: item.value.clone() });
    Sources {
        homes: homes(settings),
        instructions: named.collect(),
        private_addresses: settings.webfetch.private,
    }
}

/// Where the user's own skills and instructions are, and the skills that settings name.
pub(crate) fn homes(settings: &Settings) -> Homes {
    Homes { skills: settings.skill_folders(), ..Homes::of_environment() }
}

fn workspace(project: &Project, store: &Path, settings: &Settings) -> Workspace {
    let mut workspace = Workspace::new(&project.directory, &project.worktree, store.join("spill"));
    workspace.limits = limits(settings);
    workspace.homes = homes(settings);
    workspace.private_addresses = settings.webfetch.private;
    workspace.task_timeout = settings.task.timeout;
    workspace.environment.clone_from(&settings.environment);
    workspace.mcp = servers(&project.directory, settings, &project.servers);
    workspace.socket = Some(store.join(socket::NAME));
    workspace.data = home::home().ok();
    workspace
}

/// The servers that settings name and those that were `handed` over, for whoever works in `directory`.
pub(crate) fn servers(directory: &Path, settings: &Settings, handed: &[Spec]) -> Servers {
    let specs = settings.mcp.iter().map(|(name, mcp)| mcp.spec(name));
    let specs = specs.filter(|spec| handed.iter().all(|other| other.name != spec.name));
    let specs = specs.chain(handed.iter().cloned()).collect();
    Servers::of(directory, &settings.environment, specs)
}

pub(crate) fn limits(settings: &Settings) -> OutputLimits {
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    OutputLimits {
        max_lines: whole(settings.tool_output.max_lines),
        max_bytes: whole(settings.tool_output.max_bytes),
    }
}

fn ask_mode(yes: bool, mode: Option<PermissionMode>) -> AskMode {
    match mode {
        _ if yes => AskMode::Allow,
        Some(PermissionMode::Ask) => AskMode::Ask,
        Some(PermissionMode::Deny) => AskMode::Deny,
        None if question::somebody_there() => AskMode::Ask,
        None => AskMode::Deny,
    }
}

/// The prompt from the command line, or from standard input if none is given there.
pub(crate) fn prompt(argument: Option<String>) -> anyhow::Result<String> {
    let from_input = match argument.as_deref() {
        Some("-") | None => true,
        Some(_) => false,
    };
    let mut text = argument.filter(|text| text != "-").unwrap_or_default();
    if from_input {
        let mut stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Err(Usage("no prompt: give one as an argument, or pipe it in".into()).into());
        }
        let mut bytes = Vec::new();
        stdin.read_to_end(&mut bytes)?;
        text = String::from_utf8(bytes)
            .map_err(|_| Usage("the prompt on standard input is not UTF-8 text".into()))?;
    }
    if text.trim().is_empty() {
        return Err(Usage("the prompt is empty".into()).into());
    }
    Ok(text)
}
