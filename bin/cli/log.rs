//! What the commands that read logs can be given.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use leftfold_events::{Seq, SessionId};

use super::Format;
use super::amounts;

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Only up to and with this event
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["from", "to"])]
    pub(crate) at: Option<u64>,
    /// From this event on
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Up to and with this event
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<u64>,
    /// Print the state there as one JSON object with sorted keys
    #[arg(long)]
    pub(crate) state: bool,
    /// Walk through it event by event, forward and back: commands are read from standard input
    #[arg(long, conflicts_with = "state")]
    pub(crate) step: bool,
    /// Only events of this type, such as `tool.*` (may be given several times)
    #[arg(long = "type", value_name = "GLOB")]
    pub(crate) kinds: Vec<String>,
    /// Only events of calls of this tool
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Only events with this text in them, upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    /// Every divergence, not only the first of each session
    #[arg(long)]
    pub(crate) all: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Rerun {
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[arg(required = true)]
    pub(crate) sessions: Vec<String>,
    /// Write all that can still be read into a new store in this folder, and what makes no log
    /// into `lost+found` in it
    #[arg(long, value_name = "DIR")]
    pub(crate) salvage: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    pub(crate) session: String,
    /// Leave tokens as they are: only such an export can be verified once it is imported again
    #[arg(long)]
    pub(crate) unmasked: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ExportFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    #[default]
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// An id, a unique beginning of one, `last`, or a session's folder
    #[arg(default_value = "last")]
    pub(crate) session: String,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) session: String,
    /// Any event; of a `model.requested` the whole request is rebuilt
    pub(crate) seq: u64,
    /// Print the request itself, byte for byte, as canonical JSON
    #[arg(long)]
    pub(crate) request: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// A file that `export` has printed, or in which Claude Code, Codex or OpenCode keeps a session; `-` reads
    /// standard input
    pub(crate) file: PathBuf,
    /// Whose session it is; without this the file tells
    #[arg(long, value_name = "AGENT", value_enum)]
    pub(crate) from: Option<leftfold_import::Origin>,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// An id, a unique beginning of one, `last`, or a session's folder
    pub(crate) a: String,
    /// Another one
    pub(crate) b: String,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Only the last days
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u64>,
    /// Only this project's sessions
    #[arg(long)]
    pub(crate) project: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Sessions that have been at rest for so many days
    #[arg(long, value_name = "DAYS", required_unless_present_any = ["max_size", "unused"])]
    pub(crate) older_than: Option<u64>,
    /// Sessions until all of them together take up no more than this: bytes, or 500K, 200M, 2G
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    pub(crate) max_size: Option<u64>,
    /// Only files that no session refers to any more; they go with any other choice, too
    #[arg(long)]
    pub(crate) unused: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Where to begin, as the command line has it: `SEQ`, or `SESSION:SEQ` for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct From {
    pub(crate) child: Option<SessionId>,
    pub(crate) seq: Seq,
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (child, seq) = match text.split_once(':') {
            Some((child, seq)) => (Some(child.parse().map_err(|e| format!("{e}"))?), seq),
            None => (None, text),
        };
        match seq.parse() {
            Ok(seq) if seq > 0 => Ok(Self { child, seq }),
            Ok(_) | Err(_) => Err("expected a seq from 1 on, or CHILD:SEQ".to_owned()),
        }
    }
}
