//! What a line that the user has entered is: a prompt, a command or a command line of the user's own.

use super::jobs::SessionCommand;

/// A line that the user has entered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entered<'a> {
    Prompt,
    /// A shell line of the user's own.
    Shell(&'a str),
    Exit,
    Session(SessionCommand),
    Help,
    Status,
    Agent(&'a str),
    /// A command of the project with this name comes first.
    Diff(&'a str),
    /// A command that the conversation does not have.
    Other(&'a str),
}

impl<'a> Entered<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|line| !line.is_empty())
        {
            return Self::Shell(command);
        }
        let Some(command) = command(line) else { return Self::Prompt };
        let argument = line[command.len()..].trim();
        match command {
            "/exit" | "/quit" => Self::Exit,
            "/compact" => Self::Session(SessionCommand::Compact),
            "/undo" => Self::Session(SessionCommand::Undo),
            "/redo" => Self::Session(SessionCommand::Redo),
            "/help" => Self::Help,
            "/status" => Self::Status,
            "/agent" => Self::Agent(argument),
            "/diff" => Self::Diff(argument),
            _ => Self::Other(command),
        }
    }
}

/// The command in a line, if it is one. A path is not a command.
fn command(line: &str) -> Option<&str> {
    let word = line.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
    (!word.contains('/')).then(|| &line[..=word.len()])
}

/// Whether the line can be carried out while a turn is running.
pub(super) fn is_immediate(line: &str) -> bool {
    matches!(Entered::of(line), Entered::Exit | Entered::Help | Entered::Status | Entered::Agent(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_a_shell_line_or_a_prompt() {
        for (line, expected) in [
            ("hello", Entered::Prompt),
            (" /help", Entered::Prompt),
            ("/etc/hosts is wrong", Entered::Prompt),
            ("/exit", Entered::Exit),
            ("/undo", Entered::Session(SessionCommand::Undo)),
            ("/agent plan ", Entered::Agent("plan")),
            ("/diff", Entered::Diff("")),
            ("/nonsense x", Entered::Other("/nonsense")),
            ("/", Entered::Other("/")),
            ("! git status ", Entered::Shell("git status")),
            ("!", Entered::Prompt),
        ] {
            assert_eq!(Entered::of(line), expected, "{line:?}");
        }
    }
}
