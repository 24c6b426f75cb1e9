//! Gathers a [`Kit`]: the one look at the world before an intent. It only reads, and whoever
//! casts a prompt does it, never a handler.

use std::path::Path;

use leftfold_events::kit::{AskMode, Kit, ModelSpec, Options, ToolSpec};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::{Json, Time};

/// What settings and command line have said.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub directory: &'a Path,
    pub worktree: &'a Path,
    pub model: ModelSpec,
    /// The user's rules, to come after the defaults.
    pub rules: Vec<Rule>,
    pub options: Options,
}

const BASE: &str = include_str!("../../prompts/system.md");
const SUMMARY: &str = include_str!("../../prompts/compaction.md");

/// What a model is told that writes titles, for `Options::title_prompt`.
pub const TITLE: &str = include_str!("../../prompts/title.md").trim_ascii();

/// The kit in force at `now`.
pub fn gather(setup: Setup<'_>, now: Time) -> Kit {
    let mut rules = rules::defaults();
    rules.push(Rule::new("question", "*", Action::Allow));
    let environment = environment(&setup, now);
    rules.extend(setup.rules);
    let mut options = setup.options;
    let tools = tools(&setup.model.id, &rules, options.ask);
    options.summary_prompt = SUMMARY.trim().to_owned();
    let mut system = vec![BASE.trim().to_owned(), environment];
    if let (Some(last), Some(user)) = (system.last_mut(), &options.system) {
        last.push_str("\n\n");
        last.push_str(user.trim());
    }
    Kit { system, tools, rules, model: setup.model, options, prompt: "default".to_owned() }
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
