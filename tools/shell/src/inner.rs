//! The commands that a command runs besides itself: the result of `wrappers` and `git`.

use crate::word::Word;

/// A command, line or variable that a command runs or sets besides itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Command(Vec<Word>),
    /// A command that gets more arguments than stand in the line.
    Fed {
        words: Vec<Word>,
        /// Whether the arguments are added at the end.
        appended: bool,
        /// The text that is replaced wherever it stands.
        placeholder: Option<String>,
    },
    /// A line for a shell.
    Line(String),
    /// A variable for the command.
    Assigns(Word),
    /// A command that is not known before it runs.
    Unreadable,
    /// A value that may run a command.
    Unknown,
}

/// A line that is not known in full is looked into as far as it stands there.
pub(crate) fn line(word: &Word) -> Vec<Inner> {
    if let Some(line) = word.literal() {
        return vec![Inner::Line(line)];
    }
    let quoted = word.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted.filter(|line| !line.contains(['"', '\\'])) {
        Some(line) => vec![Inner::Line(line.to_owned()), Inner::Unknown],
        None => vec![Inner::Unreadable],
    }
}

/// As the shell puts arguments together again before it reads them once more.
pub(crate) fn joined(words: &[Word]) -> Vec<Inner> {
    let literal: Option<Vec<String>> = words.iter().map(Word::literal).collect();
    match (literal, words) {
        (Some(words), _) => vec![Inner::Line(words.join(" "))],
        (None, [only]) => line(only),
        (None, _) => vec![Inner::Command(words.to_vec()), Inner::Unknown],
    }
}
