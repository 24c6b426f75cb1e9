//! Errors in settings. Each says where it is, what is wrong and what to do.

use std::fmt;
use std::path::PathBuf;

use crate::source::{MAX_INSERTED, SettingPlace};

/// The reason why settings, or the model they name, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: cannot be read: {reason}", path = .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("LEFTFOLD_CONFIG names {path}, which cannot be read: {reason}", path = .path.display())]
    UnreadableConfig { path: PathBuf, reason: String },
    #[error("the working directory {path} cannot be used: {reason}", path = .path.display())]
    Directory { path: PathBuf, reason: String },
    #[error("{path}:{line}:{column}: not UTF-8 text", path = .path.display())]
    Encoding { path: PathBuf, line: usize, column: usize },
    #[error("{place}: not valid JSON: {reason}")]
    Syntax { place: SettingPlace, reason: String },
    #[error("{place}: the front matter cannot be read: {problem}")]
    Head { place: SettingPlace, problem: String },
    #[error("{place}: `{key}` is set twice: first in line {first}")]
    Twice { place: SettingPlace, key: String, first: usize },
    #[error("{place}: `{key}` is not a setting of Leftfold{hint}")]
    UnknownKey { place: SettingPlace, key: String, hint: Hint },
    #[error("{place}: {key}: expected {expected}, found {found}{hint}")]
    Wrong { place: SettingPlace, key: String, expected: String, found: String, hint: Hint },
    #[error("{place}: `{key}`: the file {file} cannot be read: {reason}", file = .file.display())]
    Include { place: SettingPlace, key: String, file: PathBuf, reason: String },
    #[error(
        "{place}: `{key}`: `{{file:…}}` and `{{env:…}}` in this file insert more than {} MiB",
        MAX_INSERTED / 1024 / 1024
    )]
    TooLong { place: SettingPlace, key: String },
    #[error("{}", no_model(.listed, .untrusted))]
    NoModel {
        /// The models that settings list.
        listed: Vec<String>,
        /// Settings of the project that would choose one, but are left out until it is trusted.
        untrusted: Vec<SettingPlace>,
    },
    /// All errors of settings that were found at once.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    #[error("model `{model}`{origin}: expected PROVIDER/MODEL{hint}")]
    ModelName { model: String, origin: String, hint: Hint },
    #[error("model `{model}`{origin}: there is no provider `{provider}`{hint}")]
    UnknownProvider { model: String, origin: String, provider: String, hint: Hint },
    #[error("model `{model}`{origin}: provider `{provider}` lists no model `{id}`{hint}")]
    UnknownModel { model: String, origin: String, provider: String, id: String, hint: Hint },
    #[error("model `{model}`{origin}: provider `{provider}` is turned off by `{by}`")]
    Disabled { model: String, origin: String, provider: String, by: &'static str },
    #[error("model `{model}`{origin} is turned off by `{by}`")]
    Hidden { model: String, origin: String, by: String },
    #[error(transparent)]
    Keys(#[from] crate::auth::Error),
    #[error("provider `{provider}` has no wire format{npm}: set `{path}.wire` to {known}")]
    NoWire { provider: String, npm: String, path: String, known: String },
    #[error(
        "provider `{provider}` has no key: run `leftfold auth login {provider}`, or set {variables}, \
         or `{path}.options.apiKey` in leftfold.json"
    )]
    MissingKey { provider: String, path: String, variables: String },
    #[error(
        "provider `{provider}` has no `{option}`: set `{path}.options.{option}` in leftfold.json, or {variables}"
    )]
    MissingParameter { provider: String, path: String, option: String, variables: String },
    #[error(
        "nobody is signed in at provider `{provider}`: run `leftfold auth login {provider}`, or set \
         `{path}.options.apiKey` in leftfold.json"
    )]
    NotSignedIn { provider: String, path: String },
    #[error(
        "{place}: `{key}` needs the environment variable {variable}, which is not set: set it, \
         or write the value itself"
    )]
    Unset { place: SettingPlace, key: String, variable: String },
}

impl Error {
    /// One error, or several at once.
    pub(crate) fn all(mut errors: Vec<Self>) -> Self {
        match errors.len() {
            1 => errors.remove(0),
            _ => Self::Several(errors),
        }
    }

    /// The problem without the ways to solve it: its first line.
    pub fn brief(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }

    /// Each error by itself.
    pub fn each(self) -> Vec<Self> {
        match self {
            Self::Several(errors) => errors,
            one => vec![one],
        }
    }

    /// The place of the key or value that is wrong, if it is known.
    pub(crate) fn place(&self) -> Option<&SettingPlace> {
        match self {
            Self::UnknownKey { place, .. }
            | Self::Wrong { place, .. }
            | Self::Twice { place, .. }
            | Self::Include { place, .. }
            | Self::Unset { place, .. } => Some(place),
            _ => None,
        }
    }

    /// The error for a value at `path` that is not the expected one.
    pub(crate) fn wrong(
        place: &SettingPlace,
        path: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let key = match path {
            "" => "the settings as a whole".to_owned(),
            path => format!("`{path}`"),
        };
        let (expected, found, hint) = (expected.into(), found.into(), Hint::default());
        Self::Wrong { place: place.clone(), key, expected, found, hint }
    }

    pub(crate) fn unset(place: &SettingPlace, path: &str, variable: &str) -> Self {
        let (key, variable) = (path.to_owned(), variable.to_owned());
        Self::Unset { place: place.clone(), key, variable }
    }
}

/// Each error in a line.
fn lines(errors: &[Error]) -> String {
    errors.iter().map(Error::to_string).collect::<Vec<_>>().join("\n")
}

/// The ways to get a model, one a line.
fn no_model(listed: &[String], untrusted: &[SettingPlace]) -> String {
    if let Some(place) = untrusted.first() {
        return format!(
            "no model is set: the one of {place} is left out until you trust the project\n  \
             leftfold trust                 shows its settings, and lets you trust them"
        );
    }
    if let Some(first) = listed.first() {
        return format!(
            "no model is set, and settings list {}: choose one\n  \
             leftfold -m {first}\n  \
             \"model\": \"{first}\"  in ~/.config/leftfold/leftfold.json, to keep it",
            quoted(listed)
        );
    }
    "no model is set, and no provider has a key\n  \
     leftfold auth login anthropic  stores a key; another provider has another name\n  \
     ANTHROPIC_API_KEY              is a variable that may hold the key\n  \
     leftfold models                lists providers and models\n  \
     leftfold demo                  works without a model"
        .to_owned()
}

/// The end of a message: the right name for a wrong one, or all valid names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint(String);

impl Hint {
    /// Suggests the name that is closest to `wrong`. If none is close, lists the valid names.
    pub fn toward<S: AsRef<str>>(wrong: &str, known: impl IntoIterator<Item = S>) -> Self {
        const SHORT: usize = 12;
        let known: Vec<String> = known.into_iter().map(|name| name.as_ref().to_owned()).collect();
        Self(match (nearest(wrong, &known), known.len()) {
            (_, 0) => String::new(),
            (Some(near), 2..=SHORT) => {
                format!("{} Valid names are {}", meant(near), quoted(&known))
            }
            (Some(near), _) => meant(near),
            (None, _) => format!("; valid names are {}", quoted(&known)),
        })
    }

    /// The name of which `wrong` is a misspelling: only letters that are swapped, missing or too many, or
    /// the beginning of a single name.
    pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
        /// Fewer letters begin too many other words.
        const BEGINNING: usize = 4;
        let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
        let begun: Vec<&String> = known
            .iter()
            .filter(|name| wrong.len() >= BEGINNING && name.starts_with(wrong))
            .collect();
        if let [only] = begun.as_slice() {
            return Some((*only).clone());
        }
        let near = nearest(wrong, &known)?;
        let mistakes = strsim::damerau_levenshtein(wrong, near);
        (mistakes <= near.chars().count().div_ceil(4)).then(|| near.to_owned())
    }

    /// Suggests a single right name.
    pub(crate) fn exactly(right: &str) -> Self {
        Self(meant(right))
    }

    /// Suggests a close name, and nothing otherwise; for messages that list the names anyway.
    pub(crate) fn only_near(wrong: &str, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
        Self(nearest(wrong, &known).map(meant).unwrap_or_default())
    }
}

fn meant(name: &str) -> String {
    format!("; did you mean `{name}`?")
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `a`, `b`, `c`; long lists are shortened.
pub(crate) fn quoted(names: &[String]) -> String {
    const MAX_NAMES: usize = 50;
    let mut text: Vec<String> =
        names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    if names.len() > MAX_NAMES {
        text.push(format!("{} more", names.len() - MAX_NAMES));
    }
    text.join(", ")
}

/// The known name that is most similar to `wrong`, if one is similar. Case, `_` and `-` do not
/// count.
pub(crate) fn nearest<'a>(wrong: &str, known: &'a [String]) -> Option<&'a str> {
    const ENOUGH: f64 = 0.6;
    // The comparison takes time in proportion to both lengths.
    const LONGEST: usize = 200;
    if wrong.len() > LONGEST {
        return None;
    }
    let wrong = plain(wrong);
    let mut near: Vec<(f64, bool, &String)> = known
        .iter()
        .map(|name| (name, plain(name)))
        .map(|(name, known)| {
            let likeness = strsim::normalized_damerau_levenshtein(&wrong, &known);
            (likeness, letters(&known) == letters(&wrong), name)
        })
        .filter(|(likeness, _, _)| *likeness >= ENOUGH)
        .collect();
    // Among equally similar names, swapped letters are the more likely mistake; then the first
    // listed name wins.
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(other.1.cmp(&one.1)));
    near.first().map(|(_, _, name)| name.as_str())
}

/// Whether two names differ only in case, `_`, `-` and at most one letter.
pub(crate) fn is_slip(one: &str, other: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|it| !matches!(it, '_' | '-')).count();
    // most names differ in their length already, and a file may have thousands of keys
    letters(one).abs_diff(letters(other)) <= 1
        && strsim::damerau_levenshtein(&plain(one), &plain(other)) <= 1
}

fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], "")
}

fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

/// "a", "b" or "c".
pub(crate) fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

pub(crate) fn in_quotes(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}
