//! Sorts an entered line into a prompt, a command of the conversation, or a command line for the shell. Has the table of
//! slash commands of the conversation (`BUILTIN_COMMANDS`); `commands.rs` runs them.

/// A line that the user has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered<'a> {
    Prompt,
    /// A shell line of the user's own.
    Shell(&'a str),
    /// A command of the conversation, its argument, and the word that names it.
    Builtin(&'static BuiltinCommand, &'a str, &'a str),
    /// A command that the conversation does not have.
    Other(&'a str),
}

/// A command of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Agent,
    Compact,
    Context,
    Copy,
    Cost,
    Diff,
    Exit,
    Explain,
    Export,
    Fork,
    Help,
    Mcp,
    Model,
    New,
    Permissions,
    Redo,
    Rename,
    Revert,
    Sessions,
    Status,
    Theme,
    Todo,
    Undo,
    Variant,
    Why,
}

/// Whether a command takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Nothing,
    /// Without it the command asks, or does the usual.
    Optional,
    Required,
}

/// The work that must have ended before a line is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Other jobs and open questions, but no turn.
    Job,
    /// Everything.
    Rest,
}

/// A row of the table of commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuiltinCommand {
    pub(super) command: Builtin,
    pub(super) name: &'static str,
    pub(super) argument: Argument,
    /// How the argument is written in the help.
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
    pub(super) needs: Needs,
    /// A command of the project with this name comes first.
    pub(super) yields: bool,
    /// It only prints, and its line is shown above what it prints.
    pub(super) reports: bool,
}

/// A row: the command, its name, how its argument is written, and what it does. By default it waits for other jobs and open
/// questions.
const fn row(
    command: Builtin,
    name: &'static str,
    usage: &'static str,
    about: &'static str,
) -> BuiltinCommand {
    let argument = match usage.as_bytes() {
        [] => Argument::Nothing,
        [b'[', ..] => Argument::Optional,
        [..] => Argument::Required,
    };
    let (needs, yields, reports) = (Needs::Job, false, false);
    BuiltinCommand { command, name, argument, usage, about, needs, yields, reports }
}

impl BuiltinCommand {
    /// Runs at any time.
    const fn at_once(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }

    /// Waits until everything rests, because it replaces the session, its messages or the look of a text that streams.
    const fn at_rest(mut self) -> Self {
        self.needs = Needs::Rest;
        self
    }

    const fn yielding(mut self) -> Self {
        self.yields = true;
        self
    }

    const fn reporting(mut self) -> Self {
        self.reports = true;
        self
    }
}

/// All commands of the conversation, in the order of the help.
pub(super) static BUILTIN_COMMANDS: [BuiltinCommand; 25] = [
    row(Builtin::Model, "model", "[NAME]", "use another model for the next prompts"),
    row(Builtin::Variant, "variant", "[NAME]", "use another variant of the model, such as `high`"),
    row(Builtin::Agent, "agent", "[NAME]", "use another agent for the next prompts"),
    row(Builtin::Permissions, "permissions", "[MODE]", "who allows calls; take approvals back"),
    row(Builtin::Sessions, "sessions", "[ID]", "continue another session").at_rest(),
    row(Builtin::New, "new", "", "begin a new session").at_rest().yielding(),
    row(Builtin::Rename, "rename", "TITLE", "give the session another title").yielding(),
    row(Builtin::Fork, "fork", "[SEQ] [files]", "continue in a fork that ends before a prompt")
        .at_rest()
        .yielding(),
    row(Builtin::Undo, "undo", "", "take back the last prompt and its changes to files").at_rest(),
    row(Builtin::Redo, "redo", "", "bring back the prompt that was taken back last").at_rest(),
    row(Builtin::Revert, "revert", "[SEQ]", "take back everything from an earlier prompt on")
        .at_rest()
        .yielding(),
    row(
        Builtin::Compact,
        "compact",
        "[INSTRUCTIONS]",
        "replace the conversation so far with a summary",
    )
    .at_rest(),
    row(Builtin::Context, "context", "", "show what fills the model's context")
        .yielding()
        .reporting(),
    row(Builtin::Cost, "cost", "", "show what the session has cost").yielding().reporting(),
    row(
        Builtin::Diff,
        "diff",
        "[N|session|tree]",
        "show the changes of a turn, the session or the tree",
    )
    .yielding()
    .reporting(),
    row(Builtin::Todo, "todo", "", "show the list of tasks").at_once().yielding().reporting(),
    row(Builtin::Status, "status", "", "show the session, its model, context and cost")
        .at_once()
        .reporting(),
    row(Builtin::Mcp, "mcp", "", "show the MCP servers and their tools").reporting(),
    row(Builtin::Why, "why", "", "show what the session waits for").yielding().reporting(),
    row(Builtin::Explain, "explain", "SEQ", "explain an event of the session")
        .yielding()
        .reporting(),
    row(Builtin::Copy, "copy", "", "copy the last answer to the clipboard").yielding(),
    row(Builtin::Export, "export", "[FORMAT] [FILE]", "write the session to a file").yielding(),
    row(Builtin::Theme, "theme", "[NAME]", "use other colours").at_rest().yielding(),
    row(Builtin::Help, "help", "", "show the commands and keys").at_once().reporting(),
    row(Builtin::Exit, "exit", "", "leave; the session is kept").at_once(),
];

impl<'a> Entered<'a> {
    pub(super) fn from_line(line: &'a str) -> Self {
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|line| !line.is_empty())
        {
            return Self::Shell(command);
        }
        let Some(word) = command(line) else { return Self::Prompt };
        let argument = line[word.len()..].trim();
        let name = if word == "/quit" { "exit" } else { &word[1..] };
        match BUILTIN_COMMANDS.iter().find(|builtin| builtin.name == name) {
            Some(builtin) => Self::Builtin(builtin, argument, word),
            None => Self::Other(word),
        }
    }

    pub(super) fn is_exit(&self) -> bool {
        matches!(self, Self::Builtin(BuiltinCommand { command: Builtin::Exit, .. }, ..))
    }
}

/// The command in a line, if it is one. A path is not a command.
fn command(line: &str) -> Option<&str> {
    let word = line.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
    (!word.contains('/')).then(|| &line[..=word.len()])
}

/// The condition under which the line can be carried out.
pub(super) fn needs(line: &str) -> Needs {
    match Entered::from_line(line) {
        Entered::Builtin(builtin, ..) => builtin.needs,
        Entered::Prompt | Entered::Shell(_) | Entered::Other(_) => Needs::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_a_shell_line_or_a_prompt() {
        let own = |line| match Entered::from_line(line) {
            Entered::Builtin(builtin, argument, _) => Some((builtin.command, argument)),
            Entered::Prompt | Entered::Shell(_) | Entered::Other(_) => None,
        };
        for (line, expected) in [
            ("/exit", Builtin::Exit),
            ("/quit ", Builtin::Exit),
            ("/undo", Builtin::Undo),
            ("/new", Builtin::New),
        ] {
            assert_eq!(own(line), Some((expected, "")), "{line:?}");
        }
        assert_eq!(own("/agent plan "), Some((Builtin::Agent, "plan")));
        assert_eq!(own("/rename  a title"), Some((Builtin::Rename, "a title")));
        for (line, expected) in [
            ("hello", Entered::Prompt),
            (" /help", Entered::Prompt),
            ("/etc/hosts is wrong", Entered::Prompt),
            ("/nonsense x", Entered::Other("/nonsense")),
            ("/", Entered::Other("/")),
            ("! git status ", Entered::Shell("git status")),
            ("!", Entered::Prompt),
        ] {
            assert_eq!(Entered::from_line(line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_table_has_each_command_once() {
        for row in &BUILTIN_COMMANDS {
            assert_eq!(
                BUILTIN_COMMANDS.iter().filter(|other| other.name == row.name).count(),
                1,
                "{}",
                row.name
            );
            assert_eq!(
                BUILTIN_COMMANDS.iter().filter(|other| other.command == row.command).count(),
                1
            );
            assert!(row.about.len() < 60 && !row.about.ends_with('.'), "{}", row.about);
        }
        for (line, expected) in [
            ("/exit", Needs::Nothing),
            ("/model", Needs::Job),
            ("/new", Needs::Rest),
            ("a", Needs::Rest),
        ] {
            assert_eq!(needs(line), expected, "{line}");
        }
    }
}
