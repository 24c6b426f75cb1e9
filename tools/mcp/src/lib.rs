//! Servers that speak the Model Context Protocol, and the tools they bring (SPEC X4, X6).
//!
//! A project has one [`Servers`], shared by all sessions of this process that work in it, with one
//! connection for each server. A server is started when somebody first wants to know its tools, and
//! again if it has ended since. One that does not start is told of once and left out; nobody waits
//! for it longer than its own limit. What a model is told of tools goes into the log with the turn configuration, so
//! that nothing but a call that runs needs the server itself.

mod call;
mod client_handler;
mod connect;
mod content;
mod failure;
mod http;
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

pub use oauth::{Consent, Follow, OAuth, sign_out};
pub use probe::{Called, Calls, Probed, login, probe};
pub use prompts::Prompted;
pub use servers::{Servers, close};
pub use spec::{Offered, Reach, Report, STARTUP, Spec, Status};
