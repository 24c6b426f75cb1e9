//! Client for language servers: the diagnostics of files that calls have written, and answers to questions about code.
//!
//! A project has one set of servers in a process, shared by all sessions that work in it: for each server and workspace
//! root one process.
//!
//! | module | task |
//! | --- | --- |
//! | `known` | the servers that Leftfold knows: their programs, files and root markers |
//! | `languages` | the language of a file by its name |
//! | `spec` | servers as settings define them, and reports on them |
//! | `servers` | which server checks which file, and how long a turn waits |
//! | `server` | starting one server, and bringing it up to date with files |
//! | `notices` | what a server has said by itself: diagnostics, and whether it is busy |
//! | `tsserver` | asking TypeScript's server for diagnostics, through a server that passes requests on |
//! | `questions` | the requests about code, and their answers as lines |
//! | `places` | paths as URIs, and positions within a text |
//!
//! - Servers run build scripts and macros of a project, so they start only in a project that the user trusts, in the
//!   sandbox of its commands, without network. The caller holds them to trust.
//! - A server starts when a call reads or writes a file that it is for. Nobody waits for the start.
//! - Diagnostics are a part of the result of the call that has written the file, so a replay needs no server.
//!
//! Nothing that a server says is believed: it is read item by item, bounded, and kept to the files of the project.
//!
//! This crate never installs a server, never appends to a log and never judges a call by permission rules.

mod known;
mod languages;
mod notices;
mod places;
mod questions;
mod server;
mod servers;
mod spec;
mod tsserver;

pub use known::KnownServer;
pub use servers::{Servers, changes, close, dispose, reports};
pub use spec::{LaunchContext, Roots, ServerReport, ServerSpec};
