//! Settings, models, agents, commands, projects: what a client shows before the first prompt. No
//! answer has a key or another secret.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use leftfold_config::{KeyState, Settings};
use leftfold_plugins::Plugins;
use leftfold_runtime::agents::Agents;
use leftfold_runtime::model;
use leftfold_runtime::model_list::{Row, rows};
use leftfold_runtime::turn_config::Extensions;
use leftfold_runtime::{resolved_settings, session_paths, slash, specs};
use serde_json::{Map, Value, json};

use super::{Answer, Api, Directory, JsonBody, blocking, yes};
use crate::error::ApiError;
use crate::opencode::project_id;

pub(super) async fn health() -> Json<Value> {
    Json(json!({ "healthy": true, "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) async fn empty_list() -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn empty_object() -> Json<Value> {
    Json(json!({}))
}

pub(super) async fn capabilities() -> Json<Value> {
    Json(json!({ "backgroundSubagents": false }))
}

pub(super) async fn console() -> Json<Value> {
    Json(json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }))
}

pub(super) async fn log(JsonBody(entry): JsonBody<Value>) -> Answer {
    let text = entry["message"].as_str().unwrap_or_default();
    tracing::info!("a client says: {}", leftfold_view::clean::clip(text, 400));
    yes()
}

/// Sessions rest by themselves; nothing of a directory has to be ended.
pub(super) async fn dispose(
    State(api): State<Arc<Api>>,
    Directory(directory): Directory,
) -> Answer {
    let directory = directory.display().to_string();
    let properties = json!({ "directory": directory });
    api.feed.announce(&directory, "server.instance.disposed", properties);
    yes()
}

/// The settings in `directory` that are in force.
async fn settings(directory: &FilePath) -> Result<Settings, ApiError> {
    let directory = directory.to_owned();
    blocking(move || resolved_settings::shown(&directory)).await
}

pub(super) async fn config(Directory(directory): Directory) -> Answer {
    let settings = settings(&directory).await?;
    let default = settings.default_name(&model::environment);
    let mut config = json!({
        "agent": {},
        "mode": {},
        "command": {},
        "plugin": [],
        "username": std::env::var("USER").unwrap_or_else(|_| "user".to_owned()),
    });
    if let Some(default) = default {
        config["model"] = default.into();
    }
    Ok(Json(config))
}

pub(super) async fn config_providers(Directory(directory): Directory) -> Answer {
    let (providers, default, _) = known_providers(&directory).await?;
    Ok(Json(json!({ "providers": providers, "default": default })))
}

pub(super) async fn providers(Directory(directory): Directory) -> Answer {
    let (all, default, connected) = known_providers(&directory).await?;
    Ok(Json(json!({ "all": all, "default": default, "connected": connected })))
}

/// Providers that can be used, the default model of each, and their names.
async fn known_providers(
    directory: &FilePath,
) -> Result<(Vec<Value>, Map<String, Value>, Vec<String>), ApiError> {
    let settings = settings(directory).await?;
    let default = settings.default_name(&model::environment);
    let (mut all, mut defaults, mut connected) = (Vec::new(), Map::new(), Vec::new());
    for summary in settings.provider_summaries(&model::environment) {
        let is_usable = !matches!(summary.key, KeyState::Missing(_));
        if summary.disabled.is_some() || !is_usable {
            continue;
        }
        let rows = rows(&settings, &summary, default.as_deref());
        let models: Map<String, Value> = rows
            .iter()
            .filter_map(|row| {
                let (_, id) = row.name.split_once('/')?;
                Some((id.to_owned(), model_of(&summary.name, id, row)))
            })
            .collect();
        let first = rows.iter().find(|row| row.default).or_else(|| rows.first());
        if let Some((_, id)) = first.and_then(|row| row.name.split_once('/')) {
            defaults.insert(summary.name.clone(), id.into());
        }
        connected.push(summary.name.clone());
        all.push(json!({
            "id": summary.name,
            "name": summary.name,
            "source": "config",
            "env": [],
            "options": {},
            "models": models,
        }));
    }
    Ok((all, defaults, connected))
}

fn model_of(provider: &str, id: &str, row: &Row) -> Value {
    let medium = |image: bool| json!({ "text": true, "audio": false, "image": image, "video": false, "pdf": image });
    let variants: Map<String, Value> =
        row.variants.iter().map(|name| (name.clone(), json!({}))).collect();
    json!({
        "id": id,
        "providerID": provider,
        "api": { "id": id, "url": "", "npm": "" },
        "name": id,
        "family": row.family,
        "capabilities": {
            "temperature": row.temperature,
            "reasoning": row.reasoning,
            "attachment": row.images,
            "toolcall": row.tools,
            "input": medium(row.images),
            "output": medium(false),
            "interleaved": false,
        },
        "cost": {
            "input": row.cost.input,
            "output": row.cost.output,
            "cache": { "read": row.cost.cache_read, "write": row.cost.cache_write },
        },
        "limit": { "context": row.limit.context, "output": row.limit.output },
        "status": "active",
        "options": {},
        "headers": {},
        "release_date": "",
        "variants": variants,
    })
}

pub(super) async fn agents(Directory(directory): Directory) -> Answer {
    let settings = settings(&directory).await?;
    let known = Agents::of(&settings);
    let agents = known.iter().map(|known| {
        let agent = &known.agent;
        let mut shown = json!({
            "name": agent.name,
            "description": agent.description,
            "mode": agent.mode.name(),
            "native": agent.native,
            "hidden": agent.hidden,
            "permission": [],
            "options": {},
        });
        if let Some((provider, id)) = agent.model.as_deref().and_then(|name| name.split_once('/')) {
            shown["model"] = json!({ "providerID": provider, "modelID": id });
        }
        for (name, value) in [
            ("variant", json!(agent.variant)),
            ("color", json!(agent.color)),
            ("steps", json!(agent.steps)),
            ("temperature", json!(agent.temperature)),
            ("topP", json!(agent.top_p)),
        ] {
            if !value.is_null() {
                shown[name] = value;
            }
        }
        shown
    });
    Ok(Json(agents.collect()))
}

pub(super) async fn commands(Directory(directory): Directory) -> Answer {
    let listed = blocking(move || {
        let settings = resolved_settings::shown(&directory)?;
        let mcp = leftfold_runtime::project::servers(&directory, &settings, &[]);
        slash::list(&directory, &Extensions { mcp, plugins: Plugins::default() })
    });
    let listed = listed.await?;
    let commands = listed.into_iter().map(|(name, description)| {
        json!({
            "name": name, "description": description, "source": "command", "template": "", "hints": [],
        })
    });
    Ok(Json(commands.collect()))
}

/// The names of the built-in tools.
pub(super) async fn tools() -> Json<Value> {
    Json(leftfold_tools::model_tools().map(|tool| Value::from(tool.name())).collect())
}

pub(super) async fn servers(Directory(directory): Directory) -> Answer {
    let settings = settings(&directory).await?;
    let servers = specs::servers(&settings);
    let named = servers.map(|server| (server.name, json!({ "status": "connected" })));
    Ok(Json(Value::Object(named.collect())))
}

pub(super) async fn path(Directory(directory): Directory) -> Answer {
    let home = std::env::var("HOME").unwrap_or_default();
    let data = session_paths::data_dir()?.display().to_string();
    Ok(Json(json!({
        "home": home,
        "state": data,
        "config": format!("{home}/.config/leftfold"),
        "worktree": leftfold_config::worktree_of(&directory),
        "directory": directory,
    })))
}

pub(super) async fn project(Directory(directory): Directory) -> Answer {
    Ok(Json(project_at(&leftfold_config::worktree_of(&directory))))
}

/// The projects of all sessions.
pub(super) async fn projects(State(api): State<Arc<Api>>) -> Answer {
    let worktrees = blocking(move || {
        let heads = leftfold_store::heads(api.feed.folder());
        let mut worktrees: Vec<String> =
            heads.into_iter().filter_map(|head| Some(head.summary?.worktree)).collect();
        worktrees.sort_unstable();
        worktrees.dedup();
        Ok(worktrees)
    });
    Ok(Json(worktrees.await?.iter().map(|worktree| project_at(FilePath::new(worktree))).collect()))
}

fn project_at(worktree: &FilePath) -> Value {
    let text = worktree.display().to_string();
    let mut project = json!({
        "id": project_id(&text),
        "worktree": text,
        "time": { "created": 0, "updated": 0 },
        "sandboxes": [],
    });
    if worktree.join(".git").exists() {
        project["vcs"] = "git".into();
    }
    project
}

pub(super) async fn directories(Directory(directory): Directory) -> Answer {
    Ok(Json(json!([{ "directory": directory }])))
}

pub(super) async fn location(Directory(directory): Directory) -> Answer {
    Ok(Json(located(&directory)))
}

fn located(directory: &FilePath) -> Value {
    let worktree = leftfold_config::worktree_of(directory).display().to_string();
    let project = json!({ "id": project_id(&worktree), "directory": worktree });
    json!({ "directory": directory, "project": project })
}

/// Lists of the second version of the API, which the terminal reads beside those of the first.
pub(super) async fn located_list(
    Directory(directory): Directory,
    Path(list): Path<String>,
) -> Answer {
    const LISTS: [&str; 7] =
        ["agent", "model", "provider", "integration", "command", "skill", "reference"];
    if !LISTS.contains(&list.as_str()) {
        return Err(ApiError::not_found(format!("this server has no `/api/{list}`")));
    }
    Ok(Json(json!({ "location": located(&directory), "data": [] })))
}
