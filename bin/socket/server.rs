//! Takes connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};

use super::path::{self, Identity};
use super::{Sessions, connection};

/// How long a machine that has no more file descriptors is left alone.
const BREATH: Duration = Duration::from_millis(100);

/// How long the end waits for what clients have asked already.
const LAST_ANSWERS: Duration = Duration::from_millis(250);

/// A socket that is being served. It is removed when this is dropped; connections end with the
/// process.
#[derive(Debug)]
pub(crate) struct Served {
    store: PathBuf,
    bound: Option<Identity>,
    closing: watch::Sender<bool>,
    /// Ends when nobody is served any more.
    serving: mpsc::Receiver<()>,
}

impl Served {
    /// Ends it in good order: what was asked before is still answered, within reason.
    pub(crate) async fn close(mut self) {
        self.closing.send_replace(true);
        let _ = tokio::time::timeout(LAST_ANSWERS, self.serving.recv()).await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        path::remove(&self.store, self.bound);
    }
}

/// Serves the socket of `store`, of which this process is the node.
///
/// # Errors
/// It can not be made, as on a disk that is read-only; the node does without.
pub(crate) fn serve(store: &Path, sessions: Arc<dyn Sessions>) -> anyhow::Result<Served> {
    let listen = || {
        let listener = path::bind(store)?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    };
    let listener = listen().with_context(|| {
        let socket = store.join(path::NAME);
        format!("other processes can not reach this node: no socket {}", socket.display())
    })?;
    let bound = path::identity(store);
    let (closing, closed) = watch::channel(false);
    let (alive, serving) = mpsc::channel(1);
    tokio::spawn(accept(listener, House { sessions, closing: closed, _alive: alive }));
    Ok(Served { store: store.to_owned(), bound, closing, serving })
}

/// What all connections share.
#[derive(Clone)]
pub(super) struct House {
    pub(super) sessions: Arc<dyn Sessions>,
    closing: watch::Receiver<bool>,
    _alive: mpsc::Sender<()>,
}

impl House {
    /// Whether the node is about to end.
    pub(super) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the node is about to end.
    pub(super) async fn closing(&mut self) {
        // a socket that was dropped is closed too
        let _ = self.closing.wait_for(|closing| *closing).await;
    }
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
