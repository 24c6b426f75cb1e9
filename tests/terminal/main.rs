//! Conversations on a pseudo-terminal.
#![cfg(test)]

mod conversation;
mod menus;
mod question;
