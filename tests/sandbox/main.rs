//! The sandbox of commands on this machine's kernel: a hostile probe program and everyday jobs with
//! each backend, as root and as another user; programs that serve many calls; crashes, and the cost of a start.
#![cfg(test)]
#![cfg(target_os = "linux")]

mod confined;
mod cost;
mod crash;
mod ends;
mod home_jobs;
mod jobs;
mod keys;
mod probes;
mod program;
mod programs;
mod races;
mod traces;
