//! `leftfold in-terminal`: the program that an editor starts in its own terminal to run a call.

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::InTerminal;

/// Replaces this process with the shell, or runs it in a sandbox and returns its exit code.
pub(crate) fn become_shell(args: &InTerminal) -> anyhow::Result<ExitCode> {
    let InTerminal { shell, line, keep, sandbox } = args;
    leftfold_tools::become_shell(shell.as_deref(), line, keep, sandbox.as_deref())
        .context("cannot start the shell")
}
