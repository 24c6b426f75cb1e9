//! The change that a call waits to make, as a unified diff of its arguments.
//!
//! It never reads the file, because a frame is a function of the log. Its lines are therefore counted
//! from the first one of each changed text.

use std::path::Path;

use leftfold_events::event::Resolution;
use leftfold_tools::ToolKind;
use serde_json::{Map, Value, json};
use similar::TextDiff;

/// Lines around a change.
const CONTEXT: usize = 3;
/// Bytes of the longest diff.
const MAX_DIFF: usize = 32 * 1024;

/// The members `filepath` and `diff` of a permission's metadata; nothing if the call is not one that
/// edits files.
pub(super) fn of_call(call: &Resolution, directory: &str) -> Map<String, Value> {
    if leftfold_tools::kind_of(&call.name) != ToolKind::Edit {
        return Map::new();
    }
    let input = call.input.value();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let path = call.paths.first().map_or_else(|| text(&input, "filePath"), Clone::clone);
    let shown = Path::new(&path).strip_prefix(directory).unwrap_or(Path::new(&path));
    let shown = shown.display().to_string();
    let hunks = |before: &str, after: &str| {
        let old = if before.is_empty() { "/dev/null".to_owned() } else { format!("a/{shown}") };
        let diff = TextDiff::from_lines(before, after);
        let new = format!("b/{shown}");
        diff.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string()
    };
    let replaced =
        |value: &Value| hunks(&whole(&text(value, "oldString")), &whole(&text(value, "newString")));
    let mut diff = if let Some(patch) = input["patchText"].as_str() {
        of_patch(patch)
    } else if let Some(content) = input["content"].as_str() {
        hunks("", content)
    } else if let Some(edits) = input["edits"].as_array() {
        edits.iter().map(replaced).collect()
    } else {
        replaced(&input)
    };
    if diff.len() > MAX_DIFF {
        // at a line: a part of a secret would not be recognised
        let kept = diff.bytes().take(MAX_DIFF).collect::<Vec<u8>>();
        let end = kept.iter().rposition(|byte| *byte == b'\n');
        diff.truncate(end.map_or(0, |end| end + 1));
    }
    let members = json!({ "filepath": path, "diff": diff });
    members.as_object().cloned().unwrap_or_default()
}

/// A text whose last line has an end.
fn whole(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// A patch in the form of `apply_patch`, which has no line numbers.
fn of_patch(patch: &str) -> String {
    let mut diff = String::new();
    let mut hunk: Vec<&str> = Vec::new();
    let close = |hunk: &mut Vec<&str>, diff: &mut String| {
        let count = |mark: char| hunk.iter().filter(|line| !line.starts_with(mark)).count();
        if !hunk.is_empty() {
            let (old, new) = (count('+'), count('-'));
            let first = |lines: usize| usize::from(lines > 0);
            *diff += &format!("@@ -{},{old} +{},{new} @@\n", first(old), first(new));
        }
        for line in hunk.drain(..) {
            *diff += line;
            diff.push('\n');
        }
    };
    for line in patch.lines() {
        let named = line.strip_prefix("*** ").and_then(|head| head.split_once(" File: "));
        if let Some((what, name)) = named {
            close(&mut hunk, &mut diff);
            let (old, new) = match what {
                "Add" => ("/dev/null".to_owned(), format!("b/{name}")),
                "Delete" => (format!("a/{name}"), "/dev/null".to_owned()),
                _ => (format!("a/{name}"), format!("b/{name}")),
            };
            diff += &format!("--- {old}\n+++ {new}\n");
        } else if line.starts_with("@@") || line.starts_with("***") {
            close(&mut hunk, &mut diff);
        } else if line.starts_with(['+', '-', ' ']) {
            hunk.push(line);
        } else {
            // an empty line of the file
            hunk.push(" ");
        }
    }
    close(&mut hunk, &mut diff);
    diff
}

#[cfg(test)]
mod tests {
    use leftfold_events::Json;
    use leftfold_events::event::{CallKind, Class};

    use super::*;

    #[test]
    fn a_change_is_shown_by_its_arguments() {
        let patch = "*** Begin Patch\n*** Add File: n\n+new\n*** Update File: f\n@@ fn\n a\n-b\n+c\n*** End Patch";
        let edits =
            json!([{ "oldString": "a", "newString": "b" }, { "oldString": "c", "newString": "" }]);
        for (name, input, diff) in [
            (
                "edit",
                json!({ "oldString": "a\nb", "newString": "a\nc" }),
                "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
            ),
            ("write", json!({ "content": "x\n" }), "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"),
            (
                "multiedit",
                json!({ "edits": edits }),
                "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-c\n",
            ),
            (
                "apply_patch",
                json!({ "patchText": patch }),
                "--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+new\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
            ),
        ] {
            let call = Resolution {
                name: name.to_owned(),
                input: Json::from_value(&input),
                class: Class::Write,
                access: Vec::new(),
                paths: vec!["/p/f".to_owned()],
                timeout: 0,
                error: None,
                kind: CallKind::default(),
            };
            let members = of_call(&call, "/p");
            assert_eq!((&members["filepath"], &members["diff"]), (&json!("/p/f"), &json!(diff)));
        }
    }
}
