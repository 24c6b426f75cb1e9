//! The engine against PostgreSQL itself. Each run starts servers of its own, in temporary folders, and
//! ends them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod appends;
mod cluster;
mod faults;
mod helpers;
mod hints;
mod opening;
mod ownership;
mod proxy;
mod reads;
