//! Plugins as settings have them, what is known of each, and what they return.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::HookOutcome;

/// How long a plugin may take to start, and for each answer, unless settings say otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A plugin as settings have it.
#[derive(Clone, PartialEq, Eq)]
pub struct Spec {
    /// Where settings name it, for people.
    pub place: String,
    /// The program, and what it is given.
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub timeout: Duration,
}

/// Shows no commands or variables: there may be secrets in them.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Where plugins are started.
#[derive(Clone, Debug, Default)]
pub struct Root {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    /// Names of variables that are passed on besides the usual ones.
    pub environment: Vec<String>,
    /// The socket of the node that starts them, whether or not it is there yet.
    pub socket: PathBuf,
}

/// How a plugin does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Running,
    /// Nobody has needed it so far, or it is on its way.
    Idle,
    Failed(String),
}

/// What is known of one plugin.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it calls itself; its program's name if that is not known.
    pub name: String,
    pub place: String,
    pub status: Status,
    /// By name; `event` is among them.
    pub hooks: Vec<String>,
    /// What models call its tools, and what they are for.
    pub tools: Vec<(String, String)>,
    /// What is of no use in what it has said of itself.
    pub warnings: Vec<String>,
}

/// What a plugin has answered.
#[derive(Clone)]
pub struct Said {
    pub outcome: HookOutcome,
    /// For the log.
    pub output: Json,
    /// What is wrong.
    pub message: Option<String>,
    /// Headers or variables with their values, which stand nowhere else.
    pub values: Vec<(String, String)>,
    /// A provider's key, likewise.
    pub key: Option<String>,
}

/// Names no values.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Said").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Said {
    pub(crate) fn not(outcome: HookOutcome, message: String) -> Self {
        let (output, values, key) = (Json::object(), Vec::new(), None);
        Self { outcome, output, message: Some(message), values, key }
    }
}
