//! Servers as settings define them, and reports on them.

use std::fmt;
use std::time::Duration;

use leftfold_tools::{Launch, ProgramSandbox};

use super::oauth::OAuth;

/// How long a server may take to start and list its tools, unless settings say otherwise.
pub const STARTUP: Duration = Duration::from_secs(30);

/// A server as settings define it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub name: String,
    pub endpoint: Endpoint,
    /// Limit for the start and for each call. `None`: [`STARTUP`] for the start, and the usual
    /// limit of tools for calls.
    pub timeout: Option<Duration>,
}

/// How to reach a server.
#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program that Leftfold starts and speaks to through its standard input and output.
    Local {
        command: Vec<String>,
        environment: Vec<(String, String)>,
        launch: Launch,
        /// `None`: it runs without a sandbox.
        sandbox: Option<Box<ProgramSandbox>>,
    },
    /// Streamable HTTP.
    Remote {
        url: String,
        headers: Vec<(String, String)>,
        /// Used if there is no `Authorization` header.
        oauth: OAuth,
    },
    /// The settings are wrong; the text says why.
    Unusable(String),
    Disabled,
}

impl ServerSpec {
    /// Whether its user can sign in: a header in settings replaces that.
    pub fn has_sign_in(&self) -> bool {
        let is_token = |name: &str| name.eq_ignore_ascii_case("authorization");
        match &self.endpoint {
            Endpoint::Remote { headers, oauth, .. } => {
                oauth.token_store.is_some() && !headers.iter().any(|(name, _)| is_token(name))
            }
            Endpoint::Local { .. } | Endpoint::Unusable(_) | Endpoint::Disabled => false,
        }
    }
}

// Hides commands, addresses, headers and variables: they may contain secrets.
leftfold_events::debug_fields!(ServerSpec { name });

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local { .. } => "Local",
            Self::Remote { .. } => "Remote",
            Self::Unusable(_) => "Unusable",
            Self::Disabled => "Disabled",
        })
    }
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    Connected,
    /// Not started yet, or starting.
    Idle,
    Disabled,
    /// Its user has to sign in. The text says how.
    NeedsSignIn(String),
    Failed(String),
}

/// A report on one server.
#[derive(Clone, Debug)]
pub struct ServerReport {
    pub name: String,
    pub status: ServerStatus,
    /// The name and version that the server reports.
    pub server: Option<(String, String)>,
    /// Its tools, by the names that models use.
    pub tools: Vec<ToolReport>,
}

/// A tool of a server.
#[derive(Clone, Debug)]
pub struct ToolReport {
    /// The name that models use.
    pub name: String,
    /// The server's own name for it.
    pub tool: String,
    pub description: String,
    /// The server says that the tool changes nothing.
    pub read_only: bool,
}
