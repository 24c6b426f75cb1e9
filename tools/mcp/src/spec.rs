//! Servers as settings have them, and what is known of each.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::oauth::OAuth;

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
