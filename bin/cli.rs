//! The command line.

mod amounts;
mod log;
mod peers;

use std::io::IsTerminal;
use std::path::PathBuf;

use leftfold_events::turn_config::AskMode;
use leftfold_runtime::turn_config::Overrides;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::log::*;
pub(crate) use self::peers::*;

/// A coding agent whose every step is an event in a durable log.
///
/// Without a command: a conversation on this terminal.
#[derive(Debug, Parser)]
#[command(name = "leftfold", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// What a conversation can be given.
#[derive(Debug, Args)]
pub(crate) struct Talk {
    /// Go on with this session
    #[arg(long, value_name = "SESSION", conflicts_with = "continue")]
    pub(crate) session: Option<String>,
    /// Go on with the project's latest session
    #[arg(long, short = 'c')]
    pub(crate) r#continue: bool,
    /// PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The agent that takes the prompts
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Allow whatever would be asked
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take one prompt to its end
    Run(Run),
    /// Go on with a turn that a crash or an interrupt cut off
    Resume(Resume),
    /// Watch a small project being repaired; needs no key
    Demo(Demo),
    /// Stay, and speak the Agent Client Protocol over standard input and output
    #[command(visible_alias = "acp")]
    Node(Node),
    /// Show what happened in a session, without running anything
    Replay(Replay),
    /// Compare a session's decisions with what this version would decide
    Verify(Verify),
    /// Run sessions again on what their logs were told, and compare; reaches nothing but the logs
    Rerun(Rerun),
    /// What a session waits for, since when and until when
    Why(Why),
    /// What a model was asked: from which events, and what was left out
    Explain(Explain),
    /// Look for damage in sessions
    Check(Check),
    /// Print a session as JSON lines
    Export(Export),
    /// Go on from any point of a session, in one of its own that shares what was before
    Fork(Fork),
    /// Take in what `export` has printed, or a session of Claude Code, Codex or OpenCode
    Import(Import),
    /// Where two sessions part, and how they differ after
    Diff(Diff),
    /// Tokens, cost and tools of all sessions
    Stats(Stats),
    /// Replace what a session's model has seen by a summary
    Compact(Compact),
    /// Take files and messages of a session back to before a step or prompt
    Revert(Revert),
    /// Bring back what the last revert has taken away
    Unrevert(Unrevert),
    /// Watch a session: what has happened so far, then as it happens
    Observe(Observe),
    /// Ask what the rules say, or answer what they ask
    Permission(Permission),
    /// List, show and remove sessions
    Sessions(Sessions),
    /// List providers and models: limits, prices, abilities, variants
    Models(Models),
    /// Keep the keys of providers
    Auth(Auth),
    /// List the agents, and where each comes from
    Agents(Agents),
    /// List the MCP servers: how each does, and its tools; try one out; sign in at one
    Mcp(Mcp),
    /// List the plugins: how each does, its hooks and tools
    Plugins(Plugins),
    /// Show the settings in force, and where each value comes from
    Config(Config),
    /// Run one tool without a model, or print its schema
    Tool(Tool),
    /// What is in force here, what is wrong with it, and what to do
    Doctor(Doctor),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page, of all or of one command
    Man(Man),
    /// Become the shell of a call, in a terminal that a client has opened for it
    #[command(name = leftfold_runtime::IN_TERMINAL, hide = true)]
    InTerminal(InTerminal),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The prompt; `-` or nothing reads it from standard input
    pub(crate) prompt: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "SESSION", conflicts_with = "continue")]
    pub(crate) session: Option<String>,
    /// Go on with the project's latest session
    #[arg(long, short = 'c')]
    pub(crate) r#continue: bool,
    /// Go on in a fork of that session, which stays as it is
    #[arg(long)]
    pub(crate) fork: bool,
    /// Send this file with the prompt: text, an image or a PDF (may be given several times)
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

/// What a turn can be given, new or resumed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TurnArgs {
    /// PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The agent that takes the prompt; the default is the session's last, or `build`
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Requests to the model at most
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,
    /// US dollars that the turn may cost: past that, no model is asked any more
    #[arg(long, value_name = "USD", value_parser = amounts::dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Time for the turn, counted from its prompt: seconds, or 90s, 5m, 1h
    #[arg(long, value_name = "DURATION", value_parser = amounts::milliseconds)]
    pub(crate) timeout: Option<u64>,
    /// Use this set of the model's options, such as low, medium or high
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Add this to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Allow whatever would be asked
    #[arg(long)]
    pub(crate) yes: bool,
    /// What becomes of permission questions: the default is to ask on a terminal and to deny elsewhere
    #[arg(long, value_enum, conflicts_with = "yes")]
    pub(crate) permission_mode: Option<PermissionMode>,
}

/// Whether a person sits at this terminal.
pub(crate) fn somebody_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl Talk {
    /// The conversation that these options ask for.
    pub(crate) fn start(self) -> leftfold_terminal::Start {
        let ask = if self.yes { AskMode::Allow } else { AskMode::Ask };
        let last = self.r#continue.then(|| "last".to_owned());
        let overrides =
            Overrides { model: self.model, agent: self.agent, ask, ..Overrides::default() };
        leftfold_terminal::Start { session: last.or(self.session), overrides }
    }
}

impl TurnArgs {
    /// What these options ask for. Without a word about questions, they are asked on a terminal and
    /// denied elsewhere.
    pub(crate) fn overrides(&self) -> Overrides {
        let ask = match self.permission_mode {
            _ if self.yes => AskMode::Allow,
            Some(PermissionMode::Ask) => AskMode::Ask,
            Some(PermissionMode::Deny) => AskMode::Deny,
            None if somebody_there() => AskMode::Ask,
            None => AskMode::Deny,
        };
        Overrides {
            model: self.model.clone(),
            agent: self.agent.clone(),
            variant: self.variant.clone(),
            max_steps: self.max_steps,
            max_cost: self.max_cost,
            timeout: self.timeout,
            system: self.system.clone(),
            ask,
        }
    }

    /// The options given that are for the node of a session to follow.
    pub(crate) fn of_a_node(&self) -> Vec<&'static str> {
        let denies = self.permission_mode == Some(PermissionMode::Deny);
        let given = [
            (self.model.is_some(), "--model"),
            (self.max_steps.is_some(), "--max-steps"),
            (self.yes, "--yes"),
            (denies, "--permission-mode deny"),
        ];
        given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option).collect()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionMode {
    Ask,
    Deny,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// The last event that is shared; the default is the session's last
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Put the project's files back as they were there; what they are now is kept
    #[arg(long)]
    pub(crate) files: bool,
    /// Taken to its end in the fork, as `run` does; without one, the fork's id is printed
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// An event of the prompt or step that is the first to go
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) to: u64,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Unrevert {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Keep all sessions in this one store, with one flush for all of them
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Where to put the demo project (a folder that does not exist yet)
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// An id, a unique beginning of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// From this event of the session on, with all of the children that had not ended there; a
    /// child is shown from an event of its own on with CHILD:SEQ [default: 1]
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Vec<From>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Permission {
    #[command(subcommand)]
    pub(crate) command: PermissionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionCommand {
    /// Answer an open question of a running session
    Answer(PermissionAnswer),
    /// What the rules say of a permission and a pattern
    Check(PermissionCheck),
}

#[derive(Debug, Args)]
pub(crate) struct PermissionAnswer {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// The model's id of the call, or the seq of its `permission.asked` or `tool.called`
    pub(crate) call: String,
    #[arg(value_enum)]
    pub(crate) reply: PermissionReply,
    /// What the model is told; with it, a rejection does not end the turn
    #[arg(long, value_name = "TEXT")]
    pub(crate) feedback: Option<String>,
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
    /// With the rules of this agent, its built-in ones included; without it, defaults and settings alone
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only these rules, without defaults, settings and agent: a list of {permission, pattern, action}; the last match wins
    #[arg(long, value_name = "JSON")]
    pub(crate) rules: Option<String>,
    pub(crate) permission: String,
    pub(crate) pattern: String,
}

#[derive(Debug, Args)]
pub(crate) struct Agents {
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Only what is under this key, such as `retry` or `provider.local.options`
    pub(crate) key: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Print the JSON Schema of a settings file, for editors
    #[arg(long, conflicts_with_all = ["key", "format"])]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The arguments as a JSON object
    #[arg(long, value_name = "JSON", required_unless_present = "schema")]
    pub(crate) args: Option<String>,
    /// Print the JSON Schema of the arguments
    #[arg(long, conflicts_with = "args")]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// Every root session and every fork, the newest first (the default)
    List,
    /// What is known of one session, with what it has changed
    Show { session: String },
    /// Remove sessions, with their children, payloads and spilled output; not one that has forks
    Rm {
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Remove old sessions, those that are longest at rest first
    Prune(Prune),
}
