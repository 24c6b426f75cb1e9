//! The commands, each in the file of its name; `run` also has the other commands that run one turn.

pub(crate) mod agents;
pub(crate) mod auth;
mod bundle;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
mod consent;
pub(crate) mod demo;
pub(crate) mod diff;
mod divergence;
pub(crate) mod doctor;
pub(crate) mod executor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod first_start;
#[cfg(feature = "postgres")]
pub(crate) mod fleet;
#[cfg(not(feature = "postgres"))]
#[path = "without_fleet.rs"]
pub(crate) mod fleet;
pub(crate) mod import;
pub(crate) mod in_terminal;
mod line_question;
mod live_line;
pub(crate) mod lsp;
pub(crate) mod mcp;
pub(crate) mod models;
mod named_store;
#[cfg(feature = "postgres")]
mod node_metrics;
pub(crate) mod observe;
pub(crate) mod otlp;
mod pages;
mod password_prompt;
pub(crate) mod permission;
pub(crate) mod plugins;
mod printer;
pub(crate) mod prune;
pub(crate) mod replay;
mod report;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod tool;
pub(crate) mod trust;
mod turn_runner;
mod verdicts;
pub(crate) mod verify;
pub(crate) mod version;
mod whole_file;
pub(crate) mod why;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use leftfold_events::{Envelope, Seq};

use leftfold_runtime::divergence::policy_of;

use self::divergence::{Checked, divergences_as_json, divergences_as_text, each};
use crate::cli::Format;
use leftfold_runtime::redact_output;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_view::clean;

/// The session that the argument of a reading command names, and its events.
fn events(session: &str) -> anyhow::Result<(SessionPlace, Vec<Envelope>)> {
    events_to(session, Seq::MAX)
}

/// The session, and its events up to `to`.
fn events_to(session: &str, to: Seq) -> anyhow::Result<(SessionPlace, Vec<Envelope>)> {
    let place = place(session)?;
    let events = leftfold_store::read(&place.store, place.session, to)?;
    Ok((place, events))
}

/// The named session, for a command that only reads it.
fn place(session: &str) -> anyhow::Result<SessionPlace> {
    let directory = std::env::current_dir()?;
    session_paths::find_to_read(session, &leftfold_config::worktree_of(&directory))
}

/// The named session, for a command that changes it: `last` is one of this project.
fn place_to_change(session: &str) -> anyhow::Result<SessionPlace> {
    let directory = std::env::current_dir()?;
    session_paths::find(session, &leftfold_config::worktree_of(&directory))
}

/// The named sessions; with `all` every session and fork.
fn places(sessions: &[String], all: bool) -> anyhow::Result<Vec<SessionPlace>> {
    if all {
        let listed = session_paths::listed()?.into_iter();
        return Ok(listed
            .map(|(store, head)| SessionPlace { store, session: head.session })
            .collect());
    }
    sessions.iter().map(|session| place(session)).collect()
}

/// Writes lines for people to standard output, with tokens masked, and with control and invisible
/// characters as escapes. If the reader has gone away, the command ends quietly.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    write(&clean::printable(&redact_output::masked(text)))
}

/// Writes JSON to standard output, with tokens masked, and with control and invisible characters
/// escaped as JSON does.
fn print_json(json: &str) -> anyhow::Result<ExitCode> {
    write(&clean::escape_json(&redact_output::masked(json)))
}

/// Columns for a name from settings or a server, and for a sentence. Longer ones are cut on the screen
/// so that the rest of a list stays readable; JSON has them in full.
const NAME: usize = 100;
const SENTENCE: usize = 400;

/// A name or sentence in one line of a list.
fn cell(text: &str, columns: usize) -> String {
    clean::clip(&clean::printable_line(text), columns)
}

/// Writes lines in the format that was asked for.
fn print_as(format: Format, text: &str) -> anyhow::Result<ExitCode> {
    match format {
        Format::Text => print(text),
        Format::Json => print_json(text),
    }
}

/// Writes JSON, or text from Leftfold alone, whose bytes are promised. It is masked already, or must
/// not be masked. Only on a terminal it is escaped as [`print_json`] does.
fn print_exact(json: &str) -> anyhow::Result<ExitCode> {
    write(&on_terminal(json))
}

/// JSON as it is written to standard output: escaped if people see it, its exact bytes otherwise.
fn on_terminal(json: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { clean::escape_json(json) } else { Cow::Borrowed(json) }
}

/// Writes text that is clean to standard error.
fn write_error(text: &str) {
    // Nobody may be reading it any more.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn write(text: &str) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("standard output cannot be written"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
