//! A source of settings (a file, a variable or a plugin) and places within it.

use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::files;

/// The largest settings file, or file that one includes, in bytes.
const LARGEST: u64 = 1024 * 1024;
/// The most bytes that all references of one source insert together.
pub(crate) const MAX_INSERTED: usize = 16 * 1024 * 1024;

/// Looks up an environment variable by name.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's own environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The trimmed value of a variable; `None` if it is empty.
pub(crate) fn set(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    File,
    /// A file of JavaScript, or a folder of them, whose place says that it is a plugin or has tools. The name is its path.
    Script,
    /// The name is a variable's.
    Variable,
    /// The name is a plugin's, after the word `plugin`.
    Plugin,
}

/// A file, variable or plugin that settings were read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The path, the variable's name, or `plugin NAME`, as errors show it.
    pub name: String,
    /// Relative paths in it start here.
    pub base: PathBuf,
    /// Whether it was written for Leftfold; then an unknown key is an error.
    pub own: bool,
    pub kind: SourceKind,
    /// Whether it came with the project. Every other source is the user's own.
    pub of_project: bool,
    pub(crate) home: Option<PathBuf>,
}

impl Source {
    /// The agent that it was written for, if that is not Leftfold.
    pub fn written_for(&self) -> Option<&'static str> {
        let is_claude = self.name.ends_with("/.mcp.json") || self.base.ends_with(".claude");
        match (self.own, is_claude) {
            (true, _) => None,
            (false, true) => Some("Claude Code"),
            (false, false) => Some("OpenCode"),
        }
    }

    /// The path that `text` names in this source; `~/` is the home folder.
    pub fn path(&self, text: &str) -> PathBuf {
        self.base.join(expand(text, self.home.as_deref()))
    }

    /// Whether `path`, one of the places that `text` in this source may mean, can be used. A project reaches out of its
    /// worktree only by a text that needs trust because it leads there from the settings file itself.
    pub fn reaches(&self, path: &Path, text: &str, worktree: &Path) -> bool {
        !self.of_project || !is_outside(path, worktree) || is_outside(&self.path(text), worktree)
    }

    /// `text` with a leading `~` or `$HOME` replaced by the home folder.
    pub(crate) fn at_home(&self, text: &str) -> String {
        let rest = text.strip_prefix('~').or_else(|| text.strip_prefix("$HOME"));
        match (rest, &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", home.display())
            }
            (Some(_) | None, _) => text.to_owned(),
        }
    }
}

/// The place of a value. Lines and columns count from 1, columns in characters. The line is 0 if the
/// source has none; the column then only tells places apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingPlace {
    pub source: Arc<Source>,
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.source.name),
            line => write!(f, "{}:{line}:{}", self.source.name, self.column),
        }
    }
}

/// The path with each `..` applied to the name before it; links are not resolved.
pub(crate) fn without_dots(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    whole
}

/// Whether the text of a file at this path needs trust: the path leads out of the worktree, by itself or by a link, or
/// into `.git`, or names a file of variables, which the built-in rules ask about.
pub fn is_outside(path: &Path, worktree: &Path) -> bool {
    // as the kernel does it: a link is followed before the `..` after it
    let mut real = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            real.pop();
            continue;
        }
        real.push(part);
        real = files::canonicalize(&real).unwrap_or(real);
    }
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let has_variables =
        (name.ends_with(".env") || name.starts_with(".env.")) && name != ".env.example";
    let Ok(inside) = real.strip_prefix(worktree) else { return true };
    has_variables || inside.starts_with(".git")
}

/// `text` as a path, with `~` or a leading `~/` replaced by the home folder.
pub(crate) fn expand(text: &str, home: Option<&Path>) -> PathBuf {
    match (text, text.strip_prefix("~/"), home) {
        ("~", _, Some(home)) => home.to_owned(),
        (_, Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// Where text stops being UTF-8; line and column count from 1, the column in characters.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column} is not UTF-8")]
pub(crate) struct NotUtf8 {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl NotUtf8 {
    fn after(good: &[u8]) -> Self {
        let good = String::from_utf8_lossy(good);
        let good = good.strip_prefix('\u{feff}').unwrap_or(&good);
        let last = good.rsplit('\n').next().unwrap_or_default();
        Self { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 }
    }
}

/// Whether the error means that the file does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The text of a file that the user has not named, as [`read_text`] has it. No link of a project's file leaves `root`.
pub(crate) fn read_found(path: &Path, root: Option<&Path>) -> io::Result<String> {
    decode(files::read(path, root, LARGEST)?)
}

/// A whole file of at most [`LARGEST`] bytes, in UTF-8, without its byte order mark.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    files::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    decode(bytes)
}

fn decode(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        io::Error::other(NotUtf8::after(good))
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}
