//! Tests of the core through its public API, all in one program.
#![cfg(test)]

mod asking;
mod batch;
mod children;
mod choices;
mod circles;
mod common;
mod compacting;
mod crash;
mod elicitation;
mod files;
mod finish;
mod hosts;
mod imported;
mod inherited_children;
mod limits;
#[allow(unreachable_pub, reason = "other crates share it as a library")]
#[path = "../../../tests/common/long_log.rs"]
mod long_log;
mod next;
mod noted;
mod permission;
mod plugin;
mod prompt_call;
mod properties;
mod room;
mod sandbox;
mod seeds;
mod session_rules;
mod shared_requests;
mod sim;
mod simulation;
mod subagent;
mod switch;
#[path = "../../../tests/common/tally.rs"]
mod tally;
mod title;
