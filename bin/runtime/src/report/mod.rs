//! What front ends print about a session.

pub mod divergence;
pub mod lines;
pub mod preview;
pub mod stats;
pub mod why;
