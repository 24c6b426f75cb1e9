//! Sorts an entered line into a prompt, a command of the conversation, or a command line for the shell. Has the table of
//! slash commands of the conversation (`BUILTIN_COMMANDS`); `commands.rs` runs them.

use leftfold_config::{Hint, KeyAction};

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
    Config,
    Context,
    Copy,
    Cost,
    Diff,
    Exit,
    Explain,
    Export,
    Fork,
    Help,
    Login,
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

/// A part of the menu and of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Prompts,
    Sessions,
    Back,
    Report,
    Setup,
    /// Commands, skills and prompts of the project and its servers.
    Others,
}

impl Group {
    /// Its heading.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prompts => "Model and agent",
            Self::Sessions => "Sessions",
            Self::Back => "Going back",
            Self::Report => "Looking into it",
            Self::Setup => "Settings and setup",
            Self::Others => "Prompts and skills",
        }
    }
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
    /// Names that other agents have for it.
    pub(super) aliases: &'static [&'static str],
    pub(super) group: Group,
    /// A key that does it too.
    pub(super) key: Option<KeyAction>,
    pub(super) argument: Argument,
    /// How the argument is written in the help.
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
    pub(super) needs: Needs,
    /// A command of the project with this name comes first. With the name of an alias, it does so too, except for
    /// `exit`.
    pub(super) yields: bool,
    /// It only prints, and its line is shown above what it prints.
    pub(super) reports: bool,
}

/// A row: the command, its name, how its argument is written, and what it does. By default it waits for other jobs and open
/// questions, and belongs to the reports.
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
    BuiltinCommand {
        command,
        name,
        aliases: &[],
        group: Group::Report,
        key: None,
        argument,
        usage,
        about,
        needs: Needs::Job,
        yields: false,
        reports: false,
    }
}

impl BuiltinCommand {
    const fn group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }

    const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn key(mut self, key: KeyAction) -> Self {
        self.key = Some(key);
        self
    }

    /// Whether a command of the project with the name that was written comes first.
    pub(super) fn yields_to(&self, word: &str) -> bool {
        let is_alias = word.strip_prefix('/') != Some(self.name);
        self.yields || is_alias && self.command != Builtin::Exit
    }

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

/// All commands of the conversation, in the order of the menu and the help.
pub(super) static BUILTIN_COMMANDS: [BuiltinCommand; 27] = [
    row(Builtin::Model, "model", "[NAME]", "use another model for the next prompts")
        .group(Group::Prompts)
        .aliases(&["models"]),
    row(Builtin::Variant, "variant", "[NAME]", "use another variant of the model, such as `high`")
        .group(Group::Prompts)
        .aliases(&["effort"]),
    row(Builtin::Agent, "agent", "[NAME]", "use another agent for the next prompts")
        .group(Group::Prompts)
        .aliases(&["agents"])
        .key(KeyAction::NextAgent),
    row(Builtin::Permissions, "permissions", "[MODE]", "who allows calls; take approvals back")
        .group(Group::Prompts)
        .aliases(&["approvals"])
        .key(KeyAction::NextMode),
    row(
        Builtin::Compact,
        "compact",
        "[INSTRUCTIONS]",
        "replace the conversation so far with a summary",
    )
    .group(Group::Prompts)
    .aliases(&["summarize"])
    .at_rest(),
    row(Builtin::Sessions, "sessions", "[ID]", "continue another session")
        .group(Group::Sessions)
        .aliases(&["resume", "continue"])
        .at_rest(),
    row(Builtin::New, "new", "", "begin a new session")
        .group(Group::Sessions)
        .aliases(&["clear"])
        .at_rest()
        .yielding(),
    row(Builtin::Fork, "fork", "[SEQ] [files]", "continue in a fork that ends before a prompt")
        .group(Group::Sessions)
        .aliases(&["branch"])
        .at_rest()
        .yielding(),
    row(Builtin::Rename, "rename", "TITLE", "give the session another title")
        .group(Group::Sessions)
        .yielding(),
    row(Builtin::Export, "export", "[FORMAT] [FILE]", "write the session to a file")
        .group(Group::Sessions)
        .yielding(),
    row(Builtin::Exit, "exit", "", "leave; the session is kept")
        .group(Group::Sessions)
        .aliases(&["quit", "q"])
        .key(KeyAction::Leave)
        .at_once(),
    row(Builtin::Undo, "undo", "", "take back the last prompt and its changes to files")
        .group(Group::Back)
        .at_rest(),
    row(Builtin::Redo, "redo", "", "bring back the prompt that was taken back last")
        .group(Group::Back)
        .at_rest(),
    row(Builtin::Revert, "revert", "[SEQ]", "take back everything from an earlier prompt on")
        .group(Group::Back)
        .aliases(&["rewind"])
        .at_rest()
        .yielding(),
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
    row(Builtin::Context, "context", "", "show what fills the model's context")
        .yielding()
        .reporting(),
    row(Builtin::Cost, "cost", "", "show what the session has cost")
        .aliases(&["usage"])
        .yielding()
        .reporting(),
    row(Builtin::Why, "why", "", "show what failed, and what the session waits for")
        .yielding()
        .reporting(),
    row(Builtin::Explain, "explain", "SEQ", "explain an event of the session")
        .yielding()
        .reporting(),
    row(Builtin::Copy, "copy", "", "copy the last answer to the clipboard").yielding(),
    row(Builtin::Login, "login", "[PROVIDER]", "add a provider: sign in, or store a key")
        .group(Group::Setup)
        .aliases(&["connect"])
        .at_rest(),
    row(Builtin::Theme, "theme", "[NAME]", "use other colours")
        .group(Group::Setup)
        .aliases(&["themes"])
        .at_rest()
        .yielding(),
    row(Builtin::Mcp, "mcp", "", "show the MCP servers and their tools")
        .group(Group::Setup)
        .reporting(),
    row(Builtin::Config, "config", "[KEY]", "show the settings, and where each comes from")
        .group(Group::Setup)
        .aliases(&["settings"])
        .yielding()
        .reporting(),
    row(Builtin::Help, "help", "[keys]", "show the commands and keys")
        .group(Group::Setup)
        .at_once()
        .reporting(),
];

/// The command of this name, or of which it is an alias.
pub(super) fn builtin(name: &str) -> Option<&'static BuiltinCommand> {
    let is_named = |row: &&BuiltinCommand| row.name == name || row.aliases.contains(&name);
    BUILTIN_COMMANDS.iter().find(is_named)
}

/// The part of a line that is kept for later. The words after `/login` may be a key that somebody has typed there.
pub(super) fn kept(line: &str) -> &str {
    match Entered::from_line(line) {
        Entered::Builtin(BuiltinCommand { command: Builtin::Login, .. }, _, word) => word,
        Entered::Builtin(..) | Entered::Prompt | Entered::Shell(_) | Entered::Other(_) => line,
    }
}

/// The command of which a word without its slash is a misspelling. `others` are the commands of the project.
pub(super) fn meant<'a>(word: &str, others: impl Iterator<Item = &'a str>) -> Option<String> {
    let names = |row: &'static BuiltinCommand| [row.name].into_iter().chain(row.aliases.to_vec());
    Hint::nearest(&word.to_lowercase(), BUILTIN_COMMANDS.iter().flat_map(names).chain(others))
}

impl<'a> Entered<'a> {
    pub(super) fn from_line(line: &'a str) -> Self {
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|line| !line.is_empty())
        {
            return Self::Shell(command);
        }
        let Some(word) = command(line) else { return Self::Prompt };
        let argument = line[word.len()..].trim();
        match builtin(&word[1..]) {
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
            ("/clear", Builtin::New),
            ("/resume", Builtin::Sessions),
            ("/rewind", Builtin::Revert),
            ("/login", Builtin::Login),
            ("/settings", Builtin::Config),
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
            for name in [row.name].iter().chain(row.aliases) {
                let is_named =
                    |other: &&BuiltinCommand| other.name == *name || other.aliases.contains(name);
                assert_eq!(BUILTIN_COMMANDS.iter().filter(is_named).count(), 1, "{name}");
            }
            assert_eq!(
                BUILTIN_COMMANDS.iter().filter(|other| other.command == row.command).count(),
                1
            );
            assert!(row.about.len() < 60 && !row.about.ends_with('.'), "{}", row.about);
        }
        // each group once, in its order
        assert!(BUILTIN_COMMANDS.is_sorted_by_key(|row| row.group as u8));
        for (line, expected) in [
            ("/exit", Needs::Nothing),
            ("/model", Needs::Job),
            ("/new", Needs::Rest),
            ("a", Needs::Rest),
        ] {
            assert_eq!(needs(line), expected, "{line}");
        }
    }

    #[test]
    fn a_misspelt_command_gets_a_suggestion() {
        let others = ["deploy", "review"];
        for (word, right) in [
            ("quti", Some("quit")),
            ("Modle", Some("model")),
            ("permision", Some("permissions")),
            ("deplyo", Some("deploy")),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(meant(word, others.into_iter()).as_deref(), right, "{word}");
        }
        assert_eq!(kept("/login acme sk-0123456789abcdef"), "/login");
        assert_eq!(kept("/model acme/m"), "/model acme/m");
        let row = |name| builtin(name).unwrap();
        assert!(row("clear").yields_to("/clear") && row("new").yields_to("/new"));
        assert!(row("models").yields_to("/models") && !row("models").yields_to("/model"));
        assert!(!row("quit").yields_to("/quit") && !row("login").yields_to("/login"));
    }
}
