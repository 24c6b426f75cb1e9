//! `{env:NAME}` and `{file:PATH}` in strings.

use super::sources::read_text;
use super::tree::Text;
use super::{Env, Error, Place};

/// What a string refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Variable { name: String, set: bool },
    File(String),
}

/// Replaces every reference in `raw`. An unset variable counts as empty and is remembered; a file
/// gives its contents without the blanks around them. What was put in is not searched again.
/// A brace that is never closed, or opens anything else, is text.
pub(super) fn apply(raw: &str, key: &str, at: &Place, env: Env<'_>) -> Result<Text, Error> {
    let mut text = Text::default();
    let mut rest = raw;
    while let Some((before, reference, after)) = next(rest) {
        text.value.push_str(before);
        match reference {
            Found::Env(name) => {
                let value = env(name).unwrap_or_default();
                let (name, set) = (name.to_owned(), !value.is_empty());
                text.references.push(Reference::Variable { name, set });
                text.value.push_str(&value);
            }
            Found::File(path) => {
                text.references.push(Reference::File(path.to_owned()));
                let file = at.source.path(path);
                let contents = read_text(&file).map_err(|error| Error::Include {
                    place: at.clone(),
                    key: key.to_owned(),
                    file,
                    reason: error.to_string(),
                })?;
                text.value.push_str(contents.trim());
            }
        }
        rest = after;
    }
    text.value.push_str(rest);
    if !text.references.is_empty() {
        text.written = raw.to_owned();
    }
    Ok(text)
}

enum Found<'a> {
    Env(&'a str),
    File(&'a str),
}

/// The first reference in `text`, with what stands before and after it.
fn next(text: &str) -> Option<(&str, Found<'_>, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, opened) = text.split_at(at);
        let (env, file) = (opened.strip_prefix("{env:"), opened.strip_prefix("{file:"));
        let (name, after) = env.or(file)?.split_once('}')?;
        match (name.trim(), env.is_some()) {
            ("", _) => None,
            (name, true) => Some((before, Found::Env(name), after)),
            (path, false) => Some((before, Found::File(path), after)),
        }
    })
}
