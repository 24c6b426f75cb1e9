//! The command line: the arguments and options of every command, as clap parses them.

mod amounts;
mod conversation;
mod examples;
mod executor;
mod fleet;
mod log;
mod peers;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use leftfold_events::turn_config::{AskMode, StructuredOutput};
use leftfold_runtime::note;
use leftfold_runtime::turn_config::Overrides;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use self::conversation::*;
pub(crate) use self::executor::*;
pub(crate) use self::fleet::*;
pub(crate) use self::log::*;
pub(crate) use self::peers::*;

/// A coding agent whose every step is an event in a durable log.
///
/// Without a command, Leftfold starts a conversation on this terminal.
#[derive(Debug, Parser)]
#[command(name = "leftfold", version, disable_version_flag = true, args_conflicts_with_subcommands = true, after_help = examples::LEFTFOLD)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Keep all sessions in this folder, or in a PostgreSQL database: `postgresql://USER@HOST/DATABASE` [default: the
    /// data folder, or LEFTFOLD_STORE]
    #[arg(long, value_name = "DIR|URL", global = true)]
    pub(crate) store: Option<String>,
    /// Print the version
    #[arg(long, short = 'V')]
    pub(crate) version: bool,
    /// With `--version`: also print the commit, the target, and how to upgrade and remove this installation
    #[arg(long, requires = "version")]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) conversation: ConversationArgs,
}

/// The headings of `leftfold --help`, and the commands below each. docs/command-line.md has the same.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Commands", &["run", "resume", "demo", "serve", "view", "node"]),
    (
        "Sessions",
        &[
            "sessions", "observe", "fork", "revert", "unrevert", "diff", "compact", "export",
            "import", "share", "unshare", "stats",
        ],
    ),
    ("Debugging", &["why", "replay", "explain", "verify", "rerun", "check"]),
    (
        "Settings and setup",
        &[
            "doctor", "config", "models", "auth", "permission", "agents", "trust", "tool", "mcp",
            "executor", "fleet", "lsp", "plugins", "completions", "man", "help",
        ],
    ),
];

impl Cli {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// They are wrong, or ask for help.
    pub(crate) fn parse_arguments() -> Result<Self, clap::Error> {
        let matches = grouped(Self::command()).try_get_matches()?;
        Self::from_arg_matches(&matches)
    }
}

/// The command, whose help lists its commands by group. clap has one list for all.
fn grouped(command: clap::Command) -> clap::Command {
    let styles = command.get_styles();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let headed = |heading: &str| format!("{header}{heading}:{header:#}\n");
    let mut text = String::new();
    for (heading, names) in GROUPS {
        text += &headed(heading);
        for name in names {
            let found = command.get_subcommands().find(|found| found.get_name() == *name);
            let about = found.and_then(clap::Command::get_about).map(ToString::to_string);
            // clap adds `help` when it parses
            let about = about.unwrap_or_else(|| "Print this help or that of a command".to_owned());
            let also = found.and_then(|found| found.get_visible_aliases().next());
            let also = also.map(|alias| format!(" [alias: {alias}]")).unwrap_or_default();
            text += &format!("  {literal}{name:<11}{literal:#}  {about}{also}\n");
        }
        text.push('\n');
    }
    let (arguments, options) = (headed("Arguments"), headed("Options"));
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{arguments}{{positionals}}\n\n\
         {options}{{options}}{{after-help}}"
    ))
}

/// Prints help to standard output, or an error in the arguments to standard error. Arguments that
/// scripts take from elsewhere must not control the terminal.
pub(crate) fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        note(error.render().to_string().trim_end());
    } else {
        // Nobody may be reading standard output any more.
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one prompt and exit
    Run(Run),
    /// Resume an interrupted turn
    Resume(Resume),
    /// Watch Leftfold repair a small project; needs no key
    Demo(Demo),
    /// Start a long-lived node that speaks the Agent Client Protocol on stdio
    #[command(visible_alias = "acp")]
    Node,
    /// Serve OpenCode's API over HTTP, for its clients and SDKs
    Serve(Serve),
    /// Show sessions and their timelines in a browser, also while they run
    View(View),
    /// Show the events of a session, without running anything
    Replay(Replay),
    /// Check whether this version would make the same decisions as a session's log
    Verify(Verify),
    /// Run sessions again on the outcomes in their logs, and compare; has no effects
    Rerun(Rerun),
    /// Find out why a run failed: what went wrong in the last turn, and what the session waits for
    Why(Why),
    /// Explain an event: what led to it, or which request a model got and what was left out
    Explain(Explain),
    /// Check sessions for damage
    Check(Check),
    /// Print a session as JSON lines, as a page or in a format of other tools
    Export(Export),
    /// Write a session to a file for other people, with tokens and keys masked
    Share(Share),
    /// Remove the file that `share` wrote into the data directory
    Unshare(Unshare),
    /// Start a new session from any point of another; they share the events before it
    Fork(Fork),
    /// Import a session printed by `export`, or one of Claude Code, Codex or OpenCode
    Import(Import),
    /// Show the changes of a session to files, or how two sessions differ
    Diff(Diff),
    /// Show tokens, cost and tool calls of all sessions
    Stats(Stats),
    /// Summarize a session's conversation to free room in the model's context
    Compact(Compact),
    /// Restore files and messages to their state before a step or prompt
    Revert(Revert),
    /// Undo the last revert
    Unrevert(Unrevert),
    /// Print the events of a session, then follow it live
    Observe(Observe),
    /// Check permission rules, answer an open permission question, or take back an "always"
    Permission(Permission),
    /// List, show and remove sessions
    Sessions(Sessions),
    /// List providers and models: limits, prices, capabilities, variants
    Models(Models),
    /// Sign in at providers; store, list and remove their keys
    Auth(Auth),
    /// List the agents, and where each is defined
    Agents(Agents),
    /// List MCP servers with their status and tools; try a server; sign in to one
    Mcp(Mcp),
    /// List language servers, and why each that is off is off; check a file with them
    Lsp(Lsp),
    /// List plugins with their status, hooks and tools
    Plugins(Plugins),
    /// Keep sessions in PostgreSQL, where nodes on several machines share them
    Fleet(Fleet),
    /// Run the calls of sessions beside a workspace, for nodes on other machines
    Executor(Executor),
    /// Show the settings in effect, and where each value comes from
    Config(Config),
    /// Show the project's settings that need your trust and the texts that calls have changed, and trust them
    Trust(Trust),
    /// Run one tool without a model, or print its schema
    Tool(Tool),
    /// Check settings, keys, servers and this machine, or a session file of another agent
    Doctor(Doctor),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page of Leftfold or of one command
    Man(Man),
    /// Run a call's shell command in a terminal that an ACP client has opened for it
    #[command(name = leftfold_runtime::IN_TERMINAL, hide = true)]
    InTerminal(InTerminal),
}

impl Cli {
    /// The command, if only people may run it: it answers a question, changes a session that
    /// exists, or changes what the user has stored.
    pub(crate) fn for_people(&self) -> Option<&'static str> {
        match &self.command {
            Some(command) => command.for_people(),
            None => (self.conversation.session.is_some() || self.conversation.r#continue)
                .then_some("leftfold --continue"),
        }
    }
}

impl Command {
    fn for_people(&self) -> Option<&'static str> {
        match self {
            Self::Run(run) => {
                (run.session.is_some() || run.r#continue).then_some("leftfold run --continue")
            }
            Self::Resume(_) => Some("leftfold resume"),
            Self::Fork(_) => Some("leftfold fork"),
            Self::Import(_) => Some("leftfold import"),
            Self::Compact(_) => Some("leftfold compact"),
            Self::Revert(_) => Some("leftfold revert"),
            Self::Unrevert(_) => Some("leftfold unrevert"),
            Self::Permission(permission) => match permission.command {
                PermissionCommand::Answer(_) => Some("leftfold permission answer"),
                PermissionCommand::Forget(_) => Some("leftfold permission forget"),
                PermissionCommand::Check(_) | PermissionCommand::List { .. } => None,
            },
            Self::Sessions(sessions) => match sessions.command {
                Some(SessionsCommand::Rm { .. }) => Some("leftfold sessions rm"),
                Some(SessionsCommand::Prune(_)) => Some("leftfold sessions prune"),
                Some(SessionsCommand::List(_) | SessionsCommand::Show { .. }) | None => None,
            },
            Self::Trust(trust) => (!trust.show).then_some("leftfold trust"),
            Self::Auth(auth) => match auth.command {
                AuthCommand::Login { .. } => Some("leftfold auth login"),
                AuthCommand::Logout { .. } => Some("leftfold auth logout"),
                AuthCommand::List { .. } => None,
            },
            Self::Mcp(mcp) => match mcp.command {
                Some(McpCommand::Login(_)) => Some("leftfold mcp login"),
                Some(McpCommand::Logout(_)) => Some("leftfold mcp logout"),
                Some(McpCommand::Probe(_)) | None => None,
            },
            Self::Serve(_) => Some("leftfold serve"),
            Self::View(_) => Some("leftfold view"),
            Self::Demo(_)
            | Self::Node
            | Self::Replay(_)
            | Self::Verify(_)
            | Self::Rerun(_)
            | Self::Why(_)
            | Self::Explain(_)
            | Self::Check(_)
            | Self::Export(_)
            | Self::Share(_)
            | Self::Unshare(_)
            | Self::Diff(_)
            | Self::Stats(_)
            | Self::Observe(_)
            | Self::Models(_)
            | Self::Agents(_)
            | Self::Lsp(_)
            | Self::Plugins(_)
            | Self::Fleet(_)
            | Self::Executor(_)
            | Self::Config(_)
            | Self::Tool(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::InTerminal(_) => None,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = examples::RUN)]
pub(crate) struct Run {
    /// The prompt; with `-` or without one it is read from standard input. Beside a prompt, text from a pipe is added
    /// to it
    #[arg(value_name = "PROMPT")]
    pub(crate) words: Vec<String>,
    /// Continue this session
    #[arg(long, value_name = "SESSION", conflicts_with = "continue")]
    pub(crate) session: Option<String>,
    /// Continue the project's latest session
    #[arg(long, short = 'c')]
    pub(crate) r#continue: bool,
    /// Fork the session and continue in the fork; the original does not change
    #[arg(long)]
    pub(crate) fork: bool,
    /// Work in the workspace of this executor, which settings name under `executors`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue", "fork"])]
    pub(crate) executor: Option<String>,
    #[command(flatten)]
    pub(crate) prompted: PromptArgs,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

/// Options of a new prompt.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PromptArgs {
    /// Send this file with the prompt: text, an image or a PDF; `-` is standard input (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// Answer with JSON that fits the JSON Schema in this file, and print only that; asked again once, then exit 1
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
}

/// Options of a turn, new or resumed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TurnArgs {
    /// The model to use, as PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The agent that takes the prompt [default: the session's last agent, or `build`]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// End the turn after N steps (requests to the model)
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,
    /// End the turn once it has cost this many US dollars
    #[arg(long, value_name = "USD", value_parser = amounts::dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Time limit for the turn, counted from its prompt: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "DURATION", value_parser = amounts::milliseconds)]
    pub(crate) timeout: Option<u64>,
    /// A named set of model options, such as low, medium or high
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Text to add to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Allow everything that permission rules would ask about
    #[arg(long)]
    pub(crate) yes: bool,
    /// Answers to permission questions in advance [default: ask on a terminal, deny otherwise]
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "yes")]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Exit with 3 if the turn completes although calls of it were denied
    #[arg(long)]
    pub(crate) fail_on_denied: bool,
    /// Also write the final answer of a completed turn to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also write a report of the session to this file: .md (Markdown), .html (a page) or .xml (JUnit)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The form of the answer, from `--output-schema`.
    #[arg(skip)]
    pub(crate) form: Option<StructuredOutput>,
}

/// Whether a person can type answers: standard input and standard error are terminals.
pub(crate) fn somebody_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl TurnArgs {
    /// Turns the options into overrides of the settings. Without `--yes` and `--permission-mode`,
    /// questions are asked on a terminal and denied elsewhere.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            model: self.model.clone(),
            agent: self.agent.clone(),
            variant: self.variant.clone(),
            max_steps: self.max_steps,
            max_cost: self.max_cost,
            timeout: self.timeout,
            system: self.system.clone(),
            output: self.form.clone(),
            ..of_mode(self.permission_mode, self.yes, somebody_there())
        }
    }

    /// The given options that only the node of a session can apply.
    pub(crate) fn of_a_node(&self) -> Vec<&'static str> {
        let is_given = self.yes || self.permission_mode == Some(PermissionMode::Deny);
        let ask = if is_given { self.overrides().ask } else { AskMode::Ask };
        Overrides { ask, ..self.overrides() }.options()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// How text for people is shown on a terminal.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct PageArgs {
    /// When to use colours; `auto` does on a terminal, unless NO_COLOR is set
    #[arg(long, value_enum, default_value_t, value_name = "WHEN", global = true)]
    pub(crate) color: Colour,
    /// Print everything at once, also on a terminal
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionMode {
    /// Ask about every call that a rule asks about
    Ask,
    /// Deny every call that a rule asks about
    Deny,
    /// Make edits inside the project without asking; the rest as by default
    AcceptEdits,
    /// Run commands that stay in the sandbox without asking; the rest as by default
    Sandbox,
}

/// The overrides of `--permission-mode` or `--yes`. `is_answered` says whether a person can answer questions.
fn of_mode(mode: Option<PermissionMode>, yes: bool, is_answered: bool) -> Overrides {
    let usual = if is_answered { AskMode::Ask } else { AskMode::Deny };
    let ask = match mode {
        _ if yes => AskMode::Allow,
        Some(PermissionMode::Ask) => AskMode::Ask,
        Some(PermissionMode::Deny) => AskMode::Deny,
        Some(PermissionMode::AcceptEdits | PermissionMode::Sandbox) | None => usual,
    };
    Overrides {
        ask,
        accept_edits: mode == Some(PermissionMode::AcceptEdits),
        allow_in_sandbox: mode == Some(PermissionMode::Sandbox),
        ..Overrides::default()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::FORK)]
pub(crate) struct Fork {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// The last event to share [default: the session's last]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Also restore the project's files to their state at that event; the current files are saved
    #[arg(long)]
    pub(crate) files: bool,
    /// Run this prompt in the fork, as `run` does; without one, only the fork's id is printed
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) prompted: PromptArgs,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Instructions for the model that writes the summary
    pub(crate) instructions: Option<String>,
    /// The model to use, as PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// An event of the first prompt or step to revert
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) to: u64,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Unrevert {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; one that others can reach needs LEFTFOLD_SERVER_PASSWORD
    #[arg(long, value_name = "H", default_value = "127.0.0.1")]
    pub(crate) hostname: String,
    /// Port to listen on; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) port: u16,
    /// Let pages of this origin use the server (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors: Vec<String>,
    /// Directory of requests that name none [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Let new sessions work in the workspace of this executor, which settings name under `executors`
    #[arg(long, value_name = "NAME", conflicts_with = "directory")]
    pub(crate) executor: Option<String>,
    /// Front end to show in a browser in place of Leftfold's page: a folder with index.html, or the address of a server
    #[arg(long, value_name = "DIR|URL")]
    pub(crate) web: Option<String>,
    /// Accepted from OpenCode's SDK, and ignored: LEFTFOLD_LOG says what is logged
    #[arg(long, value_name = "LEVEL", hide = true)]
    pub(crate) log_level: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct View {
    /// A session id, a unique prefix of one, `last`, or a session's folder [default: the list of all sessions]
    pub(crate) session: Option<String>,
    /// Print the address, and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Port to listen on at 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Where to put the demo project (a folder that does not exist yet)
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = examples::OBSERVE)]
pub(crate) struct Observe {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Observe all sessions, also those that start later
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
    /// With --all: only sessions of the project that this folder belongs to
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Start at this event; every subagent that was still running there, or started later, is shown
    /// too. SESSION:SEQ sets the start of one subagent, or with --all of one session (repeatable).
    /// `now` shows only new events [default: 1]
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Vec<From>,
    /// Only events of this type, such as `tool.*` (repeatable)
    #[arg(long = "type", value_name = "GLOB")]
    pub(crate) kinds: Vec<String>,
    /// End as soon as no turn of the session is running
    #[arg(long, conflicts_with = "all")]
    pub(crate) until_idle: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = examples::PERMISSION)]
pub(crate) struct Permission {
    #[command(subcommand)]
    pub(crate) command: PermissionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionCommand {
    /// Answer an open question of a running session
    Answer(PermissionAnswer),
    /// Show which rule decides about a permission and a pattern
    Check(PermissionCheck),
    /// List what "always" has allowed in this project
    List {
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Take back what "always" has allowed; running sessions ask again from their next turn on
    Forget(PermissionForget),
}

#[derive(Debug, Args)]
pub(crate) struct PermissionForget {
    /// The ids that `leftfold permission list` prints
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Everything that "always" has allowed in this project
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PermissionAnswer {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// The model's id of the call, or the seq of its `permission.asked` or `tool.called`
    pub(crate) call: String,
    /// Allow this call, allow it and all that match its pattern from now on, or reject it
    #[arg(value_enum)]
    pub(crate) reply: PermissionReply,
    /// A text for the model; a rejection with it does not end the turn
    #[arg(long, value_name = "TEXT")]
    pub(crate) feedback: Option<String>,
    /// A pattern that `always` allows instead of those of the question; may be repeated
    #[arg(long = "pattern", value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionReply {
    Once,
    Always,
    Reject,
}

impl PermissionReply {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "always",
            Self::Reject => "reject",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PermissionCheck {
    /// Include the rules of this agent, built-in ones too [default: only the rules of defaults and
    /// settings]
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Use only these rules, instead of defaults, settings and agent: a list of {permission,
    /// pattern, action}; the last match wins
    #[arg(long, value_name = "JSON")]
    pub(crate) rules: Option<String>,
    /// The permission, such as `bash` or `edit`
    pub(crate) permission: String,
    /// The subject of the permission, such as a command line or a path
    pub(crate) pattern: String,
    /// Output format [default: text on a terminal, JSON elsewhere]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Agents {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Show only this key and the keys below it, such as `retry` or `provider.local.options`
    pub(crate) key: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Print the JSON Schema of a settings file, for editors
    #[arg(long, conflicts_with_all = ["key", "format"])]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Tool {
    /// The name of the tool, such as `read` or `bash`
    pub(crate) name: String,
    /// The arguments as a JSON object
    #[arg(long, value_name = "JSON", required_unless_present = "schema")]
    pub(crate) args: Option<String>,
    /// Print the JSON Schema of the arguments
    #[arg(long, conflicts_with = "args")]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::SESSIONS)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// The sessions to list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only sessions of this project: its folder, or the folder's name [without NAME: the current project]
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub(crate) project: Option<Option<String>>,
    /// Only the N sessions with the newest events
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List every root session and every fork, newest first (the default)
    List(ListArgs),
    /// Show details of one session, and the files it has changed
    Show {
        /// A session id, a unique prefix of one, `last`, or a session's folder
        #[arg(default_value = "last")]
        session: String,
    },
    /// Remove sessions with their children, payloads and spilled output; a session that has forks
    /// stays
    Rm {
        /// Session ids, unique prefixes, `last`, or folders of sessions
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Remove old sessions, the longest idle first
    Prune(Prune),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_command_in_one_group() {
        let command = Cli::command();
        let names: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for shown in command.get_subcommands().filter(|shown| !shown.is_hide_set()) {
            let name = shown.get_name();
            assert_eq!(names.iter().filter(|listed| **listed == name).count(), 1, "{name}");
        }
        let unknown = names.iter().filter(|name| command.find_subcommand(name).is_none());
        assert_eq!(unknown.collect::<Vec<_>>(), [&"help"]);
        let help = grouped(command).render_help().to_string();
        for part in ["Debugging:\n  why ", "Options:\n", "Examples:\n", " [alias: acp]"] {
            assert!(help.contains(part), "{part:?} in {help}");
        }
    }
}
