//! Shortens texts to one line. Tokens are masked first, because half a token is not recognized as
//! one.

use std::borrow::Cow;
use std::fmt::{Debug, Display};

use leftfold_events::event::StreamedInput;
use leftfold_events::mask;
use serde_json::Value;

/// The main argument of a call.
pub fn argument(input: &Value) -> Option<&str> {
    ["command", "filePath", "pattern", "url", "description"]
        .iter()
        .find_map(|key| input.get(key)?.as_str())
        .or_else(|| input.get("questions")?.get(0)?.get("question")?.as_str())
}

/// The most bytes of an argument that a person decides on.
const LONGEST: usize = 128 << 10;

/// All arguments of a call, whole, for a person who decides on it: the main argument first, without a
/// name.
///
/// Left out are the deadline and the description of a `bash` call, because they change nothing.
pub(crate) fn arguments(name: &str, input: &Value) -> Vec<(String, String)> {
    let main = argument(input);
    let mut all: Vec<_> =
        main.into_iter().map(|text| (String::new(), ends(text, LONGEST).into_owned())).collect();
    let mut is_main = main.is_some();
    for (key, value) in input.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if is_main && Some(text.as_str()) == main {
            is_main = false;
            continue;
        }
        if name == "bash" && matches!(key.as_str(), "timeout" | "description") {
            continue;
        }
        all.push((key.clone(), ends(&text, LONGEST).into_owned()));
    }
    all
}

/// A text of at most `most` bytes. A longer one keeps its start and its end, and says how much is hidden.
pub fn ends(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let boundary = |from: usize| (0..=from).rev().find(|at| text.is_char_boundary(*at));
    let start = boundary(most / 2).unwrap_or(0);
    let end = boundary(text.len() - most / 2).unwrap_or(text.len());
    let hidden = end - start;
    Cow::Owned(format!(
        "{}\n… {hidden} bytes are not shown here …\n{}",
        &text[..start],
        &text[end..]
    ))
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

/// The name of a variant without fields as words: `ToolCalls` is `tool calls`.
pub fn variant_words(variant: impl Debug) -> String {
    let mut words = String::new();
    for (at, letter) in format!("{variant:?}").char_indices() {
        if at > 0 && letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// A number and its noun: `1 event`, `2 events`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A number with a comma between thousands: `12,345`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The first line that is not blank, trimmed.
pub fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// Built-in tools that people know by other words than their names: the name, the heading of a call, and the arguments
/// that a model writes. The tools of servers and plugins keep their names: a built-in tool with an equal name comes first.
const TOOLS: [(&str, &str, &str); 13] = [
    ("StructuredOutput", "Answer", "the answer"),
    ("apply_patch", "patch", "a patch"),
    ("bash", "bash", "a command"),
    ("edit", "edit", "an edit"),
    (INVALID, "unknown tool", "a call of an unknown tool"),
    ("multiedit", "edit", "an edit"),
    ("plan_enter", "Planning first", "a question"),
    ("plan_exit", "The plan is ready", "a question"),
    ("question", "question", "a question"),
    ("task", "task", "a task"),
    ("todoread", "Todo list", "a look at the todo list"),
    ("todowrite", "Todo list", "the todo list"),
    ("write", "write", "a file"),
];
/// Stands for calls of tools that do not exist. Its arguments have the name that was called.
const INVALID: &str = "invalid";
/// The headings of these tools say everything.
const WITHOUT_SUBJECT: [&str; 2] = ["plan_enter", "plan_exit"];

/// A call's tool in words, for its heading.
pub fn tool<'a>(name: &'a str, input: &Value) -> Cow<'a, str> {
    let words = TOOLS.iter().find(|(tool, ..)| *tool == name).map(|(_, heading, _)| *heading);
    match (words, input.get("tool").and_then(Value::as_str)) {
        (Some(words), Some(called)) if name == INVALID => {
            Cow::Owned(format!("{words} `{}`", shorten(called, 40)))
        }
        (words, _) => Cow::Borrowed(words.unwrap_or(name)),
    }
}

/// Several calls that only read files, by the names of their tools: `Explored: read 3, grep 2`.
pub fn explored<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    format!("Explored: {}", counts.collect::<Vec<_>>().join(", "))
}

/// A call in one line: its tool in words and what it is about.
pub fn heading(name: &str, input: &Value) -> String {
    let subject = shorten(first_line(&subject(name, input)), 100);
    format!("{} {subject}", tool(name, input)).trim_end().to_owned()
}

/// The main argument of a call, or the one that people would name.
pub fn subject<'a>(name: &str, input: &'a Value) -> Cow<'a, str> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    if WITHOUT_SUBJECT.contains(&name) {
        return Cow::Borrowed("");
    }
    if let Some(patch) = text("patchText") {
        return Cow::Owned(patched(patch).join(", "));
    }
    if name == "task"
        && let Some(agent) = text("subagentType").or_else(|| text("subagent_type"))
    {
        return Cow::Owned(format!("{agent}: {}", text("description").unwrap_or_default()));
    }
    if let Some((operation, path)) = text("operation").zip(text("filePath")) {
        let place = ["line", "character"].iter().filter_map(|key| input.get(key)?.as_u64());
        let place: String = place.map(|number| format!(":{number}")).collect();
        return Cow::Owned(format!("{operation} {path}{place}"));
    }
    if let Some(calls) = input.get("tool_calls").and_then(Value::as_array) {
        return Cow::Owned(counted(calls.len(), "call"));
    }
    let others = || ["query", "uri", "path", "name"].iter().find_map(|key| text(key));
    Cow::Borrowed(argument(input).or_else(others).unwrap_or_default())
}

/// The files that a patch changes.
fn patched(patch: &str) -> Vec<&str> {
    const HEADS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let name = |line| HEADS.iter().find_map(|head| str::strip_prefix(line, *head));
    patch.lines().filter_map(name).map(str::trim).collect()
}

/// A number of bytes: `900 B`, `12.3 kB`, `4.5 MB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{}.{} kB", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{} MB", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// A call that the model is writing, and the size of its arguments so far.
pub fn written(input: &StreamedInput) -> String {
    let known = TOOLS.iter().find(|(tool, ..)| *tool == input.name);
    let what = known.map_or_else(
        || format!("a call of {}", shorten(&input.name, 40)),
        |(.., arguments)| (*arguments).to_owned(),
    );
    format!("writing {what} ({})", bytes(input.bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_named_by_what_it_is_about() {
        let patch = "*** Begin Patch\n*** Add File: a\n+*** Add File: x\n*** Update File: b c\n@@\n*** End Patch";
        for (name, input, expected) in [
            ("bash", json!({ "command": "ls\npwd" }), "bash ls"),
            ("read", json!({ "filePath": "a.rs", "offset": 3 }), "read a.rs"),
            ("grep", json!({ "pattern": "fn", "path": "src" }), "grep fn"),
            ("websearch", json!({ "query": "rust" }), "websearch rust"),
            ("skill", json!({ "name": "tidy" }), "skill tidy"),
            (
                "task",
                json!({ "description": "look", "prompt": "p", "subagentType": "explore" }),
                "task explore: look",
            ),
            (
                "lsp",
                json!({ "operation": "definition", "filePath": "a.rs", "line": 3, "character": 7 }),
                "lsp definition a.rs:3:7",
            ),
            ("apply_patch", json!({ "patchText": patch }), "patch a, b c"),
            ("batch", json!({ "tool_calls": [{}, {}] }), "batch 2 calls"),
            ("question", json!({ "questions": [{ "question": "Which?" }] }), "question Which?"),
            ("todowrite", json!({ "todos": [] }), "Todo list"),
            ("plan_exit", json!({ "questions": [{ "question": "Go?" }] }), "The plan is ready"),
            ("invalid", json!({ "tool": "fetch", "error": "?" }), "unknown tool `fetch`"),
            ("srv_invalid", json!({ "tool": "fetch" }), "srv_invalid"),
            ("files_stat", json!({ "path": "/a", "deep": true }), "files_stat /a"),
        ] {
            assert_eq!(heading(name, &input), expected);
        }
    }

    #[test]
    fn calls_that_only_read_are_counted_by_tool() {
        for (names, expected) in [
            (&["read"][..], "Explored: read 1"),
            (&["read", "grep", "read", "glob"], "Explored: read 2, grep 1, glob 1"),
        ] {
            assert_eq!(explored(names.iter().copied()), expected);
        }
    }

    #[test]
    fn a_call_that_is_written_is_named_by_its_arguments() {
        for (name, expected) in [
            ("write", "writing a file (1.2 kB)"),
            ("todowrite", "writing the todo list (1.2 kB)"),
            ("srv_put", "writing a call of srv_put (1.2 kB)"),
        ] {
            let name = name.to_owned();
            let input = StreamedInput { id: String::new(), name, bytes: 1_234 };
            assert_eq!(written(&input), expected);
        }
    }
}
