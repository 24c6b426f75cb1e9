//! Listens, checks every request, and ends in good order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use leftfold_actors::NodeMessage;
use leftfold_runtime::Usage;
use leftfold_runtime::client;
use leftfold_runtime::remote::Remote;
use leftfold_runtime::session_paths;
use leftfold_runtime::socket::{SessionRegistry, Sockets};
use leftfold_store::Store;
use listenfd::ListenFd;
use ractor::ActorRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::{self, Api};
use crate::connection::{self, LimitedStream};
use crate::error::ApiError;
use crate::feed::Feed;
use crate::guard::{self, Guard, Refusal};
use crate::peer;
use crate::web::Web;

/// How long open connections have at the end.
const LEAVE: Duration = Duration::from_millis(500);
const REALM: &str = "Basic realm=\"Secure Area\"";
const ALLOWED_METHODS: &str = "GET, HEAD, PUT, PATCH, POST, DELETE";
/// Headers of answers that pages may read.
const EXPOSED: &str = "Link, X-Next-Cursor";

/// The options of `leftfold serve`.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub hostname: String,
    /// 0: any free port.
    pub port: u16,
    /// The folder of all sessions; by default `store` in the data folder.
    pub store: Option<PathBuf>,
    /// Further origins whose pages may ask.
    pub cors: Vec<String>,
    /// The directory of requests that name none.
    pub directory: PathBuf,
    /// A front end: a folder, or the address of a server.
    pub web: Option<String>,
}

/// Registers the protocols that other processes may speak with this node.
pub type Register = fn(&Arc<SessionRegistry>, &ActorRef<NodeMessage>, &Store);

/// Serves OpenCode's API until a signal ends the process. Turns that are running then stay
/// interrupted in their logs. A socket that systemd or another supervisor has opened (`LISTEN_FDS`)
/// takes the place of the address.
///
/// # Errors
/// [`Usage`]: an address that others can reach needs a password; another node has the store; the
/// address cannot be used; there is no such front end.
pub fn serve(options: &ServeOptions, register: Register) -> anyhow::Result<ExitCode> {
    // before there are threads: it takes variables out of the environment
    let inherited = ListenFd::from_env().take_tcp_listener(0);
    let inherited = inherited.map_err(|error| Usage(format!("LISTEN_FDS: {error}")))?;
    let runtime = leftfold_runtime::runtime()?;
    let outcome = runtime.block_on(run(options, inherited, register));
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn run(
    options: &ServeOptions,
    inherited: Option<std::net::TcpListener>,
    register: Register,
) -> anyhow::Result<()> {
    let web = options.web.as_deref().map(Web::parse).transpose()?;
    let listener = match inherited {
        Some(listener) => {
            listener.set_nonblocking(true)?;
            Some(TcpListener::from_std(listener)?)
        }
        None => None,
    };
    let hostname = match &listener {
        Some(listener) => listener.local_addr()?.ip().to_string(),
        None => options.hostname.clone(),
    };
    let variable = |names: &[&str]| {
        names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    };
    let password = variable(&["LEFTFOLD_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"]);
    let user = variable(&["LEFTFOLD_SERVER_USERNAME", "OPENCODE_SERVER_USERNAME"]);
    let user = user.unwrap_or_else(|| "opencode".to_owned());
    if password.is_none() && !guard::is_loopback(&hostname) {
        return Err(Usage(format!(
            "others can reach {hostname}: set LEFTFOLD_SERVER_PASSWORD, or listen on 127.0.0.1"
        ))
        .into());
    }
    let login = password.as_deref().map(|password| (user.as_str(), password));
    let guard = Guard::new(&hostname, &options.cors, login);

    let folder = match &options.store {
        Some(folder) => std::path::absolute(folder)?,
        None => session_paths::shared_store()?,
    };
    let listener = match listener {
        Some(listener) => listener,
        None => {
            let address = (hostname.trim_matches(['[', ']']), options.port);
            TcpListener::bind(address).await.map_err(|error| {
                Usage(format!("cannot listen on {hostname}:{}: {error}", options.port))
            })?
        }
    };
    let opened = folder.clone();
    let store = tokio::task::spawn_blocking(move || Store::open(&opened)).await?;
    let store = store.map_err(|error| taken(error, &folder))?;

    let node = client::node().await?;
    let sessions = SessionRegistry::new(node.clone(), Some(folder));
    register(&sessions, &node, &store);
    let cut = Arc::clone(&sessions);
    node.cast(NodeMessage::Keep(Arc::new(Sockets(sessions.clone()))))?;
    let reader = store.reader();
    sessions.keep(store.clone()).await?;
    let feed = tokio::task::spawn_blocking(move || Feed::open(reader)).await??;
    let followed = Arc::clone(&feed);
    let api = Arc::new(Api::new(followed, sessions, options.directory.clone(), web));
    api.follow_all();

    // before anybody learns that the server is there
    let signals = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ];
    let local = listener.local_addr()?;
    let host = if local.is_ipv6() { format!("[{}]", local.ip()) } else { local.ip().to_string() };
    announce(&format!("http://{host}:{}", local.port()));
    if !guard.has_password() {
        leftfold_runtime::note(
            "leftfold: no password is set: every program of yours on this machine can use this server",
        );
    }
    let checks = Arc::new(guard);
    let routes = api::router(Arc::clone(&api))
        .layer(middleware::from_fn_with_state(Arc::clone(&checks), check));
    // connections wait meanwhile
    tokio::task::spawn_blocking(move || feed.load_recent()).await?;
    let served = accept(listener, routes, !checks.has_password(), signals).await;
    cut.cut_all().await;
    leave(&node).await;
    served
}

/// The line that says where the server listens. A program that starts it by the name `opencode`
/// waits for that name.
#[allow(clippy::print_stdout, reason = "programs that start the server wait for this line")]
fn announce(url: &str) {
    use std::io::Write;
    let program = std::env::args_os().next().map(PathBuf::from);
    let is_opencode =
        program.as_ref().and_then(|path| path.file_name()).is_some_and(|name| name == "opencode");
    let name = if is_opencode { "opencode" } else { "leftfold" };
    println!("{name} server listening on {url}");
    // nobody may be reading
    let _ = std::io::stdout().flush();
}

fn taken(error: leftfold_store::Error, folder: &std::path::Path) -> anyhow::Error {
    if !matches!(error, leftfold_store::Error::Locked { .. }) {
        return error.into();
    }
    let holder = Remote::holder(folder).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    Usage(format!(
        "another node{holder} has the store {}: end it, or name another folder with --store",
        folder.display()
    ))
    .into()
}

/// Accepts connections until a signal comes.
async fn accept(
    listener: TcpListener,
    routes: Router,
    judges_peers: bool,
    signals: [Signal; 3],
) -> anyhow::Result<()> {
    let [mut terminate, mut interrupt, mut hangup] = signals;
    let connections = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(connection::MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                    // a client that takes not even this gets nothing
                    let _ = stream.try_write(connection::REFUSED);
                    continue;
                };
                let judged = judges_peers.then_some(peer);
                let watcher = connections.watcher();
                tokio::spawn(serve_connection(stream, judged, routes.clone(), watcher, permit));
            }
            Err(error) => {
                tracing::warn!("a client could not connect: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    // feeds never end by themselves
    let _ = tokio::time::timeout(LEAVE, connections.shutdown()).await;
    Ok(())
}

/// Answers the requests of a connection. The process of `peer` is checked first.
async fn serve_connection(
    stream: TcpStream,
    peer: Option<SocketAddr>,
    routes: Router,
    watcher: hyper_util::server::graceful::Watcher,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let stranger = match (peer, stream.local_addr()) {
        (Some(peer), Ok(local)) => {
            let judged = tokio::task::spawn_blocking(move || peer::check(peer, local)).await;
            judged.unwrap_or(Err(peer::Stranger::OtherUser)).err()
        }
        (Some(_), Err(_)) => Some(peer::Stranger::OtherUser),
        (None, _) => None,
    };
    let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
        let routes = routes.clone();
        async move {
            let response = match stranger {
                Some(stranger) => refused_peer(stranger),
                None => {
                    use tower::ServiceExt;
                    let Ok(response) = routes.oneshot(request.map(Body::new)).await;
                    response
                }
            };
            Ok::<Response, std::convert::Infallible>(response)
        }
    });
    let builder = connection::builder();
    let stream = TokioIo::new(LimitedStream::new(stream));
    let served = builder.serve_connection(stream, TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(served.into_owned()).await {
        tracing::debug!("a connection ended: {error}");
    }
}

fn refused_peer(stranger: peer::Stranger) -> Response {
    let why = match stranger {
        peer::Stranger::OtherUser => {
            "without a password only programs of the user who runs this server may use it: set LEFTFOLD_SERVER_PASSWORD"
        }
        peer::Stranger::Call => {
            "a command of a session cannot use the server that runs it: only a person may, from a process that \
             Leftfold did not start"
        }
    };
    ApiError::refused(StatusCode::FORBIDDEN, why).into_response()
}

/// Checks a request, and adds the headers that allowed pages need.
async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let origin = headers.get(header::ORIGIN).cloned();
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let is_preflight = *request.method() == Method::OPTIONS;
    let mut response = match guard.check(request.method(), request.uri(), headers) {
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
        Ok(()) => next.run(request).await,
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

/// Ends the node. Running turns stay interrupted in their logs.
async fn leave(node: &ractor::ActorRef<NodeMessage>) {
    client::stop_node(node).await;
    if let Err(error) = leftfold_runtime::end_all(true).await {
        tracing::warn!("{error:#}");
    }
}
