//! Opens and runs sessions of a project with the user's settings, providers, MCP servers and plugins.
//! Every front end uses it, and so can other programs.
//!
//! | module | purpose |
//! |---|---|
//! | `embed` | [`Leftfold`] and [`Session`], the API for programs that embed Leftfold |
//! | `socket` | the way into this process's node from outside: a Unix socket, and standard input |
//! | `prompt`, `report` | slash commands and attachments of a prompt; what front ends print about a session |
//! | `session` | opens sessions and prompts them, in this process's node or through another's socket; forks and lists them |
//! | `remote` | a client of a session in another process's node |
//! | `turn` | settings, project and overrides become the turn configuration of a prompt |
//! | `access` | what a person has allowed, and secrets: trust, approvals, changed texts |
//! | `parts` | the parts of a turn configuration: agents, models, system prompt, tools, sandbox |
//! | `account` | signed-in accounts of vendors, and servers on this machine, with their models |
//! | `stored` | sessions as they are stored: folders, ids, logs, quotas |
//! | `redact_output`, `warnings` | text that leaves the process |
//!
//! A module uses only modules in rows below its own, and [`note`], [`Usage`] and [`run_async`] from here. The modules of a
//! folder are exported here by their own names.
//!
//! Invariant: nothing here parses a command line or prints a session.

mod access;
mod account;
mod embed;
mod parts;
mod prompt;
pub mod redact_output;
pub mod remote;
mod report;
mod session;
pub mod signals;
pub mod socket;
mod stored;
mod thread_watch;
mod turn;
pub mod user_message;
pub mod warnings;

use std::sync::{Mutex, PoisonError};

pub use access::{approvals, only_people, secrets, texts, trust};
use account::plugin_credentials;
pub use account::{account_models, local_servers, sign_in};
pub use embed::{Leftfold, Session, end_all};
pub use gathering::gathering;
pub use leftfold_actors::{Answered, Observation, QuestionReply, Recorded};
pub use leftfold_events as events;
pub use leftfold_oauth::http::client as http_client;
pub use leftfold_process::{close_descriptors_on_exec, hide_memory};
pub use leftfold_sandbox::become_helper;
pub use parts::{
    agents, executors, formatting, gather, language_servers, model, model_list, sandbox, search,
    workplace,
};
use parts::{auxiliary_agents, gathering};
pub use prompt::{attach, slash};
pub use ractor;
pub use report::{divergence, lines, preview, stats, why};
use session::{checkout, watchers};
pub use session::{
    client, fork, session_diff, session_list, session_setup, subscription, working_tree,
};
pub use stored::{client_ids, history, quota, session_paths, session_tree};
use tokio::sync::mpsc::UnboundedSender;
pub use turn::{demo, project, resolved_settings, specs, turn_config};
pub use turn_config::{Overrides, PromptOptions};

/// The name of the hidden command that becomes a call's shell, in a terminal that an editor has
/// opened.
pub const IN_TERMINAL: &str = "in-terminal";

/// The user's input is wrong, not the program: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub use leftfold_process::raise_open_files;

/// Columns of a line of a note. Names in it may be of any length.
const NOTE: usize = 4_000;

/// Where notes go instead of standard error.
static NOTES: Mutex<Option<UnboundedSender<String>>> = Mutex::new(None);

/// Sends notes there from now on, because the screen is drawn by somebody who shows them; `None`: to standard error
/// again.
pub fn send_notes(to: Option<UnboundedSender<String>>) {
    *NOTES.lock().unwrap_or_else(PoisonError::into_inner) = to;
}

/// Writes a line for people to standard error, without secrets and tokens, and with control and
/// invisible characters as escapes.
pub fn note(line: &str) {
    let lines = redact_output::clean(line);
    if let Some(notes) = &*NOTES.lock().unwrap_or_else(PoisonError::into_inner)
        && notes.send(leftfold_view::clean::printable(&lines).into_owned()).is_ok()
    {
        return;
    }
    let lines = lines.split('\n').map(|line| leftfold_view::clean::clip(line, NOTE) + "\n");
    write_note(&lines.collect::<String>());
}

/// Like [`note`], but does not end the line: for questions whose answer is typed after them.
pub fn write_note(text: &str) {
    use std::io::Write;
    let text = redact_output::clean(text);
    let mut stderr = std::io::stderr();
    // Nobody may be reading standard error any more.
    let _ = stderr.write_all(leftfold_view::clean::printable(&text).as_bytes());
    let _ = stderr.flush();
}

/// How long the program waits at its end for work that cannot be interrupted, such as a name lookup
/// or a write to a pipe that nobody reads.
const SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Ends the MCP servers, plugins and language servers of this process. Returns when they are gone, after about a second at
/// most. None starts after that.
pub async fn close_programs() {
    tokio::join!(leftfold_mcp::close(), leftfold_plugins::close(), leftfold_lsp::close());
}

/// Runs `work` on a runtime of its own, and ends the servers and plugins that it started.
///
/// # Errors
/// The runtime's threads cannot be started.
pub fn run_async<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let result = work.await;
        close_programs().await;
        result
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(result)
}

/// A runtime of two threads, which suffice: the work is waiting. If the system later starts no more
/// threads and the work stands still for that, the process says so and exits with 1.
///
/// # Errors
/// The threads cannot be started.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    thread_watch::runtime()
}
