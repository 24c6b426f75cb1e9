//! Answers the requests that come to a node, from its own server and from others on its store.
//!
//! A node that serves editors answers servers, too. The feed reads many logs, so it is opened for the
//! first client.

use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use leftfold_actors::NodeMessage;
use leftfold_runtime::socket::{SessionRegistry, Speaker, UpgradedConnection};
use leftfold_store::Store;
use ractor::ActorRef;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio::sync::broadcast::error::RecvError;
use tower::ServiceExt;

use crate::api::terminals::OnlyTicket;
use crate::api::{self, Api};
use crate::branches;
use crate::connection;
use crate::elsewhere;
use crate::error::ApiError;
use crate::feed::Feed;
use crate::front::{Front, FrontOptions};
use crate::guard::Refusal;

/// The protocol's name for `_leftfold/speak`. Its options are [`FrontOptions`].
pub(crate) const PROTOCOL: &str = "http";

/// How long open connections have at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
const REALM: &str = "Basic realm=\"Secure Area\"";
const ALLOWED_METHODS: &str = "GET, HEAD, PUT, PATCH, POST, DELETE";
/// Headers of answers that pages may read.
const EXPOSED: &str = "Link, X-Next-Cursor";

/// From now on the node answers the clients that other servers pass on to it. Those servers have
/// checked the processes of their clients; their requests are checked here.
pub fn register(sessions: &Arc<SessionRegistry>, _: &ActorRef<NodeMessage>, store: &Store) {
    Service::register(sessions, store);
}

/// The API of a node.
#[derive(Debug)]
pub(crate) struct Service {
    sessions: Weak<SessionRegistry>,
    store: Store,
    routes: OnceCell<Router>,
}

impl Service {
    pub(crate) fn register(sessions: &Arc<SessionRegistry>, store: &Store) -> Arc<Self> {
        let service = Arc::new(Self {
            sessions: Arc::downgrade(sessions),
            store: store.clone(),
            routes: OnceCell::new(),
        });
        let spoken = Arc::clone(&service);
        let speaker: Speaker =
            Arc::new(move |UpgradedConnection { input, output, options, .. }| {
                let service = Arc::clone(&spoken);
                Box::pin(async move {
                    let front = serde_json::from_value::<FrontOptions>(options);
                    let served = match front.map_err(anyhow::Error::from).and_then(Front::new) {
                        Ok(front) => {
                            service.serve(tokio::io::join(input, output), Arc::new(front)).await
                        }
                        Err(error) => Err(error),
                    };
                    if let Err(error) = served {
                        tracing::warn!("clients of another server are not answered: {error:#}");
                    }
                })
            });
        sessions.speaks(PROTOCOL, speaker);
        service
    }

    /// Opens the feed, unless it is open.
    ///
    /// # Errors
    /// The feed's journal cannot be read or written.
    pub(crate) async fn routes(&self) -> anyhow::Result<Router> {
        let open = async || {
            let sessions = self.sessions.upgrade().context("the node has ended")?;
            let (reader, is_shared) = (self.store.reader(), self.store.is_shared());
            let feed = tokio::task::spawn_blocking(move || Feed::open(reader, is_shared)).await??;
            let api = Arc::new(Api::new(Arc::clone(&feed), sessions));
            // first those that run: the others have nobody who runs their open turns
            api.follow_all().await;
            tell_of_language_servers(&feed);
            tell_of_mcp_servers(&feed);
            branches::tell_of_changes(&api.branches, &feed);
            tokio::task::spawn_blocking(move || feed.load_recent()).await?;
            elsewhere::follow(&api.sessions, &api.feed);
            anyhow::Ok(api::router(api))
        };
        self.routes.get_or_try_init(open).await.cloned()
    }

    /// Answers the requests of a connection to `front`, until it ends or the node does.
    ///
    /// # Errors
    /// The feed cannot be opened.
    pub(crate) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        front: Arc<Front>,
    ) -> anyhow::Result<()> {
        let sessions = self.sessions.upgrade().context("the node has ended")?;
        let _speaking = sessions.speaking();
        let routes = self.routes().await?;
        let answer = move |request| respond(Arc::clone(&front), routes.clone(), request);
        serve_connection(stream, answer, sessions.cut()).await;
        Ok(())
    }
}

/// Tells clients that the list of language servers has changed.
fn tell_of_language_servers(feed: &Arc<Feed>) {
    let (feed, mut changes) = (Arc::downgrade(feed), leftfold_lsp::changes());
    tokio::spawn(async move {
        loop {
            let directory = match changes.recv().await {
                Ok(directory) => directory,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            let Some(feed) = feed.upgrade() else { return };
            feed.announce(&directory.display().to_string(), "lsp.updated", json!({}));
        }
    });
}

/// Tells clients that a MCP server has other tools than before.
fn tell_of_mcp_servers(feed: &Arc<Feed>) {
    let (feed, mut changes) = (Arc::downgrade(feed), leftfold_mcp::tool_changes());
    tokio::spawn(async move {
        loop {
            let (directory, server) = match changes.recv().await {
                Ok(changed) => changed,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            let Some(feed) = feed.upgrade() else { return };
            let directory = directory.display().to_string();
            feed.announce(&directory, "mcp.tools.changed", json!({ "server": server }));
        }
    });
}

/// Answers the requests of a connection, which ends soon after `cut`.
pub(crate) async fn serve_connection<F, A>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: F,
    cut: impl Future<Output = ()>,
) where
    F: Fn(Request) -> A + Clone + Send + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    let service = tower::service_fn(move |request: axum::http::Request<Incoming>| {
        let answered = answer(request.map(Body::new));
        async { Ok::<Response, std::convert::Infallible>(answered.await) }
    });
    let builder = connection::builder();
    let served = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = cut => {
            served.as_mut().graceful_shutdown();
            // feeds never end by themselves, and are cut off: OpenCode's SDK connects again after that, and takes an
            // end for the last one
            tokio::time::timeout(CLOSE_TIMEOUT, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// Checks a request and answers it, with the headers that allowed pages need.
async fn respond(front: Arc<Front>, routes: Router, mut request: Request) -> Response {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN).cloned();
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let is_preflight = *request.method() == Method::OPTIONS;
    let mut checked = front.guard.check(request.method(), request.uri(), headers);
    if checked == Err(Refusal::Unauthorized) && OnlyTicket::may_open(&request) {
        request.extensions_mut().insert(OnlyTicket(true));
        checked = Ok(());
    }
    let mut response = match checked {
        Err(Refusal::Unauthorized) => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, REALM)]).into_response()
        }
        Err(Refusal::Host) => {
            return ApiError::refused(
                StatusCode::FORBIDDEN,
                "the `Host` of the request is not this server's: allow its origin with --cors",
            )
            .into_response();
        }
        Err(Refusal::Origin) => {
            return ApiError::refused(
                StatusCode::FORBIDDEN,
                "pages of this origin may not use this server: allow it with --cors ORIGIN",
            )
            .into_response();
        }
        Ok(()) if is_preflight => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => {
            request.extensions_mut().insert(front);
            let Ok(response) = routes.oneshot(request).await;
            response
        }
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if is_preflight {
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static(ALLOWED_METHODS),
            );
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
            if let Some(asked) = asked {
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked);
            }
        }
    }
    response
}
