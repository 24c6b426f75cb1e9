//! `leftfold in-terminal`: what an editor is asked to run in a terminal of its own, for a call.

use std::process::ExitCode;

use crate::cli::InTerminal;

/// Becomes the shell, and answers only if that can not be.
pub(crate) fn become_shell(args: &InTerminal) -> anyhow::Result<ExitCode> {
    let failed = leftfold_tools::become_shell(&args.line, &args.keep);
    Err(anyhow::Error::new(failed).context("the shell can not be started"))
}
