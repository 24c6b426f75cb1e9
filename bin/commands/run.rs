//! `leftfold run`: one prompt to its end.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use leftfold_actors::equip::{Named, Setup, Sources};
use leftfold_events::SessionId;
use leftfold_events::kit::AskMode;
use leftfold_tools::{Homes, OutputLimits, Workspace};

use crate::cli::{PermissionMode, Run, Turn};
use crate::client::Job;
use crate::drive::{self, Task};
use crate::home::{self, Place};
use crate::question;
use crate::settings::{self, Settings};
use crate::{Usage, demo, model};

/// The agent that takes prompts.
pub(crate) const AGENT: &str = "build";

pub(crate) fn run(args: Run) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let worktree = settings::worktree_of(&directory);
    let prompt = prompt(args.prompt)?;
    let place = if args.r#continue {
        Some(home::find("last", &worktree)?)
    } else {
        args.session.as_deref().map(|session| home::find(session, &worktree)).transpose()?
    };
    let project = match &place {
        Some(place) => Project::of(place)?,
        None => Project { directory, worktree, model: None, max_steps: None },
    };
    let place = place.map_or_else(|| home::new_place(new_id()), Ok)?;
    turn(place, &project, &args.turn, Task::Prompt(prompt))
}

pub(crate) fn new_id() -> SessionId {
    SessionId::from_ulid(ulid::Ulid::new())
}

/// Where a session works, with which model it did so last, and the limit of a turn that was cut
/// off.
pub(crate) struct Project {
    pub(crate) directory: PathBuf,
    pub(crate) worktree: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) max_steps: Option<u32>,
}

impl Project {
    /// Of a session that exists already.
    pub(crate) fn of(place: &Place) -> anyhow::Result<Self> {
        let events = leftfold_store::Reader::open(&place.store)?.read(place.session, 1)?;
        let state = leftfold_events::fold(&events);
        let origin = state.origin.ok_or_else(|| {
            Usage(format!("there is no session {} in {}", place.session, place.store.display()))
        })?;
        Ok(Self {
            directory: origin.directory.into(),
            worktree: origin.worktree.into(),
            model: Some(state.kit.model.name().to_string()),
            max_steps: state.turn.map(|_| state.kit.options.max_steps),
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
    let job = job(place, project, turn, task == Task::Resume)?;
    let outcome = crate::run_async(drive::drive(job, task, turn.format))??;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// What a session needs, from settings and command line.
pub(crate) fn job<'a>(
    place: Place,
    project: &'a Project,
    turn: &Turn,
    resumes: bool,
) -> anyhow::Result<Job<'a>> {
    let wanted = turn.model.clone().or_else(|| project.model.clone());
    let settings = settings::load(&project.directory, &model::environment).map_err(model::usage)?;
    let model = match wanted.as_deref().filter(|name| demo::is_model(name)) {
        Some(_) => demo::model()?,
        None => model::choose(&settings, wanted.as_deref())?,
    };
    let mut options = model::options(&settings, &model);
    options.ask = ask_mode(turn.yes, turn.permission_mode);
    // a limit outlives the crash, with the turn that it was given for
    let inherited = project.max_steps.filter(|_| resumes);
    if let Some(max_steps) = turn.max_steps.or(inherited) {
        options.max_steps = max_steps;
    }
    let setup = Setup {
        directory: &project.directory,
        worktree: &project.worktree,
        model: model.spec,
        rules: rules(&settings),
        options,
        sources: sources(&settings),
    };
    let workspace = workspace(project, &place.store, &settings);
    let agent = AGENT.to_owned();
    Ok(Job { place, setup, provider: model.provider, workspace, agent })
}

fn rules(settings: &Settings) -> Vec<leftfold_events::rules::Rule> {
    settings.rules.iter().chain(settings.rules_of(AGENT)).cloned().collect()
}

/// Where the prompt comes from, besides the project.
fn sources(settings: &Settings) -> Sources {
    let named = settings.instructions.iter();
    let named = named.map(|item| Named { base: item.base.clone(), text: item.value.clone() });
    Sources {
        homes: Homes::of_environment(),
        instructions: named.collect(),
        private_addresses: settings.webfetch.private,
    }
}

fn workspace(project: &Project, store: &Path, settings: &Settings) -> Workspace {
    let mut workspace = Workspace::new(&project.directory, &project.worktree, store.join("spill"));
    workspace.limits = limits(settings);
    workspace.private_addresses = settings.webfetch.private;
    workspace.environment.clone_from(&settings.environment);
    workspace
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
fn prompt(argument: Option<String>) -> anyhow::Result<String> {
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
