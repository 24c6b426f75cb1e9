//! Reports about a session, which front ends print.

pub mod divergence;
pub mod lines;
pub mod preview;
pub mod stats;
pub mod why;
