//! The built-in slash commands that are prompts: `/init` and `/review`. Settings may change or replace each. Commands of the
//! conversation, such as `/model`, are in `bin/terminal/src/entered.rs`.

/// A command that is built in.
#[derive(Debug)]
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) template: &'static str,
    /// The agent that runs it in a session of its own.
    pub(super) subtask: Option<&'static str>,
}

pub(super) const ALL: [Builtin; 2] = [
    Builtin {
        name: "init",
        description: "Write AGENTS.md for this project, or improve it",
        template: include_str!("../../../../../prompts/commands/init.md"),
        subtask: None,
    },
    Builtin {
        name: "review",
        description: "Review uncommitted changes, a commit or a branch",
        template: include_str!("../../../../../prompts/commands/review.md"),
        subtask: Some("explore"),
    },
];

/// Whether a command is `/init` with the text that is built in.
pub(super) fn is_init(name: &str, template: &str) -> bool {
    name == ALL[0].name && template == ALL[0].template.trim()
}

pub(super) fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}
