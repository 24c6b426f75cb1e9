//! What can go wrong with a node or one of its sessions, as its clients are told.

/// Why a node can not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] leftfold_store::Error),
    #[error("session {0} is not open in this node")]
    NotOpen(leftfold_events::SessionId),
    #[error("the session died before it could answer: {0}")]
    Gone(String),
    #[error("an actor could not be started: {0}")]
    Spawn(#[from] ractor::SpawnErr),
    #[error("opening a session failed unexpectedly: {0}")]
    Blocking(#[from] tokio::task::JoinError),
}
