//! `leftfold in-terminal`: what an editor is asked to run in a terminal of its own, for a call.

use std::process::ExitCode;

use clap::Args;

/// The name of the command.
pub(crate) const IN_TERMINAL: &str = "in-terminal";

#[derive(Debug, Args)]
pub(crate) struct InTerminal {
    /// A variable that the command is given besides the usual ones
    #[arg(long, value_name = "NAME")]
    keep: Vec<String>,
    line: String,
}

/// Becomes the shell, and answers only if that can not be.
pub(crate) fn become_shell(args: &InTerminal) -> anyhow::Result<ExitCode> {
    let failed = leftfold_tools::become_shell(&args.line, &args.keep);
    Err(anyhow::Error::new(failed).context("the shell can not be started"))
}
