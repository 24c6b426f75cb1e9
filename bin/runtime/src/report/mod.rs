//! Reports about a session, which front ends print: events as lines, statistics, divergences, and why a session waits.

pub mod divergence;
pub mod lines;
pub mod preview;
pub mod stats;
pub mod why;
