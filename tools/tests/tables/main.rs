//! The tools as tables: what is there and what is asked for, and what comes of it. All goes through
//! the public crate, as a session's calls do.
#![cfg(test)]

mod arguments;
mod bash;
mod cut;
mod hostile;
mod order;
mod permissions;
mod read;
mod site;
mod small;
mod write;
