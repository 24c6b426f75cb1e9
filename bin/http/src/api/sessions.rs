//! Sessions: lists, one, new, changed, removed, forked, reverted.

use std::path::Path as FilePath;
use std::sync::Arc;

use anyhow::Context;
use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use leftfold_events::event::{ModelRef, SessionChoices};
use leftfold_events::rules::Rule;
use leftfold_events::{SessionId, Time};
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::session_diff::{DiffRange, FileChangeKind, SessionDiff};
use leftfold_runtime::socket;
use leftfold_runtime::{Overrides, PromptOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Answer, Api, ApiState, BY, Directory, JsonBody, Named, NewProject, Path, Query, blocking,
    listed, yes,
};
use crate::error::ApiError;
use crate::opencode::{Projection, ids};
use crate::shapes::message::MessageWithParts;
use crate::shapes::session::{PermissionRule, Session, SessionStatus, SnapshotFileDiff, Todo};
use crate::shapes::{self, MapOf, Shaped, shaped};

/// Sessions in a list that names no limit.
const LIMIT: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListQuery {
    /// `project`: the sessions of the whole project, not of one directory.
    scope: Option<String>,
    roots: Option<bool>,
    /// Milliseconds: only sessions that have changed since.
    start: Option<u64>,
    search: Option<String>,
    limit: Option<usize>,
}

/// The sessions of a directory or project, the last changed first.
pub(super) async fn list(
    api: ApiState,
    Directory(directory): Directory,
    Query(query): Query<ListQuery>,
) -> Answer<Shaped<Vec<Session>>> {
    let worktree = leftfold_config::worktree_of(&directory);
    let listed = blocking(move || {
        let whole_project = query.scope.as_deref() == Some("project");
        let mut heads = listed::heads(&api, query.search.as_deref(), |head, summary| {
            let is_here = match whole_project {
                true => worktree == FilePath::new(&summary.worktree),
                false => directory == FilePath::new(&summary.directory),
            };
            let is_root = summary.parent.is_none() || query.roots != Some(true);
            is_here && is_root && query.start.is_none_or(|start| head.at.millis() >= start)
        })?;
        heads.truncate(query.limit.unwrap_or(LIMIT));
        Ok(listed::infos(&api, &heads))
    });
    Ok(shaped(json!(listed.await?)))
}

/// The status of every session that is not idle.
pub(super) async fn statuses(api: ApiState) -> Answer<Shaped<MapOf<SessionStatus>>> {
    let statuses = blocking(move || Ok(api.feed.statuses())).await?;
    let named = statuses.into_iter().map(|(id, status)| (ids::of_session(id), status));
    Ok(shaped(Value::Object(named.collect())))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSession {
    title: Option<String>,
    agent: Option<String>,
    model: Option<SessionModel>,
    #[schemars(with = "Option<Vec<PermissionRule>>")]
    permission: Option<Vec<Rule>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct SessionModel {
    id: String,
    #[serde(rename = "providerID")]
    provider: String,
    variant: Option<String>,
}

/// A new session, which is in the log before the answer.
pub(super) async fn create(
    api: ApiState,
    NewProject(project): NewProject,
    JsonBody(wanted): JsonBody<NewSession>,
) -> Answer<Shaped<Session>> {
    let defaults = api.defaults(&project.directory);
    let mut choices = SessionChoices { agent: wanted.agent.or(defaults.agent), ..defaults };
    if let Some(SessionModel { id, provider, variant }) = wanted.model {
        choices.model = Some(ModelRef { provider, id });
        choices.variant = variant;
    }
    let project = Project { choices: choices.clone(), ..project };
    let place = api.sessions.place(project::new_id())?;
    let session = place.session;
    api.tell_of_project(&project.directory, &project.worktree);
    api.sessions.learn(place, Arc::new(project), Overrides::interactive());
    let client = api.client(session).await?;
    client.begin(choices, wanted.title, BY).await?;
    if let Some(rules) = wanted.permission.filter(|rules| !rules.is_empty()) {
        socket::check_rules(&rules)?;
        client.set_rules(rules, BY).await?;
        seen(&api, session).await?;
    }
    let info = api.feed.when(session, |tree| {
        tree.session(session).map(|known| known.info().clone()).filter(|info| !info.is_null())
    });
    Ok(shaped(info.await?))
}

pub(super) async fn one(api: ApiState, Named(session): Named) -> Answer<Shaped<Session>> {
    info(&api, session)
}

fn info(api: &Api, session: SessionId) -> Answer<Shaped<Session>> {
    let info = api.feed.loaded(session, |known| known.info().clone());
    info.map(shaped).ok_or_else(|| ApiError::not_found(format!("there is no session {session}")))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SessionChanges")]
pub(super) struct Changes {
    title: Option<String>,
    /// Rules that follow those which the session has.
    #[schemars(with = "Option<Vec<PermissionRule>>")]
    permission: Option<Vec<Rule>>,
    #[serde(default)]
    time: ChangedTime,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct ChangedTime {
    /// Milliseconds: when the session was put away. `null`: it is not archived any more.
    #[serde(default, deserialize_with = "socket::nullable")]
    #[schemars(schema_with = "shapes::number_or_null")]
    archived: Option<Option<u64>>,
}

pub(super) async fn change(
    api: ApiState,
    Named(session): Named,
    JsonBody(Changes { title, permission, time }): JsonBody<Changes>,
) -> Answer<Shaped<Session>> {
    if let Some(title) = title {
        let title = title.trim().to_owned();
        if title.is_empty() {
            return Err(ApiError::bad_request("body: `title` is empty"));
        }
        api.client(session).await?.rename(&title).await?;
        let renamed = api.feed.when(session, |tree| {
            let info = tree.session(session)?.info();
            (info["title"] == title.as_str()).then_some(())
        });
        renamed.await?;
    }
    if let Some(added) = permission {
        let client = api.client(session).await?;
        let rules = [client.view().await?.rules, added].concat();
        socket::check_rules(&rules)?;
        client.set_rules(rules, BY).await?;
    }
    if let Some(archived) = time.archived {
        let archived = archived.map(Time::from_millis);
        api.client(session).await?.archive(archived, BY).await?;
    }
    seen(&api, session).await?;
    info(&api, session)
}

/// Waits until the feed has all that is in the session's log, if the log's events arrive here.
async fn seen(api: &Arc<Api>, session: SessionId) -> Result<(), ApiError> {
    if !api.feed.is_live(session) {
        return Ok(());
    }
    let end = api.client(session).await?.view().await?.seq;
    api.feed.when(session, |tree| (tree.seq(session) >= end).then_some(())).await
}

pub(super) async fn remove(api: ApiState, Named(session): Named) -> Answer<bool> {
    must_rest(&api, session)?;
    api.remove(session).await?;
    yes()
}

pub(super) async fn children(api: ApiState, Named(session): Named) -> Answer<Shaped<Vec<Session>>> {
    let parent = ids::of_session(session);
    let children = api.feed.with(session, |tree| {
        let known = tree.sessions().map(|(_, known)| known.info());
        known.filter(|info| info["parentID"] == parent.as_str()).cloned().collect::<Vec<Value>>()
    });
    Ok(shaped(json!(children.unwrap_or_default())))
}

pub(super) async fn todo(api: ApiState, Named(session): Named) -> Answer<Shaped<Vec<Todo>>> {
    Ok(shaped(api.feed.with(session, |tree| tree.todos(session)).unwrap_or_default()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DiffQuery {
    /// A prompt: only the changes of its turn.
    #[serde(rename = "messageID")]
    message: Option<String>,
}

/// The changes of the session to files, as `leftfold diff` shows them.
pub(super) async fn diff(
    api: ApiState,
    Named(session): Named,
    Query(DiffQuery { message }): Query<DiffQuery>,
) -> Answer<Shaped<Vec<SnapshotFileDiff>>> {
    let range = match message {
        Some(message) => DiffRange::TurnOf(seq_of(&api, session, &message)?),
        None => DiffRange::Session,
    };
    changed_files(&api, session, range).await
}

/// The files of a session's diff, each with its patch.
pub(super) async fn changed_files(
    api: &Arc<Api>,
    session: SessionId,
    range: DiffRange,
) -> Answer<Shaped<Vec<SnapshotFileDiff>>> {
    let missing = || ApiError::not_found(format!("there is no session {session}"));
    let place = api.sessions.existing(session).ok_or_else(missing)?;
    let feed = Arc::clone(&api.feed);
    let read = move || SessionDiff::read_with(&place, range, &|session| feed.unmasked(session));
    let diff = match blocking(read).await {
        // it was removed meanwhile
        Err(_) if api.sessions.existing(session).is_none() => return Err(missing()),
        read => read?,
    };
    let files = diff.files.iter().map(|file| {
        let status = match file.change {
            FileChangeKind::Added => "added",
            FileChangeKind::Modified | FileChangeKind::Renamed => "modified",
            FileChangeKind::Deleted => "deleted",
        };
        json!({
            "file": file.path,
            "patch": file.diff,
            "additions": file.additions,
            "deletions": file.deletions,
            "status": status,
        })
    });
    Ok(shaped(files.collect()))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Page {
    /// The newest messages only.
    limit: Option<usize>,
    /// Messages before this one.
    before: Option<String>,
}

/// Messages in ascending order. If there are earlier ones, a header has the cursor for them.
pub(super) async fn messages(
    api: ApiState,
    Named(session): Named,
    Query(page): Query<Page>,
) -> Result<(HeaderMap, Json<Shaped<Vec<MessageWithParts>>>), ApiError> {
    let found = api.feed.loaded(session, |known| {
        let all = known.messages();
        let end = page.before.as_ref().map_or(all.len(), |before| {
            all.iter().position(|message| message.id == *before).unwrap_or(all.len())
        });
        let begin = end.saturating_sub(page.limit.filter(|limit| *limit > 0).unwrap_or(end));
        let shown = all.get(begin..end).unwrap_or_default();
        let next = shown.first().filter(|_| begin > 0).map(|first| first.id.clone());
        (shown.iter().map(|message| message.whole()).collect::<Vec<Value>>(), next)
    });
    let (shown, next) = found.unwrap_or_default();
    let mut headers = HeaderMap::new();
    if let Some(next) = next
        && let Ok(value) = HeaderValue::from_str(&next)
    {
        let link =
            format!("</session/{}/message?before={next}>; rel=\"next\"", ids::of_session(session));
        headers.insert(HeaderName::from_static("x-next-cursor"), value);
        if let Ok(link) = HeaderValue::from_str(&link) {
            headers.insert(header::LINK, link);
        }
    }
    Ok((headers, shaped(json!(shown))))
}

pub(super) async fn message(
    api: ApiState,
    Named(session): Named,
    Path((_, message)): Path<(String, String)>,
) -> Answer<Shaped<MessageWithParts>> {
    let found =
        api.feed.loaded(session, |known| known.message(&message).map(|found| found.whole()));
    let missing = || ApiError::not_found(format!("there is no message `{message}`"));
    found.flatten().map(shaped).ok_or_else(missing)
}

/// Refuses: no event of a log is removed, and clients would see the message again.
pub(super) async fn remove_message(
    api: ApiState,
    Named(session): Named,
    Path((_, message)): Path<(String, String)>,
) -> Answer<bool> {
    must_rest(&api, session)?;
    seq_of(&api, session, &message)?;
    Err(ApiError::not_supported(
        "messages are not removed one by one: revert to a message, or fork the session before it",
    ))
}

/// Refuses to change or remove a part, as for messages.
pub(super) async fn change_part<T>(
    api: ApiState,
    Named(session): Named,
    Path((_, message, part)): Path<(String, String, String)>,
) -> Answer<Shaped<T>> {
    let known = api.feed.loaded(session, |known| {
        let parts = known.message(&message)?.whole()["parts"].take();
        parts.as_array()?.iter().any(|known| known["id"] == part.as_str()).then_some(())
    });
    known.flatten().ok_or_else(|| ApiError::not_found(format!("there is no part `{part}`")))?;
    Err(ApiError::not_supported(
        "parts of messages are not changed: send another prompt, or revert to a message",
    ))
}

/// Ends the turn. True also if there is none.
pub(super) async fn abort(api: ApiState, Path(id): Path<String>) -> Answer<bool> {
    let feed = Arc::clone(&api.feed);
    let busy = blocking(move || {
        let is_busy = |session: &SessionId| {
            let is_busy = feed.with(*session, |tree| {
                tree.session(*session).is_some_and(|known| known.status()["type"] != "idle")
            });
            is_busy == Some(true)
        };
        Ok(ids::named(&id).filter(is_busy))
    });
    if let Some(session) = busy.await? {
        api.client(session).await?.interrupt(BY).await?;
    }
    yes()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ForkAt {
    #[serde(rename = "messageID")]
    message: Option<String>,
}

/// A fork of the whole session, or of everything before a message.
pub(super) async fn fork(
    api: ApiState,
    Named(session): Named,
    JsonBody(ForkAt { message }): JsonBody<ForkAt>,
) -> Answer<Shaped<Session>> {
    let at = match message {
        Some(message) => Some(seq_of(&api, session, &message)?.saturating_sub(1)),
        None => None,
    };
    let first = api.feed.loaded(session, |known| {
        known.messages().first().and_then(|first| known.seq_of(&first.id))
    });
    if let (Some(at), Some(Some(first))) = (at, first)
        && at < first
    {
        // before the first prompt there is nothing to share
        let all = Arc::clone(&api.sessions);
        let of_session = move || {
            let place = all.existing(session).context("the session is gone")?;
            Ok(Project::for_session(&place)?.anew())
        };
        let project = blocking(of_session).await?;
        return create(api, NewProject(project), JsonBody(NewSession::default())).await;
    }
    let all: Arc<dyn socket::Sessions> = api.sessions.clone();
    let fork = socket::fork_as(all, (BY, None), session, at).await?;
    let feed = Arc::clone(&api.feed);
    blocking(move || Ok(feed.load(fork))).await?;
    info(&api, fork)
}

/// The event that a message comes from.
pub(super) fn seq_of(api: &Api, session: SessionId, message: &str) -> Result<u64, ApiError> {
    let seq = api.feed.loaded(session, |known| known.seq_of(message)).flatten();
    seq.ok_or_else(|| ApiError::not_found(format!("there is no message `{message}`")))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RevertTo {
    #[serde(rename = "messageID")]
    message: String,
    /// A part of the session: its step is reverted.
    #[serde(rename = "partID")]
    part: Option<String>,
}

pub(super) async fn revert(
    api: ApiState,
    Named(session): Named,
    JsonBody(RevertTo { message, part }): JsonBody<RevertTo>,
) -> Answer<Shaped<Session>> {
    let of_message = seq_of(&api, session, &message)?;
    let to = match part {
        None => of_message,
        Some(part) => {
            let found = api.feed.loaded(session, |known| known.seq_of_part(&part)).flatten();
            found.ok_or_else(|| ApiError::not_found(format!("there is no part `{part}`")))?
        }
    };
    reverted(&api, session, Some(to)).await
}

pub(super) async fn unrevert(api: ApiState, Named(session): Named) -> Answer<Shaped<Session>> {
    reverted(&api, session, None).await
}

/// Reverts to the state before an event, or takes the last revert back.
pub(super) async fn reverted(
    api: &Arc<Api>,
    session: SessionId,
    to: Option<u64>,
) -> Answer<Shaped<Session>> {
    must_rest(api, session)?;
    let client = api.client(session).await?;
    let config = socket::Sessions::setup(&*api.sessions, session, &PromptOptions::default())
        .await?
        .prompt_config();
    let restores = |tree: &Projection| {
        let known = tree.session(session)?.restores();
        Some((known.0, known.1.map(str::to_owned)))
    };
    let before = api.feed.with(session, restores).flatten().map_or(0, |(count, _)| count);
    if let Err(why) = client.revert(config, to, BY).await? {
        return Err(ApiError::bad_request(why));
    }
    let ended = |tree: &Projection| restores(tree).filter(|(count, _)| *count > before);
    match api.feed.when(session, ended).await? {
        (_, Some(why)) => Err(ApiError::bad_request(why)),
        (_, None) => info(api, session),
    }
}

/// # Errors
/// A turn is running.
pub(super) fn must_rest(api: &Api, session: SessionId) -> Result<(), ApiError> {
    let busy = api.feed.loaded(session, |known| known.status()["type"] != "idle");
    if busy == Some(true) { Err(ApiError::busy(&ids::of_session(session))) } else { Ok(()) }
}
