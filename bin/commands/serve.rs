//! `leftfold serve`: OpenCode's API over HTTP.

use anyhow::Context;
use leftfold_http::ServeOptions;
use leftfold_runtime::Usage;

use crate::cli;

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
