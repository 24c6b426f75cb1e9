//! `leftfold resume`: goes on with a turn that was cut off.

use std::process::ExitCode;

use super::turn_runner::Task;
use crate::cli::Resume;
use crate::commands::run;
use leftfold_runtime::project::Project;

pub(crate) fn resume(args: &Resume) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let project = Project::of(&place)?;
    run::turn(place, &project, &args.turn, Task::Resume)
}
