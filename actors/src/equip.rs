//! Gathers a [`Kit`]: the one look at the world before an intent. It only reads, and whoever
//! casts a prompt does it, never a handler.

pub mod agent;

use std::path::Path;

use leftfold_events::kit::{AskMode, Kit, ModelSpec, Options, ToolSpec};
use leftfold_events::rules::{self, Rule};
use leftfold_events::{Json, Time};

pub use agent::Agent;

/// What settings and command line have said.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub directory: &'a Path,
    pub worktree: &'a Path,
    pub model: ModelSpec,
    pub agent: Agent,
    /// The user's rules, to come after the defaults and the agent's own.
    pub rules: Vec<Rule>,
    pub options: Options,
    /// The agents that calls may have do something, with what they are for.
    pub subagents: Vec<(String, String)>,
}

const BASE: &str = include_str!("../../prompts/system.md");
const SUMMARY: &str = include_str!("../../prompts/compaction.md");

/// What a model is told that writes titles, for `Options::title_prompt`.
pub const TITLE: &str = include_str!("../../prompts/title.md").trim_ascii();

/// The kit in force at `now`.
pub fn gather(setup: Setup<'_>, now: Time) -> Kit {
    let mut rules = rules::defaults();
    rules.extend(setup.agent.rules.iter().cloned());
    let environment = environment(&setup, now);
    let (prompt, base) = base(&setup);
    rules.extend(setup.rules);
    let mut options = setup.options;
    let mut tools = tools(&setup.model.id, &rules, options.ask);
    offer_tasks(&mut tools, &setup.subagents);
    options.summary_prompt = SUMMARY.trim().to_owned();
    let mut system = vec![base, environment];
    if let (Some(last), Some(user)) = (system.last_mut(), &options.system) {
        last.push_str("\n\n");
        last.push_str(user.trim());
    }
    Kit { system, tools, rules, model: setup.model, options, prompt }
}

/// The prompt that the system begins with, and its name: the agent's own, or else the base prompt
/// (SPEC M2).
fn base(setup: &Setup<'_>) -> (String, String) {
    match &setup.agent.prompt {
        Some(prompt) => (format!("agent:{}", setup.agent.name), prompt.trim().to_owned()),
        None => ("default".to_owned(), BASE.trim().to_owned()),
    }
}

/// Every tool for this model that the rules do not hide, and no questions where nobody is there to
/// answer.
fn tools(model_id: &str, rules: &[Rule], ask: AskMode) -> Vec<ToolSpec> {
    leftfold_tools::offered_to(model_id)
        .into_iter()
        .filter(|tool| !rules::hides(rules, tool.name()))
        .filter(|tool| tool.name() != "question" || ask == AskMode::Ask)
        .map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().trim().to_owned(),
            schema: tool.schema(),
        })
        .collect()
}

/// Names the agents that there are for tasks; without any there is no such tool.
fn offer_tasks(tools: &mut Vec<ToolSpec>, subagents: &[(String, String)]) {
    if subagents.is_empty() {
        tools.retain(|tool| tool.name != "task");
    }
    if let Some(task) = tools.iter_mut().find(|tool| tool.name == "task") {
        let agents = subagents.iter().map(|(name, about)| format!("\n- {name}: {about}"));
        task.description += "\n\nThe agents are:";
        task.description.extend(agents);
    }
}

/// The block that differs from project to project and day to day.
fn environment(setup: &Setup<'_>, now: Time) -> String {
    let git = if setup.worktree.join(".git").exists() { "yes" } else { "no" };
    let date = now.to_string();
    format!(
        "<environment>\nModel: {}\nWorking directory: {}\nProject root: {}\nGit repository: {git}\n\
         Platform: {}\nDate: {}\n</environment>",
        setup.model.name(),
        setup.directory.display(),
        setup.worktree.display(),
        std::env::consts::OS,
        date.get(..10).unwrap_or(&date),
    )
}

/// The provider's own options as settings give them; anything but an object counts as none.
pub fn request_options(options: &Json) -> Json {
    if options.is_object() { options.clone() } else { Json::object() }
}

#[cfg(test)]
mod tests {
    use leftfold_events::rules::Action;

    use super::*;

    #[test]
    fn the_model_and_the_rules_decide_which_tools_there_are() {
        let deny = [Rule::new("edit", "*", Action::Deny)];
        for (model, rules, patch, edit) in [
            ("gpt-5", &[][..], true, false),
            ("claude-opus-4", &[], false, true),
            ("gpt-5", &deny, false, false),
            ("claude-opus-4", &deny, false, false),
        ] {
            let tools = tools(model, rules, AskMode::Deny);
            let has = |name: &str| tools.iter().any(|tool| tool.name == name);
            let found = (has("apply_patch"), has("edit"), has("write"), has("read"));
            assert_eq!(found, (patch, edit, edit, true), "{model} {rules:?}");
        }
    }
}
