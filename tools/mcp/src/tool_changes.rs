//! Tells of servers that have other tools than before.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tokio::sync::broadcast;

/// The directories of projects, and the servers whose tools have changed.
static CHANGES: LazyLock<broadcast::Sender<(PathBuf, String)>> =
    LazyLock::new(|| broadcast::channel(64).0);

/// Gives from now on the directory of a project and the name of one of its servers whenever the server has other tools
/// than before, also after its start.
pub fn changes() -> broadcast::Receiver<(PathBuf, String)> {
    CHANGES.subscribe()
}

pub(super) fn changed(directory: &Path, server: &str) {
    // nobody may listen
    let _ = CHANGES.send((directory.to_owned(), server.to_owned()));
}
