//! Client for MCP (Model Context Protocol) servers, and the tools that they offer.
//!
//! A project has one [`Servers`] in a process, with one connection for each server. All sessions
//! that work in the project share it through their `Workspace`, as a `ToolSource`. No session owns
//! a connection.
//!
//! - A server starts when its tools are first needed, and again if it has ended since. A turn
//!   configuration waits for servers that are starting, each within its own time limit. A server
//!   that does not start is reported once and left out.
//! - The tools' descriptions go into the log with the turn configuration, so only a running call
//!   needs the server itself.
//! - A server's processes carry a mark that names the node, not a call. If the node dies, the next
//!   node ends them (`leftfold_process::end_orphans`).
//! - Sessions use stored tokens and refresh them ([`OAuth`]). Only [`login`] and [`probe`] ask a
//!   person for consent. `probe` is also the client that the protocol's conformance suite tests.
//! - A protocol violation costs only the message that violates it. An unreadable answer fails its
//!   call (`stdio`), an unreadable tool is left out, and a list without an end is cut off
//!   (`lists`).
//!
//! This crate never appends to a log and never judges a call by permission rules.

mod call;
mod client_handler;
mod connect;
mod content;
mod failure;
mod link;
mod lists;
mod oauth;
mod probe;
mod prompts;
mod remote;
mod resources;
mod server;
mod servers;
mod spec;
mod sse;
mod stdio;
mod streamable_http;

pub use client_handler::tool_changes;
pub use leftfold_oauth::{AutoConsent, Consent};
pub use oauth::{OAuth, sign_out};
pub use probe::{Calls, ProbeReport, ProbedCall, login, probe};
pub use prompts::PromptResult;
pub use servers::{Servers, close, dispose};
pub use spec::{Endpoint, STARTUP, ServerReport, ServerSpec, ServerStatus, ToolReport};
