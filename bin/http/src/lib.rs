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
//! | `guard`, `peer` | who may ask: hosts, origins, passwords, processes |
//! | `api` | the routes |
//! | `feed`, `journal` | what every client sees, in one order, with cursors that survive a kill |
//! | `opencode` | sessions in the shapes of the API, as a fold of their logs |
//! | `error` | errors in the shapes of the API |
//!
//! Invariant: everything that a client receives about a session is a function of durable events.

mod api;
mod error;
mod feed;
mod guard;
mod journal;
mod opencode;
mod peer;
mod server;

pub use server::{ServeOptions, serve};
