//! The engine against PostgreSQL itself. Each run starts servers of its own, in temporary folders, and
//! ends them.
#![cfg(test)]
#![allow(clippy::print_stdout, reason = "a failed case names its seed")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is tested")]

// modules of the library that need no server are included for the tests in them: so the library is compiled once
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "../../src/address.rs"]
mod address;
mod appends;
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "../../src/batch.rs"]
mod batch;
mod cluster;
#[path = "../../../tests/it/common/mod.rs"]
mod common;
#[path = "../../../tests/conformance/mod.rs"]
mod conformance;
mod engine;
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "../../src/error.rs"]
mod error;
mod faults;
mod helpers;
mod hints;
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "../../src/metrics.rs"]
mod metrics;
mod opening;
mod ownership;
mod reads;
