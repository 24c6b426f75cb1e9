//! Arguments of `leftfold fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::amounts::milliseconds;
use super::{Format, examples};

#[derive(Debug, Args)]
#[command(after_help = examples::FLEET)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Create the tables in a PostgreSQL database, or bring them up to date
    Init {
        /// The database [default: the one of --store]
        #[arg(value_name = "URL")]
        url: Option<String>,
    },
    /// Show how many nodes there are, which sessions wait for one, and how the server is set up
    Status(Shown),
    /// List the nodes, with their leases and how many sessions they own
    Nodes(Shown),
    /// Ask a node to hand its sessions over and end, and wait until it has
    Drain(Drain),
    /// Bind a session whose host is dead to another host, whose nodes then go on with it
    Move(Move),
    /// Remove sessions that have rested for long, and what nobody needs any more
    Gc(Gc),
    /// Copy sessions from this machine into the store of --store, byte for byte; the originals stay
    Import {
        /// Folders of sessions, or a folder with many of them, such as the data folder
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The node: its id, or the beginning of it, as `leftfold fleet nodes` shows it
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
    /// The database [default: the one of --store]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Give up waiting after this time, for instance 90s or 5m; the node still goes on handing over
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = milliseconds)]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The session: its id, or the beginning of it. Its subagents and forks move with it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The database [default: the one of --store]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The name of the new host, as its nodes have it (`leftfold fleet nodes`)
    #[arg(long = "to", visible_alias = "host", value_name = "HOST")]
    pub(crate) to: String,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// The database [default: the one of --store]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Remove sessions without an event for so many days, each with its subagents and forks [default: remove none]
    #[arg(long, value_name = "DAYS")]
    pub(crate) older_than: Option<u32>,
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// The database [default: the one of --store]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}
