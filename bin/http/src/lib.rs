//! `leftfold serve`: OpenCode's server API on Leftfold's log, for OpenCode's own clients and SDKs.
//!
//! ```text
//! HTTP ─► server ─► guard ─► api ─► runtime's clients ─► Node
//! SSE  ◄─ api::events ◄─ feed ◄─ opencode (projection) ◄─ Observers
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `server` | listens, checks connections and requests, ends in good order |
//! | `connection` | limits of connections, in time and memory |
//! | `guard`, `peer` | who may ask: hosts, origins, passwords, processes |
//! | `api` | the handlers, and the table of routes, from which the router and `/doc` come |
//! | `feed`, `journal` | what every client sees, in one order, with cursors that survive a kill |
//! | `opencode` | sessions in the shapes of the API, as a fold of their logs |
//! | `error` | errors in the shapes of the API |
//! | `web` | a front end's files, or another server that has them |
//!
//! Invariant: everything that a client receives about a session is a function of durable events.

mod api;
mod connection;
mod error;
mod feed;
mod guard;
mod journal;
mod opencode;
mod peer;
mod server;
mod web;

pub use server::{Register, ServeOptions, serve};
