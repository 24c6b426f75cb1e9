//! `leftfold compact`: a summary takes the place of what the model has seen.

use std::process::ExitCode;

use super::turn_runner::Task;
use crate::cli::{Compact, TurnArgs};
use crate::commands::run;
use leftfold_runtime::project::Project;

pub(crate) fn compact(args: Compact) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let project = Project::of(&place)?;
    let Compact { model, format, .. } = args;
    let turn = TurnArgs { model, format, ..TurnArgs::default() };
    run::turn(place, &project, &turn, Task::Compact)
}
