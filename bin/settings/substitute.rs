//! `{env:NAME}` and `{file:PATH}` in strings.

use super::sources::read_text;
use super::tree::Text;
use super::{Env, Error, Place};

/// Replaces every reference in `raw`. An unset variable counts as empty and is remembered; a file
/// gives its contents without the blanks around them. What was put in is not searched again.
/// A brace that is never closed, or opens anything else, is text.
pub(super) fn apply(raw: &str, key: &str, at: &Place, env: Env<'_>) -> Result<Text, Error> {
    let mut text = Text::default();
    let mut rest = raw;
    while let Some((before, reference, after)) = next(rest) {
        text.value.push_str(before);
        match reference {
            Reference::Env(name) => match env(name) {
                Some(value) if !value.is_empty() => text.value.push_str(&value),
                Some(_) | None => text.unset.push(name.to_owned()),
            },
            Reference::File(path) => {
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
    Ok(text)
}

enum Reference<'a> {
    Env(&'a str),
    File(&'a str),
}

/// The first reference in `text`, with what stands before and after it.
fn next(text: &str) -> Option<(&str, Reference<'_>, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, opened) = text.split_at(at);
        let (env, file) = (opened.strip_prefix("{env:"), opened.strip_prefix("{file:"));
        let (name, after) = env.or(file)?.split_once('}')?;
        match (name.trim(), env.is_some()) {
            ("", _) => None,
            (name, true) => Some((before, Reference::Env(name), after)),
            (path, false) => Some((before, Reference::File(path), after)),
        }
    })
}
