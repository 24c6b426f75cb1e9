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

#[cfg(not(debug_assertions))]
#[test]
fn rules_for_bodies() {
    use std::io::Write;
    let why = "only debug builds check the rules for bodies";
    writeln!(std::io::stderr(), "SKIPPED bodies, mending, sessions: {why}").unwrap();
}
