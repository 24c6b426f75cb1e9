//! Plugins: programs of the user's that are asked before something is decided or sent, watch what
//! happens, and bring tools (SPEC X1, X2). They speak JSON-RPC 2.0 over standard input and output, one
//! message a line.
//!
//! A project has one [`Plugins`], shared by all sessions of this process that work in it, with one
//! process for each plugin. What a plugin says that changes a decision stands in the log before that is
//! made, so nothing but the asking needs the plugin itself. One that does not answer within its limit
//! is ended, and left alone for a while.

mod adviser;
mod answer;
mod call;
mod handshake;
mod keyed;
mod link;
mod plugin;
mod plugins;
mod spec;
mod watcher;

pub use adviser::Adviser;
pub use plugins::{Plugins, close};
pub use spec::{Report, Root, Said, Spec, Status, TIMEOUT};
pub use watcher::Watcher;
