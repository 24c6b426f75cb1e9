//! Servers of the Model Context Protocol.
#![cfg(test)]

mod confined;
mod elicitation;
mod mention;
mod oauth;
mod peers;
mod servers;
mod trouble;
mod trust;
