//! The engine against PostgreSQL itself. Each run starts servers of its own, in temporary folders, and
//! ends them.
#![cfg(test)]
#![allow(clippy::print_stdout, reason = "a failed case names its seed")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is tested")]

mod appends;
mod cluster;
#[path = "../../../tests/it/common/mod.rs"]
mod common;
#[path = "../../../tests/conformance/mod.rs"]
mod conformance;
mod engine;
mod faults;
mod helpers;
mod hints;
mod opening;
mod ownership;
mod reads;
