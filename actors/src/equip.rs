//! Gathers a [`Kit`]: the one look at the world before an intent. It only reads, and whoever
//! casts a prompt does it, never a handler.

mod instructions;
mod prompt;

use std::path::Path;

use leftfold_events::kit::{AskMode, Kit, ModelSpec, Options, ToolSpec};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::{Json, Time};

pub use instructions::{Named, Sources};

/// What settings and command line have said.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub directory: &'a Path,
    pub worktree: &'a Path,
    pub model: ModelSpec,
    /// The user's rules, to come after the defaults.
    pub rules: Vec<Rule>,
    pub options: Options,
    pub sources: Sources,
}

const SUMMARY: &str = include_str!("../../prompts/compaction.md");

/// What a model is told that writes titles, for `Options::title_prompt`.
pub const TITLE: &str = include_str!("../../prompts/title.md").trim_ascii();

/// The kit in force at `now`; and what it has to do without, for people, with file and reason.
pub fn gather(setup: Setup<'_>, now: Time) -> (Kit, Vec<String>) {
    let mut rules = rules::defaults();
    rules.push(Rule::new("question", "*", Action::Allow));
    rules.extend(setup.rules.iter().cloned());
    let tools = tools(&setup.model.id, &rules, setup.options.ask);
    let (name, base) = prompt::base(&setup, &tools);
    let told = instructions::find(&setup);
    let Sources { homes, .. } = &setup.sources;
    let skills = leftfold_tools::skills::find(setup.directory, setup.worktree, homes);
    let mut problems = told.problems;
    problems.extend(skills.problems.iter().map(ToString::to_string));
    let second = [
        Some(prompt::environment(&setup, now)),
        prompt::instructions(&told.texts),
        prompt::skills(skills.skills, &rules, &tools),
    ];
    let second: Vec<String> = second.into_iter().flatten().collect();
    let mut options = setup.options;
    options.summary_prompt = SUMMARY.trim().to_owned();
    options.instructions = told.paths;
    let kit = Kit {
        system: vec![base, second.join("\n\n")],
        tools,
        rules,
        model: setup.model,
        options,
        prompt: name,
    };
    (kit, problems)
}

/// Every tool for this model that the rules do not hide, and no questions where nobody is there to
/// answer. Descriptions name no tool that is not among them.
fn tools(model_id: &str, rules: &[Rule], ask: AskMode) -> Vec<ToolSpec> {
    let mut offered = leftfold_tools::offered_to(model_id);
    offered.retain(|tool| !rules::hides(rules, tool.name()));
    offered.retain(|tool| tool.name() != "question" || ask == AskMode::Ask);
    let is_offered = |name: &str| offered.iter().any(|tool| tool.name() == name);
    let spec = |tool: &&dyn leftfold_tools::Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: prompt::fitting(tool.description().trim(), &is_offered),
        schema: tool.schema(),
    };
    offered.iter().map(spec).collect()
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
