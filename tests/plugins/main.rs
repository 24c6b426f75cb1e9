//! Plugins.
#![cfg(test)]

mod config;
mod hooks;
