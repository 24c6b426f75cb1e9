//! `leftfold serve`, as clients of OpenCode's API see it.
#![cfg(test)]
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

mod bad_input;
mod client;
mod feed;
mod front_end;
mod generated;
mod guard;
mod hostile;
mod mcp;
mod opencode;
mod page;
mod plugins;
mod proxy;
mod routes;
mod sessions;
mod sign_in;
mod standby;
mod start;
mod stores;
mod terminals;
mod web_app;
