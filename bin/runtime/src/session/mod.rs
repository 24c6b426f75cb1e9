//! Opens sessions and prompts them, and lists, forks, reverts and compares them.

pub(crate) mod checkout;
pub mod client;
pub mod fork;
pub mod session_diff;
pub mod session_list;
pub mod session_setup;
pub mod subscription;
pub(crate) mod watchers;
pub mod working_tree;
