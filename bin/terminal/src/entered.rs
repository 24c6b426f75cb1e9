//! Sorts an entered line into a prompt, a command of the conversation, or a command line for the shell.

/// A line that the user has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered<'a> {
    Prompt,
    /// A shell line of the user's own.
    Shell(&'a str),
    /// A command of the conversation, its argument, and the word that names it.
    Own(&'static OwnCommand, &'a str, &'a str),
    /// A command that the conversation does not have.
    Other(&'a str),
}

/// A command of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
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
pub(super) struct OwnCommand {
    pub(super) command: Own,
    pub(super) name: &'static str,
    pub(super) argument: Argument,
    /// How the argument is written in the help.
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
    /// A command of the project with this name comes first.
    pub(super) yields: bool,
    pub(super) needs: Needs,
}

const fn own(
    command: Own,
    name: &'static str,
    usage: &'static str,
    about: &'static str,
) -> OwnCommand {
    let argument = match usage.as_bytes() {
        [] => Argument::Nothing,
        [b'[', ..] => Argument::Optional,
        [..] => Argument::Required,
    };
    let yields = match command {
        Own::Context
        | Own::Copy
        | Own::Cost
        | Own::Diff
        | Own::Explain
        | Own::Export
        | Own::Fork
        | Own::New
        | Own::Rename
        | Own::Revert
        | Own::Theme
        | Own::Todo
        | Own::Why => true,
        Own::Agent
        | Own::Compact
        | Own::Exit
        | Own::Help
        | Own::Mcp
        | Own::Model
        | Own::Permissions
        | Own::Redo
        | Own::Sessions
        | Own::Status
        | Own::Undo
        | Own::Variant => false,
    };
    let needs = match command {
        Own::Exit | Own::Help | Own::Status | Own::Todo => Needs::Nothing,
        // these replace the session, its messages or the look of a text that streams
        Own::Compact
        | Own::Fork
        | Own::New
        | Own::Redo
        | Own::Revert
        | Own::Sessions
        | Own::Theme
        | Own::Undo => Needs::Rest,
        Own::Agent
        | Own::Context
        | Own::Copy
        | Own::Cost
        | Own::Diff
        | Own::Explain
        | Own::Export
        | Own::Mcp
        | Own::Model
        | Own::Permissions
        | Own::Rename
        | Own::Variant
        | Own::Why => Needs::Job,
    };
    OwnCommand { command, name, argument, usage, about, yields, needs }
}

/// All commands of the conversation, in the order of the help.
pub(super) static OWN: [OwnCommand; 25] = [
    own(Own::Model, "model", "[NAME]", "use another model for the next prompts"),
    own(Own::Variant, "variant", "[NAME]", "use another variant of the model, such as `high`"),
    own(Own::Agent, "agent", "[NAME]", "use another agent for the next prompts"),
    own(Own::Permissions, "permissions", "[MODE]", "who allows calls; take approvals back"),
    own(Own::Sessions, "sessions", "[ID]", "continue another session"),
    own(Own::New, "new", "", "begin a new session"),
    own(Own::Rename, "rename", "TITLE", "give the session another title"),
    own(Own::Fork, "fork", "[SEQ] [files]", "continue in a fork that ends before a prompt"),
    own(Own::Undo, "undo", "", "take back the last prompt and its changes to files"),
    own(Own::Redo, "redo", "", "bring back the prompt that was taken back last"),
    own(Own::Revert, "revert", "[SEQ]", "take back everything from an earlier prompt on"),
    own(
        Own::Compact,
        "compact",
        "[INSTRUCTIONS]",
        "replace the conversation so far with a summary",
    ),
    own(Own::Context, "context", "", "show what fills the model's context"),
    own(Own::Cost, "cost", "", "show what the session has cost"),
    own(
        Own::Diff,
        "diff",
        "[N|session|tree]",
        "show the changes of a turn, the session or the tree",
    ),
    own(Own::Todo, "todo", "", "show the list of tasks"),
    own(Own::Status, "status", "", "show the session, its model, context and cost"),
    own(Own::Mcp, "mcp", "", "show the MCP servers and their tools"),
    own(Own::Why, "why", "", "show what the session waits for"),
    own(Own::Explain, "explain", "SEQ", "explain an event of the session"),
    own(Own::Copy, "copy", "", "copy the last answer to the clipboard"),
    own(Own::Export, "export", "[FORMAT] [FILE]", "write the session to a file"),
    own(Own::Theme, "theme", "[NAME]", "use other colours"),
    own(Own::Help, "help", "", "show the commands and keys"),
    own(Own::Exit, "exit", "", "leave; the session is kept"),
];

impl<'a> Entered<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|line| !line.is_empty())
        {
            return Self::Shell(command);
        }
        let Some(word) = command(line) else { return Self::Prompt };
        let argument = line[word.len()..].trim();
        let name = if word == "/quit" { "exit" } else { &word[1..] };
        match OWN.iter().find(|own| own.name == name) {
            Some(own) => Self::Own(own, argument, word),
            None => Self::Other(word),
        }
    }

    pub(super) fn is_exit(&self) -> bool {
        matches!(self, Self::Own(OwnCommand { command: Own::Exit, .. }, ..))
    }
}

/// The command in a line, if it is one. A path is not a command.
fn command(line: &str) -> Option<&str> {
    let word = line.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
    (!word.contains('/')).then(|| &line[..=word.len()])
}

/// The condition under which the line can be carried out.
pub(super) fn needs(line: &str) -> Needs {
    match Entered::of(line) {
        Entered::Own(own, ..) => own.needs,
        Entered::Prompt | Entered::Shell(_) | Entered::Other(_) => Needs::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_a_shell_line_or_a_prompt() {
        let own = |line| match Entered::of(line) {
            Entered::Own(own, argument, _) => Some((own.command, argument)),
            Entered::Prompt | Entered::Shell(_) | Entered::Other(_) => None,
        };
        for (line, expected) in
            [("/exit", Own::Exit), ("/quit ", Own::Exit), ("/undo", Own::Undo), ("/new", Own::New)]
        {
            assert_eq!(own(line), Some((expected, "")), "{line:?}");
        }
        assert_eq!(own("/agent plan "), Some((Own::Agent, "plan")));
        assert_eq!(own("/rename  a title"), Some((Own::Rename, "a title")));
        for (line, expected) in [
            ("hello", Entered::Prompt),
            (" /help", Entered::Prompt),
            ("/etc/hosts is wrong", Entered::Prompt),
            ("/nonsense x", Entered::Other("/nonsense")),
            ("/", Entered::Other("/")),
            ("! git status ", Entered::Shell("git status")),
            ("!", Entered::Prompt),
        ] {
            assert_eq!(Entered::of(line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_table_has_each_command_once() {
        for own in &OWN {
            assert_eq!(
                OWN.iter().filter(|other| other.name == own.name).count(),
                1,
                "{}",
                own.name
            );
            assert_eq!(OWN.iter().filter(|other| other.command == own.command).count(), 1);
            assert!(own.about.len() < 60 && !own.about.ends_with('.'), "{}", own.about);
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
