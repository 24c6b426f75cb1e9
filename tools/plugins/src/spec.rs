//! Plugins as settings define them, reports on them, and their answers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::HookOutcome;
use leftfold_tools::{Launch, ProgramSandbox};

use super::credentials::Credentials;
use super::javascript::JavaScript;

/// Time limit for a plugin's start and for each of its answers, unless settings say otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A plugin as settings define it.
#[derive(Clone, PartialEq, Eq)]
pub struct PluginProgram {
    /// The place in the settings that names it, for people.
    pub place: String,
    pub code: PluginCode,
    pub environment: Vec<(String, String)>,
    pub timeout: Duration,
    pub launch: Launch,
    /// `None`: it runs without a sandbox.
    pub sandbox: Option<Box<ProgramSandbox>>,
    /// Keeps its credentials; `None`: it may offer no sign-ins.
    pub credentials: Option<Credentials>,
}

/// The code of a plugin.
#[derive(Clone, PartialEq, Eq)]
pub enum PluginCode {
    /// A program and its arguments.
    Command(Vec<String>),
    /// Written for OpenCode.
    JavaScript(JavaScript),
}

/// Hides commands: they may contain secrets.
impl fmt::Debug for PluginCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(_) => f.write_str("Command"),
            Self::JavaScript(javascript) => javascript.fmt(f),
        }
    }
}

// Hides commands and variables: they may contain secrets.
leftfold_events::debug_fields!(PluginProgram { place });

/// Where and with which environment plugins are started.
#[derive(Clone, Debug, Default)]
pub struct LaunchContext {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    /// Variables that plugins get in addition to the usual ones.
    pub environment: Vec<String>,
    /// The program that runs command lines; `None`: the usual one.
    pub shell: Option<String>,
    /// The socket of the node that starts them. It may not exist yet.
    pub socket: PathBuf,
    /// The address of the HTTP server in this process, if plugins can use it.
    pub server: Option<String>,
}

/// The state of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginStatus {
    Running,
    /// Not started yet, or starting.
    Idle,
    Failed(String),
}

/// A report on one plugin.
#[derive(Clone, Debug)]
pub struct PluginReport {
    /// The plugin's own name, or its program's name until it has given one.
    pub name: String,
    pub place: String,
    pub status: PluginStatus,
    /// Names of hooks, including `event`.
    pub hooks: Vec<String>,
    /// Its tools: the name that models use, and the description.
    pub tools: Vec<(String, String)>,
    /// Parts of its answer to `initialize` that are ignored, and why.
    pub warnings: Vec<String>,
}

/// A plugin's answer to a hook.
#[derive(Clone)]
pub struct HookAnswer {
    pub outcome: HookOutcome,
    /// The part that goes into the log.
    pub output: Json,
    /// The error.
    pub message: Option<String>,
    /// Headers or variables with their values, which stand nowhere else.
    pub values: Vec<(String, String)>,
    /// A provider's key, which stands nowhere else.
    pub key: Option<String>,
}

// Hides the values.
leftfold_events::debug_fields!(HookAnswer { outcome });

impl HookAnswer {
    pub(crate) fn without_output(outcome: HookOutcome, message: String) -> Self {
        let (output, values, key) = (Json::object(), Vec::new(), None);
        Self { outcome, output, message: Some(message), values, key }
    }
}
