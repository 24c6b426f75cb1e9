//! Shows the changes that a call would make, as lines for the person who is asked to allow it.

use leftfold_events::event::Resolution;
use leftfold_tools::{FilePreview, Workspace};

use crate::redact_output;
use leftfold_view::clean::{visible_code, visible_line};
use leftfold_view::{FileDiff, LineKind};

/// Ends the diff of a file that is too long to show.
pub const CUT: &str = "… the rest of its change is too long to show";

/// The change to one file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Its name, what becomes of it, and the number of changed lines, in one clean line.
    pub heading: String,
    /// Its diff without secrets. The text of its lines may contain control characters.
    pub diff: Vec<FileDiff>,
    /// Whether the diff was cut. [`CUT`] says so.
    pub cut: bool,
}

/// The changes of a call, file by file.
pub fn changes(files: &[FilePreview]) -> Vec<FileChange> {
    let change = |file: &FilePreview| {
        let diff = FileDiff::parse(&redact_output::masked(&file.diff));
        let heading = visible_line(&heading(file, diff.first()));
        FileChange { heading, diff, cut: file.cut }
    };
    files.iter().map(change).collect()
}

/// For each file its name and the number of changed lines, then the hunks of its diff. Control and
/// invisible characters are escapes, except a carriage return at the end of a line.
pub fn lines(files: &[FilePreview]) -> Vec<String> {
    let mut lines = Vec::new();
    for FileChange { heading, diff, cut } in changes(files) {
        lines.push(heading);
        let hunks =
            diff.iter().flat_map(|file| &file.0).filter(|line| line.kind != LineKind::Names);
        lines.extend(hunks.map(|line| visible_code(line.text.trim_end_matches('\r'))));
        lines.extend(cut.then(|| CUT.to_owned()));
    }
    lines
}

fn heading(file: &FilePreview, diff: Option<&FileDiff>) -> String {
    let FilePreview { name, path, additions, deletions, .. } = file;
    let has = |key| diff.is_some_and(|diff| diff.after(key).is_some());
    let what = if has("--- /dev/null") {
        " (new file)".to_owned()
    } else if has("+++ /dev/null") {
        " (deleted)".to_owned()
    } else if has("rename from ") {
        format!(" (moved to {})", path.display())
    } else {
        String::new()
    };
    format!("{name}{what} +{additions} -{deletions}")
}

/// The lines, indented and ready to print; empty without a preview.
pub fn text(change: &Resolution, workspace: &Workspace) -> String {
    let files = leftfold_tools::preview(change, workspace).unwrap_or_default();
    lines(&files).iter().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named_with_what_becomes_of_it() {
        let file = |diff: &str| FilePreview {
            name: "a".to_owned(),
            path: "/p/b".into(),
            additions: 1,
            diff: diff.to_owned(),
            ..FilePreview::default()
        };
        for (diff, expected) in [
            (
                "--- a/a\n+++ b/a\n@@ -1 +1 @@\n+x\u{1b}[2J\r\n",
                ["a +1 -0", "@@ -1 +1 @@", "+x\\x1b[2J"],
            ),
            (
                "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n",
                ["a (new file) +1 -0", "@@ -0,0 +1 @@", "+x"],
            ),
            (
                "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
                ["a (deleted) +1 -0", "@@ -1 +0,0 @@", "-x"],
            ),
            (
                "rename from a\nrename to b\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-x\n",
                ["a (moved to /p/b) +1 -0", "@@ -1 +1 @@", "-x"],
            ),
        ] {
            assert_eq!(lines(&[file(diff)]), expected);
        }
        let cut = FilePreview { cut: true, ..file("") };
        assert!(lines(&[cut])[1].contains("too long"));
    }
}
