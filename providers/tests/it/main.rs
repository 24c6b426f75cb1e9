//! Tests of the wire formats through the public API, all in one program.
#![cfg(test)]

#[path = "common/actions.rs"]
mod actions;
mod bodies;
mod common;
mod connections;
mod exchange;
#[path = "../../../events/tests/it/common/mod.rs"]
mod harness;
mod mending;
mod rules;
mod sessions;

#[cfg(not(debug_assertions))]
#[test]
fn rules_for_bodies() {
    use std::io::Write;
    let why = "only debug builds check the rules for bodies";
    writeln!(std::io::stderr(), "SKIPPED bodies, mending, rules, sessions: {why}").unwrap();
}
