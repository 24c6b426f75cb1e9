//! Accepts connections to the socket of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::{NodeMessage, StoreGuard, StoreListener};
use leftfold_store::{SocketLock, Store};
use ractor::ActorRef;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};

use super::connection;
use super::peer::{SocketContext, SocketState};
use super::sessions::{Register, SessionRegistry, Sessions};
use crate::client;
use crate::remote::path::{self, Identity};

/// How long to wait when the machine has no file descriptors left.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long the end waits for answers to requests that have arrived.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_millis(250);

/// A socket in its store's folder, which is removed when this is dropped.
#[derive(Debug)]
struct SocketFile {
    store: PathBuf,
    bound: Option<Identity>,
    _lock: SocketLock,
}

impl SocketFile {
    /// The lock is still held, so this cannot be another node's socket.
    fn remove(&mut self) {
        path::remove(&self.store, self.bound.take());
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A socket that clients can connect to already; they are answered once it is served.
#[derive(Debug)]
pub struct Bound {
    file: SocketFile,
    listener: UnixListener,
}

/// A socket that is being served; connections end with the process.
#[derive(Debug)]
pub struct Served {
    file: SocketFile,
    state: watch::Sender<SocketState>,
    /// Ends when no client is served any more.
    serving: mpsc::Receiver<()>,
}

impl Served {
    /// Closes the socket in good order: earlier requests are still answered, within the time limit.
    /// Unless a turn is `cut_off`, watching clients are told that this is not a crash.
    pub async fn close(mut self, cut_off: bool) {
        self.state.send_replace(if cut_off { SocketState::Gone } else { SocketState::Ending });
        let _ = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, self.serving.recv()).await;
    }
}

impl StoreGuard for Served {
    fn rest(self: Box<Self>) {
        self.state.send_replace(SocketState::Resting);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Before clients are told, since they would look for it again.
        self.file.remove();
        self.state.send_if_modified(|state| {
            let open = *state == SocketState::Open;
            *state = if open { SocketState::Gone } else { *state };
            open
        });
    }
}

/// Makes the socket of `store`, whose node this process is.
///
/// # Errors
/// The socket cannot be made, as on a read-only disk, or another node that shares the store has it; the node
/// works without one.
pub fn bind(store: &Path) -> anyhow::Result<Bound> {
    let listen = || {
        let taken = || std::io::Error::other("another node of this machine has it");
        let lock = SocketLock::take(store)?.ok_or_else(taken)?;
        let listener = path::bind(store)?;
        listener.set_nonblocking(true)?;
        Ok((UnixListener::from_std(listener)?, lock))
    };
    let listened: std::io::Result<_> = listen();
    let (listener, lock) = listened.with_context(|| {
        let socket = store.join(crate::session_paths::SOCKET);
        format!(
            "other processes cannot reach this node: cannot make the socket {}",
            socket.display()
        )
    })?;
    let file = SocketFile { store: store.to_owned(), bound: path::identity(store), _lock: lock };
    Ok(Bound { file, listener })
}

impl Bound {
    /// Answers clients that have connected, and those that connect from now on.
    pub fn serve(self, sessions: Arc<dyn Sessions>) -> Served {
        let Self { file, listener } = self;
        let (state, seen) = watch::channel(SocketState::Open);
        let (alive, serving) = mpsc::channel(1);
        let context = SocketContext::of_store(sessions, file.store.clone(), seen, alive);
        tokio::spawn(accept(listener, context));
        Served { file, state, serving }
    }
}

/// Serves the socket of every store that a node holds.
///
/// The node tells this [`StoreListener`] which stores it holds. A socket is made after the store's
/// lock was taken, and removed before the lock is released, so no node ever touches another node's
/// socket.
pub struct Sockets(pub Arc<dyn Sessions>);

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sockets")
    }
}

impl StoreListener for Sockets {
    /// Without a socket the sessions run all the same.
    fn hold(&self, store: &Path) -> Box<dyn StoreGuard> {
        match bind(store) {
            Ok(bound) => Box::new(bound.serve(Arc::clone(&self.0))),
            Err(error) => {
                crate::note(&format!("leftfold: {error:#}"));
                Box::new(NoSocket)
            }
        }
    }
}

#[derive(Debug)]
struct NoSocket;

impl StoreGuard for NoSocket {
    fn rest(self: Box<Self>) {}
}

/// Starts a node that keeps its sessions in `folder`, and speaks the protocols of `register` if it has the
/// `store` there.
///
/// # Errors
/// The node cannot be started.
pub async fn start_node(
    folder: Option<&Path>,
    store: Option<Store>,
    register: &[Register],
) -> anyhow::Result<(ActorRef<NodeMessage>, Arc<SessionRegistry>)> {
    let node = client::node().await?;
    let sessions = SessionRegistry::new(node.clone(), folder.map(Path::to_owned));
    if let Some(store) = &store {
        register.iter().for_each(|register| register(&sessions, &node, store));
    }
    node.cast(NodeMessage::Keep(Arc::new(Sockets(sessions.clone()))))?;
    if let Some(store) = store {
        sessions.keep(store).await?;
    }
    Ok((node, sessions))
}

async fn accept(listener: UnixListener, mut context: SocketContext) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = context.closing() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection::serve(stream, context.clone()));
            }
            Err(error) => {
                tracing::warn!("a client could not connect: {error}");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}
