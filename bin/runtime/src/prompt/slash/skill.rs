//! Skills that people call as commands: `/NAME ARGUMENTS`.

use std::path::Path;

use leftfold_events::event::PromptPart;
use leftfold_tools::skills;
use serde_json::json;

use super::{Call, PartReader, mention};
use crate::project::Project;
use crate::session_paths;
use crate::session_setup::SessionSetup;
use leftfold_config::Settings;

/// Names and descriptions of all skills.
pub(super) fn list(
    directory: &Path,
    worktree: &Path,
    settings: &Settings,
) -> impl Iterator<Item = (String, String)> {
    let found = skills::find(directory, worktree, &session_paths::user_folders(settings));
    found.skills.into_iter().map(|skill| (skill.name, skill.description))
}

/// The call in `word`, if a skill has this name.
pub(super) fn call(
    word: &str,
    arguments: &str,
    settings: &Settings,
    project: &Project,
) -> Option<Call> {
    let mut known = list(&project.directory, &project.worktree, settings);
    known.any(|(name, _)| name == word).then(|| Call {
        name: word.to_owned(),
        template: String::new(),
        arguments: arguments.to_owned(),
        subtask: None,
        remote: None,
        skill: true,
    })
}

/// The text that a model gets when it loads the skill, the typed arguments, and what these mention.
///
/// # Errors
/// The rules do not allow it, or the skill cannot be read.
pub(super) async fn parts(
    call: &Call,
    setup: &SessionSetup,
    mut parts: Vec<PromptPart>,
) -> anyhow::Result<Vec<PromptPart>> {
    let reader = PartReader::of(call, setup);
    let output = reader.run("skill", &json!({ "name": call.name })).await?;
    if output.is_error {
        return Err(reader.refused(&output.output));
    }
    let text = match call.arguments.trim() {
        "" => output.output,
        typed => format!("{}\n\n{typed}", output.output.trim_end()),
    };
    let rest = parts.split_off(1.min(parts.len()));
    let read = mention::of_text(setup, &call.arguments).await?;
    Ok([vec![PromptPart::text(text)], read, rest].concat())
}
