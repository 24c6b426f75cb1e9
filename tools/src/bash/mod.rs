//! `bash`: runs a command line in the shell. Before, the crate `leftfold-shell` finds the permissions that the line needs, and
//! `leftfold_events::verdict` applies the rules to them.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use leftfold_events::Json;
use leftfold_events::event::{Access, CallKind, Class};
use leftfold_events::rules::{self, NETWORK, UNSANDBOXED};
use leftfold_events::sandbox::{self, Backend};
use leftfold_process::environment;
use leftfold_shell::{Target, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::WholeNumber;
use crate::command::{self, CommandResult};
use crate::protected::{self, ProtectedPlaces};
use crate::sandbox::Denied;
use crate::tool::{ToolKind, Typed};
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
    format!("- The shell is `{}`.\n", program.rsplit('/').next().unwrap_or(program))
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
    const KIND: ToolKind = ToolKind::Execute;
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
        let view = WorkspaceView { cx, places: ProtectedPlaces::for_workspace(cx) };
        let judged = leftfold_shell::judge(&args.command, &folder, &view);
        let sandbox = leaving_sandbox(args, cx).map(|permission| Access {
            permission: permission.to_owned(),
            patterns: judged.commands.patterns.clone(),
            always: match args.unsandboxed {
                Some(true) => Vec::new(),
                _ => judged.always_with_network(&view),
            },
        });
        let has_own_temp = crate::sandbox::has_own_temp(cx) && args.unsandboxed != Some(true);
        let is_private = |folder: &String| has_own_temp && is_temp(folder);
        outside.extend(judged.outside.into_iter().filter(|folder| !is_private(folder)));
        plan.paths.extend(judged.paths);
        plan.access.extend(leaving(outside));
        plan.access.push(judged.commands);
        plan.access.extend(sandbox);
        plan.access.extend(judged.more);
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

/// What the judge of lines may know of a workspace.
struct WorkspaceView<'a> {
    cx: &'a Workspace,
    places: Arc<ProtectedPlaces>,
}

impl View for WorkspaceView<'_> {
    fn shell(&self) -> &str {
        self.cx.shell()
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        environment(&self.cx.environment)
    }

    fn worktree(&self) -> &Path {
        &self.cx.worktree
    }

    fn is_worktree(&self, folder: &Path) -> bool {
        paths::real(&self.cx.worktree).ok() == paths::real(folder).ok()
    }

    fn resolve(&self, path: &str) -> Option<Target> {
        paths::resolve(path, self.cx).ok().map(paths::Target::of_line)
    }

    fn resolve_for_command(&self, path: &str) -> Option<Target> {
        paths::resolve_for_command(path, self.cx).ok().map(paths::Target::of_line)
    }

    fn is_spilled(&self, path: &Path) -> bool {
        paths::real(&self.cx.spill_dir).is_ok_and(|folder| path.starts_with(folder))
    }

    fn is_guarded(&self, path: &str) -> bool {
        self.cx.guarded.iter().any(|pattern| rules::matches(pattern, path))
    }

    fn is_protected_name(&self, path: &str) -> bool {
        protected::is_protected(path)
    }

    fn is_protected(&self, path: &str) -> bool {
        self.places.is_protected(path)
    }

    fn is_secret(&self, path: &Path) -> bool {
        self.places.is_secret(path)
    }
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
