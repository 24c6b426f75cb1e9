//! Child processes: their environment, their marks, and the end of them with all they have started.
//!
//! A command's process group is not enough: a process can leave it. But every process inherits its
//! environment, so the variable `LEFTFOLD_CALL` names the call it belongs to, also when the node that
//! started it is long dead. Linux in full; elsewhere by process group alone.

mod child;
mod environment;
#[cfg(target_os = "linux")]
mod hunt;
#[cfg(target_os = "linux")]
mod linux;
mod mark;
#[cfg(not(target_os = "linux"))]
mod other;
mod pool;
mod running;
#[cfg(target_os = "linux")]
mod table;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use other as system;

pub use child::{LastWords, Program, ServerProcess, Started};
pub use environment::environment;
pub use mark::{CALL, NODE};
pub use pool::{Connection, Failure, Pool, Pools, Service, Supervised, wait_for};
pub use running::{Running, end_marked, end_marked_later, marks, server_mark, settled};
pub use system::{become_subreaper, end_descendants, end_orphans, end_strays};
