//! The steps of a shell line that rules judge.

use crate::word::Word;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Run(Run),
    /// A command that is not known before the line runs.
    Unreadable,
    /// A value that a known command or the shell evaluates, and that may run a command.
    Unknown,
    /// An assignment that rules judge like a command.
    Assignment(Word),
    /// From here on, a command of this name runs a function of the line.
    Function,
    /// A variable is given a value; `None` is one that is not known.
    Assign(String, Option<Word>),
    /// Input or output of a file.
    Redirect {
        to: Word,
        writes: bool,
    },
    /// The steps up to the matching `Leave` change the directory only for themselves.
    Enter,
    Leave,
    /// The steps up to the matching `Joined` may not happen.
    Perhaps,
    Joined,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// At least one.
    pub(crate) words: Vec<Word>,
    /// Where its input and output go, as it stands in the line.
    pub(crate) redirects: Vec<String>,
    /// The text of its here-document or here-string, as it stands in the line.
    pub(crate) given: String,
    /// Whether it gets arguments that do not stand in the line.
    pub(crate) fed: bool,
    /// The text in its words that is replaced by something that does not stand in the line.
    pub(crate) replaced: Option<String>,
    /// Whether it is given variables that rules judge.
    pub(crate) assigns: bool,
}

impl Run {
    pub(crate) fn new(words: Vec<Word>) -> Self {
        Self {
            words,
            redirects: Vec::new(),
            given: String::new(),
            fed: false,
            replaced: None,
            assigns: false,
        }
    }

    /// The program, if its name stands in the line and can only be the name of a program.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.words.first()?.literal()?;
        let odd = |c: char| c.is_whitespace() || c.is_control();
        (!name.is_empty() && !name.contains(odd)).then_some(name)
    }
}
