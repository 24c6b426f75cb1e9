//! Agents: each answers prompts with instructions, rules and a model of its own.

use leftfold_config::Mode;
use leftfold_events::Json;
use leftfold_events::rules::{Action, Rule};
use leftfold_events::turn_config::{Abilities, Options};
use serde_json::Value;

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub name: String,
    /// A description in one line; may be empty.
    pub description: String,
    pub mode: Mode,
    /// Whether it is built in, even if settings change it.
    pub native: bool,
    /// Whether lists for people leave it out.
    pub hidden: bool,
    /// Replaces the base prompt.
    pub prompt: Option<String>,
    /// Its built-in rules, which come after the defaults and before the user's.
    pub rules: Vec<Rule>,
    /// `PROVIDER/MODEL`; `None`: the session's model.
    pub model: Option<String>,
    /// One of the model's variants; ignored if the model has none of this name.
    pub variant: Option<String>,
    /// Options for the request body, laid over the model's own: an object.
    pub options: Json,
    /// The limit of model requests in a turn.
    pub steps: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// As settings give it, for clients that show agents in colours.
    pub color: Option<String>,
}

impl Agent {
    /// The agent that takes prompts that name no agent.
    pub const DEFAULT: &'static str = "build";

    /// An agent with only a name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            mode: Mode::All,
            native: false,
            hidden: false,
            prompt: None,
            rules: Vec::new(),
            model: None,
            variant: None,
            options: Json::object(),
            steps: None,
            temperature: None,
            top_p: None,
            color: None,
        }
    }

    /// The built-in `build` agent, without any settings.
    pub fn build() -> Self {
        let rules = rules(&[("question", "*", Action::Allow), ("plan_enter", "*", Action::Allow)]);
        native("build", Mode::Primary, "Does the work: reads, edits, runs commands.", None, rules)
    }

    /// Lays the agent's options for the request body over those in `options`, objects
    /// member by member. Sampling options are sent only to a model with that capability;
    /// wires know further models without it.
    pub fn tune(&self, options: &mut Options, abilities: Abilities) {
        let mut request = options.request.value();
        merge(&mut request, self.options.value());
        if let Value::Object(request) = &mut request
            && abilities.sampling
        {
            let sampling = [("temperature", self.temperature), ("top_p", self.top_p)];
            for (key, value) in sampling {
                if let Some(value) = value {
                    request.insert(key.to_owned(), value.into());
                }
            }
        }
        options.request = Json::from_value(&request);
    }
}

/// Lays `above` over `below`: objects member by member, any other value as a whole.
pub fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(old) => merge(old, value),
                    None => drop(below.insert(key, value)),
                }
            }
        }
        (below, above) => *below = above,
    }
}

/// The built-in agents.
pub fn builtins() -> Vec<Agent> {
    vec![Agent::build(), plan(), general(), explore()]
        .into_iter()
        .chain([
            silent("compaction", "Writes the summary that takes the place of older messages."),
            silent("title", "Names sessions."),
            silent("summary", "Says in a few lines what was done."),
        ])
        .collect()
}

fn native(name: &str, mode: Mode, about: &str, prompt: Option<&str>, rules: Vec<Rule>) -> Agent {
    Agent {
        description: about.to_owned(),
        mode,
        native: true,
        prompt: prompt.map(|text| text.trim().to_owned()),
        rules,
        ..Agent::new(name)
    }
}

fn rules(rules: &[(&str, &str, Action)]) -> Vec<Rule> {
    rules
        .iter()
        .map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action))
        .collect()
}

/// The planning agent.
fn plan() -> Agent {
    use Action::{Allow, Deny};
    let rules = rules(&[
        ("question", "*", Allow),
        ("plan_exit", "*", Allow),
        ("edit", "*", Deny),
        ("edit", ".leftfold/plans/*.md", Allow),
        ("edit", ".opencode/plans/*.md", Allow),
    ]);
    let prompt = include_str!("../../../../../prompts/agents/plan.md");
    let about = "Plans without changing anything but files of plans.";
    native("plan", Mode::Primary, about, Some(prompt), rules)
}

fn general() -> Agent {
    let rules = rules(&[("todowrite", "*", Action::Deny), ("todoread", "*", Action::Deny)]);
    let prompt = include_str!("../../../../../prompts/agents/general.md");
    let about = "Does one task of several steps on its own, including changes to files.";
    native("general", Mode::Subagent, about, Some(prompt), rules)
}

/// Commands that only read, as patterns of rules.
const READ_ONLY_COMMANDS: [&str; 14] = [
    "ls *", "pwd", "cat *", "head *", "tail *", "wc *", "file *", "stat *", "git status *",
    "git log *", "git show *", "git diff *", "git blame *", "git ls-files *",
];

/// Patterns of options that make such a command write or run other commands.
const WRITING: [&str; 3] = ["*>*", "git * --output*", "git * --ext-diff*"];

fn explore() -> Agent {
    use Action::{Allow, Ask, Deny};
    let mut rules = rules(&[
        ("*", "*", Deny),
        ("doom_loop", "*", Ask),
        ("glob", "*", Allow),
        ("grep", "*", Allow),
        ("list", "*", Allow),
        ("lsp", "*", Allow),
        ("batch", "*", Allow),
        ("skill", "*", Allow),
        ("webfetch", "*", Allow),
        ("websearch", "*", Allow),
        ("codesearch", "*", Allow),
        ("read", "*", Allow),
        // As in the defaults.
        ("read", "*.env", Ask),
        ("read", "*.env.*", Ask),
        ("read", "*.env.example", Allow),
    ]);
    rules.extend(READ_ONLY_COMMANDS.map(|command| Rule::new("bash", command, Allow)));
    rules.extend(WRITING.map(|command| Rule::new("bash", command, Deny)));
    let prompt = include_str!("../../../../../prompts/agents/explore.md");
    let about = "Answers questions about the project by searching and reading. Changes nothing.";
    native("explore", Mode::Subagent, about, Some(prompt), rules)
}

/// An agent without tools that writes text for Leftfold itself.
fn silent(name: &str, about: &str) -> Agent {
    let rules = rules(&[("*", "*", Action::Deny)]);
    Agent { hidden: true, ..native(name, Mode::Primary, about, None, rules) }
}

#[cfg(test)]
mod tests {
    use leftfold_events::rules::{defaults, evaluate};
    use serde_json::json;

    use super::*;

    #[test]
    fn built_in_agents_may_do_what_they_are_for() {
        use Action::{Allow, Ask, Deny};
        let agents = builtins();
        for (name, permission, pattern, action) in [
            ("build", "edit", "src/a.rs", Allow),
            ("build", "question", "*", Allow),
            ("build", "plan_enter", "*", Allow),
            ("build", "plan_exit", "*", Deny),
            ("plan", "edit", "src/a.rs", Deny),
            ("plan", "edit", ".leftfold/plans/a.md", Allow),
            ("plan", "edit", ".opencode/plans/a.md", Allow),
            ("plan", "edit", ".opencode/plans/a.rs", Deny),
            ("plan", "edit", "x/.leftfold/plans/a.md", Deny),
            ("plan", "question", "*", Allow),
            ("plan", "plan_exit", "*", Allow),
            ("plan", "plan_enter", "*", Deny),
            ("general", "edit", "src/a.rs", Allow),
            ("general", "question", "*", Deny),
            ("general", "todowrite", "*", Deny),
            ("general", "todoread", "*", Deny),
            ("explore", "edit", "src/a.rs", Deny),
            ("explore", "read", "src/a.rs", Allow),
            ("explore", "read", "a/.env", Ask),
            ("explore", "read", ".env.example", Allow),
            ("explore", "external_directory", "/etc/*", Deny),
            ("explore", "doom_loop", "read", Ask),
            ("explore", "bash", "git log --stat", Allow),
            ("explore", "bash", "git log --output=x", Deny),
            ("explore", "bash", "cat a > b", Deny),
            ("explore", "bash", "rm a", Deny),
            ("explore", "bash", "<dynamic>", Deny),
            ("explore", "grep", "x", Allow),
            ("explore", "task", "general", Deny),
            ("title", "read", "src/a.rs", Deny),
            ("compaction", "bash", "ls", Deny),
            ("summary", "skill", "x", Deny),
        ] {
            let agent = agents.iter().find(|agent| agent.name == name).unwrap();
            let rules = [defaults(), agent.rules.clone()].concat();
            let rule = evaluate(&rules, permission, pattern).unwrap();
            assert_eq!(rule.action, action, "{name} {permission} {pattern}: {rule:?}");
        }
    }

    #[test]
    fn hidden_agents_have_no_tools_and_plan_keeps_edit() {
        for agent in builtins() {
            let rules = [defaults(), agent.rules.clone()].concat();
            for tool in ["read", "bash", "edit", "webfetch"] {
                let gone = agent.hidden || (agent.name == "explore" && tool == "edit");
                assert_eq!(
                    leftfold_tools::hides(&rules, [].into_iter(), tool),
                    gone,
                    "{}: {tool}",
                    agent.name
                );
            }
            assert_eq!(
                agent.mode == Mode::Subagent,
                ["general", "explore"].contains(&&*agent.name)
            );
        }
    }

    #[test]
    fn options_are_laid_over_the_models() {
        let below = json!({ "a": 1, "deep": { "x": 1, "y": [1] }, "temperature": 1.0 });
        let mut options = Options { request: Json::from_value(&below), ..Options::default() };
        let agent = Agent {
            options: Json::from_value(&json!({ "deep": { "y": [2], "z": null }, "b": { "c": 1 } })),
            temperature: Some(0.2),
            top_p: Some(0.5),
            ..Agent::build()
        };
        let mut fixed = options.clone();
        agent.tune(&mut options, Abilities::default());
        let expected = json!({
            "a": 1, "deep": { "x": 1, "y": [2], "z": null }, "temperature": 0.2,
            "b": { "c": 1 }, "top_p": 0.5,
        });
        assert_eq!(options.request.value(), expected);
        let before = options.clone();
        Agent::build().tune(&mut options, Abilities::default());
        assert_eq!(options, before);
        // Options set explicitly by the model's own settings stay.
        agent.tune(&mut fixed, Abilities { sampling: false, ..Abilities::default() });
        let expected = json!({
            "a": 1, "deep": { "x": 1, "y": [2], "z": null }, "temperature": 1.0, "b": { "c": 1 },
        });
        assert_eq!(fixed.request.value(), expected);
    }
}
