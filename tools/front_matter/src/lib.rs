//! Reads front matter: YAML between two `---` lines at the start of a Markdown file. Skills, agents
//! and commands use it. This crate never opens the file.

use serde::de::DeserializeOwned;
use serde_saphyr::Location;

/// The front matter of a text, and the text after it.
#[derive(Debug, PartialEq, Eq)]
pub struct Document<'a, T> {
    pub front: T,
    pub body: &'a str,
}

/// An error in the front matter.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FrontMatterError {
    /// Line number in the whole file, counted from 1.
    pub line: usize,
    pub problem: String,
}

/// Reads a text's front matter as a `T`. A text without front matter reads as empty front matter.
/// Fields that `T` does not know are ignored.
///
/// If the front matter is not valid YAML, it is read again with values quoted that contain a bare
/// colon or hash sign. Front matter written by hand for lenient readers is full of them.
///
/// # Errors
/// The front matter has no end, is not YAML, or has a field of the wrong type. The error names the
/// line.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Document<'_, T>, FrontMatterError> {
    let (head, body) = split(text)?;
    let parsed = parse(head).or_else(|broken| parse(&quoted(head)).map_err(|_| broken));
    Ok(Document { front: parsed?, body })
}

/// Splits the front matter, without its two `---` lines, from the body.
fn split(text: &str) -> Result<(&str, &str), FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence = |line: &str| line.trim_end() == "---";
    let Some(first) = text.split_inclusive('\n').next().filter(|line| is_fence(line)) else {
        return Ok(("", text));
    };
    let rest = &text[first.len()..];
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if is_fence(line) {
            return Ok((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    let problem = "the line `---` that ends the front matter is missing".to_owned();
    Err(FrontMatterError { line: 1, problem })
}

fn parse<T: DeserializeOwned>(head: &str) -> Result<T, FrontMatterError> {
    // YAML reads an empty document as null
    let empty = head.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'));
    serde_saphyr::from_str(if empty { "{}" } else { head }).map_err(|error| {
        let inner = error.without_snippet();
        let line = inner.location().map_or(0, |place: Location| place.line());
        let text = inner.to_string();
        // `line` already gives the place, counted in the whole file; the parser's advice about
        // options is for programmers
        let end = [" at line ", ", set "].iter().filter_map(|end| text.find(end)).min();
        let problem = &text[..end.unwrap_or(text.len())];
        FrontMatterError { line: line as usize + 1, problem: problem.to_owned() }
    })
}

/// Quotes each value of a `key: value` line that YAML would misread.
fn quoted(head: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((key, value)) if is_key(key) && misleads(value.trim()) => {
            format!("{key}: '{}'", value.trim().replace('\'', "''"))
        }
        _ => line.to_owned(),
    };
    head.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

fn misleads(value: &str) -> bool {
    let plain = !value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '!']);
    (plain && (value.contains(": ") || value.contains(" #") || value.ends_with(':')))
        || value.starts_with(['@', '`', '%', '*'])
}
