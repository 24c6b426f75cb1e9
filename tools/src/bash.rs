//! `bash`: a command line for the shell.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use leftfold_events::event::{Access, Class};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{self, Ended};
use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace, args, paths};

/// Milliseconds.
const TIMEOUT: u64 = 120_000;

/// Milliseconds.
const MAX_TIMEOUT: u64 = 600_000;

/// Programs whose first argument says what they do, so that "always" means that and no more.
const WITH_SUBCOMMAND: &[&str] = &[
    "apt",
    "apt-get",
    "aws",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "docker",
    "docker-compose",
    "dotnet",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

#[derive(Debug)]
pub(crate) struct Bash;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The command line, as it would be typed into a shell.
    #[serde(deserialize_with = "command")]
    command: String,
    /// Milliseconds after which the command is ended. Default: 120000; at most 600000.
    #[serde(default, deserialize_with = "args::whole", skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// The folder to run in: absolute, or relative to the working directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workdir: Option<String>,
    /// What the command does, in five to ten words, for people who watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

fn command<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let line = String::deserialize(deserializer)?;
    if line.trim().is_empty() || line.contains('\0') {
        return Err(serde::de::Error::custom("expected a command line, got an empty one or a NUL"));
    }
    Ok(line)
}

impl Typed for Bash {
    type Args = Args;
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/bash.md");

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let timeout = args.timeout.unwrap_or(TIMEOUT).clamp(1, MAX_TIMEOUT);
        let mut plan = Plan { timeout, ..Plan::new(Class::Command) };
        if let Some(folder) = &args.workdir {
            plan = paths::resolve(folder, cx)?.confined(plan);
        }
        let patterns = commands(&args.command);
        let always = match patterns.as_slice() {
            [one] => vec![always(one)],
            several => several.to_vec(),
        };
        plan.access.push(Access { permission: "bash".to_owned(), patterns, always });
        Ok(plan)
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let folder = paths.into_iter().next().unwrap_or_else(|| cx.workspace.directory.clone());
        match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let text = format!("Cannot run in {}: it is not a directory.", folder.display());
                return Err(Error::NotDirectory(text));
            }
            Err(error) => return Err(Error::io("run in", &folder, &error)),
        }
        let failed = |error| Error::Io(format!("The shell could not be started: {error}."));
        let ended = command::run(&args.command, &folder, &cx).await.map_err(failed)?;
        Ok(report(args, ended))
    }
}

/// What a command ends with is news and not a failure of the tool: a non-zero exit code is told, and
/// is no error. Being killed is one.
fn report(args: Args, ended: Ended) -> Output {
    let Ended { status, output: captured } = ended;
    let (code, signal) = (status.and_then(|s| s.code()), status.and_then(|s| s.signal()));
    let mut meta = json!({ "exit": code, "truncated": captured.truncated });
    if let Some(signal) = signal {
        meta["signal"] = signal.into();
    }
    if let Some(description) = &args.description {
        meta["description"] = description.clone().into();
    }
    let is_error = code.is_none();
    if is_error {
        meta["error_kind"] = if status.is_some() { "killed" } else { "cancelled" }.into();
    }
    let mut text = captured.text;
    if let Some(note) = note(status) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &note;
    } else if text.is_empty() {
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

/// The commands of a line, each of which rules must allow. It is cut wherever a shell might begin
/// another command, inside quotes too: so a rule for `git *` never lets through what follows a `;`,
/// and a line that is cut too often is asked about and not waved on.
fn commands(line: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut start = 0;
    let ends = line.char_indices().filter(|(at, c)| separates(line, *at, *c)).map(|(at, _)| at);
    for end in ends.chain([line.len()]) {
        let command = line[start..end].trim().trim_end_matches('$').trim_end();
        if !command.is_empty() && !commands.iter().any(|known| known == command) {
            commands.push(command.to_owned());
        }
        // every separator is one byte long
        start = (end + 1).min(line.len());
    }
    if commands.is_empty() {
        commands.push(line.trim().to_owned());
    }
    commands
}

fn separates(line: &str, at: usize, c: char) -> bool {
    match c {
        '\n' | ';' | '|' | '(' | ')' | '`' => true,
        // but `2>&1` and `&>file` only say where output goes
        '&' => !line[..at].ends_with('>') && !line[at + 1..].starts_with('>'),
        _ => false,
    }
}

/// What an "always" allows from now on: the program, with its subcommand where it has one, and any
/// arguments. A line that is more than one plain command stands for itself alone.
fn always(line: &str) -> String {
    let line = line.trim();
    let plain = !line.contains(|c: char| "|&;<>()$`\\\"'\n*?[]{}#~!".contains(c));
    let mut words = line.split_whitespace();
    let (Some(program), true) = (words.next(), plain) else { return line.to_owned() };
    if program.contains('=') {
        return line.to_owned();
    }
    match words.next().filter(|_| WITH_SUBCOMMAND.contains(&program)) {
        Some(flag) if flag.starts_with('-') => line.to_owned(),
        Some(subcommand) => format!("{program} {subcommand} *"),
        None => format!("{program} *"),
    }
}

#[cfg(test)]
mod tests;
