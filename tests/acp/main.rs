//! The Agent Client Protocol, as an editor speaks it.
#![cfg(test)]

mod client_files;
mod many;
mod methods;
mod node;
mod peers;
mod sessions;
mod trouble;
mod updates;
