//! `bash`: runs a command line in the shell.
//!
//! Rules judge each command of a line separately. They also judge the paths that it names.
//!
//! | module | task |
//! | --- | --- |
//! | `parse` | splits a line into steps; `check` compares the tree with the text |
//! | `cut` | splits a line that `parse` does not understand |
//! | `expansions`, `builtins` | find text that the shell evaluates again at run time |
//! | `assignments` | says which assignments rules judge |
//! | `wrappers`, `git` | find the commands in commands, as in `sudo rm x` |
//! | `commands`, `arity`, `globals` | make patterns for rules, and what "always" would allow |
//! | `scripts` | says whether programs of sed and awk, or options, run commands |
//! | `touched`, `files` | find the paths |
//! | `itself` | finds lines that run Leftfold |
//!
//! A step that is not known before the line runs has the pattern `<dynamic>`, which only a rule for `*`
//! allows, and needs the permission `unreadable`. The judge never looks into programs: `python x.py` may do anything.

// A new step of a line is considered everywhere in here.
#![warn(clippy::wildcard_enum_match_arm)]

mod arity;
mod assignments;
mod builtins;
mod check;
mod commands;
mod cut;
mod expansions;
mod files;
mod git;
mod globals;
mod inner;
mod itself;
mod parse;
mod scripts;
mod step;
mod touched;
mod word;
mod wrappers;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use leftfold_events::Json;
use leftfold_events::event::{Access, CallKind, Class};
use leftfold_events::rules::{LEFTFOLD, NETWORK, PROTECTED_FILE, UNREADABLE, UNSANDBOXED};
use leftfold_events::sandbox::{self, Backend};
use leftfold_process::environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::commands::Surroundings;
use self::step::Step;
use crate::args::WholeNumber;
use crate::command::{self, CommandResult};
use crate::sandbox::Denied;
use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace, args, host_terminal, paths};

/// Default time limit in milliseconds.
const TIMEOUT: u64 = 120_000;

/// Longest time limit in milliseconds.
const MAX_TIMEOUT: u64 = 600_000;

/// Most bytes of a command line. The kernel accepts twice as many, and a person reads far fewer.
const MAX_LINE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Bash;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The command line, as it would be typed into a shell.
    #[serde(deserialize_with = "command")]
    command: String,
    /// Milliseconds after which the command is ended. Default: 120000; at most 600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<WholeNumber>,
    /// The folder to run in: absolute, or relative to the working directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workdir: Option<String>,
    #[schemars(description = "What the command does, in five to ten words, shown to the user.")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[schemars(skip)]
    #[serde(default, deserialize_with = "args::boolean", skip_serializing_if = "is_off")]
    network: Option<bool>,
    #[schemars(skip)]
    #[serde(default, deserialize_with = "args::boolean", skip_serializing_if = "is_off")]
    unsandboxed: Option<bool>,
}

fn is_off(flag: &Option<bool>) -> bool {
    *flag != Some(true)
}

/// The sentence of the description for models that have this shell.
pub fn about_shell(program: &str) -> String {
    format!("- The shell is `{}`.\n", wrappers::base(program))
}

/// A part of the description for models whose commands are confined.
pub const IN_SANDBOX: &str = include_str!("../../../prompts/tools/bash_sandbox.md");

/// The schema of the arguments for a model whose commands are confined.
pub fn schema_in_sandbox() -> Json {
    let mut schema = args::schema::<Args>().value();
    let flag = |about: &str| json!({ "description": about, "type": "boolean" });
    schema["properties"]["network"] = flag(
        "Run with the network, which commands do not have otherwise. The user is asked first.",
    );
    schema["properties"]["unsandboxed"] = flag(
        "Run outside the sandbox, with all files of the user and the network. The user is asked first. Only for a command that the sandbox has stopped.",
    );
    Json::from_value(&schema)
}

fn command<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let line = String::deserialize(deserializer)?;
    if line.trim().is_empty() || line.contains('\0') {
        return Err(serde::de::Error::custom("expected a command line, got an empty one or a NUL"));
    }
    if line.len() > MAX_LINE {
        return Err(serde::de::Error::custom(format!(
            "expected at most {MAX_LINE} bytes, got {}; write long text into a file first",
            line.len()
        )));
    }
    Ok(line)
}

impl Typed for Bash {
    type Args = Args;
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/bash.md");
    const USES_WORKSPACE: bool = true;

    /// Without a sandbox the arguments about it are unknown, as all others that are not in the schema.
    fn known(args: Args, cx: &Workspace) -> Args {
        let (network, unsandboxed) = match backend(cx).is_some_and(Backend::confines) {
            true => (args.network, args.unsandboxed),
            false => (None, None),
        };
        Args { network, unsandboxed, ..args }
    }

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        // a limit of 0 is never meant
        let timeout = args.timeout.map(|limit| limit.0).filter(|limit| *limit > 0);
        let timeout = timeout.unwrap_or(TIMEOUT).min(MAX_TIMEOUT);
        let mut plan = Plan { timeout, kind: CallKind::Shell, ..Plan::new(Class::Command) };
        let mut folder = cx.directory.clone();
        let mut outside = Vec::new();
        if let Some(given) = &args.workdir {
            let target = paths::resolve(given, cx)?;
            outside.extend((!target.inside).then(|| target.outside()));
            folder.clone_from(&target.path);
            plan.paths.push(target.path);
        }
        let steps = steps(&args.command, cx);
        let touched = touched::of(&steps, &folder, cx);
        let has_own_temp = crate::sandbox::has_own_temp(cx) && args.unsandboxed != Some(true);
        let is_private = |folder: &String| has_own_temp && is_temp(folder);
        outside.extend(touched.outside.into_iter().filter(|folder| !is_private(folder)));
        plan.paths.extend(touched.paths);
        plan.access.extend(leaving(outside));
        let exported = environment(&cx.environment).into_iter();
        let exported = exported.filter_map(|(name, _)| name.into_string().ok()).collect();
        let surroundings = Surroundings { exported, moves: touched.moves };
        let (patterns, always) = commands::judged(&args.command, &steps, &surroundings);
        let sandbox = leaving_sandbox(args, cx).map(|permission| Access {
            permission: permission.to_owned(),
            patterns: patterns.clone(),
            always: match args.unsandboxed {
                Some(true) => Vec::new(),
                _ => commands::alone(&steps, &patterns, |name| itself::is_installed(name, cx)),
            },
        });
        plan.access.push(Access { permission: "bash".to_owned(), patterns, always });
        plan.access.extend(sandbox);
        let patterns = commands::unreadable(&steps);
        if !patterns.is_empty() {
            let (permission, always) = (UNREADABLE.to_owned(), Vec::new());
            plan.access.push(Access { permission, patterns, always });
        }
        for (permission, patterns) in [("read", touched.reads), ("edit", touched.edits)] {
            plan.access.extend(files(permission, patterns));
        }
        if !touched.protected.is_empty() {
            let (permission, always) = (PROTECTED_FILE.to_owned(), Vec::new());
            plan.access.push(Access { permission, patterns: touched.protected, always });
        }
        if itself::is_run(&args.command, &steps, &folder, cx) {
            plan.access.push(Access {
                permission: LEFTFOLD.to_owned(),
                patterns: vec![args.command.trim().to_owned()],
                always: Vec::new(),
            });
        }
        Ok(plan)
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let given = paths.into_iter().next().filter(|_| args.workdir.is_some());
        let folder = given.unwrap_or_else(|| cx.workspace.directory.clone());
        match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let text = format!("Cannot run in {}: it is not a directory.", folder.display());
                return Err(Error::NotDirectory(text));
            }
            Err(error) => return Err(Error::io("run in", &folder, &error)),
        }
        let ended = match host_terminal::run(&args.command, &folder, &cx).await? {
            Some(ended) => ended,
            None => command::run(&args.command, &folder, &cx).await?,
        };
        let in_home = cx.sandbox.as_ref().is_some_and(|sandbox| sandbox.options.home);
        Ok(report(args, ended, in_home))
    }
}

/// The steps of a line. The judge reads it as bash does, so a line that the shell may read otherwise has an unknown
/// step.
fn steps(line: &str, cx: &Workspace) -> Vec<Step> {
    let mut steps = commands::steps(line);
    if !wrappers::is_read_alike(wrappers::base(cx.shell()), line) {
        steps.push(Step::Unknown);
    }
    steps
}

/// The patterns that rules see of a line, and the patterns that "always" would allow.
pub(crate) fn seen(line: &str) -> (Vec<String>, Vec<String>) {
    commands::judged(line, &commands::steps(line), &Surroundings::default())
}

fn backend(cx: &Workspace) -> Option<Backend> {
    cx.sandbox.as_ref().map(|sandbox| sandbox.backend)
}

/// The permission that a line needs besides `bash`, with the patterns of the line. `unsandboxed` includes the network. On
/// a machine without a sandbox each line needs it.
fn leaving_sandbox(args: &Args, cx: &Workspace) -> Option<&'static str> {
    if args.unsandboxed == Some(true) || backend(cx) == Some(Backend::None) {
        return Some(UNSANDBOXED);
    }
    (args.network == Some(true)).then_some(NETWORK)
}

/// Whether a pattern of a folder means the folders for temporary files, which the sandbox replaces. A folder in them that
/// exists is somebody's, and a command reaches it only with permission.
fn is_temp(folder: &str) -> bool {
    let folder = folder.strip_suffix("/*").unwrap_or(folder);
    ["/tmp", "/var/tmp"].iter().any(|temp| {
        folder == *temp || Path::new(folder).starts_with(temp) && !Path::new(folder).exists()
    })
}

/// The permission to leave the worktree for these folders.
fn leaving(mut folders: Vec<String>) -> Option<Access> {
    folders.sort();
    folders.dedup();
    (!folders.is_empty()).then(|| paths::leaving(folders))
}

/// The permission to read or change files that the line names. "Always" allows these files and no
/// others, and nothing if one of them is not known.
fn files(permission: &str, patterns: Vec<String>) -> Option<Access> {
    let is_known = patterns.iter().all(|pattern| pattern != commands::DYNAMIC);
    let always = if is_known { paths::for_good(&patterns) } else { Vec::new() };
    (!patterns.is_empty()).then(|| Access { permission: permission.to_owned(), patterns, always })
}

/// The result of a command. A non-zero exit code is reported in the output and is not an error.
/// Being killed is an error.
fn report(args: Args, ended: CommandResult, in_home: bool) -> Output {
    let CommandResult { status, output: captured, denied, traces } = ended;
    let (code, signal) = (status.and_then(|s| s.code()), status.and_then(|s| s.signal()));
    let mut meta = json!({ "exit": code, "truncated": captured.truncated });
    if let Some(signal) = signal {
        meta["signal"] = signal.into();
    }
    if let Some(description) = &args.description {
        meta["description"] = description.clone().into();
    }
    let is_stopped = !denied.is_empty() && code != Some(0);
    let is_error = code.is_none() || is_stopped;
    if is_error {
        let kind = match status {
            _ if is_stopped => sandbox::DENIED,
            Some(_) => "killed",
            None => "cancelled",
        };
        meta["error_kind"] = kind.into();
    }
    if !denied.is_empty() {
        meta["sandbox"]["denied"] = json!(denied);
    }
    for (name, paths) in [("made", &traces.made), ("changed", &traces.changed)] {
        if !paths.is_empty() {
            meta["sandbox"][name] = json!(paths);
        }
    }
    let mut text = captured.text;
    let notes = [note(status), Denied::note(&denied, is_stopped, in_home), traces.note()];
    for note in notes.into_iter().flatten() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &note;
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    let title = args.description.unwrap_or(args.command);
    Output { is_error, spill: captured.spill, ..Output::new(title, text, &meta) }
}

fn note(status: Option<ExitStatus>) -> Option<String> {
    let Some(status) = status else {
        return Some(
            "(The command was stopped before it ended; above is its output so far.)".to_owned(),
        );
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("(exit code {code})")),
        (None, Some(signal)) => Some(format!("(killed by signal {signal})")),
        (None, None) => Some(format!("({status})")),
    }
}

#[cfg(test)]
mod tests;
