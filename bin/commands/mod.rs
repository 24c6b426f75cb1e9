//! The commands, each in the file of its name; `run` also has the other commands that run one turn.

pub(crate) mod agents;
pub(crate) mod auth;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
mod divergence;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod in_terminal;
mod line_question;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod observe;
mod password_prompt;
pub(crate) mod permission;
pub(crate) mod plugins;
mod printer;
pub(crate) mod prune;
pub(crate) mod replay;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod tool;
pub(crate) mod trust;
mod turn_runner;
pub(crate) mod verify;
pub(crate) mod why;

use std::io::{self, Write};
use std::process::ExitCode;

use leftfold_events::{Envelope, Seq};

use leftfold_runtime::divergence::policy_of;

use self::divergence::{divergences_as_json, divergences_as_text, each};
use leftfold_runtime::redact_output;
use leftfold_runtime::session_paths::{self, SessionPlace};

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

fn place(session: &str) -> anyhow::Result<SessionPlace> {
    let directory = std::env::current_dir()?;
    session_paths::find(session, &leftfold_config::worktree_of(&directory))
}

/// Writes lines to standard output with tokens masked. If the reader has gone away, the command
/// ends quietly.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    print_as_it_is(&redact_output::masked(text))
}

/// Writes text that is masked already, or must not be masked.
fn print_as_it_is(text: &str) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}
