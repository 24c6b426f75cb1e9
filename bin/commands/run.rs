//! `leftfold run`: runs one prompt and exits. Also the other commands that run one turn: `resume`,
//! `compact`, `revert`, `unrevert` and `fork`.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::bail;
use leftfold_events::Json;
use leftfold_events::event::PromptPart;
use leftfold_events::turn_config::StructuredOutput;
use leftfold_runtime::fork::{self, ForkRequest};
use leftfold_runtime::project::{Project, new_id};
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{OptionsFor, Prepared};
use leftfold_runtime::{Usage, attach, client, note};

use super::report;
use super::turn_runner::{self, Outcome, Task};
use super::whole_file;
use crate::cli::{
    Compact, Fork, PermissionMode, PromptArgs, Resume, Revert, Run, TurnArgs, Unrevert, one_prompt,
};

/// The most bytes that are read of a schema's file. Its own limit is lower.
const MAX_SCHEMA_FILE: u64 = 1 << 20;
/// The exit code of a completed turn with denied calls, with `--fail-on-denied`. A call that a person rejects gives it too.
const DENIED: u8 = 3;
/// How often the model is asked again for an answer that fits the schema of `--output-schema`.
const ASKED_AGAIN: u32 = 1;

pub(crate) fn run(args: Run) -> anyhow::Result<ExitCode> {
    let turn = with_form(args.turn, &args.prompted)?;
    let worktree = leftfold_config::worktree_of(&std::env::current_dir()?);
    let prompt = Prompt::read(one_prompt(&args.words)?, &args.prompted, &turn)?;
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
    let project = match &args.executor {
        // inside the runtime, because the executor is asked
        Some(name) => leftfold_runtime::run_async(async { Project::at_executor(name) })??,
        None => project(place.as_ref())?,
    };
    take(place, &project, prompt, &turn)
}

/// The project of that session, or the one here.
fn project(place: Option<&SessionPlace>) -> anyhow::Result<Project> {
    if let Some(place) = place {
        return Project::for_session(place);
    }
    let directory = std::env::current_dir()?;
    let worktree = leftfold_config::worktree_of(&directory);
    Ok(Project::new(directory, worktree))
}

/// The options of the turn with the form of its answer. A file for the answer that cannot be written is refused before
/// anything is paid for.
fn with_form(turn: TurnArgs, prompted: &PromptArgs) -> Result<TurnArgs, Usage> {
    let form = prompted.output_schema.as_deref().map(form).transpose()?;
    if let Some(path) = &turn.output {
        whole_file::check(path).map_err(|error| Usage(format!("--output: {error:#}")))?;
    }
    turn.report.as_deref().map(report::check).transpose()?;
    Ok(TurnArgs { form, ..turn })
}

/// The form of the answer that the schema in this file describes.
fn form(path: &Path) -> Result<StructuredOutput, Usage> {
    let wrong = |why: String| Usage(format!("--output-schema: {}: {why}", path.display()));
    let mut text = String::new();
    // a device has no end
    File::open(path)
        .and_then(|file| file.take(MAX_SCHEMA_FILE).read_to_string(&mut text))
        .map_err(|error| wrong(error.to_string()))?;
    let schema = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let schema = Json::from_value(&schema);
    leftfold_tools::check_output_schema(&schema).map_err(wrong)?;
    Ok(StructuredOutput { schema, retries: ASKED_AGAIN })
}

/// Runs a prompt in that session, or in a new one.
fn take(
    place: Option<SessionPlace>,
    project: &Project,
    Prompt { text: prompt, files }: Prompt,
    turn: &TurnArgs,
) -> anyhow::Result<ExitCode> {
    let place = place.map_or_else(|| session_paths::new_place(new_id()), Ok)?;
    let reported = place.clone();
    // Inside the runtime, because plugins may have to be started.
    let outcome = leftfold_runtime::run_async(async {
        let (overrides, store) = (turn.overrides(), place.store.as_path());
        let prepared = Prepared::new((project, store), &overrides, &prompt, OptionsFor::ForPrompt)?;
        let setup = prepared.setup(place)?;
        let mut parts = prepared.parts(&setup, vec![PromptPart::text(prompt)]).await?;
        parts.extend(files);
        turn_runner::run_turn(setup, Task::Prompt(parts), turn).await
    })??;
    finish(&outcome, turn, &reported)
}

/// Resumes an interrupted turn.
pub(crate) fn resume(args: &Resume) -> anyhow::Result<ExitCode> {
    args.turn.report.as_deref().map(report::check).transpose()?;
    turn_of(&args.session, &args.turn, Task::Resume)
}

/// Replaces the conversation so far with a summary.
pub(crate) fn compact(args: Compact) -> anyhow::Result<ExitCode> {
    let Compact { session, instructions, model, format } = args;
    let turn = TurnArgs { model, format, ..TurnArgs::default() };
    turn_of(&session, &turn, Task::Compact(instructions))
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
    let place = super::place_to_change(session)?;
    let project = Project::for_session(&place)?;
    turn(place, &project, args, task)
}

/// Forks a session at any point, and runs the prompt there if one is given.
pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt, prompted, turn } = args;
    let turn = with_form(turn, &prompted)?;
    // read first, so that a wrong file leaves no fork behind
    let prompt = prompt.map(|text| Prompt::read(Some(text), &prompted, &turn)).transpose()?;
    let fork = fork::begin(
        &super::place_to_change(&session)?,
        ForkRequest { at, files, ..ForkRequest::default() },
    )?;
    let Some(prompt) = prompt else { return super::print(&format!("{}\n", fork.session)) };
    let session = fork.session;
    let taken =
        Project::for_session(&fork).and_then(|project| take(Some(fork), &project, prompt, &turn));
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
    let reported = place.clone();
    let outcome = leftfold_runtime::run_async(async {
        let setup = SessionSetup::new(place, project, &turn.overrides(), task == Task::Resume)?;
        turn_runner::run_turn(setup, task, turn).await
    })??;
    finish(&outcome, turn, &reported)
}

/// Writes the answer of a completed turn and the report to their files, and gives the exit code. After a failure it says how
/// to find the cause.
fn finish(outcome: &Outcome, turn: &TurnArgs, place: &SessionPlace) -> anyhow::Result<ExitCode> {
    if let (Some(path), Some(answer)) = (&turn.output, outcome.answer()) {
        whole_file::write(path, &format!("{}\n", answer.trim_end()), whole_file::FOR_ALL)?;
    }
    if let Some(path) = &turn.report {
        report::write(path, place)?;
    }
    let denied = outcome.denied().filter(|_| turn.fail_on_denied);
    if let Some(count) = denied {
        let calls = leftfold_view::words::counted(count, "call");
        note(&format!("leftfold: {calls} denied, so the exit code is {DENIED}"));
    }
    let code = denied.map_or(outcome.exit_code(), |_| DENIED);
    if code != 0 {
        let session = place.session;
        note(&format!("leftfold: session {session}: `leftfold why {session}` says why"));
    }
    Ok(ExitCode::from(code))
}

/// A prompt, and what goes with it.
struct Prompt {
    text: String,
    files: Vec<PromptPart>,
}

impl Prompt {
    /// The prompt from the command line or from standard input, and its files. Standard input is the prompt, a file
    /// (`--file -`), or text that is added to the prompt; with `--permission-mode ask` it answers questions.
    fn read(
        argument: Option<String>,
        PromptArgs { file, .. }: &PromptArgs,
        turn: &TurnArgs,
    ) -> anyhow::Result<Self> {
        let is_input = |path: &PathBuf| path.as_os_str() == "-";
        let (inputs, paths): (Vec<PathBuf>, Vec<PathBuf>) =
            file.iter().cloned().partition(is_input);
        let mut files = attach::files(&paths)?;
        let text = argument.filter(|text| text != "-");
        match (&text, inputs.len()) {
            (_, 2..) => bail!(Usage("`--file -` is given twice, but there is one standard input".into())),
            (None, 1) => bail!(Usage(
                "standard input cannot be both the prompt and a file: give the prompt as an argument".into()
            )),
            (Some(_), _) | (None, 0) => {}
        }
        let Some(text) = text else {
            return Ok(Self { text: prompt_from_input(turn.timeout)?, files });
        };
        if text.trim().is_empty() {
            bail!(Usage("the prompt is empty".into()));
        }
        let answers = turn.permission_mode == Some(PermissionMode::Ask);
        let is_added = !answers && !std::io::stdin().is_terminal();
        if !inputs.is_empty() || is_added {
            files.extend(attach::input(&read_input(turn.timeout)?)?);
        }
        Ok(Self { text, files })
    }
}

fn prompt_from_input(timeout: Option<u64>) -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        bail!(Usage("no prompt: give one as an argument, or pipe it into standard input".into()));
    }
    let bytes = read_input(timeout)?;
    if bytes.len() as u64 >= attach::MAX_INPUT {
        bail!(Usage("the prompt on standard input is too long".into()));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Usage("the prompt on standard input is not UTF-8 text".into()))?;
    if text.trim().is_empty() {
        bail!(Usage("the prompt is empty".into()));
    }
    Ok(text)
}

/// How long to wait for standard input before saying so.
const INPUT_NOTICE_DELAY: Duration = Duration::from_secs(3);

/// `--timeout` passed before standard input ended.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit of time passed before standard input ended, which goes with the prompt (`</dev/null` gives none)"
)]
pub(crate) struct InputTimeout;

/// Reads standard input to its end, and says so if that takes long. `timeout` is in milliseconds.
///
/// # Errors
/// It cannot be read, or has not ended after `timeout`: [`InputTimeout`].
fn read_input(timeout: Option<u64>) -> anyhow::Result<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let reading = std::thread::Builder::new().name("input".into());
    let reading = reading.spawn(move || {
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(attach::MAX_INPUT).read_to_end(&mut bytes);
        // Nobody waits any more if this process is about to end.
        let _ = sender.send(read.map(|_| bytes));
    });
    if reading.is_err() {
        // without a thread the wait can neither be told nor bounded
        let mut bytes = Vec::new();
        std::io::stdin().take(attach::MAX_INPUT).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    let timeout = timeout.map_or(Duration::MAX, Duration::from_millis);
    let bytes = receiver.recv_timeout(timeout.min(INPUT_NOTICE_DELAY)).or_else(|_| {
        let left = timeout.saturating_sub(INPUT_NOTICE_DELAY);
        if left.is_zero() {
            return Err(InputTimeout);
        }
        note("leftfold: waiting for the end of standard input, which goes with the prompt (`</dev/null` gives none)");
        receiver.recv_timeout(left).map_err(|_| InputTimeout)
    });
    Ok(bytes??)
}
