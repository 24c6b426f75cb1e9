//! `leftfold compact`: a summary takes the place of what the model has seen.

use std::process::ExitCode;

use crate::cli::{Compact, Turn};
use crate::commands::run::{self, Project};
use crate::drive::Task;

pub(crate) fn compact(args: Compact) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let project = Project::of(&place)?;
    let Compact { model, format, .. } = args;
    let turn = Turn { model, format, ..Turn::default() };
    run::turn(place, &project, &turn, Task::Compact)
}
