//! Listens, checks every connection, and ends in good order.
//!
//! One process has a store: the node. A server of another process passes its clients on to the node,
//! byte for byte, and takes the store over when the node ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leftfold_actors::NodeMessage;
use leftfold_events::SessionId;
use leftfold_runtime::Usage;
use leftfold_runtime::client;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_paths;
use leftfold_runtime::sign_in::LaterBrowser;
use leftfold_runtime::socket::{
    Joined, RETRY_DELAY, Register, SessionRegistry, is_refused, join, speak, start_node,
    take_over_unowned,
};
use listenfd::ListenFd;
use ractor::ActorRef;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::connection::{self, LimitedStream};
use crate::error::ApiError;
use crate::front::{Front, FrontOptions};
use crate::guard;
use crate::peer::{PeerCheck, Stranger};
use crate::service::{PROTOCOL, Service, serve_connection};

/// How long a client waits for the next node.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the server waits for the store before it says where it listens. Its clients then wait.
const STORE_TIMEOUT: Duration = Duration::from_millis(20);

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
    /// The executor where new sessions work. Its workspace takes the place of `directory`.
    pub executor: Option<String>,
    /// A front end in place of Leftfold's page: a folder, or the address of a server.
    pub web: Option<String>,
    /// `leftfold view`: the page is shown.
    pub page: Option<PageToOpen>,
}

/// The page to show once the server listens.
#[derive(Clone, Debug)]
pub struct PageToOpen {
    /// The run to show; `None`: the list of sessions.
    pub session: Option<SessionId>,
    /// `None`: only its address is printed.
    pub browser: Option<Arc<LaterBrowser>>,
}

/// Serves OpenCode's API until a signal ends the process. Turns that are running then stay
/// interrupted in their logs. A socket that systemd or another supervisor has opened (`LISTEN_FDS`)
/// takes the place of the address. `register` registers another protocol that the node speaks.
///
/// # Errors
/// [`Usage`]: an address that others can reach needs a password; the address cannot be used; there is
/// no such front end. The store cannot be opened.
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
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let server = Server::listen(options, inherited).await?;
    let mut own = None;
    let served = tokio::select! {
        served = server.serve(register, &mut own) => served,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    };
    if let Some((node, sessions)) = own {
        sessions.cut_all().await;
        leave(&node).await;
        sessions.hand_over().await;
    }
    served
}

/// The project of new sessions at this executor.
async fn at_executor(name: String) -> anyhow::Result<Project> {
    tokio::task::spawn_blocking(move || Project::at_executor(&name)).await?
}

/// A node of this process.
type OwnNode = (ActorRef<NodeMessage>, Arc<SessionRegistry>);

/// An address with its clients, whichever process has the store.
#[derive(Debug)]
struct Server {
    listener: TcpListener,
    folder: Arc<Path>,
    /// The options of `front`, for another process's node.
    told: Value,
    front: Arc<Front>,
    permits: Arc<Semaphore>,
    /// `None`: a password is checked instead.
    peers: Option<PeerCheck>,
    page: Option<PageToOpen>,
}

/// Where the requests of a connection are answered.
#[derive(Clone, Debug)]
enum Target {
    Here(Arc<Service>, Arc<Front>),
    /// In the node that has the store in this folder.
    Node(Arc<Path>, Value),
}

impl Server {
    async fn listen(
        options: &ServeOptions,
        inherited: Option<std::net::TcpListener>,
    ) -> anyhow::Result<Self> {
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
        let web = options.web.as_ref().map(|web| match std::fs::canonicalize(web) {
            // the node has another directory
            Ok(folder) => folder.display().to_string(),
            Err(_) => web.clone(),
        });
        let directory = match &options.executor {
            Some(name) => at_executor(name.clone()).await?.directory,
            None => options.directory.clone(),
        };
        let front = FrontOptions {
            hostname: hostname.clone(),
            cors: options.cors.clone(),
            credentials: password.map(|password| guard::credentials(&user, &password)),
            web,
            directory,
            executor: options.executor.clone(),
        };
        let told = serde_json::to_value(&front)?;
        let front = Arc::new(Front::new(front)?);
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
        let permits = Arc::new(Semaphore::new(connection::MAX_CONNECTIONS));
        let peers = (!front.guard.has_password()).then(PeerCheck::new);
        let page = options.page.clone();
        Ok(Self { listener, folder: folder.into(), told, front, permits, peers, page })
    }

    /// Serves clients: as the node, or through another process's node until that ends. A node that
    /// this process becomes is put into `own`.
    ///
    /// # Errors
    /// The store cannot be opened, or its node refuses this process.
    async fn serve(&self, register: Register, own: &mut Option<OwnNode>) -> anyhow::Result<()> {
        let mut is_announced = false;
        loop {
            let joined = join(&self.folder, PROTOCOL, &self.told);
            tokio::pin!(joined);
            let joined = match timeout(STORE_TIMEOUT, &mut joined).await {
                Ok(joined) => joined,
                // a large store takes a while to open, and another process may have it for a turn
                Err(_) => {
                    // a database may refuse it
                    if !session_paths::is_shared(&self.folder) {
                        self.announce(&mut is_announced)?;
                    }
                    joined.await
                }
            };
            match joined? {
                Joined::Broken(error) => return Err(error.into()),
                Joined::Own(store) => {
                    // the rest takes a while; connections wait meanwhile
                    self.announce(&mut is_announced)?;
                    let others = [register];
                    let started = start_node(Some(&self.folder), Some(store.clone()), &others);
                    let (_, sessions) = own.insert(started.await?);
                    if self.page.is_none() {
                        take_over_unowned(sessions);
                    }
                    let service = Service::register(sessions, &store);
                    drop(service.routes().await?);
                    return self.accept(&Target::Here(service, Arc::clone(&self.front))).await;
                }
                Joined::Node(mut idle) => {
                    self.announce(&mut is_announced)?;
                    let target = Target::Node(Arc::clone(&self.folder), self.told.clone());
                    // no request is made on it, so it only ends with the node
                    let ended = async { idle.read_u8().await.is_ok() };
                    tokio::select! {
                        served = self.accept(&target) => return served,
                        _ = ended => {
                            tracing::info!("the node of {} has ended", self.folder.display());
                        }
                    }
                }
            }
        }
    }

    /// Says where the server listens, once. A program that starts it by the name `opencode` waits for
    /// that name.
    #[allow(clippy::print_stdout, reason = "programs that start the server wait for this line")]
    fn announce(&self, is_announced: &mut bool) -> anyhow::Result<()> {
        use std::io::Write;
        if std::mem::replace(is_announced, true) {
            return Ok(());
        }
        let local = self.listener.local_addr()?;
        let host =
            if local.is_ipv6() { format!("[{}]", local.ip()) } else { local.ip().to_string() };
        let program = std::env::args_os().next().map(PathBuf::from);
        let is_opencode = program
            .as_ref()
            .and_then(|path| path.file_name())
            .is_some_and(|name| name == "opencode");
        let name = if is_opencode { "opencode" } else { "leftfold" };
        let address = format!("http://{host}:{}", local.port());
        if !self.front.guard.has_password() {
            leftfold_runtime::resolved_settings::offer_server(&address);
        }
        match &self.page {
            None => println!("{name} server listening on {address}"),
            Some(page) => {
                let session = page.session.map(|session| format!("?session={session}"));
                let address = format!("{address}/{}", session.unwrap_or_default());
                println!("{address}");
                if let Some(browser) = &page.browser {
                    browser.open(&address);
                }
            }
        }
        // nobody may be reading
        let _ = std::io::stdout().flush();
        if !self.front.guard.has_password() {
            leftfold_runtime::note(
                "leftfold: no password is set: every program of yours on this machine can use this server",
            );
        }
        Ok(())
    }

    /// Accepts connections.
    async fn accept(&self, target: &Target) -> anyhow::Result<()> {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                        // a client that takes not even this gets nothing
                        let _ = stream.try_write(connection::REFUSED);
                        continue;
                    };
                    let check = self.peers.clone().map(|peers| (peers, peer));
                    tokio::spawn(serve_client(stream, check, target.clone(), permit));
                }
                Err(error) => {
                    tracing::warn!("a client could not connect: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// Serves a client, whose process is checked first.
async fn serve_client(
    stream: TcpStream,
    check: Option<(PeerCheck, SocketAddr)>,
    target: Target,
    _permit: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let stranger = match (check, stream.local_addr()) {
        (Some((peers, peer)), Ok(local)) => peers.check(peer, local).await.err(),
        (Some(_), Err(_)) => Some(Stranger::OtherUser),
        (None, _) => None,
    };
    let stream = LimitedStream::new(stream);
    let served = match (stranger, target) {
        (Some(stranger), _) => {
            let refuse = move |_| async move { refused_peer(stranger) };
            serve_connection(stream, refuse, std::future::pending()).await;
            Ok(())
        }
        (None, Target::Here(service, front)) => service.serve(stream, front).await,
        (None, Target::Node(folder, front)) => pass_on(stream, &folder, &front).await,
    };
    if let Err(error) = served {
        tracing::warn!("a client is not answered: {error:#}");
    }
}

/// Copies bytes between a client and the node that has the store. While no process has it, the client
/// waits; the next node may be this process's own.
async fn pass_on(mut client: LimitedStream, folder: &Path, front: &Value) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut node = loop {
        match speak(folder, PROTOCOL, front).await {
            Ok(node) => break node,
            Err(error) if is_refused(&error) || began.elapsed() > NODE_TIMEOUT => {
                let _ = client.write_all(connection::REFUSED).await;
                return Err(error);
            }
            Err(_) => tokio::time::sleep(RETRY_DELAY).await,
        }
    };
    if let Err(error) = copy_bidirectional(&mut client, &mut node).await {
        tracing::debug!("a connection ended: {error}");
    }
    Ok(())
}

fn refused_peer(stranger: Stranger) -> Response {
    let why = match stranger {
        Stranger::OtherUser => {
            "without a password only programs of the user who runs this server may use it: set LEFTFOLD_SERVER_PASSWORD"
        }
        Stranger::Call => {
            "a command of a session cannot use the server that runs it: only a person may, from a process that \
             Leftfold did not start"
        }
    };
    ApiError::refused(StatusCode::FORBIDDEN, why).into_response()
}

/// Ends the node. Running turns stay interrupted in their logs.
async fn leave(node: &ActorRef<NodeMessage>) {
    client::stop_node(node).await;
    if let Err(error) = leftfold_runtime::end_all(true).await {
        tracing::warn!("{error:#}");
    }
}
