//! Takes connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use super::path::{self, Identity};
use super::{Sessions, connection};

/// How long a machine that has no more file descriptors is left alone.
const BREATH: Duration = Duration::from_millis(100);

/// A socket that is being served. It is removed when this is dropped; connections end with the
/// process.
#[derive(Debug)]
pub(crate) struct Served {
    store: PathBuf,
    bound: Option<Identity>,
    accepting: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.accepting.abort();
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
    let accepting = tokio::spawn(accept(listener, sessions));
    Ok(Served { store: store.to_owned(), bound, accepting })
}

async fn accept(listener: UnixListener, sessions: Arc<dyn Sessions>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection::serve(stream, Arc::clone(&sessions)));
            }
            Err(error) => {
                tracing::warn!("a client could not connect: {error}");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}
