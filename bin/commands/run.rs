//! `leftfold run`: runs one prompt and exits. Also the other commands that run one turn: `resume`,
//! `compact`, `revert`, `unrevert` and `fork`.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::Json;
use leftfold_events::event::PromptPart;
use leftfold_events::turn_config::StructuredOutput;
use leftfold_runtime::fork::{self, ForkRequest};
use leftfold_runtime::project::{Project, new_id};
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::{Usage, attach, client};

use super::turn_runner::{self, Task};
use crate::cli::{Compact, Fork, Resume, Revert, Run, TurnArgs, Unrevert};

/// The most bytes that are read of a schema's file. Its own limit is lower.
const MAX_SCHEMA_FILE: u64 = 1 << 20;

pub(crate) fn run(args: Run) -> anyhow::Result<ExitCode> {
    let output = args.output_schema.as_deref().map(output).transpose()?;
    let turn = TurnArgs { output, ..args.turn };
    let worktree = leftfold_config::worktree_of(&std::env::current_dir()?);
    let prompt = prompt(args.prompt)?;
    let files = attach::files(&args.file)?;
    let place = if args.r#continue {
        Some(session_paths::find("last", &worktree)?)
    } else {
        args.session
            .as_deref()
            .map(|session| session_paths::find(session, &worktree))
            .transpose()?
    };
    let place = match place {
        Some(place) if args.fork => Some(fork::begin(&place, ForkRequest::default())?),
        None if args.fork => {
            bail!(Usage("--fork needs --session or --continue to name the session to fork".into()))
        }
        place => place,
    };
    take(place, prompt, files, &turn)
}

/// The form of the answer that the schema in this file describes.
fn output(path: &Path) -> Result<StructuredOutput, Usage> {
    let wrong = |why: String| Usage(format!("--output-schema: {}: {why}", path.display()));
    let mut text = String::new();
    // a device has no end
    File::open(path)
        .and_then(|file| file.take(MAX_SCHEMA_FILE).read_to_string(&mut text))
        .map_err(|error| wrong(error.to_string()))?;
    let schema = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let schema = Json::from_value(&schema);
    leftfold_tools::check_output_schema(&schema).map_err(wrong)?;
    Ok(StructuredOutput { schema, retries: StructuredOutput::retries() })
}

/// Runs a prompt in that session, or in a new one.
fn take(
    place: Option<SessionPlace>,
    prompt: String,
    files: Vec<PromptPart>,
    turn: &TurnArgs,
) -> anyhow::Result<ExitCode> {
    let project = match &place {
        Some(place) => Project::of(place)?,
        None => {
            let directory = std::env::current_dir()?;
            let worktree = leftfold_config::worktree_of(&directory);
            Project::new(directory, worktree)
        }
    };
    let place = place.map_or_else(|| session_paths::new_place(new_id()), Ok)?;
    // Inside the runtime, because plugins may have to be started.
    let outcome = leftfold_runtime::run_async(async {
        let (overrides, store) = (turn.overrides(), place.store.as_path());
        let prepared =
            Prepared::new((&project, store), &overrides, &prompt, OptionsFor::ForPrompt)?;
        let setup = prepared.setup(place)?;
        let mut parts = prepared.parts(&setup, vec![PromptPart::text(prompt)]).await?;
        parts.extend(files);
        turn_runner::run_turn(setup, Task::Prompt(parts), turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Resumes an interrupted turn.
pub(crate) fn resume(args: &Resume) -> anyhow::Result<ExitCode> {
    turn_of(&args.session, &args.turn, Task::Resume)
}

/// Replaces the conversation so far with a summary.
pub(crate) fn compact(args: Compact) -> anyhow::Result<ExitCode> {
    let Compact { session, model, format } = args;
    turn_of(&session, &TurnArgs { model, format, ..TurnArgs::default() }, Task::Compact)
}

/// Restores files and messages to their state before a step.
pub(crate) fn revert(args: &Revert) -> anyhow::Result<ExitCode> {
    let turn = TurnArgs { format: args.format, ..TurnArgs::default() };
    turn_of(&args.session, &turn, Task::Revert(Some(args.to)))
}

pub(crate) fn unrevert(args: &Unrevert) -> anyhow::Result<ExitCode> {
    let turn = TurnArgs { format: args.format, ..TurnArgs::default() };
    turn_of(&args.session, &turn, Task::Revert(None))
}

fn turn_of(session: &str, args: &TurnArgs, task: Task) -> anyhow::Result<ExitCode> {
    let place = super::place(session)?;
    let project = Project::of(&place)?;
    turn(place, &project, args, task)
}

/// Forks a session at any point, and runs the prompt there if one is given.
pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt: argument, turn } = args;
    let fork = fork::begin(&super::place(&session)?, ForkRequest { at, files })?;
    let Some(argument) = argument else { return super::print(&format!("{}\n", fork.session)) };
    let session = fork.session;
    let taken = take(Some(fork), prompt(Some(argument))?, Vec::new(), &turn);
    taken.map_err(|error| match client::is_locked(&error) {
        // A fork with a prompt runs only the turn of that prompt.
        true => error.context(format!(
            "the fork {session} exists; once the store is free, run the prompt with `leftfold run \
             --session {session}`"
        )),
        false => error,
    })
}

/// Runs one turn in a project, with the settings and the options of the command line.
pub(crate) fn turn(
    place: SessionPlace,
    project: &Project,
    turn: &TurnArgs,
    task: Task,
) -> anyhow::Result<ExitCode> {
    let outcome = leftfold_runtime::run_async(async {
        let setup = SessionSetup::new(place, project, &turn.overrides(), task == Task::Resume)?;
        turn_runner::run_turn(setup, task, turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// The prompt from the command line, or from standard input.
fn prompt(argument: Option<String>) -> anyhow::Result<String> {
    let from_input = match argument.as_deref() {
        Some("-") | None => true,
        Some(_) => false,
    };
    let mut text = argument.filter(|text| text != "-").unwrap_or_default();
    if from_input {
        let mut stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Err(Usage(
                "no prompt: give one as an argument, or pipe it into standard input".into(),
            )
            .into());
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
