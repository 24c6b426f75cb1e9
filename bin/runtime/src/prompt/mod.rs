//! Slash commands, mentions and attachments of a prompt.

pub mod attach;
pub mod slash;
