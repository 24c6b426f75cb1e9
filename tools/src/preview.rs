//! Previews the changes of a call for the person who is asked to allow it. The preview is planned
//! by the tool itself from the current files, and nothing is written.
//!
//! The log does not contain it: each client computes it when it asks. It is no promise: files may
//! change before the call runs, and the call then plans again.

use leftfold_events::event::Resolution;

use crate::diff::{FilePreview, MAX_FILE};
use crate::tool::ToolKind;
use crate::{Error, Workspace, confined, registry};

/// Most bytes of diffs of one call.
const MAX_DIFFS: usize = 64 * 1024;

/// The files that a call would change. Reads and compares files, which takes a moment, and writes
/// nothing.
///
/// `None` if no preview is possible: the workspace is on another machine, the call changes no files or would fail, a file is not text or
/// is over 1 MiB, or a path resolves differently now.
pub fn preview(resolved: &Resolution, cx: &Workspace) -> Option<Vec<FilePreview>> {
    if registry::kind_of(&resolved.name) != ToolKind::Edit || cx.remote.is_some() {
        return None;
    }
    let mut files = planned(resolved, cx).ok()?;
    files.retain(|file| !file.diff.is_empty());
    let mut room = MAX_DIFFS;
    for file in &mut files {
        for text in [&mut file.name, &mut file.diff] {
            if let Some(hidden) = cx.secrets.hide(text) {
                *text = hidden;
            }
        }
        match room.checked_sub(file.diff.len()) {
            Some(left) => room = left,
            None => {
                file.diff.clear();
                file.cut = true;
            }
        }
    }
    (!files.is_empty()).then_some(files)
}

fn planned(resolved: &Resolution, cx: &Workspace) -> Result<Vec<FilePreview>, Error> {
    let (tool, plan) = registry::replan(resolved, cx)?;
    for path in &plan.paths {
        if confined::lookup(path)?.is_some_and(|found| found.len() > MAX_FILE) {
            return Err(Error::TooLarge(format!("{} is too large to show.", path.display())));
        }
    }
    tool.preview(plan, cx)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Site;

    fn preview(site: &Site, name: &str, input: &Value) -> Option<Vec<FilePreview>> {
        super::preview(&site.resolve(name, input), &site.workspace())
    }

    #[tokio::test]
    async fn what_is_shown_is_what_is_done() {
        let site = Site::new();
        let edits =
            json!([{ "oldString": "a", "newString": "x" }, { "oldString": "x", "newString": "y" }]);
        let patch = "*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-a\n+A\n*** Delete File: h\n*** End Patch";
        for (name, input) in [
            ("write", json!({ "filePath": "f", "content": "a\nc\n" })),
            ("write", json!({ "filePath": "deep/new", "content": "n\n" })),
            ("edit", json!({ "filePath": "f", "oldString": "b", "newString": "B" })),
            ("multiedit", json!({ "filePath": "f", "edits": edits })),
            ("apply_patch", json!({ "patchText": patch })),
        ] {
            site.file("f", "a\nb\n");
            site.file("h", "h\n");
            let files = preview(&site, name, &input).unwrap();
            assert_eq!((site.text("f"), site.path("g").exists()), ("a\nb\n".to_owned(), false));
            assert!(!site.path("deep").exists() || name != "write", "{name} has made a folder");
            let output = site.run(name, &input).await;
            assert!(!output.is_error, "{output:?}");
            let shown: String = files.iter().map(|file| file.diff.as_str()).collect();
            assert_eq!(output.meta()["diff"], shown, "{name}");
            let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
            let expected: &[&str] = match (name, input["filePath"].as_str()) {
                ("apply_patch", _) => &["g", "h"],
                (_, Some("f")) => &["f"],
                _ => &["deep/new"],
            };
            assert_eq!(paths, expected.iter().map(|name| site.path(name)).collect::<Vec<_>>());
            let _ = std::fs::remove_dir_all(site.path("deep"));
        }
    }

    #[test]
    fn where_nothing_can_be_said_nothing_is() {
        let site = Site::new();
        let large = usize::try_from(MAX_FILE).unwrap() + 1;
        site.file("large", "x".repeat(large));
        site.file("binary", b"\0");
        site.file("same", "a\n");
        site.fifo("pipe");
        let write = |path: &str, content: &str| json!({ "filePath": path, "content": content });
        for (name, input) in [
            ("write", write("large", "a")),
            ("write", write("new", &"x".repeat(large))),
            ("write", write("binary", "a")),
            ("write", write("pipe", "a")),
            ("write", write(".", "a")),
            ("write", write("same", "a\n")),
            ("write", json!({})),
            ("edit", json!({ "filePath": "same", "oldString": "z", "newString": "y" })),
            ("edit", json!({ "filePath": "none", "oldString": "z", "newString": "y" })),
            ("apply_patch", json!({ "patchText": "nothing like it" })),
            ("read", json!({ "filePath": "same" })),
            ("bash", json!({ "command": "echo > new" })),
        ] {
            assert_eq!(preview(&site, name, &input), None, "{name}");
        }
        let resolved = site.resolve("write", &write("same", "b\n"));
        std::fs::remove_file(site.path("same")).unwrap();
        std::os::unix::fs::symlink("binary", site.path("same")).unwrap();
        assert_eq!(super::preview(&resolved, &site.workspace()), None, "it leads elsewhere now");
    }

    #[test]
    fn long_diffs_end_with_a_whole_line() {
        let site = Site::new();
        let content: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let files =
            preview(&site, "write", &json!({ "filePath": "f", "content": content })).unwrap();
        assert!(files[0].cut && files[0].diff.ends_with('\n'));
        assert!(files[0].diff.len() <= MAX_DIFFS);
        assert_eq!(files[0].additions, 20_000);
    }
}
