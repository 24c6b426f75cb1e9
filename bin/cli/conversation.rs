//! Arguments of a conversation: options, the first prompt, and the files that go with it.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use leftfold_config::Hint;
use leftfold_runtime::turn_config::Overrides;
use leftfold_runtime::{Usage, attach};
use leftfold_terminal::Start;

use super::{Cli, PermissionMode, of_mode, somebody_there};

/// Options of a conversation.
#[derive(Debug, Args)]
pub(crate) struct ConversationArgs {
    /// The first prompt. With `@FILE` that file goes with it (repeatable)
    #[arg(value_name = "PROMPT|@FILE")]
    pub(crate) words: Vec<String>,
    /// Continue this session
    #[arg(long, value_name = "SESSION", conflicts_with = "continue")]
    pub(crate) session: Option<String>,
    /// Continue the project's latest session, with the prompt if there is one
    #[arg(long, short = 'c')]
    pub(crate) r#continue: bool,
    /// The model to use, as PROVIDER/MODEL
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// The agent that takes the prompts
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Allow everything that permission rules would ask about
    #[arg(long)]
    pub(crate) yes: bool,
    /// Answers to permission questions in advance [default: ask]
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "yes")]
    pub(crate) permission_mode: Option<PermissionMode>,
}

impl ConversationArgs {
    /// Turns the arguments into the start of a conversation, and reads the files.
    ///
    /// # Errors
    /// A word looks like a misspelt command, there are two prompts, or a file cannot be read.
    pub(crate) fn start(self) -> Result<Start, Usage> {
        let Words { prompt, files } = words(&self.words, somebody_there())?;
        let last = self.r#continue.then(|| "last".to_owned());
        let overrides = Overrides {
            model: self.model,
            agent: self.agent,
            ..of_mode(self.permission_mode, self.yes, true)
        };
        let files = attach::files(&files)?;
        Ok(Start { session: last.or(self.session), overrides, prompt, files })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Words {
    prompt: Option<String>,
    files: Vec<PathBuf>,
}

/// Tells the prompt from the files. `is_answered` says whether a person is at the terminal.
fn words(words: &[String], is_answered: bool) -> Result<Words, Usage> {
    let is_file = |word: &&String| word.len() > 1 && word.starts_with('@') && !has_blank(word);
    let (files, prompts): (Vec<&String>, Vec<&String>) = words.iter().partition(is_file);
    let files = files.into_iter().map(|word| PathBuf::from(&word[1..])).collect();
    let prompt = match prompts.as_slice() {
        [] => None,
        [only] => {
            if !has_blank(only) && words.len() == 1 {
                check_command(only, is_answered)?;
            }
            Some((*only).clone())
        }
        [first, second, ..] => {
            let all = prompts.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
            if !has_blank(first)
                && let Some(right) = meant(first)
            {
                return Err(Usage(format!(
                    "there is no command `{first}`: did you mean `{right}`?"
                )));
            }
            return Err(several(second, &all, "leftfold"));
        }
    };
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(Usage("the prompt is empty".to_owned()));
    }
    Ok(Words { prompt, files })
}

/// The prompt of a command that takes one.
///
/// # Errors
/// There are several, as if it had no quotes.
pub(crate) fn one_prompt(words: &[String]) -> Result<Option<String>, Usage> {
    match words {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        [_, second, ..] => Err(several(second, &words.join(" "), "leftfold run")),
    }
}

fn several(second: &str, all: &str, command: &str) -> Usage {
    Usage(format!(
        "a prompt is one argument, but `{second}` is a second one: put quotes around it all, as in \
         `{command} \"{}\"`",
        leftfold_view::words::shorten(all, 60)
    ))
}

fn has_blank(word: &str) -> bool {
    word.contains(char::is_whitespace)
}

/// A single word is a prompt only if a person typed it and it is no misspelt command: prompts cost money.
fn check_command(word: &str, is_answered: bool) -> Result<(), Usage> {
    // A command of the conversation.
    if word.starts_with('/') {
        return Ok(());
    }
    match meant(word) {
        Some(right) if right == word => Err(Usage(format!(
            "`{word}` is a command, and its options go after it: `leftfold {word} …`. To send it as a prompt, run \
             `leftfold run {word}`"
        ))),
        Some(right) => Err(Usage(format!(
            "there is no command `{word}`: did you mean `leftfold {right}`? To send it as a prompt, run \
             `leftfold run {word}`"
        ))),
        None if !is_answered => Err(Usage(format!(
            "there is no command `{word}`: `leftfold --help` lists them. To send it as a prompt, run \
             `leftfold run {word}`"
        ))),
        None => Ok(()),
    }
}

/// Names that other programs give to commands.
const ELSEWHERE: [(&str, &str); 8] = [
    ("login", "auth login"),
    ("logout", "auth logout"),
    ("exec", "run"),
    ("chat", "--help"),
    ("list", "sessions list"),
    ("ls", "sessions list"),
    ("history", "sessions list"),
    ("version", "--version"),
];

/// The command that a misspelt word means.
fn meant(word: &str) -> Option<String> {
    let lower = word.to_lowercase();
    if let Some((_, right)) = ELSEWHERE.iter().find(|(other, _)| *other == lower) {
        return Some((*right).to_owned());
    }
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names = shown.flat_map(|command| {
        std::iter::once(command.get_name()).chain(command.get_visible_aliases())
    });
    Hint::nearest(&lower, names.chain(["help"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str], is_answered: bool) -> Result<Words, String> {
        let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
        words(&given, is_answered).map_err(|Usage(why)| why)
    }

    #[test]
    fn a_misspelt_command_is_no_prompt() {
        for (word, right) in [
            ("sesions", "sessions"),
            ("session", "sessions"),
            ("Replay", "replay"),
            ("explian", "explain"),
            ("sess", "sessions"),
            ("modles", "models"),
            ("hlep", "help"),
            ("login", "auth login"),
            ("exec", "run"),
        ] {
            let refused = of(&[word], true).unwrap_err();
            assert!(refused.contains(&format!("did you mean `leftfold {right}`?")), "{refused}");
        }
        for word in ["hello", "refactor", "fix", "weiter", "tests?", "/init", "日本語"] {
            let words = of(&[word], true).unwrap();
            assert_eq!(words.prompt.as_deref(), Some(word));
        }
        assert!(of(&["refactor"], false).unwrap_err().contains("leftfold run refactor"));
    }

    #[test]
    fn files_and_one_prompt() {
        let all = of(&["@a.png", "What is this?", "@dir/b"], false).unwrap();
        assert_eq!(all.prompt.as_deref(), Some("What is this?"));
        assert_eq!(all.files, [PathBuf::from("a.png"), PathBuf::from("dir/b")]);
        assert_eq!(of(&["@a.png", "stats"], false).unwrap().prompt.as_deref(), Some("stats"));
        let mention = "@explore find the tests";
        assert_eq!(of(&[mention], false).unwrap().prompt.as_deref(), Some(mention));
        assert!(of(&["fix", "the", "bug"], true).unwrap_err().contains("\"fix the bug\""));
        assert!(of(&["sesions", "list"], true).unwrap_err().contains("`sessions`?"));
        assert!(of(&["  "], true).unwrap_err().contains("empty"));
    }
}
