//! The actors: thin shells around the pure core. They add time and the results of I/O, and decide
//! nothing. They append to the log, stream the replies of models, run tool calls and ask people for permission. The agent
//! loop that decides all of this is `next` in the crate `leftfold-events`.
//!
//! ```text
//! Node ─┬─ Observers
//!       └─ Session ─┬─ Processor   ├─ ToolExecutor   ├─ Permission
//!                   ├─ Compaction  ├─ Snapshots      └─ Hooks
//! ```
//!
//! The module `messages` defines the messages between them. Modules import each other in one
//! direction: `node` and `rerun` use `session`, which uses `dispatch`, which uses the workers; all
//! of them use `messages`.
//!
//! Invariant: only Session appends; every effect is the dispatch of an intent that has just become
//! durable; workers know only `messages`, and report facts.

mod children;
mod clock;
mod coalesce;
mod collect_reply;
mod compaction;
mod dispatch;
mod hook_secrets;
mod hooks;
mod listener;
mod messages;
mod node;
mod observers;
mod permission;
mod processor;
mod recorded;
mod report;
mod rerun;
mod session;
mod snapshots;
mod tasks;
mod tool_executor;
mod wire_record;
mod world;

pub use listener::Listener;
pub use messages::{
    Answered, Error, ListedSession, NodeMessage, Observation, OpenSession, Opened, QuestionReply,
    SessionMessage, StoreGuard, StoreListener, Watch, WatchScope,
};
pub use node::Node;
pub use recorded::Recorded;
pub use rerun::{Reran, WireCounts, rerun};
pub use world::{ChildConfig, Models, TurnConfigs, World};

#[cfg(test)]
mod tests;
