//! The socket of a node: observers, clients that attach, and races between them.
#![cfg(test)]

mod attach;
mod clients;
mod nodes;
mod observe;
mod observe_all;
mod observers;
mod people;
mod races;
mod takeover;
