//! Arguments of the commands about things that Leftfold works with: providers, servers, plugins,
//! the shell.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::{Format, PageArgs, examples};

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connect to a server, list its tools, resources and prompts, and call tools
    Probe(Probe),
    /// Sign in to a remote server (OAuth)
    Login(Login),
    /// Remove the stored tokens of a remote server
    Logout(Logout),
}

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Lsp {
    #[command(subcommand)]
    pub(crate) command: Option<LspCommand>,
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LspCommand {
    /// Print the diagnostics of a file; the exit code is 1 if there are errors
    Check {
        /// The file
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Plugins {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Only show the settings that need trust
    #[arg(long, conflicts_with_all = ["revoke", "yes"])]
    pub(crate) show: bool,
    /// Forget that the project is trusted
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,
    /// Trust the settings as they are now, without a question
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Also connect to remote MCP servers and read instruction pages from the web
    #[arg(long, conflicts_with = "session")]
    pub(crate) online: bool,
    /// Examine only a session file of Claude Code, Codex or OpenCode; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) session: Option<PathBuf>,
    /// The agent that wrote FILE [default: detected from FILE]
    #[arg(long, value_name = "AGENT", value_enum, requires = "session")]
    pub(crate) from: Option<leftfold_import::Origin>,
    /// Write a mended copy of FILE
    #[arg(long, requires = "session")]
    pub(crate) mend: bool,
    /// The path of the mended copy [default: FILE.mended]
    #[arg(long, short, value_name = "PATH", requires = "mend", conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// Mend FILE itself, and keep the original as FILE.bak
    #[arg(long, requires = "mend")]
    pub(crate) in_place: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct InTerminal {
    /// A variable to pass to the command, besides the usual ones
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Vec<String>,
    /// The file with the command's sandbox
    #[arg(long, value_name = "FILE")]
    pub(crate) sandbox: Option<PathBuf>,
    /// The shell, if it is not the usual one
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) shell: Option<String>,
    /// The shell command to run
    pub(crate) line: String,
}

#[derive(Debug, Args)]
#[command(after_help = examples::AUTH)]
pub(crate) struct Auth {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Sign in at a provider, or store its key: typed without echo on a terminal, or piped into
    /// standard input
    Login {
        /// The provider's name, such as `anthropic`
        provider: String,
        /// Refused, because other users see command lines.
        #[arg(hide = true)]
        key: Option<String>,
        /// How to sign in [default: asks on a terminal; else `key`, where the provider has keys]
        #[arg(long, value_enum)]
        method: Option<LoginMethod>,
        /// The host of an organization that has its own, such as `company.ghe.com`
        #[arg(long)]
        host: Option<String>,
        /// How to open the consent page [default: `browser`, or `print` without one]
        #[arg(long, value_enum)]
        consent: Option<Consent>,
    },
    /// List the providers, and where the key of each comes from
    List {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove a provider's stored key, or sign out
    Logout {
        /// The provider's name, such as `anthropic`
        provider: String,
    },
}

/// The ways to get access to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoginMethod {
    /// Store a key
    Key,
    /// Sign in with a browser on this machine
    Browser,
    /// Sign in with a code, in a browser on any machine
    Code,
    /// Sign in with a plugin of your settings
    Plugin,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell that reads the script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Print only the page of this command, such as `run` or `permission answer`
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Show only the models of this provider
    pub(crate) provider: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// The way to the consent page of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consent {
    /// Open the page in a browser; the final address can be pasted too
    Browser,
    /// Print the page's address, and wait for the final address to be pasted
    Print,
    /// Request the page and follow its redirects, for servers that need no consent
    Follow,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    /// The server's name in settings, or its URL
    pub(crate) server: String,
    /// Additional scopes to request, separated by spaces, such as the ones that a refused call
    /// named
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// How to open the consent page [default: `browser`, or `print` without one]
    #[arg(long, value_enum)]
    pub(crate) consent: Option<Consent>,
}

#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// The server's name in settings, or its URL
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The server's URL, or its name in settings
    pub(crate) server: String,
    /// Call this tool; without JSON the arguments are made up from its schema (repeatable)
    #[arg(long, value_name = "TOOL[=JSON]")]
    pub(crate) call: Vec<String>,
    /// Call each tool once with made-up arguments, which may change things
    #[arg(long, conflicts_with = "call")]
    pub(crate) call_all: bool,
    /// How to open the consent page if the server requires signing in [default: `browser`, or
    /// `print` without one]
    #[arg(long, value_enum)]
    pub(crate) consent: Option<Consent>,
}
