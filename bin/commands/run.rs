//! `leftfold run`: one prompt to its end. And the other commands that take one turn: `resume`, `compact`,
//! `revert`, `unrevert` and `fork`.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::PromptPart;
use leftfold_runtime::forking::{self, Wanted};
use leftfold_runtime::project::{Project, new_id};
use leftfold_runtime::session_paths::{self, Place};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::{Usage, attach, client};

use super::turn_runner::{self, Task};
use crate::cli::{Compact, Fork, Resume, Revert, Run, TurnArgs, Unrevert};

pub(crate) fn run(args: Run) -> anyhow::Result<ExitCode> {
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
        Some(place) if args.fork => Some(forking::begin(&place, Wanted::default())?),
        None if args.fork => {
            bail!(Usage("--fork goes with --session or --continue: what is to be forked?".into()))
        }
        place => place,
    };
    take(place, prompt, files, &args.turn)
}

/// Takes a prompt to its end in that session, or in a new one.
fn take(
    place: Option<Place>,
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
    // within, for plugins may have to be started
    let outcome = leftfold_runtime::run_async(async {
        let (overrides, store) = (turn.overrides(), place.store.as_path());
        let prepared =
            Prepared::new((&project, store), &overrides, &prompt, OptionsFor::ForPrompt)?;
        let setup = SessionSetup::new(place, &prepared.project, &prepared.overrides, false)?;
        let mut parts = prepared.parts(&setup, vec![PromptPart::text(prompt)]).await?;
        parts.extend(files);
        turn_runner::drive(setup, Task::Prompt(parts), turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Goes on with a turn that was cut off.
pub(crate) fn resume(args: &Resume) -> anyhow::Result<ExitCode> {
    turn_of(&args.session, &args.turn, Task::Resume)
}

/// Has a summary take the place of what the model has seen.
pub(crate) fn compact(args: Compact) -> anyhow::Result<ExitCode> {
    let Compact { session, model, format } = args;
    turn_of(&session, &TurnArgs { model, format, ..TurnArgs::default() }, Task::Compact)
}

/// Takes files and messages back to before a step.
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

/// Begins another way on from any point of a session, and takes a prompt there if there is one.
pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt: argument, turn } = args;
    let fork = forking::begin(&super::place(&session)?, Wanted { at, files })?;
    let Some(argument) = argument else { return super::print(&format!("{}\n", fork.session)) };
    let session = fork.session;
    let taken = take(Some(fork), prompt(Some(argument))?, Vec::new(), &turn);
    taken.map_err(|error| match client::is_locked(&error) {
        // it runs the turn that it was begun for, and no other
        true => error.context(format!(
            "the fork {session} is made; once the store is free, `leftfold run --session {session}` \
             takes the prompt"
        )),
        false => error,
    })
}

/// One turn in a project, with whatever settings and command line say.
pub(crate) fn turn(
    place: Place,
    project: &Project,
    turn: &TurnArgs,
    task: Task,
) -> anyhow::Result<ExitCode> {
    let outcome = leftfold_runtime::run_async(async {
        let setup = SessionSetup::new(place, project, &turn.overrides(), task == Task::Resume)?;
        turn_runner::drive(setup, task, turn).await
    })??;
    Ok(ExitCode::from(outcome.exit_code()))
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
