//! Plugins.
#![cfg(test)]

mod config;
mod confined;
mod hooks;
mod opencode;
mod sign_in;
