//! Tells clients that another branch was checked out in a directory, by a session or by anybody else.
//!
//! A branch is one line of a small file, so it is read again and again while there are clients. No files are watched.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::feed::Feed;

/// How often the branches are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Directories whose branches are read.
const MAX_DIRECTORIES: usize = 256;

/// The branches that clients know, by directory.
#[derive(Debug, Default)]
pub(crate) struct Branches(Mutex<HashMap<PathBuf, Option<String>>>);

impl Branches {
    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The branch of a directory that a client asks for. It hears of later changes.
    pub(crate) fn for_directory(&self, directory: &Path) -> Option<String> {
        let branch = read(directory);
        self.note(directory.to_owned(), branch.clone());
        branch
    }

    /// Keeps a branch. True: clients know another one.
    fn note(&self, directory: PathBuf, branch: Option<String>) -> bool {
        let mut known = self.known();
        if known.len() >= MAX_DIRECTORIES && !known.contains_key(&directory) {
            return false;
        }
        match known.entry(directory) {
            Entry::Vacant(entry) => {
                entry.insert(branch);
                false
            }
            Entry::Occupied(mut entry) => {
                let is_other = *entry.get() != branch;
                entry.insert(branch);
                is_other
            }
        }
    }
}

fn read(directory: &Path) -> Option<String> {
    leftfold_files::branch(&leftfold_config::worktree_of(directory))
}

/// The branch of a directory as clients get it.
pub(crate) fn shown(branch: Option<String>) -> Value {
    branch.map_or_else(|| json!({}), |branch| json!({ "branch": branch }))
}

/// Reads the branches of the directories that clients have asked for, and of loaded sessions, and sends the changes.
pub(crate) fn tell_of_changes(branches: &Arc<Branches>, feed: &Arc<Feed>) {
    let (branches, feed) = (Arc::clone(branches), Arc::downgrade(feed));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(feed) = feed.upgrade() else { return };
            if !feed.has_clients() {
                continue;
            }
            let branches = Arc::clone(&branches);
            let compared = tokio::task::spawn_blocking(move || {
                let mut directories = feed.directories();
                directories.extend(branches.known().keys().cloned());
                for directory in directories {
                    let branch = read(&directory);
                    if branches.note(directory.clone(), branch.clone()) {
                        let directory = directory.display().to_string();
                        feed.announce(&directory, "vcs.branch.updated", shown(branch));
                    }
                }
            });
            if let Err(error) = compared.await {
                tracing::warn!("branches are not read: {error}");
            }
        }
    });
}
