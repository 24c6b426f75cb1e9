//! A client at the other end of a connection, and what all connections of a socket share.

use std::path::PathBuf;
use std::sync::Arc;

use leftfold_events::SessionId;
use tokio::sync::{mpsc, watch};

use super::sessions::Sessions;
use crate::client::Client;
use crate::remote::wire::{RpcError, name_of};

/// Whether clients are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    /// The node ends: a turn is cut off, or nobody knows.
    Gone,
    /// The node has done what it was to do, and ends.
    Ending,
    /// The node is about to let go of the store, in which all is at rest.
    Resting,
}

/// What all connections share.
#[derive(Clone)]
pub(super) struct House {
    pub(super) sessions: Arc<dyn Sessions>,
    /// Whose sessions can be reached; `None`: those of all.
    pub(super) store: Option<PathBuf>,
    door: watch::Receiver<Door>,
    _alive: Option<mpsc::Sender<()>>,
}

impl House {
    /// One that is open as long as `door` says so. Whoever has the other end of `alive` is told when the
    /// last connection is gone.
    pub(super) fn of_store(
        sessions: Arc<dyn Sessions>,
        store: PathBuf,
        door: watch::Receiver<Door>,
        alive: mpsc::Sender<()>,
    ) -> Self {
        Self { sessions, store: Some(store), door, _alive: Some(alive) }
    }

    /// One that is open for as long as the process runs.
    pub(super) fn of_process(sessions: Arc<dyn Sessions>) -> Self {
        let (_, door) = watch::channel(Door::Open);
        Self { sessions, store: None, door, _alive: None }
    }

    pub(super) fn door(&self) -> Door {
        *self.door.borrow()
    }

    /// Waits until no more clients are let in.
    pub(super) async fn closing(&mut self) {
        // a socket that was dropped is closed too
        let _ = self.door.wait_for(|door| *door != Door::Open).await;
    }
}

/// Who is at the other end.
pub(super) struct Peer {
    pub(super) house: House,
    /// What a client is called that does not say.
    name: &'static str,
    pid: Option<i32>,
}

impl Peer {
    /// A client of another process, whose id may not be known.
    pub(super) fn at_socket(house: House, pid: Option<i32>) -> Self {
        Self { house, name: "socket", pid }
    }

    /// This process's own client.
    pub(super) fn own(sessions: Arc<dyn Sessions>, name: &'static str) -> Self {
        Self { house: House::of_process(sessions), name, pid: None }
    }

    /// Who and where, for the log.
    pub(super) fn by(&self, name: Option<&str>) -> String {
        name_of(name.unwrap_or(self.name), self.pid)
    }

    /// A session that the client names.
    pub(super) async fn open(&self, session: SessionId) -> Result<Client, RpcError> {
        self.house.sessions.client(session, self.house.store.as_deref()).await
    }
}

/// Work that waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(RpcError::internal)?
}
