//! Takes connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::{StoreGuard, StoreListener};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};

use super::connection;
use super::peer::{Door, House};
use super::sessions::Sessions;
use crate::remote::path::{self, Identity};

/// How long a machine that has no more file descriptors is left alone.
const BREATH: Duration = Duration::from_millis(100);

/// How long the end waits for what clients have asked already.
const LAST_ANSWERS: Duration = Duration::from_millis(250);

/// A socket that stands in its store's folder, and is removed when this is dropped.
#[derive(Debug)]
struct Standing {
    store: PathBuf,
    bound: Option<Identity>,
}

impl Standing {
    /// The store's lock is still held, so that this is no other node's socket.
    fn remove(&mut self) {
        path::remove(&self.store, self.bound.take());
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A socket to which clients may connect already; they are heard once it is served.
#[derive(Debug)]
pub struct Bound {
    standing: Standing,
    listener: UnixListener,
}

/// A socket that is being served; connections end with the process.
#[derive(Debug)]
pub struct Served {
    standing: Standing,
    door: watch::Sender<Door>,
    /// Ends when nobody is served any more.
    serving: mpsc::Receiver<()>,
}

impl Served {
    /// Ends it in good order: what was asked before is still answered, within reason. Unless a
    /// turn is `cut_off`, whoever watches is told that this is no death.
    pub async fn close(mut self, cut_off: bool) {
        self.door.send_replace(if cut_off { Door::Gone } else { Door::Ending });
        let _ = tokio::time::timeout(LAST_ANSWERS, self.serving.recv()).await;
    }
}

impl StoreGuard for Served {
    fn rest(self: Box<Self>) {
        self.door.send_replace(Door::Resting);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // before clients are told, who would look for it
        self.standing.remove();
        self.door.send_if_modified(|door| {
            let open = *door == Door::Open;
            *door = if open { Door::Gone } else { *door };
            open
        });
    }
}

/// Makes the socket of `store`, of which this process is the node.
///
/// # Errors
/// It can not be made, as on a disk that is read-only; the node does without.
pub fn bind(store: &Path) -> anyhow::Result<Bound> {
    let listen = || {
        let listener = path::bind(store)?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    };
    let listener = listen().with_context(|| {
        let socket = store.join(crate::session_paths::SOCKET);
        format!("other processes can not reach this node: no socket {}", socket.display())
    })?;
    let standing = Standing { store: store.to_owned(), bound: path::identity(store) };
    Ok(Bound { standing, listener })
}

impl Bound {
    /// Hears who has connected, and whoever does from now on.
    pub fn serve(self, sessions: Arc<dyn Sessions>) -> Served {
        let Self { standing, listener } = self;
        let (door, seen) = watch::channel(Door::Open);
        let (alive, serving) = mpsc::channel(1);
        let house = House::of_store(sessions, standing.store.clone(), seen, alive);
        tokio::spawn(accept(listener, house));
        Served { standing, door, serving }
    }
}

/// Serves the socket of every store that a node holds.
pub struct Sockets(pub Arc<dyn Sessions>);

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sockets")
    }
}

impl StoreListener for Sockets {
    /// Without a socket the sessions go on all the same.
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

async fn accept(listener: UnixListener, mut house: House) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = house.closing() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection::serve(stream, house.clone()));
            }
            Err(error) => {
                tracing::warn!("a client could not connect: {error}");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
