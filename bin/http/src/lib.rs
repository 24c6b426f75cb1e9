//! `leftfold serve`: OpenCode's server API on Leftfold's log, for OpenCode's own clients and SDKs.
//!
//! ```text
//! HTTP ─► server ─► service ─► guard ─► api ─► runtime's clients ─► Node
//!            └─► the socket of another process's node ─► its service
//! SSE  ◄─ api::events ◄─ feed ◄─ opencode (projection) ◄─ Observers
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `server` | listens, checks connections, passes them on to another node, takes over from it, ends in good order |
//! | `service` | checks and answers the requests that come to this process's node, also through other servers |
//! | `front` | what differs between the servers on a store: their checks, front ends and directories |
//! | `connection` | limits of connections, in time and memory |
//! | `guard`, `peer` | who may ask: hosts, origins, passwords, processes |
//! | `api` | the handlers, and the table of routes, from which the router and `/doc` come |
//! | `feed`, `journal` | what every client sees, in one order, with cursors that survive a kill |
//! | `branches` | tells clients of branches that are checked out |
//! | `shapes` | the types of the API, which `/doc` describes |
//! | `opencode` | sessions in the shapes of the API, as a fold of their logs |
//! | `error` | errors in the shapes of the API |
//! | `runs`, `overview` | the data of Leftfold's own page |
//! | `web` | Leftfold's own page, another front end's files, or another server that has them |
//!
//! Invariant: everything that a client receives about a session is a function of durable events.

mod api;
mod branches;
mod connection;
mod elsewhere;
mod error;
mod feed;
mod front;
mod guard;
mod journal;
mod opencode;
mod overview;
mod peer;
mod runs;
mod server;
mod service;
mod shapes;
mod web;

pub use server::{PageToOpen, ServeOptions, serve};
pub use service::register;
