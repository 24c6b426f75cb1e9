//! `leftfold serve`: OpenCode's API over HTTP, and the page of runs. `leftfold view` shows the page.

use std::io;
use std::sync::Arc;

use anyhow::Context;
use leftfold_http::{PageToOpen, ServeOptions};
use leftfold_runtime::sign_in::LaterBrowser;
use leftfold_runtime::{Usage, session_paths};

use crate::cli;

/// # Errors
/// The directory does not exist.
pub(crate) fn options(args: cli::Serve) -> anyhow::Result<ServeOptions> {
    let cli::Serve { hostname, port, cors, directory, executor, web, log_level: _ } = args;
    let directory = match directory {
        Some(directory) => directory
            .canonicalize()
            .map_err(|error| Usage(format!("--directory {}: {error}", directory.display())))?,
        None => std::env::current_dir().context("the current directory")?,
    };
    let store = None;
    Ok(ServeOptions { hostname, port, store, cors, directory, executor, web, page: None })
}

/// The options of the server whose page `leftfold view` shows.
///
/// # Errors
/// There is no such session.
pub(crate) fn view(args: &cli::View) -> anyhow::Result<ServeOptions> {
    let place = args.session.as_deref().map(super::place).transpose()?;
    let mut store = None;
    if let Some(place) = &place {
        let known = session_paths::stores()?;
        // a session's folder that is elsewhere
        if !known.contains(&place.store) {
            store = Some(place.store.clone());
        }
    }
    let browser = match args.no_open {
        true => None,
        false => LaterBrowser::prepare().map(Arc::new).inspect_err(no_browser).ok(),
    };
    Ok(ServeOptions {
        hostname: "127.0.0.1".to_owned(),
        port: args.port,
        store,
        cors: Vec::new(),
        directory: std::env::current_dir().context("the current directory")?,
        executor: None,
        web: None,
        page: Some(PageToOpen { session: place.map(|place| place.session), browser }),
    })
}

fn no_browser(error: &io::Error) {
    leftfold_runtime::note(&format!("leftfold: no browser opens: {error}"));
}
