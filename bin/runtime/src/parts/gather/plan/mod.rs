//! Planning: the file of a session's plan, the reminders for the model when planning begins and
//! ends, and the tools that change the agent.

use std::path::{Path, PathBuf};

use leftfold_events::SessionId;
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::{AskMode, Options, ToolSpec};
use leftfold_tools::{PLAN_ENTER, PLAN_EXIT};

use super::prompt::{fitting, has};
use super::{Agent, TurnSettings};

/// The planning agent.
const PLAN: &str = "plan";
const ENTER: &str = include_str!("../../../../../../prompts/plan/enter.md");
const ENTER_WITHOUT_FILE: &str =
    include_str!("../../../../../../prompts/plan/enter_without_file.md");
const LEAVE: &str = include_str!("../../../../../../prompts/plan/leave.md");

/// The file for the plan of `session`: in the project if it is a Git worktree, otherwise in `home`,
/// Leftfold's data folder. It depends only on the id, so it never changes.
pub fn file(worktree: &Path, home: &Path, session: SessionId) -> PathBuf {
    let in_project = worktree.join(".git").exists();
    let folder = if in_project { worktree.join(".leftfold") } else { real(home) };
    let id = session.to_string().to_lowercase();
    let slug = id.get(id.len().saturating_sub(8)..).unwrap_or(&id);
    folder.join("plans").join(format!("{}-{slug}.md", session.created().millis()))
}

/// The path with links resolved as far as it exists, which is how rules see it.
fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let resolved = known.map(|(above, real)| match path.strip_prefix(above) {
        Ok(rest) if rest.as_os_str().is_empty() => real,
        Ok(rest) => real.join(rest),
        Err(_) => real,
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

/// Rules for reading a plan outside the project and, for the planning agent, for writing it.
pub fn rules(agent: &Agent, plan: Option<&Path>, worktree: &Path) -> Vec<Rule> {
    let outside = plan.filter(|plan| !plan.starts_with(worktree));
    let Some((plan, folder)) = outside.and_then(|plan| Some((plan, plan.parent()?))) else {
        return Vec::new();
    };
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut rules = vec![Rule::new("external_directory", text(&folder.join("*")), Action::Allow)];
    if agent.name == PLAN {
        rules.push(Rule::new("edit", text(plan), Action::Allow));
    }
    rules
}

/// Whether the agent is offered `tool`. A tool that changes the agent is offered only to the agent
/// that it switches from, in a session with a person.
pub(super) fn offers(turn_settings: &TurnSettings, tool: &str) -> bool {
    let there = turn_settings.plan.is_some() && turn_settings.options.ask == AskMode::Ask;
    match tool {
        PLAN_ENTER => there && turn_settings.agent.name == Agent::DEFAULT,
        PLAN_EXIT => there && turn_settings.agent.name == PLAN,
        _ => true,
    }
}

/// Adds the reminders for when planning begins or ends.
pub(super) fn remind(turn_settings: &TurnSettings, tools: &[ToolSpec], options: &mut Options) {
    if !turn_settings.reminds {
        return;
    }
    options.plans = turn_settings.agent.name == PLAN;
    let Some(plan) = &turn_settings.plan else {
        let text = if options.plans { ENTER_WITHOUT_FILE } else { LEAVE };
        options.reminder = text.replace("{plan}", "").trim().to_owned();
        return;
    };
    let (path, exists) = (plan.display(), plan.is_file());
    let (text, plan) = match (options.plans, exists) {
        (true, true) => (
            ENTER,
            format!(
                "The plan of this session is in `{path}`. Read it first, and bring it up to date or begin it anew."
            ),
        ),
        (true, false) => (ENTER, format!("There is no plan yet: write it to `{path}`.")),
        (false, true) => (
            LEAVE,
            format!(
                "The plan is in `{path}`: if it is to be carried out, keep to it, and say where you depart from it and why."
            ),
        ),
        (false, false) => (LEAVE, String::new()),
    };
    let text = fitting(text, &|name| has(tools, name));
    options.reminder = text.replace("{plan}", &plan).trim().to_owned();
}

#[cfg(test)]
mod tests;
