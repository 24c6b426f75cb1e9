//! Shortens texts to one line. Tokens are masked first, because half a token is not recognized as
//! one.

use std::borrow::Cow;

use leftfold_events::mask;
use serde_json::Value;

/// The main argument of a call.
pub fn argument(input: &Value) -> Option<&str> {
    ["command", "filePath", "pattern", "url", "description"]
        .iter()
        .find_map(|key| input.get(key)?.as_str())
        .or_else(|| input.get("questions")?.get(0)?.get("question")?.as_str())
}

/// The main argument of a call in one line; empty without one.
pub fn brief(input: &Value) -> String {
    argument(input).map(|text| shorten(first_line(text), 100)).unwrap_or_default()
}

/// `text` in quotes, in one line of at most 160 characters.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shorten(text, 160))
}

/// `text` with at most `most` characters, without tokens.
pub fn shorten(text: &str, most: usize) -> String {
    let text = mask::mask(text).map_or(Cow::Borrowed(text), Cow::Owned);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The first line that is not blank, trimmed.
pub fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// A call in one line: its tool and the main argument.
pub fn heading(name: &str, input: &Value) -> String {
    format!("{name} {}", brief(input)).trim_end().to_owned()
}
