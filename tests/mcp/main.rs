//! Servers of the Model Context Protocol.
#![cfg(test)]

mod elicitation;
mod mention;
mod oauth;
mod peers;
mod servers;
mod trouble;
