//! Settings, models, agents, commands, projects: what a client shows before the first prompt. No
//! answer has a key or another secret.

use std::path::Path as FilePath;

use axum::Json;
use leftfold_config::Settings;
use leftfold_events::event::{ModelRef, SessionChoices};
use leftfold_events::rules::{self, Rule};
use leftfold_plugins::Plugins;
use leftfold_runtime::agents::{self, AgentEntry, Agents};
use leftfold_runtime::gather::Agent;
use leftfold_runtime::model;
use leftfold_runtime::model_list::{Row, usable};
use leftfold_runtime::turn_config::{self, Extensions};
use leftfold_runtime::{project, resolved_settings, session_paths, slash};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Answer, Api, ApiState, Directory, GivenDirectory, JsonBody, blocking};
use crate::error::ApiError;
use crate::opencode::project_id;
use crate::shapes::catalog::{
    self, AgentModel, Config, ConfigProviders, ConsoleState, ExperimentalCapabilities, Health,
    Located, LocationInfo, Project, ProjectDirectory, ProviderList,
};
use crate::shapes::{Free, MapOf, Shaped, shaped};

pub(super) async fn health() -> Json<Shaped<Health>> {
    shaped(json!({ "healthy": true, "version": env!("CARGO_PKG_VERSION") }))
}

pub(super) async fn empty_list() -> Json<Vec<Free>> {
    Json(Vec::new())
}

pub(super) async fn empty_object() -> Json<MapOf<Free>> {
    Json(MapOf::new())
}

pub(super) async fn capabilities() -> Json<Shaped<ExperimentalCapabilities>> {
    shaped(json!({ "backgroundSubagents": false }))
}

pub(super) async fn console() -> Json<Shaped<ConsoleState>> {
    shaped(json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }))
}

/// The settings in `directory` that are in force.
pub(super) async fn settings(directory: &FilePath) -> Result<Settings, ApiError> {
    let directory = directory.to_owned();
    blocking(move || resolved_settings::shown(&directory)).await
}

pub(super) async fn config(
    api: ApiState,
    Directory(directory): Directory,
) -> Answer<Shaped<Config>> {
    let settings = settings(&directory).await?;
    Ok(shaped(Value::Object(shown(&api, &directory, &settings))))
}

fn shown(api: &Api, directory: &FilePath, settings: &Settings) -> Map<String, Value> {
    let chosen = api.defaults(directory);
    let mut config = settings.effective(Agent::DEFAULT, &model::environment);
    let user = || std::env::var("USER").unwrap_or_else(|_| "user".to_owned()).into();
    config.entry("username").or_insert_with(user);
    if let Some(model) = chosen.model {
        config.insert("model".to_owned(), model.to_string().into());
    }
    if let Some(agent) = chosen.agent {
        config.insert("default_agent".to_owned(), agent.into());
    }
    config
}

/// The members of the settings to change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct ConfigPatch(#[schemars(with = "Config")] Map<String, Value>);

/// Changes the model and the agent of new sessions until the server ends: those of the directory that
/// the request names, or of all.
pub(super) async fn change(
    api: ApiState,
    GivenDirectory(given): GivenDirectory,
    Directory(directory): Directory,
    JsonBody(ConfigPatch(wanted)): JsonBody<ConfigPatch>,
) -> Answer<Shaped<Config>> {
    let settings = settings(&directory).await?;
    let shown_now = shown(&api, &directory, &settings);
    let mut chosen = SessionChoices::default();
    for (name, value) in &wanted {
        // clients send the whole object back
        if name == "$schema" || shown_now.get(name) == Some(value) {
            continue;
        }
        match (name.as_str(), value.as_str()) {
            ("model", Some(model)) => {
                let known = settings.resolve_model(Some(model), &model::environment);
                let known = known
                    .map_err(|error| ApiError::bad_request(format!("body: `model`: {error}")))?;
                chosen.model = Some(ModelRef { provider: known.provider, id: known.model_id });
            }
            ("default_agent", Some(agent)) => {
                let known = Agents::from_settings(&settings);
                let agent = known.to_prompt(agent).map_err(anyhow::Error::from)?;
                chosen.agent = Some(agent.name.clone());
            }
            _ => {
                return Err(ApiError::bad_request(format!(
                    "body: the server changes only `model` and `default_agent`, for new sessions: set `{name}` in \
                     leftfold.json, which every prompt reads"
                )));
            }
        }
    }
    api.choose(given, chosen);
    let everywhere = directory.display().to_string();
    api.feed.announce(&everywhere, "server.instance.disposed", json!({ "directory": directory }));
    Ok(shaped(Value::Object(shown(&api, &directory, &settings))))
}

pub(super) async fn config_providers(
    Directory(directory): Directory,
) -> Answer<Shaped<ConfigProviders>> {
    let (providers, default, _) = known_providers(&directory).await?;
    Ok(shaped(json!({ "providers": providers, "default": default })))
}

pub(super) async fn providers(Directory(directory): Directory) -> Answer<Shaped<ProviderList>> {
    let (all, default, connected) = known_providers(&directory).await?;
    Ok(shaped(json!({ "all": all, "default": default, "connected": connected })))
}

/// Providers that can be used and have models, the default model of each, and their names.
async fn known_providers(
    directory: &FilePath,
) -> Result<(Vec<Value>, Map<String, Value>, Vec<String>), ApiError> {
    let settings = settings(directory).await?;
    let (mut all, mut defaults, mut connected) = (Vec::new(), Map::new(), Vec::new());
    for (name, rows) in usable(&settings) {
        let models: Map<String, Value> = rows
            .iter()
            .filter_map(|row| {
                let (_, id) = row.name.split_once('/')?;
                Some((id.to_owned(), model_of(&name, id, row)))
            })
            .collect();
        let first = rows.iter().find(|row| row.default).or_else(|| rows.first());
        if let Some((_, id)) = first.and_then(|row| row.name.split_once('/')) {
            defaults.insert(name.clone(), id.into());
        }
        connected.push(name.clone());
        all.push(json!({
            "id": name,
            "name": name,
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

pub(super) async fn agent_list(Directory(directory): Directory) -> Answer<Vec<catalog::Agent>> {
    let settings = settings(&directory).await?;
    let visible = Value::Object(settings.effective(Agent::DEFAULT, &model::environment));
    let agents = Agents::from_settings(&settings);
    let shown =
        agents.iter().map(|AgentEntry { agent, .. }| catalog::Agent {
            name: agent.name.clone(),
            description: agent.description.clone(),
            mode: agent.mode.name(),
            native: agent.native,
            hidden: agent.hidden,
            permission: rules_of(&settings, agent),
            options: shown_options(agent, &visible["agent"][&agent.name]),
            model: agent.model.as_deref().and_then(|name| name.split_once('/')).map(
                |(provider, id)| AgentModel { provider: provider.to_owned(), id: id.to_owned() },
            ),
            variant: agent.variant.clone(),
            color: agent.color.clone(),
            steps: agent.steps,
            temperature: agent.temperature,
            top_p: agent.top_p,
        });
    Ok(Json(shown.collect()))
}

/// The options of an agent as `visible`, its settings without secrets, has them.
fn shown_options(agent: &Agent, visible: &Value) -> Map<String, Value> {
    let options = agent.options.value();
    let names = options.as_object().into_iter().flat_map(Map::keys);
    let shown = names.filter_map(|name| {
        // every unknown member of an agent is an option
        let value = visible["options"].get(name).or_else(|| visible.get(name))?;
        Some((name.clone(), value.clone()))
    });
    shown.collect()
}

/// The rules for an agent's calls, the last of which counts.
fn rules_of(settings: &Settings, agent: &Agent) -> Vec<Rule> {
    let mut all = rules::defaults();
    all.extend(agent.rules.iter().cloned());
    all.extend(agents::rules(settings, agent, &[]));
    all
}

pub(super) async fn commands(Directory(directory): Directory) -> Answer<Vec<catalog::Command>> {
    let listed = blocking(move || {
        let settings = resolved_settings::shown(&directory)?;
        let mcp = project::servers(&directory, &settings, &[]);
        let listed = slash::list(&directory, &Extensions { mcp, plugins: Plugins::default() })?;
        Ok((settings, listed))
    });
    let (settings, listed) = listed.await?;
    let commands = listed.into_iter().map(|(name, description)| {
        let template = slash::template(&name, &settings).unwrap_or_default();
        let command = settings.commands.get(&name);
        catalog::Command {
            description,
            source: "command",
            template: template.to_owned(),
            hints: hints(template),
            agent: command.and_then(|command| command.agent.clone()),
            model: command.and_then(|command| Some(command.model.as_ref()?.as_str().to_owned())),
            subtask: command.and_then(|command| command.subtask),
            name,
        }
    });
    Ok(Json(commands.collect()))
}

/// The placeholders of a template: `$1` to `$9` and `$ARGUMENTS`.
fn hints(template: &str) -> Vec<String> {
    let numbered = (1..=9).map(|number| format!("${number}"));
    let all = numbered.chain(["$ARGUMENTS".to_owned()]);
    all.filter(|placeholder| template.contains(placeholder.as_str())).collect()
}

/// The names of the built-in tools.
pub(super) async fn tools(Directory(directory): Directory) -> Answer<Shaped<Vec<String>>> {
    let settings = settings(&directory).await?;
    let missing = blocking(move || Ok(turn_config::missing_tools(&settings, &directory))).await?;
    let names = leftfold_tools::model_tools().map(|tool| tool.name());
    Ok(shaped(names.filter(|name| !missing.contains(name)).map(Value::from).collect()))
}

pub(super) async fn path(Directory(directory): Directory) -> Answer<Shaped<catalog::Path>> {
    let home = std::env::var("HOME").unwrap_or_default();
    let data = session_paths::data_dir()?.display().to_string();
    Ok(shaped(json!({
        "home": home,
        "state": data,
        "config": format!("{home}/.config/leftfold"),
        "worktree": leftfold_config::worktree_of(&directory),
        "directory": directory,
    })))
}

pub(super) async fn current_project(Directory(directory): Directory) -> Answer<Shaped<Project>> {
    Ok(shaped(project_at(&leftfold_config::worktree_of(&directory))))
}

/// The projects of all sessions, and the one of the request's directory, which may have none yet.
pub(super) async fn projects(
    api: ApiState,
    Directory(directory): Directory,
) -> Answer<Shaped<Vec<Project>>> {
    let worktrees = blocking(move || {
        let heads = api.feed.heads()?;
        let mut worktrees: Vec<String> =
            heads.into_iter().filter_map(|head| Some(head.summary?.worktree)).collect();
        worktrees.push(leftfold_config::worktree_of(&directory).display().to_string());
        worktrees.sort_unstable();
        worktrees.dedup();
        Ok(worktrees)
    });
    Ok(shaped(
        worktrees.await?.iter().map(|worktree| project_at(FilePath::new(worktree))).collect(),
    ))
}

pub(super) fn project_at(worktree: &FilePath) -> Value {
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

pub(super) async fn directories(
    Directory(directory): Directory,
) -> Answer<Shaped<Vec<ProjectDirectory>>> {
    Ok(shaped(json!([{ "directory": directory }])))
}

pub(super) async fn location(Directory(directory): Directory) -> Answer<Shaped<LocationInfo>> {
    Ok(shaped(located(&directory)))
}

pub(super) fn located(directory: &FilePath) -> Value {
    let worktree = leftfold_config::worktree_of(directory).display().to_string();
    let project = json!({ "id": project_id(&worktree), "directory": worktree });
    json!({ "directory": directory, "project": project })
}

/// A list of the second version of the API. The terminal reads those of the first.
pub(super) async fn located_list(Directory(directory): Directory) -> Answer<Shaped<Located<Free>>> {
    Ok(shaped(json!({ "location": located(&directory), "data": [] })))
}
