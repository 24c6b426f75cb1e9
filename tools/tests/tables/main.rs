//! Tables of calls and their results. All calls go through the public crate, as a session's calls
//! do.
#![cfg(test)]

mod arguments;
mod bash;
mod cut;
mod front_matter;
mod hostile;
mod order;
mod permissions;
mod read;
mod shell;
mod site;
mod small;
mod write;
