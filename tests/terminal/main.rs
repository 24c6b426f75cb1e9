//! Conversations on a pseudo-terminal.
#![cfg(test)]

mod conversation;
mod look;
mod menus;
mod question;
