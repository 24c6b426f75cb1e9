//! Describes the change of a file as a diff with counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

/// Longest unified diff in a call's metadata, in bytes. The log keeps it for ever.
const MAX_DIFF: usize = 32 * 1024;

/// Largest file in bytes, before or after, that is previewed: a person is waiting.
pub(crate) const MAX_FILE: u64 = 1024 * 1024;

/// Time after which the diff becomes coarser instead of slower.
const EXACT_DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// The change that a call would make to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePreview {
    /// The path as the call spells it. For a moved file, the old path.
    pub name: String,
    /// Absolute path with links resolved. For a moved file, the new path.
    pub path: PathBuf,
    /// Number of added lines.
    pub additions: u64,
    pub deletions: u64,
    /// A unified diff with whole lines and headers.
    pub diff: String,
    /// Whether the diff was cut.
    pub cut: bool,
}

impl FilePreview {
    /// The change of a text that has happened.
    pub fn of_texts(name: &str, path: &Path, before: Option<&str>, now: &str) -> Self {
        Self::new(name, path, &describe(name, before, now))
    }

    /// Makes a preview from the fields of [`describe`].
    pub(crate) fn new(name: &str, path: &Path, fields: &Map<String, Value>) -> Self {
        let number = |name| fields.get(name).and_then(Value::as_u64).unwrap_or_default();
        let mut diff = fields.get("diff").and_then(Value::as_str).unwrap_or_default().to_owned();
        let cut = fields.contains_key("diff_truncated");
        if cut {
            diff.truncate(diff.rfind('\n').map_or(0, |end| end + 1));
        }
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            additions: number("additions"),
            deletions: number("deletions"),
            diff,
            cut,
        }
    }
}

/// Metadata fields: `path`, `created`, `additions`, `deletions` (lines) and `diff`, a unified diff,
/// with `diff_truncated` if it was too long.
pub(crate) fn describe(shown: &str, before: Option<&str>, after: &str) -> Map<String, Value> {
    let diff = TextDiff::configure()
        .timeout(EXACT_DIFF_TIMEOUT)
        .diff_lines(before.unwrap_or_default(), after);
    let (mut additions, mut deletions) = (0_u64, 0_u64);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => additions += 1,
            ChangeTag::Delete => deletions += 1,
            ChangeTag::Equal => {}
        }
    }
    let old = before.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{shown}"));
    let mut text =
        diff.unified_diff().context_radius(3).header(&old, &format!("b/{shown}")).to_string();
    let mut fields = Map::new();
    fields.insert("path".to_owned(), json!(shown));
    fields.insert("created".to_owned(), json!(before.is_none()));
    fields.insert("additions".to_owned(), json!(additions));
    fields.insert("deletions".to_owned(), json!(deletions));
    if text.len() > MAX_DIFF {
        let end = crate::text::floor(&text, MAX_DIFF);
        // cuts at a line, because a part of a secret would not be recognised
        text.truncate(text[..end].rfind('\n').map_or(end, |end| end + 1));
        fields.insert("diff_truncated".to_owned(), json!(true));
    }
    fields.insert("diff".to_owned(), json!(text));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_long_diffs_cut() {
        let fields = describe("f", Some("a\nb\nc\n"), "a\nB\nc\nd\n");
        assert_eq!((&fields["additions"], &fields["deletions"]), (&json!(2), &json!(1)));
        let diff = fields["diff"].as_str().unwrap();
        assert!(diff.starts_with("--- a/f\n+++ b/f\n"), "{diff}");
        assert!(diff.contains("\n-b\n+B\n") && !fields.contains_key("diff_truncated"), "{diff}");
        let fields = describe("f", None, &"ä\n".repeat(MAX_DIFF));
        assert_eq!(fields["diff_truncated"], true);
        assert!(fields["diff"].as_str().unwrap().len() <= MAX_DIFF);
    }
}
