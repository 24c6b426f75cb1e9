//! Lists that the web app and SDKs show: skills, tools with their schemas, sessions of all directories.

use leftfold_runtime::{formatting, session_paths, turn_config};
use leftfold_store::Head;
use leftfold_tools::ProjectFolders;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, ApiState, Directory, GivenDirectory, Query, blocking, config, listed};
use crate::opencode::ids;
use crate::shapes::catalog::{FormatterStatus, LSPStatus, Skill, ToolListItem};
use crate::shapes::session::{GlobalSession, SessionsResponse};
use crate::shapes::{Shaped, shaped};

/// Sessions in a list that names no limit.
const LIMIT: usize = 50;
/// The largest skill that is shown, in bytes. Larger ones are none.
const MAX_SKILL: u64 = 1 << 20;

pub(super) async fn skills(Directory(directory): Directory) -> Answer<Shaped<Vec<Skill>>> {
    let settings = config::settings(&directory).await?;
    let found = blocking(move || {
        let worktree = leftfold_config::worktree_of(&directory);
        let folders = session_paths::user_folders(&settings);
        let found = leftfold_tools::skills::find(&directory, &worktree, &folders).skills;
        let shown = found.into_iter().map(|skill| {
            let content = leftfold_files::read_real(&skill.path, MAX_SKILL).unwrap_or_default();
            json!({
                "name": skill.name,
                "description": skill.description,
                "location": skill.path,
                "content": String::from_utf8_lossy(&content),
            })
        });
        Ok(shown.collect::<Vec<Value>>())
    });
    Ok(shaped(json!(found.await?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct OfModel {
    #[serde(rename = "provider")]
    _provider: String,
    model: String,
}

/// The built-in tools that a model sees.
pub(super) async fn tools(
    Directory(directory): Directory,
    Query(OfModel { model, .. }): Query<OfModel>,
) -> Answer<Shaped<Vec<ToolListItem>>> {
    let settings = config::settings(&directory).await?;
    let missing = blocking(move || Ok(turn_config::missing_tools(&settings, &directory))).await?;
    let tools = leftfold_tools::tools_for_model(&model).into_iter();
    let tools = tools.filter(|tool| !missing.contains(&tool.name())).map(|tool| {
        json!({ "id": tool.name(), "description": tool.description(), "parameters": tool.schema().value() })
    });
    Ok(shaped(tools.collect()))
}

/// The formatters that settings turn on.
pub(super) async fn formatters(
    Directory(directory): Directory,
) -> Answer<Shaped<Vec<FormatterStatus>>> {
    let settings = config::settings(&directory).await?;
    let found = blocking(move || {
        let Some((formatting, _)) = formatting::formatting(&settings) else {
            return Ok(Vec::new());
        };
        let project = ProjectFolders { directory: &directory, worktree: &settings.trust.worktree };
        let status = formatting.status(project).into_iter();
        let shown = status.map(|(name, extensions, enabled)| {
            json!({ "name": name, "extensions": extensions, "enabled": enabled })
        });
        Ok(shown.collect::<Vec<Value>>())
    });
    Ok(shaped(json!(found.await?)))
}

/// The language servers that run for the project, and those that have failed.
pub(super) async fn language_servers(
    Directory(directory): Directory,
) -> Answer<Shaped<Vec<LSPStatus>>> {
    let shown = leftfold_lsp::reports(&directory).into_iter().filter_map(|report| {
        // one that is starting is neither
        let status = if report.state?.is_ok() { "connected" } else { "error" };
        let root = report.root.strip_prefix(&directory).unwrap_or(&report.root);
        Some(json!({ "id": report.id, "name": report.id, "root": root, "status": status }))
    });
    Ok(shaped(shown.collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SessionsQuery {
    roots: Option<bool>,
    /// Milliseconds: only sessions that have changed since.
    start: Option<u64>,
    search: Option<String>,
    limit: Option<usize>,
    /// Milliseconds: only sessions that have changed before.
    cursor: Option<u64>,
    /// Whether sessions are listed that were put away.
    archived: Option<bool>,
}

/// Sessions of all directories, or of the one that the request names, the last changed first.
pub(super) async fn sessions(
    api: ApiState,
    GivenDirectory(directory): GivenDirectory,
    Query(query): Query<SessionsQuery>,
) -> Answer<Shaped<Vec<GlobalSession>>> {
    let listed = blocking(move || {
        let mut heads = listed::heads(&api, query.search.as_deref(), |head, summary| {
            let is_here =
                directory.as_ref().is_none_or(|known| known.as_os_str() == &*summary.directory);
            let is_root = summary.parent.is_none() || query.roots != Some(true);
            let at = head.at.millis();
            let is_shown = summary.archived.is_none() || query.archived == Some(true);
            is_here
                && is_root
                && is_shown
                && query.start.is_none_or(|start| at >= start)
                && query.cursor.is_none_or(|cursor| at < cursor)
        })?;
        heads.truncate(query.limit.unwrap_or(LIMIT));
        let listed = listed::infos(&api, &heads).into_iter().zip(&heads).map(|(mut info, head)| {
            let worktree = head.summary.as_ref().map(|summary| summary.worktree.as_str());
            info["project"] = json!({ "id": info["projectID"], "worktree": worktree });
            info
        });
        Ok(listed.collect::<Vec<Value>>())
    });
    Ok(shaped(json!(listed.await?)))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct LocatedQuery {
    limit: Option<usize>,
    /// `asc`: the oldest first.
    order: Option<String>,
    search: Option<String>,
    project: Option<String>,
    /// The id of the last session that the client has.
    cursor: Option<String>,
}

/// Sessions in the form of the second version of the API.
pub(super) async fn located_sessions(
    api: ApiState,
    GivenDirectory(directory): GivenDirectory,
    Query(query): Query<LocatedQuery>,
) -> Answer<Shaped<SessionsResponse>> {
    let listed = blocking(move || {
        let mut heads = listed::heads(&api, query.search.as_deref(), |_, summary| {
            let of_project = |id: &String| *id == crate::opencode::project_id(&summary.worktree);
            directory.as_ref().is_none_or(|known| known.as_os_str() == &*summary.directory)
                && query.project.as_ref().is_none_or(of_project)
        })?;
        if query.order.as_deref() == Some("asc") {
            heads.reverse();
        }
        let last = query.cursor.as_deref().and_then(ids::named);
        let known = last.and_then(|last| heads.iter().position(|head| head.session == last));
        let begin = known.map_or(0, |known| known + 1);
        let limit = query.limit.unwrap_or(LIMIT).max(1);
        let page: Vec<&Head> = heads.iter().skip(begin).take(limit).collect();
        let next = page.last().filter(|_| begin + page.len() < heads.len());
        let cursor =
            next.map_or_else(|| json!({}), |last| json!({ "next": ids::of_session(last.session) }));
        let data: Vec<Value> =
            listed::infos(&api, page.iter().copied()).iter().map(located).collect();
        Ok(json!({ "data": data, "cursor": cursor }))
    });
    Ok(shaped(listed.await?))
}

/// A session of the first version as one of the second.
fn located(info: &Value) -> Value {
    let none =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let mut located = json!({
        "cost": info.get("cost").unwrap_or(&json!(0)),
        "tokens": info.get("tokens").unwrap_or(&none),
        "location": { "directory": info["directory"] },
    });
    for name in ["id", "parentID", "projectID", "agent", "model", "time", "title"] {
        if let Some(value) = info.get(name).filter(|value| !value.is_null()) {
            located[name] = value.clone();
        }
    }
    located
}
