//! The requests of OpenCode's API: what all handlers share, and the table of routes.

mod config;
mod control;
mod events;
mod files;
mod keys;
mod listed;
mod lists;
mod mcp;
mod openapi;
mod pages;
mod prompt;
mod questions;
mod routes;
mod sessions;
mod sign_in;
pub(crate) mod terminals;
mod vcs;

pub(crate) use routes::router;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::{self, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use axum::body::{Body, Bytes};
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use leftfold_events::SessionId;
use leftfold_events::event::SessionChoices;
use leftfold_mcp::Servers;
use leftfold_runtime::client::Client;
use leftfold_runtime::project::Project;
use leftfold_runtime::socket::{SessionRegistry, Sessions};
use leftfold_tools::BoxFuture;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::branches::Branches;
use crate::error::ApiError;
use crate::feed::Feed;
use crate::front::Front;
use crate::opencode::ids;
use crate::overview::Overview;
use crate::runs::Runs;

/// The name of these clients in the log.
pub(crate) const BY: &str = "http";

/// The largest body of a request, in bytes: a prompt with its images.
const MAX_BODY: usize = 64 << 20;
/// The bodies of all requests that are being read, in bytes. More wait.
const ALL_BODIES: usize = 256 << 20;
const KIB: usize = 1_024;
/// How long a client may send nothing of a body, and how long it may take for the whole.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// The answer of a handler: a `T` in JSON. `/doc` describes it from the type.
pub(crate) type Answer<T> = Result<axum::Json<T>, ApiError>;

/// The extractor with which a handler gets the [`Api`].
pub(crate) type ApiState = extract::State<Arc<Api>>;

/// Everything that requests are answered from.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) feed: Arc<Feed>,
    pub(crate) sessions: Arc<SessionRegistry>,
    /// Clients' choices for new sessions of a directory, or of all directories (`None`).
    defaults: Mutex<HashMap<Option<PathBuf>, SessionChoices>>,
    pub(crate) controls: control::ControlQueue,
    terminals: terminals::Terminals,
    sign_ins: Mutex<sign_in::PendingSignIns>,
    mcp_sign_ins: mcp::PendingSignIns,
    /// The MCP servers of directories in which a client has added one or turned one on or off.
    servers: Mutex<HashMap<PathBuf, Servers>>,
    /// Memory for bodies, in KiB.
    bodies: Semaphore,
    pub(crate) runs: Runs,
    pub(crate) overview: Overview,
    pub(crate) branches: Arc<Branches>,
    /// The roots of the projects that clients were told of.
    projects: Mutex<HashSet<PathBuf>>,
}

impl Api {
    pub(crate) fn new(feed: Arc<Feed>, sessions: Arc<SessionRegistry>) -> Self {
        Self {
            feed,
            sessions,
            defaults: Mutex::default(),
            controls: control::ControlQueue::default(),
            terminals: terminals::Terminals::default(),
            sign_ins: Mutex::default(),
            mcp_sign_ins: mcp::PendingSignIns::default(),
            servers: Mutex::default(),
            bodies: Semaphore::new(ALL_BODIES / KIB),
            runs: Runs::default(),
            overview: Overview::default(),
            branches: Arc::default(),
            projects: Mutex::default(),
        }
    }

    /// Clients' choices for new sessions of a directory.
    pub(crate) fn defaults(&self, directory: &path::Path) -> SessionChoices {
        let defaults = self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        let own = defaults.get(&Some(directory.to_owned())).cloned().unwrap_or_default();
        let of_all = defaults.get(&None).cloned().unwrap_or_default();
        SessionChoices {
            agent: own.agent.or(of_all.agent),
            model: own.model.or(of_all.model),
            variant: None,
        }
    }

    /// Replaces what `chosen` names.
    pub(crate) fn choose(&self, directory: Option<PathBuf>, chosen: SessionChoices) {
        let mut defaults = self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        let known = defaults.entry(directory).or_default();
        known.agent = chosen.agent.or_else(|| known.agent.take());
        known.model = chosen.model.or_else(|| known.model.take());
    }

    /// Tells clients of the project of a new session, once.
    fn tell_of_project(&self, directory: &path::Path, worktree: &path::Path) {
        let mut told = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(worktree.to_owned()) {
            drop(told);
            self.project_changed(directory, worktree);
        }
    }

    fn project_changed(&self, directory: &path::Path, worktree: &path::Path) {
        let (directory, project) = (directory.display().to_string(), config::project_at(worktree));
        self.feed.announce(&directory, "project.updated", project);
    }

    /// Keeps the MCP servers of a directory running: without a use they would end.
    fn hold_servers(&self, directory: &path::Path, servers: Servers) {
        let mut held = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.insert(directory.to_owned(), servers);
        drop((held, before));
    }

    /// Removes a root session with its subagents.
    pub(crate) async fn remove(&self, session: SessionId) -> Result<(), ApiError> {
        match self.sessions.existing(session) {
            Some(place) if !self.sessions.keeps(&place.store) => {
                self.sessions.remove_other(place).await?;
                self.feed.forget(session);
                Ok(())
            }
            Some(_) | None => Ok(Sessions::remove(&*self.sessions, session).await?),
        }
    }

    /// Puts every session that is open in this node into the feed, whoever opens it, and drops those that
    /// are removed.
    pub(crate) async fn follow_all(&self) {
        let feed = Arc::clone(&self.feed);
        self.sessions.removed_to(Box::new(move |session| feed.forget(session)));
        let feed = Arc::clone(&self.feed);
        let follow = move |client: &Client, interrupted_at| {
            let (feed, client) = (Arc::clone(&feed), client.clone());
            let followed: BoxFuture<'static, ()> = Box::pin(async move {
                if let Err(error) = feed.follow(&client, interrupted_at).await {
                    tracing::warn!("a session's events do not reach the feed: {error:#}");
                }
            });
            followed
        };
        self.sessions.opened_to(Box::new(follow)).await;
    }

    /// A client of a session, which is opened if necessary.
    pub(crate) async fn client(&self, session: SessionId) -> Result<Client, ApiError> {
        Ok(self.sessions.client(session, None).await?)
    }
}

/// The directory that a request is about: the query's, the header's, or the server's own.
#[derive(Clone, Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl FromRequestParts<Arc<Api>> for Directory {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        match given_directory(parts)? {
            Some(directory) => Ok(Self(directory)),
            None => Ok(Self(front(parts)?.directory.clone())),
        }
    }
}

/// The project of a new session: at the server's executor, or else in the request's directory.
pub(crate) struct NewProject(pub(crate) Project);

impl FromRequestParts<Arc<Api>> for NewProject {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let Directory(directory) = Directory::from_request_parts(parts, api).await?;
        if let Some(executor) = front(parts)?.executor.clone() {
            return blocking(move || Project::at_executor(&executor)).await.map(Self);
        }
        let worktree = leftfold_config::worktree_of(&directory);
        Ok(Self(Project::new(directory, worktree)))
    }
}

/// The server that has the request.
fn front(parts: &Parts) -> anyhow::Result<&Front> {
    parts.extensions.get::<Arc<Front>>().map(Arc::as_ref).context("a request without a server")
}

/// The directory that a request names, if it names one.
#[derive(Clone, Debug)]
pub(crate) struct GivenDirectory(pub(crate) Option<PathBuf>);

impl FromRequestParts<Arc<Api>> for GivenDirectory {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        given_directory(parts).map(Self)
    }
}

fn given_directory(parts: &Parts) -> Result<Option<PathBuf>, ApiError> {
    let in_query = query(parts, "directory").or_else(|| query(parts, "location[directory]"));
    let in_header = || {
        let value = parts.headers.get("x-opencode-directory")?.to_str().ok()?;
        Some(percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned())
    };
    let Some(named) = in_query.or_else(in_header).filter(|named| !named.is_empty()) else {
        return Ok(None);
    };
    let path = path::Path::new(&named);
    let wrong = |why: &str| ApiError::bad_request(format!("directory: `{named}` {why}"));
    if !path.is_absolute() {
        return Err(wrong("is not an absolute path"));
    }
    // it is on another machine
    if front(parts)?.executor.is_some() {
        return Ok(Some(path.to_owned()));
    }
    match path.canonicalize() {
        Ok(found) if found.is_dir() => Ok(Some(found)),
        Ok(_) => Err(wrong("is not a directory")),
        Err(_) => Err(wrong("does not exist")),
    }
}

/// A member of the query.
fn query(parts: &Parts, name: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(parts.uri.query()?).ok()?;
    pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The members of the query.
#[derive(Clone, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<Api>> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        let given = extract::Query::try_from_uri(&parts.uri);
        let wrong = |error: extract::rejection::QueryRejection| {
            ApiError::bad_request(format!("query: {}", error.body_text()))
        };
        given.map(|extract::Query(given)| Self(given)).map_err(wrong)
    }
}

/// The names in the path, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<Api>> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let named = extract::Path::from_request_parts(parts, api).await;
        let wrong = |error: extract::rejection::PathRejection| {
            ApiError::bad_request(format!("path: {}", error.body_text()))
        };
        named.map(|extract::Path(named)| Self(named)).map_err(wrong)
    }
}

/// The session that the path names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named(pub(crate) SessionId);

impl FromRequestParts<Arc<Api>> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let path = parts.uri.path();
        let text = path.strip_prefix("/session/").and_then(|rest| rest.split('/').next());
        let text = text.unwrap_or_default();
        let missing = || ApiError::not_found(format!("there is no session `{text}`"));
        let session = ids::named(text).ok_or_else(missing)?;
        if api.feed.is_live(session) {
            return Ok(Self(session));
        }
        let feed = Arc::clone(&api.feed);
        let known = tokio::task::spawn_blocking(move || feed.with(session, |_| ())).await;
        known.ok().flatten().map(|()| Self(session)).ok_or_else(missing)
    }
}

/// A body of JSON; an empty one counts as `{}`. Other content types are refused, because pages can
/// send those without asking.
#[derive(Clone, Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Api>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let kind = kind.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let bytes = timeout(BODY_TIMEOUT, api.read_body(request)).await;
        let (bytes, _permit) = bytes.unwrap_or_else(|_| Err(too_slow()))?;
        let is_json = kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json");
        if !bytes.is_empty() && !is_json {
            return Err(ApiError::refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must have the content type application/json",
            ));
        }
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let mut json = serde_json::Deserializer::from_slice(text);
        let body = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let (path, why) = (error.path().to_string(), error.into_inner());
            ApiError::bad_request(format!("body: `{path}`: {why}"))
        })?;
        json.end().map_err(|error| ApiError::bad_request(format!("body: {error}")))?;
        Ok(Self(body))
    }
}

impl Api {
    /// Reads a body, as soon as there is memory for it. The memory is free when the permit is dropped.
    async fn read_body(
        &self,
        request: Request,
    ) -> Result<(Vec<u8>, SemaphorePermit<'_>), ApiError> {
        let too_large = || {
            let why = "the body is too large: at most 64 MiB are accepted";
            ApiError::refused(StatusCode::PAYLOAD_TOO_LARGE, why)
        };
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        // without a length it may become the largest
        let most = length.unwrap_or(MAX_BODY);
        if most > MAX_BODY {
            return Err(too_large());
        }
        let wanted = u32::try_from(most.div_ceil(KIB)).unwrap_or(u32::MAX);
        let permit = self.bodies.acquire_many(wanted).await.map_err(anyhow::Error::from)?;
        let mut frames = request.into_body().into_data_stream();
        let mut bytes = Vec::new();
        loop {
            match timeout(BODY_READ_TIMEOUT, frames.next()).await {
                Err(_) => return Err(too_slow()),
                Ok(None) => return Ok((bytes, permit)),
                Ok(Some(Err(_))) => return Err(ApiError::bad_request("the body was cut off")),
                Ok(Some(Ok(frame))) if bytes.len() + frame.len() > most => return Err(too_large()),
                Ok(Some(Ok(frame))) => bytes.extend_from_slice(&frame),
            }
        }
    }
}

fn too_slow() -> ApiError {
    ApiError::refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time")
}

/// Runs work that reads the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|died| Err(died.into())).map_err(ApiError::from)
}

pub(crate) fn yes() -> Answer<bool> {
    Ok(axum::Json(true))
}

/// The cursor of the last frame that a client of a feed has.
#[derive(Clone, Debug)]
pub(crate) struct LastEventId(pub(crate) Option<String>);

impl FromRequestParts<Arc<Api>> for LastEventId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Self, ApiError> {
        let id = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        Ok(Self(id.map(str::to_owned)))
    }
}

/// Server-sent events without an end, whose data have the shape of a `T`.
pub(crate) struct EventStream<T> {
    frames: Body,
    shape: PhantomData<fn() -> T>,
}

impl<T> EventStream<T> {
    pub(crate) fn new(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        let frames = Body::from_stream(frames.map(Ok::<Bytes, Infallible>));
        Self { frames, shape: PhantomData }
    }
}

impl<T> IntoResponse for EventStream<T> {
    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache, no-transform"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, self.frames).into_response()
    }
}

/// A text of JSON that has the shape of a `T`. Clients do not keep it.
pub(crate) struct JsonText<T> {
    text: String,
    shape: PhantomData<fn() -> T>,
}

impl<T> JsonText<T> {
    pub(crate) fn new(text: String) -> Self {
        Self { text, shape: PhantomData }
    }
}

impl<T> IntoResponse for JsonText<T> {
    fn into_response(self) -> Response {
        let headers =
            [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
        (headers, self.text).into_response()
    }
}
