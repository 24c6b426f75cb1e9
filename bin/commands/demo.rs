//! `leftfold demo`: a tour without a key. A scripted model repairs a small real project. The files,
//! the edit and the tests are real; only the model's replies are scripted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use leftfold_events::event::PromptPart;
use leftfold_runtime::gather::Agent;

use super::turn_runner::Task;
use crate::cli::{Demo, Format, TurnArgs};
use crate::commands::run;
use leftfold_runtime::Usage;
use leftfold_runtime::demo;
use leftfold_runtime::note;
use leftfold_runtime::project::{self, Project};
use leftfold_runtime::session_paths;

pub(crate) fn demo(args: Demo) -> anyhow::Result<ExitCode> {
    let session = project::new_id();
    let directory = match args.directory {
        Some(directory) => directory,
        None => std::env::temp_dir().join(format!("leftfold-demo-{session}")),
    };
    let directory = make(&directory)?;
    let place = session_paths::new_place(session)?;
    if args.format == Format::Text {
        note(&format!(
            "The project is {}. Its tests fail.\n> {}\n",
            directory.display(),
            demo::PROMPT
        ));
    }
    let project = Project {
        model: Some(demo::MODEL.to_owned()),
        agent: Some(Agent::DEFAULT.to_owned()),
        ..Project::new(directory.clone(), directory.clone())
    };
    let turn = TurnArgs { format: args.format, ..TurnArgs::default() };
    let code =
        run::turn(place, &project, &turn, Task::Prompt(vec![PromptPart::text(demo::PROMPT)]))?;
    if args.format == Format::Text {
        let program = program();
        note(&format!("\nThe repaired project is kept in {}", directory.display()));
        note(&format!("To see this run again, read from its log:  {program} replay {session}"));
    }
    Ok(code)
}

/// Creates a fresh folder with the demo project.
fn make(directory: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir(directory).map_err(|error| {
        Usage(format!("cannot create {} for the demo: {error}", directory.display()))
    })?;
    for (name, text) in demo::PROJECT {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(directory.canonicalize()?)
}

/// The command that starts this program from here.
fn program() -> String {
    let Ok(program) = std::env::current_exe() else { return "leftfold".to_owned() };
    // A shell that found the program in PATH passes its name alone. The place that it found may be a link.
    let called = std::env::args().next().unwrap_or_default();
    if !called.contains('/') {
        return called;
    }
    let here = std::env::current_dir().unwrap_or_default();
    program.strip_prefix(&here).unwrap_or(&program).display().to_string()
}
