//! Converts tool calls to the protocol's form.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation, ToolKind};
use leftfold_events::event::{Class, Finished};
use leftfold_view::{Call, DiffLine, FileDiff, LineKind};

/// The kind of a tool call, by the tool if that is more specific than its class. A model's `list` becomes `read`.
pub(super) fn kind(name: &str, class: Option<Class>) -> ToolKind {
    match (leftfold_tools::kind_of(name), class) {
        (leftfold_tools::ToolKind::Read, _) => ToolKind::Read,
        (leftfold_tools::ToolKind::Edit, _) => ToolKind::Edit,
        (leftfold_tools::ToolKind::Search, _) => ToolKind::Search,
        (leftfold_tools::ToolKind::Execute, _) => ToolKind::Execute,
        (leftfold_tools::ToolKind::Fetch, _) => ToolKind::Fetch,
        (leftfold_tools::ToolKind::Think, _) => ToolKind::Think,
        (leftfold_tools::ToolKind::Other, _) if name == "list" => ToolKind::Search,
        (_, Some(Class::Read)) => ToolKind::Read,
        (_, Some(Class::Write)) => ToolKind::Edit,
        (_, Some(Class::Command)) => ToolKind::Execute,
        (_, Some(Class::Child | Class::Ask) | None) => ToolKind::Other,
    }
}

/// One line about the call.
pub(super) fn title(call: &Call) -> String {
    let input = &call.input;
    let argument = ["description", "command", "filePath", "path", "pattern", "url"]
        .iter()
        .find_map(|field| input.get(field)?.as_str().filter(|text| !text.trim().is_empty()));
    let asked = || input.get("questions")?.get(0)?.get("question")?.as_str();
    match argument.or_else(asked).and_then(|text| text.trim().lines().next()) {
        Some(argument) => format!("{}: {argument}", call.name),
        None => call.name.clone(),
    }
}

pub(super) fn locations(paths: &[String]) -> Vec<ToolCallLocation> {
    let absolute = paths.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    absolute.map(ToolCallLocation::new).collect()
}

/// The result of a call: the diff of each changed file, or else its output.
pub(super) fn content(finished: &Finished, paths: &[String]) -> Vec<ToolCallContent> {
    let complete = !finished.is_error && finished.metadata.value().get("diff_truncated").is_none();
    let files = FileDiff::of_call(finished).filter(|_| complete).unwrap_or_default();
    let changes = match paths {
        [path] => Some(changes(&files, path)),
        several => of_many(&files, several),
    };
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        return changes;
    }
    text(&finished.output)
}

/// The changes of each file. The name in the diff must be the end of exactly one of the absolute
/// `paths`; `None` if one is ambiguous.
fn of_many(files: &[FileDiff], paths: &[String]) -> Option<Vec<ToolCallContent>> {
    let mut all = Vec::new();
    for file in files {
        let name = file.after("+++ b/").or_else(|| file.after("--- a/"));
        let Some(name) = name else { continue };
        let mut meant = paths.iter().filter(|path| Path::new(path).ends_with(name));
        let (Some(path), None) = (meant.next(), meant.next()) else { return None };
        all.extend(changes(std::slice::from_ref(file), path));
    }
    Some(all)
}

/// Each hunk as a change with the few lines around it.
pub(super) fn changes(files: &[FileDiff], path: &str) -> Vec<ToolCallContent> {
    let created = files.first().is_some_and(|file| file.after("--- /dev/null").is_some());
    let change = |hunk: &[DiffLine]| {
        let text = |other: LineKind| -> String {
            let lines = hunk.iter().filter(|line| ![other, LineKind::Note].contains(&line.kind));
            lines.flat_map(|line| [line.text.get(1..).unwrap_or_default(), "\n"]).collect()
        };
        let old = (!created).then(|| text(LineKind::Added));
        ToolCallContent::Diff(Diff::new(path, text(LineKind::Removed)).old_text(old))
    };
    files.iter().flat_map(FileDiff::hunks).map(change).collect()
}

pub(super) fn text(text: &str) -> Vec<ToolCallContent> {
    if text.is_empty() { Vec::new() } else { vec![text.into()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/one\n+++ b/one\n@@ -1,2 +1 @@\n--- a/x\n a\n--- /dev/null\n+++ b/d/two\n\
        @@ -0,0 +1,2 @@\n+++ b\n+b\nrename from three\nrename to four\n--- a/three\n+++ b/four\n\
        --- a/five\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n";

    #[test]
    fn every_file_has_its_own_changes() {
        let paths = ["/p/d/two", "/p/five", "/p/four", "/p/one"].map(str::to_owned);
        let changes = of_many(&FileDiff::parse(DIFF), &paths).unwrap();
        let paths: Vec<String> = changes
            .iter()
            .map(|content| {
                let ToolCallContent::Diff(diff) = content else { panic!("{content:?}") };
                diff.path.display().to_string()
            })
            .collect();
        assert_eq!(paths, ["/p/one", "/p/d/two", "/p/five"]);
        let two = ["/p/one", "/q/one", "/p/d/two", "/p/four", "/p/five"].map(str::to_owned);
        assert_eq!(of_many(&FileDiff::parse(DIFF), &two), None);
    }

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
        let content = changes(&FileDiff::parse(diff), "/p/f");
        assert_eq!(diffs(&content), [(Some("a\nb\nc\n"), "a\nB\nc\n"), (Some("x\n"), "x\n--y\n")]);
    }

    #[test]
    fn a_new_file_has_no_text_before() {
        let files = FileDiff::parse("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n");
        let content = changes(&files, "/p/f");
        assert_eq!(diffs(&content), [(None, "a\n")]);
    }
}
