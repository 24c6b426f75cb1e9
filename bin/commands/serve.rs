//! `leftfold serve`: OpenCode's API over HTTP.

use std::sync::Arc;

use anyhow::Context;
use leftfold_actors::NodeMessage;
use leftfold_http::ServeOptions;
use leftfold_runtime::Usage;
use leftfold_runtime::ractor::ActorRef;
use leftfold_runtime::socket::SessionRegistry;
use leftfold_store::Store;

use crate::cli;

/// Registers the protocols that other processes may speak with a node of this process.
pub(crate) fn register(
    sessions: &Arc<SessionRegistry>,
    node: &ActorRef<NodeMessage>,
    _store: &Store,
) {
    sessions.speaks(leftfold_acp::PROTOCOL, leftfold_acp::speaker(sessions, node));
}

/// # Errors
/// The directory does not exist.
pub(crate) fn options(args: cli::Serve) -> anyhow::Result<ServeOptions> {
    let cli::Serve { hostname, port, store, cors, directory, web, log_level: _ } = args;
    let directory = match directory {
        Some(directory) => directory
            .canonicalize()
            .map_err(|error| Usage(format!("--directory {}: {error}", directory.display())))?,
        None => std::env::current_dir().context("the current directory")?,
    };
    Ok(ServeOptions { hostname, port, store, cors, directory, web })
}
