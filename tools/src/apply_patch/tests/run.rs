//! The tool as models call it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use leftfold_events::event::Class;
use serde_json::{Value, json};

use super::patch;
use crate::Output;
use crate::testing::{Site, kind};

async fn run(site: &Site, sections: &str) -> Output {
    site.run("apply_patch", &json!({ "patchText": patch(sections) })).await
}

/// Path and content of everything below the worktree.
fn everything(site: &Site) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![site.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let content = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            found.push((path.display().to_string(), content));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn shop() -> Site {
    let site = Site::new();
    site.file("a", "one\ntwo\nthree\n");
    site.file("b", "b\n");
    site.file("dir/c", "c\r\n");
    site.file("bin", b"a\0b");
    site.file("latin1", b"caf\xe9\n");
    site
}

/// A patch of the shop: the patch, the end of its output, and the files afterwards.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, Option<&'a str>)]);

async fn check((sections, said, files): &Row<'_>) {
    let site = shop();
    let output = run(&site, sections).await;
    assert!(!output.is_error, "{sections}\n{output:?}");
    assert!(output.output.ends_with(said), "{sections}\n{}", output.output);
    for (name, text) in *files {
        let found = std::fs::read_to_string(site.path(name)).ok();
        assert_eq!(found.as_deref(), *text, "{sections}: {name}");
    }
    let left = everything(&site);
    assert!(left.iter().all(|(path, _)| !path.contains(".leftfold-")), "{left:?}");
}

#[tokio::test]
async fn what_is_said_and_done() {
    let rows: &[Row<'_>] = &[
        ("*** Add File: n\n+x\n", "A n", &[("n", Some("x\n"))]),
        ("*** Add File: p/q/n\n+x\n", "A p/q/n", &[("p/q/n", Some("x\n"))]),
        ("*** Update File: a\n@@\n-two\n+2\n", "M a", &[("a", Some("one\n2\nthree\n"))]),
        ("*** Delete File: a\n", "D a", &[("a", None)]),
        ("*** Delete File: bin\n", "D bin", &[("bin", None)]),
        (
            "*** Update File: b\n*** Move to: d/e\n",
            "R b -> d/e",
            &[("b", None), ("d/e", Some("b\n"))],
        ),
        (
            "*** Update File: b\n*** Move to: e\n@@\n-b\n+B\n",
            "R b -> e",
            &[("b", None), ("e", Some("B\n"))],
        ),
        // a move alone needs no text
        (
            "*** Update File: bin\n*** Move to: d/bin\n",
            "R bin -> d/bin",
            &[("bin", None), ("d/bin", Some("a\0b"))],
        ),
        (
            "*** Update File: latin1\n*** Move to: d\n*** Update File: d\n*** Move to: e\n",
            "R latin1 -> e",
            &[("latin1", None), ("d", None)],
        ),
        ("*** Update File: b\n*** Move to: b\n@@\n-b\n+B\n", "M b", &[("b", Some("B\n"))]),
        ("*** Update File: dir/c\n@@\n c\n+d\n", "M dir/c", &[("dir/c", Some("c\r\nd\r\n"))]),
        (
            "*** Update File: a\n@@\n-  two\n+2\n",
            "M a (indentation differs from the patch)",
            &[("a", Some("one\n2\nthree\n"))],
        ),
        ("*** Update File: ./dir/../a\n@@\n-one\n", "M ./dir/../a", &[("a", Some("two\nthree\n"))]),
    ];
    for row in rows {
        check(row).await;
    }
}

#[tokio::test]
async fn sections_follow_upon_each_other() {
    let rows: &[Row<'_>] = &[
        (
            "*** Update File: a\n@@\n-one\n+1\n*** Update File: a\n@@\n-1\n+0\n",
            "M a",
            &[("a", Some("0\ntwo\nthree\n"))],
        ),
        ("*** Add File: n\n+x\n*** Update File: n\n@@\n-x\n+y\n", "A n", &[("n", Some("y\n"))]),
        ("*** Delete File: b\n*** Add File: b\n+new\n", "M b", &[("b", Some("new\n"))]),
        (
            "*** Update File: b\n*** Move to: e\n*** Update File: e\n@@\n-b\n+B\n",
            "R b -> e",
            &[("b", None), ("e", Some("B\n"))],
        ),
        (
            "*** Update File: b\n*** Move to: e\n*** Update File: e\n*** Move to: f\n",
            "R b -> f",
            &[("b", None), ("e", None), ("f", Some("b\n"))],
        ),
        (
            "*** Update File: b\n*** Move to: e\n*** Add File: b\n+new\n",
            "M b\nA e",
            &[("b", Some("new\n")), ("e", Some("b\n"))],
        ),
        ("*** Add File: n\n+x\n*** Delete File: n\n", "nothing was written.", &[("n", None)]),
        (
            "*** Add File: n\n+x\n*** Update File: n\n*** Move to: m\n",
            "A m",
            &[("n", None), ("m", Some("x\n"))],
        ),
        ("*** Update File: b\n@@\n b\n", "nothing was written.", &[("b", Some("b\n"))]),
        (
            "*** Delete File: b\n*** Update File: a\n*** Move to: b\n",
            "M b\nD a",
            &[("a", None), ("b", Some("one\ntwo\nthree\n"))],
        ),
    ];
    for row in rows {
        check(row).await;
    }
}

#[tokio::test]
async fn a_failure_changes_nothing() {
    let site = shop();
    site.file("twice", "x\nx\ny\n");
    site.fifo("pipe");
    std::fs::create_dir(site.path("empty")).unwrap();
    let before = everything(&site);
    for (sections, expected, said) in [
        ("*** Update File: nope\n@@\n-x\n", "not_found", "does not exist"),
        ("*** Delete File: nope\n", "not_found", "line 6 of the patch"),
        ("*** Delete File: new\n*** Delete File: new\n", "not_found", "line 7 of the patch"),
        ("*** Delete File: b\n*** Update File: b\n@@\n-b\n", "not_found", "deleted or moved"),
        (
            "*** Update File: b\n*** Move to: e\n*** Delete File: b\n",
            "not_found",
            "Line 8 of the patch",
        ),
        ("*** Add File: a\n+x\n", "already_exists", "*** Update File:"),
        ("*** Add File: new\n+x\n", "already_exists", "line 6 of the patch"),
        ("*** Add File: dir\n+x\n", "already_exists", "dir"),
        ("*** Update File: b\n*** Move to: a\n", "already_exists", "another path"),
        ("*** Update File: b\n*** Move to: dir\n", "already_exists", "another path"),
        ("*** Update File: a\n@@\n-two\n+2\n@@\n-zzz\n", "no_match", "Hunk 2 for "),
        (
            "*** Update File: a\n@@\n-three four\n",
            "no_match",
            "\n> three four\nThe most similar lines of the file are:\n3: three\n",
        ),
        (
            "*** Update File: a\n@@\n-three\u{200b} x\n",
            "no_match",
            "Line 3 has its end where the given text has U+200B.",
        ),
        ("*** Update File: a\n@@ nowhere\n-two\n", "no_match", "\"nowhere\""),
        ("*** Update File: a\n@@\n-two\n*** End of File\n", "no_match", "at line 2"),
        ("*** Update File: twice\n@@\n-y\n@@\n-x\n", "multiple_matches", "at lines 1 and 2"),
        ("*** Update File: bin\n@@\n-a\n", "binary", "binary"),
        ("*** Update File: bin\n*** Move to: a\n", "already_exists", "exists already"),
        (
            "*** Update File: bin\n*** Move to: d\n*** Update File: d\n@@\n-a\n",
            "binary",
            "can only move it",
        ),
        ("*** Update File: latin1\n@@\n+a\n", "not_utf8", "UTF-8"),
        ("*** Update File: dir\n@@\n-a\n", "is_directory", "directory"),
        ("*** Delete File: empty\n", "is_directory", "directory"),
        ("*** Delete File: pipe\n", "special_file", "pipe"),
        ("*** Update File: pipe\n@@\n-a\n", "special_file", "pipe"),
        ("*** Add File: a/b\n+x\n", "not_directory", "not a directory"),
        ("*** Add File: n\n+x\n*** Add File: n/m\n+x\n", "not_directory", "a file in this patch"),
        (
            "*** Add File: p/n/m\n+x\n*** Add File: p/n\n+x\n",
            "not_directory",
            "a file in this patch",
        ),
    ] {
        // a section that would have worked comes first
        let output =
            run(&site, &format!("*** Add File: new\n+x\n*** Update File: dir/c\n+y\n{sections}"))
                .await;
        assert_eq!(kind(&output), expected, "{sections}\n{output:?}");
        assert!(output.output.contains(said), "{sections}\n{}", output.output);
        assert_eq!(everything(&site), before, "{sections}");
    }
}

#[tokio::test]
async fn the_patch_itself_is_checked_before_permissions() {
    let site = shop();
    let resolved = site.resolve("apply_patch", &json!({ "patchText": "nonsense" }));
    assert!(resolved.error.unwrap().starts_with("Line 1 of the patch: "));
    assert!(resolved.access.is_empty());
    for name in ["patchText", "patch", "input", "patch_text"] {
        let resolved = site.resolve("apply_patch", &json!({ name: patch("*** Delete File: a\n") }));
        assert_eq!(resolved.error, None, "{name}");
        assert_eq!(resolved.input.value(), json!({ "patchText": patch("*** Delete File: a\n") }));
    }
}

#[test]
fn one_permission_for_all_files() {
    let site = shop();
    symlink("dir", site.path("link")).unwrap();
    let out = site.outside("x");
    let text = format!(
        "*** Update File: link/c\n*** Move to: z\n*** Add File: n/m\n+\n*** Delete File: dir/c\n*** Delete File: ./a\n*** Add File: {}\n+x\n*** Add File: ../outside/sub/y\n",
        out.display()
    );
    let resolved = site.resolve("apply_patch", &json!({ "patchText": patch(&text) }));
    assert_eq!(resolved.class, Class::Write);
    let [outside, edit] = resolved.access.as_slice() else { panic!("{resolved:?}") };
    let [x, y] = [site.outside("x"), site.outside("sub/y")].map(|p| p.display().to_string());
    assert_eq!(edit.permission, "edit");
    assert_eq!(edit.patterns, [y.as_str(), &x, "a", "dir/c", "n/m", "z"]);
    assert_eq!(edit.always, edit.patterns);
    assert_eq!(outside.permission, "external_directory");
    let folders = [site.outside("*"), site.outside("sub/*")].map(|p| p.display().to_string());
    assert_eq!(
        (outside.patterns.as_slice(), outside.always.as_slice()),
        (&folders[..], &folders[..])
    );
    let inside = ["a", "dir/c", "n/m", "z"].map(|name| site.path(name).display().to_string());
    assert_eq!(resolved.paths[..2], [y, x]);
    assert_eq!(resolved.paths[2..], inside);
}

#[tokio::test]
async fn metadata_has_every_file() {
    let site = shop();
    let output = run(
        &site,
        "*** Add File: n\n+x\n+y\n*** Update File: a\n@@\n-two\n+2\n*** Delete File: b\n*** Update File: dir/c\n*** Move to: c\n@@\n+d\n*** Delete File: bin\n",
    )
    .await;
    assert_eq!(output.title, "5 files");
    assert_eq!(output.output, "Patch applied to 5 files:\nA n\nM a\nD b\nR dir/c -> c\nD bin");
    let meta = output.meta();
    let file = |path: &str, kind: &str, additions: u8, deletions: u8, to: Value| json!({ "path": path, "kind": kind, "additions": additions, "deletions": deletions, "moved_to": to });
    let files = json!([
        file("n", "add", 2, 0, Value::Null),
        file("a", "update", 1, 1, Value::Null),
        file("b", "delete", 0, 1, Value::Null),
        file("dir/c", "move", 1, 0, json!("c")),
        file("bin", "delete", 0, 0, Value::Null),
    ]);
    assert_eq!(meta["files"], files);
    assert_eq!((&meta["additions"], &meta["deletions"]), (&json!(4), &json!(2)));
    let diff = meta["diff"].as_str().unwrap();
    for part in [
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n",
        "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n",
        "rename from dir/c\nrename to c\n--- a/dir/c\n+++ b/c\n",
    ] {
        assert!(diff.contains(part), "{part}\nin\n{diff}");
    }
    let output = run(&site, "*** Delete File: a\n").await;
    assert_eq!(output.title, "a");
}

#[tokio::test]
async fn long_diffs_are_cut() {
    let site = Site::new();
    let lines = "+0123456789\n".repeat(2_000);
    let output = run(&site, &format!("*** Add File: a\n{lines}*** Add File: b\n{lines}")).await;
    let meta = output.meta();
    assert_eq!((&meta["additions"], &meta["diff_truncated"]), (&json!(4_000), &json!(true)));
    assert!(meta["diff"].as_str().unwrap().len() <= 32 * 1024);
}

#[tokio::test]
async fn absolute_paths_inside_are_like_relative_ones() {
    let site = shop();
    let path = site.path("b");
    let output = run(
        &site,
        &format!("*** Update File: {}\n@@\n-b\n+B\n*** Update File: b\n+c\n", path.display()),
    )
    .await;
    assert_eq!(output.output, format!("Patch applied to 1 file:\nM {}", path.display()));
    assert_eq!(site.text("b"), "B\nc\n");
}

#[tokio::test]
async fn modes_and_links() {
    let site = shop();
    std::fs::set_permissions(site.path("a"), PermissionsExt::from_mode(0o751)).unwrap();
    std::fs::set_permissions(site.path("b"), PermissionsExt::from_mode(0o711)).unwrap();
    symlink("a", site.path("link")).unwrap();
    let output =
        run(&site, "*** Update File: link\n@@\n-two\n*** Update File: b\n*** Move to: c\n").await;
    assert!(!output.is_error, "{output:?}");
    assert!(site.path("link").is_symlink());
    assert_eq!(site.text("a"), "one\nthree\n");
    for (name, mode) in [("a", 0o751), ("c", 0o711)] {
        assert_eq!(site.path(name).metadata().unwrap().mode() & 0o7777, mode, "{name}");
    }
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_by_now_is_refused() {
    let site = shop();
    std::fs::write(site.outside("c"), "c\n").unwrap();
    let input =
        json!({ "patchText": patch("*** Update File: b\n+x\n*** Update File: dir/c\n+x\n") });
    let tool = crate::find("apply_patch").unwrap();
    let plan = tool.plan(&leftfold_events::Json::from_value(&input), &site.workspace()).unwrap();
    std::fs::rename(site.path("dir"), site.path("was")).unwrap();
    symlink(site.outside(""), site.path("dir")).unwrap();
    let output = tool.run(plan, site.context()).await;
    assert_eq!(kind(&output), "paths_changed");
    assert_eq!(std::fs::read_to_string(site.outside("c")).unwrap(), "c\n");
    assert_eq!(site.text("b"), "b\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_side_by_side_lose_nothing() {
    let site = std::sync::Arc::new(Site::new());
    let lines: String = (0..12).map(|n| format!("line {n}.\n")).collect();
    site.file("f", &lines);
    site.file("g", &lines);
    let patches: Vec<_> = (0..12)
        .map(|n| {
            let site = std::sync::Arc::clone(&site);
            // half of the patches name the files in reverse order
            let files = if n % 2 == 0 { ["f", "g"] } else { ["g", "f"] };
            let hunk = format!("@@\n-line {n}.\n+done {n}.\n");
            let sections = files.map(|file| format!("*** Update File: {file}\n{hunk}")).concat();
            tokio::spawn(async move { run(&site, &sections).await })
        })
        .collect();
    for patch in patches {
        let output = patch.await.unwrap();
        assert!(!output.is_error, "{output:?}");
    }
    let done = lines.replace("line", "done");
    assert_eq!((site.text("f"), site.text("g")), (done.clone(), done));
}

#[tokio::test]
async fn cancelled_before_it_began_it_does_nothing() {
    let site = shop();
    let context = site.context();
    context.cancel.cancel();
    let resolved =
        site.resolve("apply_patch", &json!({ "patchText": patch("*** Delete File: a\n") }));
    assert_eq!(kind(&crate::run(&resolved, context).await), "cancelled");
    assert!(site.path("a").exists());
}
