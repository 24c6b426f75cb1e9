//! The wires from outside, all tests in one program.
#![cfg(test)]

mod bodies;
mod common;
mod connections;
#[path = "common/deeds.rs"]
mod deeds;
mod exchange;
#[path = "../../../events/tests/it/common/mod.rs"]
mod harness;
mod mending;
mod sessions;
