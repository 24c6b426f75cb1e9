//! Texts cut down to one line. Tokens are masked before a text is cut: half a token is not recognised as
//! one.

use std::borrow::Cow;

use leftfold_events::mask;
use serde_json::Value;

/// The argument of a call that says most.
pub fn argument(input: &Value) -> Option<&str> {
    ["command", "filePath", "pattern", "url", "description"]
        .iter()
        .find_map(|key| input.get(key)?.as_str())
        .or_else(|| input.get("questions")?.get(0)?.get("question")?.as_str())
}

/// The argument of a call that says most, in one line; empty without one.
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

/// A call in one line: its tool and the argument that says most.
pub fn heading(name: &str, input: &Value) -> String {
    format!("{name} {}", brief(input)).trim_end().to_owned()
}
