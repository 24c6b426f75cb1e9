//! `leftfold in-terminal`: the program that an editor starts in its own terminal to run a call.

use std::process::ExitCode;

use crate::cli::InTerminal;

/// Replaces this process with the shell; returns only if that fails.
pub(crate) fn become_shell(args: &InTerminal) -> anyhow::Result<ExitCode> {
    let failed = leftfold_tools::become_shell(&args.line, &args.keep);
    Err(anyhow::Error::new(failed).context("cannot start the shell"))
}
