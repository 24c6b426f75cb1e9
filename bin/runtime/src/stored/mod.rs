//! Sessions as they are stored: their folders and ids, their logs, and how much a project has used.

pub mod client_ids;
pub mod history;
pub mod quota;
pub mod session_paths;
pub mod session_tree;
