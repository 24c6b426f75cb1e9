//! Commands about programs and servers that Leftfold works with.

use clap::{Args, Subcommand};

use super::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Connect to a server, list what it offers, and call tools of it
    Probe(crate::commands::mcp::Probe),
    /// Sign in at a remote server (OAuth)
    Login(crate::commands::mcp::Login),
    /// Forget what a remote server has granted
    Logout(crate::commands::mcp::Logout),
}

#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Plugins {
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}
