//! `leftfold revert` and `leftfold unrevert`: files and messages as they were before a step, and back.

use std::process::ExitCode;

use super::turn_runner::Task;
use crate::cli::{Revert, TurnArgs, Unrevert};
use crate::commands::run;
use leftfold_runtime::project::Project;

pub(crate) fn revert(args: Revert) -> anyhow::Result<ExitCode> {
    let Revert { session, to, format } = args;
    go(&session, Some(to), &TurnArgs { format, ..TurnArgs::default() })
}

pub(crate) fn unrevert(args: Unrevert) -> anyhow::Result<ExitCode> {
    let Unrevert { session, format } = args;
    go(&session, None, &TurnArgs { format, ..TurnArgs::default() })
}

fn go(session: &str, back: Option<u64>, turn: &TurnArgs) -> anyhow::Result<ExitCode> {
    let place = super::place(session)?;
    let project = Project::of(&place)?;
    run::turn(place, &project, turn, Task::Revert(back))
}
