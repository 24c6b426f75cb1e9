//! The store from outside. All its tests are in one program except `syncs.rs`, which counts the
//! syncs of its whole process.
#![cfg(test)]
#![allow(clippy::print_stdout, reason = "a failed case names its seed")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is tested")]

mod blobs;
mod check;
mod codec;
mod common;
mod concurrency;
#[path = "../conformance/mod.rs"]
mod conformance;
mod crash;
mod damage;
mod flips;
mod golden;
mod log;
mod long;
mod power;
mod rescue;
#[path = "../../../tests/common/tally.rs"]
mod tally;
mod unused;
