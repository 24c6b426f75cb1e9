//! Sessions and their logs: titles and summaries, replay, verification, forks, and restored files.
#![cfg(test)]

mod auxiliary_agents;
mod compaction;
mod diff;
mod explain;
mod exports;
mod findings;
mod fork;
mod fork_children;
mod fork_files;
mod fork_node;
mod log;
mod otlp;
mod page;
mod replay;
mod rerun;
mod rerun_ways;
mod revert;
mod session_diff;
mod snapshot;
mod spill;
mod stats;
mod stores;
mod title;
mod transcript;
mod verify;
mod why;
