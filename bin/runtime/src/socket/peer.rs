//! A client at the other end of a connection, and the state that all connections of a socket share.

use std::path::PathBuf;
use std::sync::Arc;

use leftfold_events::{MessageId, SessionId};
use leftfold_process::{Origin, PeerProcess};
use tokio::sync::{mpsc, watch};

use super::sessions::Sessions;
use crate::client::Client;
use crate::remote::wire::{RpcError, name_of};

/// Whether new clients are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketState {
    Open,
    /// The node ends in the middle of a turn, or for an unknown reason.
    Gone,
    /// The node has finished its task, and ends.
    Ending,
    /// The node is about to release the store, in which all sessions rest.
    Resting,
}

/// State that all connections share.
#[derive(Clone)]
pub(super) struct SocketContext {
    pub(super) sessions: Arc<dyn Sessions>,
    /// The store whose sessions can be reached; `None`: those of all stores.
    pub(super) store: Option<PathBuf>,
    state: watch::Receiver<SocketState>,
    _alive: Option<mpsc::Sender<()>>,
}

impl SocketContext {
    /// A socket of one store, open until `state` changes. The receiver of `alive` learns when the
    /// last connection is gone.
    pub(super) fn of_store(
        sessions: Arc<dyn Sessions>,
        store: PathBuf,
        state: watch::Receiver<SocketState>,
        alive: mpsc::Sender<()>,
    ) -> Self {
        Self { sessions, store: Some(store), state, _alive: Some(alive) }
    }

    /// A connection that is open as long as the process runs.
    pub(super) fn of_process(sessions: Arc<dyn Sessions>) -> Self {
        let (_, state) = watch::channel(SocketState::Open);
        Self { sessions, store: None, state, _alive: None }
    }

    pub(super) fn state(&self) -> SocketState {
        *self.state.borrow()
    }

    /// Waits until no more clients are accepted.
    pub(super) async fn closing(&mut self) {
        // A dropped socket is closed too.
        let _ = self.state.wait_for(|state| *state != SocketState::Open).await;
    }
}

/// The client at the other end.
pub(super) struct Peer {
    pub(super) context: SocketContext,
    /// The name for a client that gives none.
    name: &'static str,
    pid: Option<i32>,
    /// `None`: the client has this process's standard input, and so this process's origin.
    process: Option<PeerProcess>,
    /// The message of another node, which has made sure that a person sends it.
    pub(super) message: Option<MessageId>,
}

impl Peer {
    /// A client of another process, whose pid may not be known.
    pub(super) fn at_socket(
        context: SocketContext,
        pid: Option<i32>,
        process: PeerProcess,
    ) -> Self {
        Self { context, name: "socket", pid, process: Some(process), message: None }
    }

    /// This process's own client, or one that another process `pid` passes on.
    pub(super) fn own(sessions: Arc<dyn Sessions>, name: &'static str, pid: Option<i32>) -> Self {
        let context = SocketContext::of_process(sessions);
        Self { context, name, pid, process: None, message: None }
    }

    /// The sender of a message that another node has put into an inbox.
    pub(super) fn of_message(sessions: Arc<dyn Sessions>, message: MessageId) -> Self {
        Self { message: Some(message), ..Self::own(sessions, "another node", None) }
    }

    /// # Errors
    /// The node accepts nothing new.
    pub(super) fn must_be_open(&self, session: SessionId) -> Result<(), RpcError> {
        match self.context.state() {
            SocketState::Open => Ok(()),
            SocketState::Ending | SocketState::Gone | SocketState::Resting => {
                Err(releasing(session))
            }
        }
    }

    /// A message goes to the owner directly: no node passes it on.
    pub(super) fn must_be_first(&self) -> Result<(), RpcError> {
        match self.message {
            Some(_) => Err(RpcError::leaving("another node owns the session")),
            None => Ok(()),
        }
    }

    pub(super) fn is_at_socket(&self) -> bool {
        self.process.is_some()
    }

    /// The client's name and process, for the log.
    pub(super) fn by(&self, name: Option<&str>) -> String {
        name_of(name.unwrap_or(self.name), self.pid)
    }

    /// Refuses the client if it acts for a call.
    pub(super) async fn must_be_person(&self, method: &str) -> Result<(), RpcError> {
        if self.message.is_some() {
            return Ok(());
        }
        let process = self.process;
        let origin = move || Ok(process.map_or_else(Origin::of_this_process, |it| it.origin()));
        match blocking(origin).await? {
            Origin::Person => Ok(()),
            Origin::Call => Err(RpcError::only_people(method)),
        }
    }

    /// Opens a session that the client names.
    pub(super) async fn open(&self, session: SessionId) -> Result<Client, RpcError> {
        let client = self.context.sessions.client(session, self.context.store.as_deref()).await?;
        Ok(client.settling(self.message))
    }
}

pub(super) fn releasing(session: SessionId) -> RpcError {
    RpcError::leaving(format!("the node is releasing session {session}: ask again"))
}

/// Runs work that waits for the disk. The end of the process cancels work that has not started.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(RpcError::leaving("the node has ended")),
        Err(error) => Err(RpcError::internal(error)),
    }
}
