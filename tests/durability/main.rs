//! Crashes, damage and interruptions: nothing shown is lost, nothing happens twice, nothing is left
//! behind.
#![cfg(test)]

mod canaries;
mod crash;
mod crash_points;
mod damage;
mod doubles;
mod effects;
mod faults;
mod forks;
#[path = "../../events/tests/it/common/mod.rs"]
mod harness;
mod interrupt;
mod orphans;
mod other_secrets;
mod prefixes;
mod projection;
mod resume;
mod salvage;
mod schemas;
mod secrets;
mod upgrades;
#[path = "../../providers/tests/it/common/mod.rs"]
mod vendors;
mod wire;

#[cfg(not(debug_assertions))]
#[test]
fn prefixes() {
    common::skipped("only debug builds check the rules for bodies");
}
