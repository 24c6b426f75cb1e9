//! Commands that another agent runs in a session of its own; the session's agent only reports the
//! result.

use leftfold_config::Mode;
use leftfold_events::event::{PromptKind, PromptPart};

use super::builtin::Builtin;
use crate::Usage;
use crate::agents::Agents;
use leftfold_config::{self as settings, At, Settings};

/// The agent for a subtask that names no agent.
const ANY: &str = "general";

/// The agent that runs the command, if it is a subtask: because settings say so, because settings
/// name an agent that only takes tasks, or because it is built in as one and settings say nothing.
///
/// # Errors
/// The command names an agent that does not exist.
pub(super) fn agent(
    name: &str,
    said: Option<&At<settings::Command>>,
    builtin: Option<&Builtin>,
    settings: &Settings,
) -> Result<Option<String>, Usage> {
    let own = builtin.and_then(|builtin| builtin.subtask);
    let Some(command) = said else { return Ok(own.map(str::to_owned)) };
    let Some(wanted) = &command.agent else {
        let agent = own.filter(|_| command.template.is_none());
        let subtask = command.subtask.unwrap_or(agent.is_some());
        return Ok(subtask.then(|| agent.unwrap_or(ANY).to_owned()));
    };
    let agents = Agents::from_settings(settings);
    let agent = agents.find(wanted).map_err(|Usage(why)| {
        Usage(format!("{}: the command `/{name}`: {why}", command.key_place()))
    })?;
    let subtask = command.subtask.unwrap_or(agent.mode == Mode::Subagent);
    Ok(subtask.then(|| wanted.as_str().to_owned()))
}

/// The parts of a prompt: `typed`, with the task after its first part. The task is `text`, with the
/// agent's name in its first part, followed by the texts of `files`; media stay with the prompt.
pub(super) fn parts(
    agent: &str,
    mut text: Vec<PromptPart>,
    files: Vec<PromptPart>,
    mut typed: Vec<PromptPart>,
) -> Vec<PromptPart> {
    let (files, media): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.kind == PromptKind::Text);
    typed.extend(media);
    if let Some(first) = text.first_mut() {
        first.kind = PromptKind::Task;
        first.name = Some(agent.to_owned());
    }
    if let Some(last) = text.last_mut() {
        files.iter().for_each(|file| last.text += &format!("\n\n{}", file.text));
    }
    let behind_first = 1.min(typed.len());
    typed.splice(behind_first..behind_first, text);
    typed
}
