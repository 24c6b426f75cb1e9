//! The files that differ from git's last commit, and new repositories.

use leftfold_runtime::working_tree::{self, ChangedPath, changed};
use serde_json::{Value, json};

use super::config::project_at;
use super::{Answer, ApiState, Directory};
use crate::error::ApiError;
use crate::shapes::catalog::{File, Project, VcsFileStatus};
use crate::shapes::{Shaped, shaped};

pub(super) async fn status(Directory(directory): Directory) -> Answer<Shaped<Vec<VcsFileStatus>>> {
    let shown = |one: ChangedPath| json!({ "file": one.path, "additions": one.added, "deletions": one.removed, "status": one.status });
    Ok(shaped(changed(&directory).await?.into_iter().map(shown).collect()))
}

pub(super) async fn files(Directory(directory): Directory) -> Answer<Shaped<Vec<File>>> {
    let shown = |one: ChangedPath| json!({ "path": one.path, "added": one.added, "removed": one.removed, "status": one.status });
    Ok(shaped(changed(&directory).await?.into_iter().map(shown).collect::<Value>()))
}

/// Makes the directory a repository, unless it is in one.
pub(super) async fn init(
    api: ApiState,
    Directory(directory): Directory,
) -> Answer<Shaped<Project>> {
    let made = working_tree::init(&directory).await?;
    made.map_err(|why| ApiError::bad_request(format!("git init: {why}")))?;
    let worktree = leftfold_config::worktree_of(&directory);
    api.project_changed(&directory, &worktree);
    Ok(shaped(project_at(&worktree)))
}
