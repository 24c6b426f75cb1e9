//! `leftfold revert` and `leftfold unrevert`: files and messages as they were before a step, and back.

use std::process::ExitCode;

use crate::cli::{Revert, Turn, Unrevert};
use crate::commands::run::{self, Project};
use crate::drive::Task;

pub(crate) fn revert(args: Revert) -> anyhow::Result<ExitCode> {
    let Revert { session, to, format } = args;
    go(&session, Some(to), &Turn { format, ..Turn::default() })
}

pub(crate) fn unrevert(args: Unrevert) -> anyhow::Result<ExitCode> {
    let Unrevert { session, format } = args;
    go(&session, None, &Turn { format, ..Turn::default() })
}

fn go(session: &str, back: Option<u64>, turn: &Turn) -> anyhow::Result<ExitCode> {
    let place = super::place(session)?;
    let project = Project::of(&place)?;
    run::turn(place, &project, turn, Task::Revert(back))
}
