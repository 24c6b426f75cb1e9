//! `leftfold serve`, as clients of OpenCode's API see it.
#![cfg(test)]
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

mod client;
mod guard;
mod sessions;
