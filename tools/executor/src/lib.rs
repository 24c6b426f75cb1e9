//! Remote execution: runs tool calls beside a workspace on another machine: the server that `leftfold executor` is, and the client that a node
//! has for each executor in its settings.
//!
//! The two speak JSON-RPC 2.0 over TLS, one message a line and one request a connection. Every request may be sent again.
//! This crate opens no log and decides nothing about a call: it runs what a node's session has decided.

mod client;
mod journal;
mod protocol;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use client::{Address, Client, Unavailable};
pub use protocol::{Described, InstructionFile, ListedSkill};
pub use server::{Options, Server};
pub use tls::Error as TlsError;
