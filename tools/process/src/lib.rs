//! Child processes: their environment, their marks, and how to end them with everything they have
//! started. Also the pool that starts, restarts and ends MCP servers, plugins and language servers.
//!
//! A process can leave its process group, so ending the group is not enough. But every process
//! inherits its environment: the variable `LEFTFOLD_CALL` names the call it belongs to, even when
//! the node that started it is dead. Marks work on Linux; elsewhere only process groups are ended.
//!
//! [`Origin`] answers the opposite question: whether a process acts for a person or for a call.
//!
//! This crate never reads a log and never decides which calls to end.

#[cfg(target_os = "linux")]
mod ancestry;
mod child;
mod environment;
mod files;
mod helper;
mod isolation;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod linux;
mod mark;
mod origin;
#[cfg(not(target_os = "linux"))]
mod other;
mod pool;
#[cfg(target_os = "linux")]
mod process_search;
mod running;
#[cfg(target_os = "linux")]
mod table;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
mod threads;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use other as system;

pub use child::{End, OPT_OUT, Program, ServerProcess, Started, StderrTail};
pub use environment::environment;
pub use files::{open_files, raise_open_files};
pub use helper::{HelperChannel, exit_status};
pub use isolation::{
    close_descriptors_on_exec, spawn_companion, spawn_isolated, spawn_on_terminal,
};
pub use mark::{CALL, NODE};
pub use origin::{Origin, PeerProcess};
pub use pool::{
    Connection, Failure, Pool, PoolUse, Pools, Service, SharedServices, Supervised, wait_for,
};
pub use running::{CallProcesses, end_marked, end_marked_later, marks, server_mark, settled};
pub use system::{
    become_subreaper, end_descendants, end_earlier, end_orphans, end_strays, hide_memory,
};
pub use threads::{can_start, refused};
