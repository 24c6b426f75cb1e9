//! The sessions that all lists show: filtered and sorted by their heads, without opening a log.

use std::collections::HashMap;

use leftfold_runtime::session_list;
use leftfold_store::{Head, Summary};
use serde_json::{Value, json};

use super::Api;
use crate::opencode::{ids, project_id, untitled};

/// The wanted sessions whose title has the text `search`, the last changed first.
///
/// # Errors
/// The database of the store is away.
pub(super) fn heads(
    api: &Api,
    search: Option<&str>,
    is_wanted: impl Fn(&Head, &Summary) -> bool,
) -> anyhow::Result<Vec<Head>> {
    let words = search.map(str::to_lowercase);
    let mut heads = api.feed.heads()?;
    heads.retain(|head| {
        let is_named = || {
            words.as_ref().is_none_or(|words| {
                session_list::title(head).to_lowercase().contains(words.as_str())
            })
        };
        head.summary.as_ref().is_some_and(|summary| is_wanted(head, summary)) && is_named()
    });
    heads.sort_by_key(|head| std::cmp::Reverse((head.at, head.session)));
    Ok(heads)
}

/// Sessions as clients know them.
pub(super) fn infos<'a>(api: &Api, heads: impl IntoIterator<Item = &'a Head>) -> Vec<Value> {
    // many are of the same project
    let mut projects: HashMap<String, String> = HashMap::new();
    let info = |head: &Head| {
        let loaded = api.feed.loaded(head.session, |known| known.info().clone());
        loaded.unwrap_or_else(|| of_head(head, &mut projects))
    };
    heads.into_iter().map(info).collect()
}

/// A session that is not loaded, as its head has it.
fn of_head(head: &Head, projects: &mut HashMap<String, String>) -> Value {
    let summary = head.summary.clone().unwrap_or_default();
    let project = match projects.get(&summary.worktree) {
        Some(project) => project.clone(),
        None => {
            let project = project_id(&summary.worktree);
            projects.insert(summary.worktree.clone(), project.clone());
            project
        }
    };
    let title = session_list::title(head);
    let title = match summary.title {
        Some(_) => title,
        None => untitled(title, summary.parent.map(|_| summary.agent.as_str())),
    };
    let mut info = json!({
        "id": ids::of_session(head.session),
        "slug": head.session.to_string().to_lowercase(),
        "projectID": project,
        "directory": summary.directory,
        "title": title,
        "agent": summary.agent,
        "version": env!("CARGO_PKG_VERSION"),
        "cost": summary.cost,
        "time": { "created": summary.created.millis(), "updated": head.at.millis() },
    });
    if let Some(archived) = summary.archived {
        info["time"]["archived"] = archived.millis().into();
    }
    if let Some(parent) = summary.parent {
        info["parentID"] = ids::of_session(parent).into();
    }
    info
}
