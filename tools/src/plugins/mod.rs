//! Plugins: programs of the user's that are asked before something is decided or sent, watch what
//! happens, and bring tools (SPEC X1, X2). They speak JSON-RPC 2.0 over standard input and output, one
//! message a line.
//!
//! A project has one [`Plugins`], shared by all sessions of this process that work in it, with one
//! process for each plugin. What a plugin says that changes a decision stands in the log before that is
//! made, so nothing but the asking needs the plugin itself. One that does not answer within its limit
//! is ended, and left alone for a while.

mod adviser;
mod answer;
mod call;
mod hello;
mod keyed;
mod link;
mod plugin;
mod pool;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::{Heard, Hook};
use leftfold_events::kit::{PluginSpec, ToolSpec};
use serde_json::Value;

pub use adviser::Adviser;
pub(crate) use call::{resolve, run_or_server};
pub use link::Watcher;
use pool::Pool;
pub use pool::close;

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
#[derive(Clone, Debug)]
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
    pub outcome: Heard,
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
    pub(crate) fn not(outcome: Heard, message: String) -> Self {
        let (output, values, key) = (Json::object(), Vec::new(), None);
        Self { outcome, output, message: Some(message), values, key }
    }
}

/// The plugins of a project. Clones are the same; the default has none.
#[derive(Clone, Default)]
pub struct Plugins(Option<Arc<Pool>>);

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().flat_map(|pool| pool.specs())).finish()
    }
}

impl Plugins {
    /// Those of the project in `root`. Nothing is started yet.
    pub fn of(root: Root, specs: Vec<Spec>) -> Self {
        Self((!specs.is_empty()).then(|| pool::shared(root, specs)))
    }

    /// Waits until every plugin has been started, or has failed to.
    pub async fn ready(&self) {
        if let Some(pool) = &self.0 {
            pool.ready().await;
        }
    }

    /// The same for whoever can not await. Outside a runtime of several threads it waits for nothing.
    pub fn wait(&self) {
        if let Some(pool) = self.0.as_ref().filter(|pool| !pool.is_settled()) {
            wait_for(pool.ready());
        }
    }

    /// Those that add to settings, in the order of the settings; only of those that have started.
    pub fn advisers(&self) -> Vec<Adviser> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.advisers())
    }

    /// Those that run and want to be asked something.
    pub fn specs(&self) -> Vec<PluginSpec> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.kit())
    }

    /// The tools there are. Each name is there once.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.tools())
    }

    /// Each plugin, in the order of the settings.
    pub fn reports(&self) -> Vec<Report> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.reports())
    }

    /// What people should know of plugins that can not be used, or not in all they want.
    pub fn problems(&self) -> Vec<String> {
        let told = |report: Report| {
            let Report { name, place, status, warnings, .. } = report;
            let failed = match status {
                Status::Failed(why) => Some(why),
                Status::Running | Status::Idle => None,
            };
            let all = failed.into_iter().chain(warnings);
            all.map(move |why| format!("{place}: plugin `{name}`: {why}")).collect::<Vec<_>>()
        };
        self.reports().into_iter().flat_map(told).collect()
    }

    /// Puts a hook to a plugin. It has as long as settings say.
    pub async fn ask(&self, plugin: &str, hook: Hook, params: Value) -> Said {
        match self.0.as_ref().and_then(|pool| pool.named(plugin)) {
            Some(plugin) => plugin.ask(hook, params).await,
            None => Said::not(Heard::Gone, "it does not run".to_owned()),
        }
    }

    /// Those that want to be told of every event.
    pub fn watchers(&self) -> Vec<Watcher> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.watchers())
    }

    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.0.as_ref()
    }
}

/// What comes of that, for whoever can not await; `None` outside a runtime of several threads.
fn wait_for<T>(work: impl Future<Output = T>) -> Option<T> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let several = runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread;
    several.then(|| tokio::task::block_in_place(|| runtime.block_on(work)))
}
