//! Tool calls as a client shows them.

use std::path::PathBuf;

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation, ToolKind};
use leftfold_events::event::{Class, Finished};
use leftfold_view::Call;

use super::diffs;

/// What sort of thing a tool does: by its name where that says more than the class of the call.
pub(super) fn kind(name: &str, class: Option<Class>) -> ToolKind {
    match (name, class) {
        ("read", _) => ToolKind::Read,
        ("write" | "edit" | "multiedit" | "apply_patch", _) => ToolKind::Edit,
        ("glob" | "grep" | "list" | "websearch" | "codesearch", _) => ToolKind::Search,
        ("bash", _) => ToolKind::Execute,
        ("webfetch", _) => ToolKind::Fetch,
        ("todoread" | "todowrite", _) => ToolKind::Think,
        (_, Some(Class::Read)) => ToolKind::Read,
        (_, Some(Class::Write)) => ToolKind::Edit,
        (_, Some(Class::Command)) => ToolKind::Execute,
        (_, Some(Class::Child | Class::Ask) | None) => ToolKind::Other,
    }
}

/// A line that says what a call is about.
pub(super) fn title(call: &Call) -> String {
    let input = &call.input;
    let said = ["description", "command", "filePath", "path", "pattern", "url"]
        .iter()
        .find_map(|field| input.get(field)?.as_str().filter(|text| !text.trim().is_empty()));
    let asked = || input.get("questions")?.get(0)?.get("question")?.as_str();
    match said.or_else(asked).and_then(|text| text.trim().lines().next()) {
        Some(said) => format!("{}: {said}", call.name),
        None => call.name.clone(),
    }
}

pub(super) fn locations(paths: &[String]) -> Vec<ToolCallLocation> {
    let absolute = paths.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    absolute.map(ToolCallLocation::new).collect()
}

/// What a call has brought: what it changed in a file, or else its output.
pub(super) fn content(finished: &Finished, paths: &[String]) -> Vec<ToolCallContent> {
    let metadata = finished.metadata.value();
    let whole = metadata.get("diff_truncated").is_none();
    let diff = metadata.get("diff").and_then(serde_json::Value::as_str).filter(|_| whole);
    let changes = match (diff.filter(|_| !finished.is_error), paths) {
        (Some(diff), [path]) => Some(changes(diff, path)).filter(|changes| !changes.is_empty()),
        (Some(diff), several) => diffs::of_many(diff, several),
        (None, _) => None,
    };
    if let Some(changes) = changes {
        return changes;
    }
    text(&finished.output)
}

pub(super) fn text(text: &str) -> Vec<ToolCallContent> {
    if text.is_empty() { Vec::new() } else { vec![text.into()] }
}

/// The hunks of a unified diff, each with the few lines around it.
pub(super) fn changes(diff: &str, path: &str) -> Vec<ToolCallContent> {
    let created = diff.starts_with("--- /dev/null\n");
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in diff.split_inclusive('\n').skip(2) {
        if line.starts_with("@@ ") {
            hunks.push((String::new(), String::new()));
            continue;
        }
        let Some((old, new)) = hunks.last_mut() else { continue };
        let (mark, rest) = line.split_at_checked(1).unwrap_or((line, ""));
        match mark {
            "-" => old.push_str(rest),
            "+" => new.push_str(rest),
            " " => {
                old.push_str(rest);
                new.push_str(rest);
            }
            // `\ No newline at end of file`, about the line before it
            _ => {}
        }
    }
    let change = |(old, new): (String, String)| {
        ToolCallContent::Diff(Diff::new(path, new).old_text((!created).then_some(old)))
    };
    hunks.into_iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diffs(content: &[ToolCallContent]) -> Vec<(Option<&str>, &str)> {
        let mut diffs = Vec::new();
        for content in content {
            let ToolCallContent::Diff(diff) = content else { panic!("{content:?}") };
            diffs.push((diff.old_text.as_deref(), diff.new_text.as_str()));
        }
        diffs
    }

    #[test]
    fn every_hunk_is_a_change_with_what_stands_around_it() {
        let diff = "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -9,1 +9,2 @@\n x\n+--y\n";
        let content = changes(diff, "/p/f");
        assert_eq!(diffs(&content), [(Some("a\nb\nc\n"), "a\nB\nc\n"), (Some("x\n"), "x\n--y\n")]);
    }

    #[test]
    fn a_new_file_has_no_text_before() {
        let content = changes("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "/p/f");
        assert_eq!(diffs(&content), [(None, "a\n")]);
    }
}
