//! Describes the result of a patch.

use serde_json::{Map, Value, json};

use super::files::{File, FileState, Files};
use crate::{FilePreview, Output, diff, text};

/// Most bytes of diffs in a call's metadata, over all files. The log keeps them for ever.
const MAX_DIFF: usize = 32 * 1024;

/// One line of the summary.
struct FileReport {
    kind: &'static str,
    letter: char,
    path: String,
    moved_to: Option<String>,
    remark: Option<&'static str>,
    fields: Map<String, Value>,
}

/// The output of the call.
pub(super) fn report(files: &Files) -> Output {
    let done: Vec<FileReport> =
        files.all.iter().enumerate().filter_map(|(at, _)| file_report(files, at)).collect();
    let lines: Vec<String> = done.iter().map(FileReport::line).collect();
    let output = match done.len() {
        0 => "The patch would change nothing; nothing was written.".to_owned(),
        1 => format!("Patch applied to 1 file:\n{}", lines.join("\n")),
        n => format!("Patch applied to {n} files:\n{}", lines.join("\n")),
    };
    let title = match done.as_slice() {
        [] => "No change".to_owned(),
        [only] => only.path.clone(),
        several => format!("{} files", several.len()),
    };
    Output::new(title, output, &metadata(&done))
}

/// The change of each file, for the person who has to allow them.
pub(super) fn previews(files: &Files) -> Vec<FilePreview> {
    let preview = |at: usize| {
        let FileReport { path, fields, .. } = file_report(files, at)?;
        let end = files.moved_to(at).unwrap_or(&files.all[at]);
        Some(FilePreview::new(&path, &end.path, &fields))
    };
    (0..files.all.len()).filter_map(preview).collect()
}

fn metadata(done: &[FileReport]) -> Value {
    let total = |field: &str| -> u64 {
        done.iter().filter_map(|one| one.fields.get(field)?.as_u64()).sum()
    };
    let mut diff: String = done.iter().filter_map(|one| one.fields.get("diff")?.as_str()).collect();
    let mut cut = done.iter().any(|one| one.fields.contains_key("diff_truncated"));
    if diff.len() > MAX_DIFF {
        diff.truncate(text::floor(&diff, MAX_DIFF));
        cut = true;
    }
    let files: Vec<Value> = done
        .iter()
        .map(|one| {
            json!({
                "path": one.path,
                "kind": one.kind,
                "additions": one.fields["additions"],
                "deletions": one.fields["deletions"],
                "moved_to": one.moved_to,
            })
        })
        .collect();
    let mut meta = json!({
        "files": files,
        "additions": total("additions"),
        "deletions": total("deletions"),
        "diff": diff,
    });
    if cut {
        meta["diff_truncated"] = json!(true);
    }
    meta
}

/// The report on the file at `at`. `None` if it is unchanged, or reported with the file it moved
/// to.
fn file_report(files: &Files, at: usize) -> Option<FileReport> {
    let file = &files.all[at];
    let moved = files.moved_to(at);
    let (kind, letter) = match (&file.now, &file.before) {
        (FileState::Untouched, _) | (FileState::Absent, None) => return None,
        (FileState::Absent, Some(_)) if moved.is_some() => ("move", 'R'),
        (FileState::Absent, Some(_)) => ("delete", 'D'),
        (_, None) if files.is_moved_here(at) => return None,
        (FileState::Text { .. } | FileState::Moved { .. }, None) => ("add", 'A'),
        (FileState::Text { .. } | FileState::Moved { .. }, Some(_)) => ("update", 'M'),
    };
    let end = moved.unwrap_or(file);
    Some(FileReport {
        kind,
        letter,
        path: file.given.clone(),
        moved_to: moved.map(|to| to.given.clone()),
        remark: end.pass.remark(),
        fields: described(file, end),
    })
}

/// The metadata of the change from `file` on disk to `end`.
fn described(file: &File, end: &File) -> Map<String, Value> {
    let before = file.text_before();
    let after = match &end.now {
        FileState::Text { text, .. } => text,
        FileState::Absent | FileState::Untouched | FileState::Moved { .. } => "",
    };
    let old = file.before.as_ref().map(|_| before.as_deref().unwrap_or_default());
    let mut fields = diff::describe(&file.given, old, after);
    let mut diff = fields.get("diff").and_then(Value::as_str).unwrap_or_default().to_owned();
    let header = format!("+++ b/{}\n", file.given);
    match &end.now {
        FileState::Absent | FileState::Untouched => {
            diff = diff.replacen(&header, "+++ /dev/null\n", 1);
        }
        FileState::Text { .. } | FileState::Moved { .. } if file.path != end.path => {
            diff = diff.replacen(&header, &format!("+++ b/{}\n", end.given), 1);
            diff = format!("rename from {}\nrename to {}\n{diff}", file.given, end.given);
        }
        FileState::Text { .. } | FileState::Moved { .. } => {}
    }
    fields.insert("diff".to_owned(), json!(diff));
    fields
}

impl FileReport {
    fn line(&self) -> String {
        let to = self.moved_to.as_ref().map_or_else(String::new, |to| format!(" -> {to}"));
        let remark = self.remark.map_or_else(String::new, |remark| format!(" ({remark})"));
        format!("{} {}{to}{remark}", self.letter, self.path)
    }
}

impl Files {
    /// The place that the file at `at` has moved to, if it has.
    fn moved_to(&self, at: usize) -> Option<&File> {
        self.all.iter().enumerate().find_map(|(to, file)| {
            (file.now.from() == Some(at) && self.is_moved_here(to)).then_some(file)
        })
    }

    /// Whether `at` holds a file from disk that has left its old path.
    fn is_moved_here(&self, at: usize) -> bool {
        let file = &self.all[at];
        let from = file.now.from().and_then(|from| self.all.get(from));
        let left =
            from.is_some_and(|from| from.before.is_some() && matches!(from.now, FileState::Absent));
        left && file.before.is_none()
    }
}
