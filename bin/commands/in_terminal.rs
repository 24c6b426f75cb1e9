//! `leftfold in-terminal`: the program that an editor starts in its own terminal to run a call.

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::InTerminal;

/// Replaces this process with the shell, or runs it in a sandbox and returns its exit code.
pub(crate) fn become_shell(args: &InTerminal) -> anyhow::Result<ExitCode> {
    leftfold_tools::become_shell(&args.line, &args.keep, args.sandbox.as_deref())
        .context("cannot start the shell")
}
