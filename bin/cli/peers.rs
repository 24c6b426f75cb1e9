//! Arguments of the commands about what Leftfold works with: providers, servers, plugins, the shell.

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connect to a server, list what it offers, and call tools of it
    Probe(Probe),
    /// Sign in at a remote server (OAuth)
    Login(Login),
    /// Forget what a remote server has granted
    Logout(Logout),
}

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Plugins {
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Ask remote MCP servers, and read pages with instructions, too
    #[arg(long)]
    pub(crate) online: bool,
    /// Try MCP servers that files of the project name, too
    #[arg(long)]
    pub(crate) start: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct InTerminal {
    /// A variable that the command is given besides the usual ones
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Vec<String>,
    pub(crate) line: String,
}

#[derive(Debug, Args)]
pub(crate) struct Auth {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Store a provider's key: typed unseen on a terminal, or piped into standard input
    Login {
        provider: String,
        /// Refused: others see a command line
        #[arg(hide = true)]
        key: Option<String>,
    },
    /// List the providers, and where the key of each comes from
    List {
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Forget a provider's stored key
    Logout { provider: String },
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell that is to read them
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Only the page of this command, such as `run` or `permission answer`
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Only those of this provider
    pub(crate) provider: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// How somebody consents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consent {
    /// Open the page in a browser; what it leads to may be pasted as well
    Browser,
    /// Print the page's address, and wait for what it leads to
    Print,
    /// Ask for the page and follow it: for servers that need no consent
    Follow,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Its name in settings, or its URL
    pub(crate) server: String,
    /// Ask for these as well, such as those that a call was refused for (separated by spaces)
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// How to consent [default: `browser`, or `print` where there is none]
    #[arg(long, value_enum)]
    pub(crate) consent: Option<Consent>,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Its name in settings, or its URL
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Its URL, or its name in settings
    pub(crate) server: String,
    /// Call this tool; arguments are a JSON object, or made up from its schema (may be given several
    /// times)
    #[arg(long, value_name = "TOOL[=JSON]")]
    pub(crate) call: Vec<String>,
    /// Call each tool once with arguments that are made up: they may change things
    #[arg(long, conflicts_with = "call")]
    pub(crate) call_all: bool,
    /// How to consent if it wants its user to sign in [default: `browser`, or `print` where there is
    /// none]
    #[arg(long, value_enum)]
    pub(crate) consent: Option<Consent>,
}
