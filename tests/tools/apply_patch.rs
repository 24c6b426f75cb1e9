//! `leftfold tool apply_patch`, and which models get it.

use std::process::{Command, Stdio};

use common::{Answer, Block, Live, Ran, Server, Site, Split, message};
use serde_json::{Value, json};

fn site() -> Site {
    let site = Site::bare();
    site.file(
        "a.py",
        "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n",
    );
    site.file("b.txt", "one\r\ntwo\r\n");
    site.file("old/c.txt", "c");
    site
}

fn patch(sections: &str) -> String {
    format!("*** Begin Patch\n{sections}*** End Patch")
}

fn output(ran: &Ran) -> Value {
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    output
}

fn apply(site: &Site, text: &str) -> Value {
    let args = json!({ "patchText": text }).to_string();
    output(&site.run(&["tool", "apply_patch", "--args", &args]))
}

/// Path and content of every file of the project, folders too.
fn everything(site: &Site) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![site.project()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let content = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
            found.push((path.display().to_string(), content));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn patches_that_fit() {
    for (sections, said, file, text) in [
        ("*** Add File: x/y.txt\n+hi\n", "A x/y.txt", "x/y.txt", "hi\n"),
        (
            "*** Update File: a.py\n@@     def g(self):\n-        return 1\n+        return 2\n",
            "M a.py",
            "a.py",
            "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n",
        ),
        (
            "*** Update File: a.py\n@@ class A\n@@ def f\n-        return 1\n+        return 0\n",
            "M a.py",
            "a.py",
            "class A:\n    def f(self):\n        return 0\n\n    def g(self):\n        return 1\n",
        ),
        ("*** Update File: b.txt\n one\n+1.5\n two\n", "M b.txt", "b.txt", "one\r\n1.5\r\ntwo\r\n"),
        (
            "*** Update File: b.txt\n@@\n+three\n*** End of File\n",
            "M b.txt",
            "b.txt",
            "one\r\ntwo\r\nthree\r\n",
        ),
        ("*** Update File: old/c.txt\n@@\n-c\n+C\n", "M old/c.txt", "old/c.txt", "C"),
        (
            "*** Update File: old/c.txt\n*** Move to: new/c.txt\n",
            "R old/c.txt -> new/c.txt",
            "new/c.txt",
            "c",
        ),
        ("*** Delete File: old/c.txt\n", "D old/c.txt", "old/c.txt", ""),
    ] {
        let site = site();
        let output = apply(&site, &patch(sections));
        assert_eq!(output["output"], format!("Patch applied to 1 file:\n{said}"), "{output}");
        assert_eq!(site.text(file), text, "{sections}");
        assert_eq!(output["metadata"]["files"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn several_files_at_once_and_in_any_wrapping() {
    let sections =
        "*** Delete File: old/c.txt\n*** Add File: n\n+x\n*** Update File: b.txt\n@@\n-two\n+2\n";
    let text = patch(sections);
    for text in [
        text.clone(),
        text.replace('\n', "\r\n"),
        format!("```\n{text}\n```\n"),
        format!("apply_patch <<'EOF'\n{text}\nEOF\n"),
    ] {
        let site = site();
        let output = apply(&site, &text);
        let said = "Patch applied to 3 files:\nD old/c.txt\nA n\nM b.txt";
        assert_eq!((&output["output"], &output["title"]), (&json!(said), &json!("3 files")));
        assert_eq!(output["metadata"]["additions"], 2);
        assert_eq!((site.text("n").as_str(), site.text("b.txt").as_str()), ("x\n", "one\r\n2\r\n"));
        assert!(!site.project().join("old/c.txt").exists());
    }
}

#[test]
fn patches_that_do_not_fit_change_nothing() {
    let site = site();
    site.file("bin", b"a\0b");
    let absolute = site.path("beside.txt").display().to_string();
    let before = everything(&site);
    for (sections, kind, said) in [
        ("*** Update File: nope\n@@\n-x\n", "not_found", "nope does not exist"),
        ("*** Delete File: b.tx\n", "not_found", "b.txt"),
        (
            "*** Add File: b.txt\n+x\n",
            "already_exists",
            "b.txt exists already (line 4 of the patch)",
        ),
        ("*** Update File: b.txt\n*** Move to: a.py\n", "already_exists", "a.py exists already"),
        ("*** Update File: a.py\n@@\n-        return 3\n", "no_match", "3:         return 1"),
        ("*** Update File: a.py\n@@ class B:\n-        return 1\n", "no_match", "class B:"),
        ("*** Update File: bin\n@@\n-a\n", "binary", "binary"),
        ("*** Update File: a.py\n@@\nreturn\n", "invalid_patch", "Line 6 of the patch"),
        ("*** Rename File: a.py\n", "invalid_patch", "Line 4 of the patch"),
        ("*** Add File: ../beside.txt\n+x\n", "outside_workspace", "outside the worktree"),
        (&format!("*** Add File: {absolute}\n+x\n"), "outside_workspace", "outside the worktree"),
        ("*** Update File: b.txt\n*** Move to: ../beside.txt\n", "outside_workspace", "outside"),
    ] {
        let output = apply(&site, &patch(&format!("*** Add File: first\n+x\n{sections}")));
        assert_eq!(output["metadata"]["error_kind"], kind, "{sections}: {output}");
        assert!(output["output"].as_str().unwrap().contains(said), "{sections}: {output}");
        assert_eq!(everything(&site), before, "{sections}");
    }
    assert!(!site.path("beside.txt").exists());
    let output = apply(&site, "no patch");
    assert_eq!(output["metadata"]["error_kind"], "invalid_patch");
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_others_alone() {
    let site = site();
    let before = everything(&site);
    let big = "+0123456789\n".repeat(6_000);
    let sections =
        format!("*** Delete File: b.txt\n*** Add File: d/small\n+x\n*** Update File: a.py\n{big}");
    let args = json!({ "patchText": patch(&sections) }).to_string();
    let command = site.command(&["tool", "apply_patch", "--args", &args]);
    // no file may grow past 16 KiB; trying gives an error and no signal
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 16; trap '' XFSZ; exec \"$@\"", "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(site.project()).stdin(Stdio::null());
    let output = output(&Live::start(limited).wait());
    assert_eq!(output["metadata"]["error_kind"], "not_written", "{output}");
    let said = output["output"].as_str().unwrap();
    let path = site.project().join("a.py");
    assert!(said.starts_with(&format!("Cannot write {}: ", path.display())), "{said}");
    assert!(said.ends_with("None of the files was changed."), "{said}");
    assert_eq!(everything(&site), before);
}

#[test]
fn the_model_decides_which_tools_change_files() {
    for (model, patches) in [("gpt-5-codex", true), ("gpt-4.1", false), ("m", false)] {
        let reply = Answer::Stream(message(&[Block::Text("Fine.")]), Split::Whole);
        let server = Server::start(vec![reply]);
        let site = Site::served(&server)
            .setting("model", json!(format!("local/{model}")))
            .setting(&format!("provider/local/models/{model}"), json!({}));
        site.prompt("Hello").ok();
        let tools = server.requests()[0].body["tools"].clone();
        let has = |name: &str| tools.as_array().unwrap().iter().any(|tool| tool["name"] == name);
        assert_eq!((has("apply_patch"), has("edit"), has("write")), (patches, !patches, !patches));
        assert!(has("read"), "{tools}");
    }
}

#[test]
fn other_names_for_the_argument() {
    for name in ["patch", "input", "patch_text"] {
        let site = site();
        let args = json!({ name: patch("*** Delete File: b.txt\n") }).to_string();
        let output = output(&site.run(&["tool", "apply_patch", "--args", &args]));
        assert_eq!(output["output"], "Patch applied to 1 file:\nD b.txt");
    }
    let schema = site().run(&["tool", "apply_patch", "--schema"]).ok().stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["required"], json!(["patchText"]));
}
