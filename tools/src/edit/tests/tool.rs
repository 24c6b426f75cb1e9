//! The tool on files.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::testing::{Site, kind};
use crate::{Context, Output, Seen};

fn input(path: &str, old: &str, new: &str) -> Value {
    json!({ "filePath": path, "oldString": old, "newString": new })
}

/// Runs a tool in a context where the model has seen the files in `seen`.
async fn informed(site: &Site, tool: &str, input: &Value, seen: &Seen) -> Output {
    let cx = Context { seen: seen.clone(), ..site.context() };
    crate::run(&site.resolve(tool, input), cx).await
}

/// The files that a result has shown.
fn seen(output: &Output) -> Seen {
    assert!(!output.is_error, "{output:?}");
    serde_json::from_value(output.meta()["seen"].clone()).unwrap()
}

#[tokio::test]
async fn errors_change_nothing() {
    let site = Site::new();
    site.file("f", "a\nb\na\naaa\n");
    site.file("dir/x", "");
    site.file("empty", "");
    site.file("bin", b"a\0b");
    site.file("late-nul", "a\n".repeat(10_000) + "\0");
    site.file("latin1", b"caf\xe9");
    site.fifo("pipe");
    for (path, old, expected) in [
        ("f", "zzz", "no_match"),
        ("f", "a\n", "multiple_matches"),
        ("f", "", "empty_old_string"),
        ("nope", "a", "not_found"),
        ("no/folder", "a", "not_found"),
        ("dir", "a", "is_directory"),
        ("dir", "", "is_directory"),
        ("empty", "a", "no_match"),
        ("empty", "", "empty_old_string"),
        ("bin", "a", "binary"),
        ("late-nul", "\0", "binary"),
        ("latin1", "caf", "not_utf8"),
        ("pipe", "a", "special_file"),
    ] {
        let output = site.run("edit", &input(path, old, "y")).await;
        assert_eq!(kind(&output), expected, "{path} {old:?}");
        assert!(!output.output.is_empty());
    }
    assert_eq!(site.text("f"), "a\nb\na\naaa\n");
    // identical strings are reported first, even where the file is missing
    let same = json!({ "filePath": "nope", "oldString": "a", "newString": "a" });
    let error = site.resolve("edit", &same).error.unwrap();
    assert!(error.contains("identical"), "{error}");
}

#[tokio::test]
async fn errors_help() {
    let site = Site::new();
    site.file("f", "fn one() {\n    let x = 1;\n    go(x);\n}\n\nfn two() {}\nend\nend\n  q\n q\n");
    for (old, said) in [
        ("fn one() {\n  let y = 1;\n stop(x)", "\n1: fn one() {\n2:     let x = 1;\n3: "),
        ("    let x = 2;\n    go(y)", "\n2:     let x = 1;\n3:     go(x);\nGive the text"),
        ("nothing\nlike it\n  let x = 9;", "\n2:     let x = 1;\n"),
        ("1: fn one() {", "line numbers"),
        ("completely different words", "nothing in it is similar"),
        ("end", "occurs 2 times in"),
        ("end", "at lines 7, 8."),
        ("\tq", "occurs 2 times in"),
        ("\tq", "(apart from white space at the ends of its lines), at lines 9, 10."),
    ] {
        let output = site.run("edit", &input("f", old, "y")).await;
        assert!(output.output.contains(said), "{old:?}: {}", output.output);
    }
}

#[tokio::test]
async fn says_what_it_did() {
    let site = Site::new();
    site.file("f", "a\nb\nb\n");
    let args =
        json!({ "file_path": "f", "old_string": "b", "new_string": "c", "replace_all": "true" });
    let output = site.run("edit", &args).await;
    assert!(output.output.starts_with("Replaced 2 occurrences in "), "{}", output.output);
    let meta = output.meta();
    assert_eq!((&meta["additions"], &meta["deletions"]), (&json!(2), &json!(2)));
    assert_eq!((&meta["strategy"], &meta["replacements"]), (&json!("multi_occurrence"), &json!(2)));
    assert!(meta["diff"].as_str().unwrap().contains("-b\n-b\n+c\n+c\n"));
    let output = site.run("edit", &input("new/file", "", "  hello\n  you\n")).await;
    assert_eq!((site.text("new/file").as_str(), output.is_error), ("  hello\n  you\n", false));
    assert_eq!(output.meta()["created"], true);

    let output = site.run("edit", &input("new/file", "hello\nyou", "bye")).await;
    assert_eq!(output.meta()["strategy"], "line_trimmed");
    let note = "it matched lines 1 to 2 apart from white space at the ends of its lines.";
    assert!(output.output.contains(note), "{}", output.output);
    let output = site.run("edit", &input("new/file", "bye", "$1")).await;
    assert!(!output.output.contains("exactly"), "{}", output.output);
    assert_eq!(site.text("new/file"), "$1\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_refused() {
    let site = Site::new();
    let path = site.file("f", "one\ntwo\n");
    let read = seen(&site.run("read", &json!({ "filePath": "f" })).await);
    assert_eq!(read.keys().collect::<Vec<_>>(), [&path.to_string_lossy()]);
    let edits = json!({ "filePath": "f", "edits": [{ "oldString": "two", "newString": "2" }] });
    let whole = json!({ "filePath": "f", "content": "all\n" });
    // another size, so that the stamp does not depend on the clock
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    for (tool, args) in
        [("edit", &input("f", "two", "2")), ("multiedit", &edits), ("write", &whole)]
    {
        let output = informed(&site, tool, args, &read).await;
        assert_eq!(kind(&output), "changed_on_disk", "{tool}");
        assert!(output.output.contains("read it again"), "{}", output.output);
        assert_eq!(site.text("f"), "one\ntwo\nthree\n");
    }
    // a file that the model has not seen is not checked
    let mut told = seen(&informed(&site, "edit", &input("f", "one", "1"), &Seen::new()).await);
    // each tool passes what the model has seen on to the next
    for (tool, args) in
        [("edit", &input("f", "1", "one")), ("multiedit", &edits), ("write", &whole)]
    {
        told = seen(&informed(&site, tool, args, &told).await);
    }
    let unchanged = informed(&site, "write", &whole, &told).await;
    assert_eq!((unchanged.meta()["changed"].clone(), seen(&unchanged)), (json!(false), told));
    assert_eq!(site.text("f"), "all\n");
}

#[tokio::test]
async fn a_file_that_came_or_went_since_is_no_surprise() {
    let site = Site::new();
    let path = site.file("f", "one\n");
    let read = seen(&site.run("read", &json!({ "filePath": "f" })).await);
    std::fs::remove_file(&path).unwrap();
    let output = informed(&site, "edit", &input("f", "one", "1"), &read).await;
    assert_eq!(kind(&output), "not_found");
    let args = json!({ "filePath": "f", "content": "new\n" });
    let output = informed(&site, "write", &args, &read).await;
    assert_eq!((output.is_error, output.meta()["created"].clone()), (false, json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_side_by_side_lose_nothing() {
    let site = Arc::new(Site::new());
    let lines: String = (0..20).map(|n| format!("line {n}.\n")).collect();
    site.file("f", &lines);
    let edits: Vec<_> = (0..20)
        .map(|n| {
            let site = Arc::clone(&site);
            let (tool, change) = (
                if n % 2 == 0 { "edit" } else { "multiedit" },
                json!({ "oldString": format!("line {n}."), "newString": format!("done {n}.") }),
            );
            let mut args = json!({ "filePath": "f", "edits": [change] });
            if tool == "edit" {
                args = input("f", &format!("line {n}."), &format!("done {n}."));
            }
            tokio::spawn(async move { site.run(tool, &args).await })
        })
        .collect();
    for edit in edits {
        let output = edit.await.unwrap();
        assert!(!output.is_error, "{output:?}");
    }
    assert_eq!(site.text("f"), lines.replace("line", "done"));
}
