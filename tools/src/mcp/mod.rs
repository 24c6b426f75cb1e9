//! Servers that speak the Model Context Protocol, and the tools they bring (SPEC X4, X6).
//!
//! A project has one [`Servers`], shared by all sessions of this process that work in it, with one
//! connection for each server. A server is started when somebody first wants to know its tools, and
//! again if it has ended since. One that does not start is told of once and left out; nobody waits
//! for it longer than its own limit. What a model is told of tools goes into the log with the kit, so
//! that nothing but a call that runs needs the server itself.

mod call;
pub(crate) mod connect;
mod content;
mod desk;
mod link;
mod lists;
pub(crate) mod names;
mod oauth;
mod pool;
mod probe;
mod prompts;
mod remote;
mod resources;
mod server;
mod sse;
mod stdio;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::kit::ToolSpec;

pub use oauth::{Consent, Follow, OAuth, sign_out};
use pool::Pool;
pub use pool::close;
pub(crate) use pool::schema;
pub use probe::{Called, Calls, Probed, login, probe};
pub use prompts::Prompted;

/// How long a server may take to start and tell its tools, unless settings say otherwise.
pub const STARTUP: Duration = Duration::from_secs(30);

/// A server as settings have it.
#[derive(Clone, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    pub reach: Reach,
    /// For its start, and for each call; `None`: [`STARTUP`], and what other tools have.
    pub timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program that is started here and spoken to through its standard input and output.
    Local {
        command: Vec<String>,
        environment: Vec<(String, String)>,
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Remote {
        url: String,
        headers: Vec<(String, String)>,
        /// Without a header `Authorization`.
        oauth: OAuth,
    },
    /// Not at all: what is wrong with its settings.
    Unusable(String),
    Disabled,
}

/// Shows no commands, addresses, headers or variables: there may be secrets in them.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local { .. } => "Local",
            Self::Remote { .. } => "Remote",
            Self::Unusable(_) => "Unusable",
            Self::Disabled => "Disabled",
        })
    }
}

/// How a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Connected,
    /// Nobody has needed it so far, or it is on its way.
    Idle,
    Disabled,
    Failed(String),
}

/// What is known of one server.
#[derive(Clone, Debug)]
pub struct Report {
    pub name: String,
    pub status: Status,
    /// What it calls itself, and its version.
    pub server: Option<(String, String)>,
    /// Its tools, as models know them.
    pub tools: Vec<Offered>,
}

/// A tool of a server.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What models call it.
    pub name: String,
    /// What its server calls it.
    pub tool: String,
    pub description: String,
    /// Its server says that it changes nothing.
    pub read_only: bool,
}

/// The servers of a project. Clones are the same; the default has none.
#[derive(Clone, Default)]
pub struct Servers(Option<Arc<Pool>>);

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().flat_map(|pool| pool.specs())).finish()
    }
}

impl Servers {
    /// Those of the project in `directory`, where local ones are started. Nothing is started yet.
    /// `environment` names variables that they get besides the usual ones.
    pub fn of(directory: &Path, environment: &[String], specs: Vec<Spec>) -> Self {
        Self((!specs.is_empty()).then(|| pool::shared(directory, environment, specs)))
    }

    /// Waits until every server has been started, or has failed to.
    pub async fn ready(&self) {
        if let Some(pool) = &self.0 {
            pool.ready().await;
        }
    }

    /// The same for whoever can not await. Outside a runtime of several threads it waits for nothing.
    pub fn wait(&self) {
        let Some(pool) = self.0.as_ref().filter(|pool| !pool.is_settled()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread {
            tokio::task::block_in_place(|| runtime.block_on(pool.ready()));
        }
    }

    /// The tools there are, in the order of the settings. Each name is there once.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.tools())
    }

    /// Each server, in the order of the settings.
    pub fn reports(&self) -> Vec<Report> {
        self.0.as_ref().map_or_else(Vec::new, |pool| pool.reports())
    }

    /// What keeps servers from being used, for people.
    pub fn problems(&self) -> Vec<String> {
        let failed = |report: Report| match report.status {
            Status::Failed(why) => Some(format!("MCP server `{}`: {why}", report.name)),
            Status::Connected | Status::Idle | Status::Disabled => None,
        };
        self.reports().into_iter().filter_map(failed).collect()
    }

    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        self.0.as_ref()
    }
}

pub(crate) use call::{resolve, run};
