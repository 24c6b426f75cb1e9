//! The actors: thin shells around the pure core. They add time and the results of I/O, and decide
//! nothing.
//!
//! ```text
//! Node ─┬─ Observers
//!       └─ Session ─┬─ Processor   ├─ ToolExecutor   ├─ Permission   ├─ Compaction   └─ Snapshots
//! ```
//!
//! Invariant: only Session appends; every effect is the dispatch of an intent that has just become
//! durable; workers know only Session, and tell it facts.

mod children;
mod clock;
mod coalesce;
mod compaction;
mod dispatch;
pub mod equip;
mod inquiries;
mod listener;
mod node;
mod observers;
mod permission;
mod plugins;
mod processor;
mod report;
mod rerun;
mod session;
mod snapshots;
mod switch;
mod tool_executor;
mod whole;
mod world;

pub use listener::Listener;
pub use node::{Hold, Keeper, Node, NodeMessage, Open, Opened};
pub use observers::{Family, Observation, Recorded, Watch};
pub use permission::Answered;
pub use rerun::rerun;
pub use session::{Reply, SessionMessage};
pub use world::{ChildConfig, Models, TurnConfigs, World};

/// What can go wrong with a node or one of its sessions.
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

#[cfg(test)]
mod tests;
