//! Opens and runs sessions of a project with the user's settings, providers, MCP servers and plugins.
//! Every front end uses it, and so can other programs.
//!
//! | module | purpose |
//! |---|---|
//! | `embed` | [`Leftfold`] and [`Session`], the API for programs that embed Leftfold |
//! | `turn_config` | turns settings, project and overrides into a turn's configuration |
//! | `gather` | reads the parts of a configuration that come from the project: system prompt, instructions, skills, tools |
//! | `gathering` | the threads on which all this is read |
//! | `agents`, `model`, `auxiliary_agents`, `demo` | agents and models |
//! | `resolved_settings`, `secrets`, `approvals` | settings with the plugins' additions, secrets, remembered approvals |
//! | `trust`, `texts` | the questions whether to trust a project's settings, and to obey texts that calls have changed |
//! | `search`, `formatting`, `language_servers` | the search services that settings name, and the formatters and language servers that they turn on |
//! | `sign_in`, `account_models` | signing in at vendors, requests with tokens that expire, and the models of accounts |
//! | `project`, `session_paths`, `history`, `session_list` | folders and lists of sessions, and their history |
//! | `session_setup`, `client`, `user_message` | opens sessions, in this process's node or through another's socket, and prompts them |
//! | `quota` | judges prompts by what their project has used on the day |
//! | `remote`, `socket` | client and server of a node's socket |
//! | `slash`, `attach` | slash commands and attachments of a prompt |
//! | `fork`, `checkout` | makes forks, with files |
//! | `session_diff` | the changes of a session to files |
//! | `redact_output`, `warnings`, `lines`, `preview` | text that leaves the process |
//! | `fuzzing` | properties that hold for any input, for `tests/fuzz` |
//!
//! Invariant: nothing here parses a command line or prints a session.

pub mod account_models;
pub mod agents;
pub mod approvals;
pub mod attach;
mod auxiliary_agents;
mod checkout;
pub mod client;
pub mod client_ids;
pub mod demo;
pub mod divergence;
mod embed;
pub mod executors;
pub mod fork;
pub mod formatting;
pub mod fuzzing;
pub mod gather;
mod gathering;
pub mod history;
pub mod language_servers;
pub mod lines;
pub mod model;
pub mod model_list;
pub mod only_people;
pub mod preview;
pub mod project;
pub mod quota;
pub mod redact_output;
pub mod remote;
pub mod resolved_settings;
pub mod sandbox;
pub mod search;
pub mod secrets;
pub mod session_diff;
pub mod session_list;
pub mod session_paths;
pub mod session_setup;
pub mod session_tree;
pub mod sign_in;
pub mod signals;
pub mod slash;
pub mod socket;
pub mod specs;
pub mod stats;
pub mod subscription;
pub mod texts;
mod thread_watch;
pub mod trust;
pub mod turn_config;
pub mod user_message;
pub mod warnings;
mod watchers;
pub mod why;
pub mod working_tree;
pub mod workplace;

use std::sync::{Mutex, PoisonError};

pub use embed::{Leftfold, Session, end_all};
pub use gathering::gathering;
pub use leftfold_actors::{Answered, Observation, QuestionReply, Recorded};
pub use leftfold_events as events;
pub use leftfold_process::{close_descriptors_on_exec, hide_memory};
pub use leftfold_sandbox::become_helper;
pub use ractor;
use tokio::sync::mpsc::UnboundedSender;
pub use turn_config::{Overrides, PromptOptions};

/// The name of the hidden command that becomes a call's shell, in a terminal that an editor has
/// opened.
pub const IN_TERMINAL: &str = "in-terminal";

/// The user's input is wrong, not the program: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

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
const LEAVE: std::time::Duration = std::time::Duration::from_secs(2);

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
    runtime.shutdown_timeout(LEAVE);
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
