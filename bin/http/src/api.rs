//! The routes of OpenCode's API, and the requests that all of them share.

mod config;
mod events;
mod files;
mod prompt;
mod questions;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use leftfold_actors::NodeMessage;
use leftfold_events::SessionId;
use leftfold_runtime::client::Client;
use leftfold_runtime::socket::{SessionRegistry, Sessions};
use leftfold_store::Store;
use ractor::ActorRef;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::feed::Feed;
use crate::opencode::ids;

/// The name of these clients in the log.
pub(crate) const BY: &str = "http";

pub(crate) type Answer = Result<axum::Json<Value>, ApiError>;

/// Everything that requests are answered from.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) feed: Arc<Feed>,
    pub(crate) sessions: Arc<SessionRegistry>,
    store: Store,
    node: ActorRef<NodeMessage>,
    /// The directory of requests that name none.
    directory: PathBuf,
}

impl Api {
    pub(crate) fn new(
        feed: Arc<Feed>,
        sessions: Arc<SessionRegistry>,
        (store, node): (Store, ActorRef<NodeMessage>),
        directory: PathBuf,
    ) -> Self {
        Self { feed, sessions, store, node, directory }
    }

    /// Removes a root session with its subagents.
    pub(crate) async fn remove(&self, session: SessionId) -> Result<(), ApiError> {
        let tree = self
            .feed
            .with(session, |tree| tree.sessions().map(|(id, _)| id).collect::<Vec<SessionId>>());
        let tree = tree.unwrap_or_default();
        if tree.first() != Some(&session) && self.feed.root_of(session) != Some(session) {
            return Err(ApiError::bad_request("a subagent's session is removed with its parent"));
        }
        let heads = leftfold_store::heads(self.store.dir());
        let shares = |head: &leftfold_store::Head| {
            let of = head.summary.as_ref().and_then(|summary| summary.fork_of);
            !tree.contains(&head.session) && of.is_some_and(|of| tree.contains(&of))
        };
        if heads.iter().any(shares) {
            return Err(ApiError::bad_request(
                "forks share this session's events: remove the forks first",
            ));
        }
        for session in &tree {
            let closed =
                ractor::call!(self.node, |reply| NodeMessage::Close { session: *session, reply });
            closed.map_err(|error| ApiError::from(anyhow::Error::from(error)))?;
        }
        let store = self.store.clone();
        blocking(move || Ok(store.forget(&tree)?)).await
    }

    /// Puts every session that is opened in this node into the feed, whoever opens it.
    pub(crate) fn follow_all(self: &Arc<Self>) {
        let feed = Arc::clone(&self.feed);
        self.sessions.opened_to(Box::new(move |client: &Client| {
            let (feed, client) = (Arc::clone(&feed), client.clone());
            Box::pin(async move {
                if let Err(error) = feed.follow(&client).await {
                    tracing::warn!("a session's events do not reach the feed: {error:#}");
                }
            })
        }));
    }

    /// A client of a session, which is opened if necessary.
    pub(crate) async fn client(&self, session: SessionId) -> Result<Client, ApiError> {
        Ok(self.sessions.client(session, None).await?)
    }
}

pub(crate) fn routes(api: Arc<Api>) -> Router {
    let (many, one) = ("/session", "/session/{id}");
    let under = |rest: &str| format!("/session/{{id}}/{rest}");
    Router::new()
        .route("/global/event", get(events::global))
        .route("/event", get(events::of_directory))
        .route("/global/health", get(config::health))
        .route("/api/health", get(config::health))
        .route("/config", get(config::config))
        .route("/global/config", get(config::config))
        .route("/config/providers", get(config::config_providers))
        .route("/provider", get(config::providers))
        .route("/provider/auth", get(config::empty_object))
        .route("/agent", get(config::agents))
        .route("/command", get(config::commands))
        .route("/path", get(config::path))
        .route("/project", get(config::projects))
        .route("/project/current", get(config::project))
        .route("/project/{id}/directories", get(config::directories))
        .route("/lsp", get(config::empty_list))
        .route("/formatter", get(config::empty_list))
        .route("/mcp", get(config::servers))
        .route("/experimental/capabilities", get(config::capabilities))
        .route("/experimental/console", get(config::console))
        .route("/experimental/resource", get(config::empty_object))
        .route("/experimental/workspace", get(config::empty_list))
        .route("/experimental/workspace/status", get(config::empty_list))
        .route("/experimental/tool/ids", get(config::tools))
        .route("/log", post(config::log))
        .route("/instance/dispose", post(config::dispose))
        .route("/api/location", get(config::location))
        .route("/api/{list}", get(config::located_list))
        .route("/api/fs/find", get(files::find_located))
        .route("/vcs", get(files::vcs))
        .route("/vcs/diff", get(files::vcs_diff))
        .route("/find", get(files::find))
        .route("/find/file", get(files::find_file))
        .route("/find/symbol", get(config::empty_list))
        .route("/file", get(files::list))
        .route("/file/content", get(files::content))
        .route("/file/status", get(files::status))
        .route(many, get(sessions::list).post(sessions::create))
        .route("/session/status", get(sessions::statuses))
        .route(one, get(sessions::one).patch(sessions::change).delete(sessions::remove))
        .route(&under("children"), get(sessions::children))
        .route(&under("todo"), get(sessions::todo))
        .route(&under("diff"), get(sessions::diff))
        .route(&under("message"), get(sessions::messages).post(prompt::prompt))
        .route(&under("message/{message}"), get(sessions::message))
        .route(&under("prompt_async"), post(prompt::prompt_async))
        .route(&under("command"), post(prompt::command))
        .route(&under("shell"), post(prompt::shell))
        .route(&under("summarize"), post(prompt::summarize))
        .route(&under("init"), post(prompt::init))
        .route(&under("resume"), post(prompt::resume))
        .route(&under("abort"), post(sessions::abort))
        .route(&under("fork"), post(sessions::fork))
        .route(&under("revert"), post(sessions::revert))
        .route(&under("unrevert"), post(sessions::unrevert))
        .route(&under("permissions/{request}"), post(questions::respond))
        .route("/permission", get(questions::permissions))
        .route("/permission/{request}/reply", post(questions::permission))
        .route("/question", get(questions::questions))
        .route("/question/{request}/reply", post(questions::reply))
        .route("/question/{request}/reject", post(questions::reject))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(api)
}

async fn unknown(OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::not_found(format!("this server has no `{}`", uri.path()))
}

/// The directory that a request is about: the query's, the header's, or the server's own.
#[derive(Clone, Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl FromRequestParts<Arc<Api>> for Directory {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        Ok(Self(given_directory(parts)?.unwrap_or_else(|| api.directory.clone())))
    }
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
    let path = Path::new(&named);
    let wrong = |why: &str| ApiError::bad_request(format!("directory: `{named}` {why}"));
    if !path.is_absolute() {
        return Err(wrong("is not an absolute path"));
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
        let session = ids::session(text).ok_or_else(missing)?;
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
        let bytes = Bytes::from_request(request, api).await;
        let bytes = bytes.map_err(|error| {
            ApiError::refused(
                error.into_response().status(),
                "the body is too large, or was cut off",
            )
        })?;
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

/// Runs work that reads the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|died| Err(died.into())).map_err(ApiError::from)
}

pub(crate) fn yes() -> Answer {
    Ok(axum::Json(json!(true)))
}

/// An answer without a body.
pub(crate) fn nothing() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
