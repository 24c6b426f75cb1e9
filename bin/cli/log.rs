//! Arguments of the commands that read logs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use leftfold_events::{Seq, SessionId};
use leftfold_export::{FORMATS, Format as ExportFormat};

use super::{Format, PageArgs};
use super::{amounts, examples};

#[derive(Debug, Args)]
#[command(after_help = examples::REPLAY)]
pub(crate) struct Replay {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Stop after this event
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["from", "to"])]
    pub(crate) at: Option<u64>,
    /// Start at this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Stop after this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<u64>,
    /// Print the state after the last event as one JSON object with sorted keys
    #[arg(long)]
    pub(crate) state: bool,
    /// Walk through the events one by one, forward and back; reads commands from standard input
    #[arg(long, conflicts_with = "state")]
    pub(crate) step: bool,
    /// Only events of this type, such as `tool.*` (repeatable)
    #[arg(long = "type", value_name = "GLOB")]
    pub(crate) kinds: Vec<String>,
    /// Only events of calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only events that contain this text, in upper or lower case; shows where, with the match in »«
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Also the bookkeeping: the steps of a call before it runs, its output so far, empty snapshots.
    /// `--type`, `--text` and `--step` include it
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Session ids, unique prefixes, `last`, or folders of sessions
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    /// Show every divergence, not only the first of each session
    #[arg(long)]
    pub(crate) all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Rerun {
    /// Session ids, unique prefixes, `last`, or folders of sessions
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    /// Encode every request again, and decode every recorded answer again
    #[arg(long)]
    pub(crate) wire: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = examples::CHECK)]
pub(crate) struct Check {
    /// Session ids, unique prefixes, `last`, or folders of sessions
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    /// Write everything that can still be read into a new store in this folder; the store's
    /// `lost+found` gets the pieces that form no log
    #[arg(long, value_name = "DIR")]
    pub(crate) salvage: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A session id, a unique prefix of one, `last`, or a session's folder; SQLite and OpenTelemetry take several
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    /// All sessions and forks, for SQLite and OpenTelemetry
    #[arg(long)]
    pub(crate) all: bool,
    /// Send to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT
    #[arg(long)]
    pub(crate) send: bool,
    /// With --all and --send: go on with what was not sent yet, and follow all sessions until interrupted
    #[arg(long)]
    pub(crate) follow: bool,
    /// Do not mask tokens and keys; only an unmasked export can be verified after its import
    #[arg(long)]
    pub(crate) unmasked: bool,
    /// Add the snapshots of the project's files, unmasked, and a hash of everything
    #[arg(long)]
    pub(crate) bundle: bool,
    /// Compare with this session, such as a fork, in the page of `--format html`
    #[arg(long, value_name = "SESSION")]
    pub(crate) compare: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Output format
    #[arg(long, value_parser = export_format(), default_value = FORMATS[0].name)]
    pub(crate) format: &'static ExportFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Share {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Write to this file instead of one in the data directory
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Unshare {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
}

/// Reads the name of an export's format.
fn export_format() -> impl TypedValueParser<Value = &'static ExportFormat> {
    let names = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.help));
    let find = |name: String| FORMATS.iter().find(|format| format.name == name);
    PossibleValuesParser::new(names).map(move |name| find(name).unwrap_or(&FORMATS[0]))
}

#[derive(Debug, Args)]
#[command(after_help = examples::WHY)]
pub(crate) struct Why {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::EXPLAIN)]
pub(crate) struct Explain {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Any event; for a `model.requested` the whole request is rebuilt
    pub(crate) seq: u64,
    /// Print the request itself, byte for byte, as canonical JSON
    #[arg(long)]
    pub(crate) request: bool,
    /// Print the request as the body that went to the provider, and check it against the hash in the log
    #[arg(long, requires = "request")]
    pub(crate) wire: bool,
    /// Show how the body would differ for another vendor of the same wire format, such as `mistral`
    #[arg(long = "as", value_name = "VENDOR", requires = "wire")]
    pub(crate) other: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::IMPORT)]
pub(crate) struct Import {
    /// A file that `export` has printed, also a bundle, or a session file of Claude Code, Codex or OpenCode; `-`
    /// reads standard input
    pub(crate) file: PathBuf,
    /// The agent that wrote the file [default: detected from the file]
    #[arg(long, value_name = "AGENT", value_enum)]
    pub(crate) from: Option<leftfold_import::Origin>,
}

#[derive(Debug, Args)]
#[command(after_help = examples::DIFF)]
pub(crate) struct Diff {
    /// A session id, a unique prefix of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// Another session: show where the two part, and how they differ after that
    #[arg(value_name = "OTHER", conflicts_with_all = ["turn", "step", "stat", "tree"])]
    pub(crate) other: Option<String>,
    /// Only the changes of this turn, counted from 1
    #[arg(long, value_name = "N", conflicts_with = "step")]
    pub(crate) turn: Option<usize>,
    /// Only the changes of the step that holds this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) step: Option<u64>,
    /// All changes of the project's files, whoever made them: since the last commit or, without a repository,
    /// since the session's first snapshot
    #[arg(long, conflicts_with_all = ["turn", "step"])]
    pub(crate) tree: bool,
    /// Show only the changed files and the numbers of lines
    #[arg(long)]
    pub(crate) stat: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Count only the last N days
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u64>,
    /// Show only the N tools with the most calls
    #[arg(long, value_name = "N")]
    pub(crate) tools: Option<usize>,
    /// Count only sessions of this project: its folder, or the folder's name [without NAME: the current project]
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub(crate) project: Option<Option<String>>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Remove sessions that have been idle for this many days
    #[arg(long, value_name = "DAYS")]
    pub(crate) older_than: Option<u64>,
    /// Remove sessions until all together take up at most this size: bytes, or 500K, 200M, 2G
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    pub(crate) max_size: Option<u64>,
    /// Remove only files that no session refers to; the other options remove these files too
    #[arg(long)]
    pub(crate) unused: bool,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A start of `observe`, as the command line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// `now`: after the last event so far.
    Now,
    /// `SEQ`: this event of the observed session.
    Seq(Seq),
    /// `SESSION:SEQ`: this event of another session.
    Session(SessionId, Seq),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "now" {
            return Ok(Self::Now);
        }
        let (session, seq) = match text.split_once(':') {
            Some((session, seq)) => (Some(session.parse().map_err(|e| format!("{e}"))?), seq),
            None => (None, text),
        };
        match (seq.parse(), session) {
            (Ok(seq), Some(session)) if seq > 0 => Ok(Self::Session(session, seq)),
            (Ok(seq), None) if seq > 0 => Ok(Self::Seq(seq)),
            (Ok(_) | Err(_), _) => {
                Err("expected a seq from 1 on, SESSION:SEQ, or `now`".to_owned())
            }
        }
    }
}
