//! `leftfold tool`: runs one tool without a model.

use std::time::{Duration, Instant};

use common::{Ran, Site};
use serde_json::{Value, json};

fn site() -> Site {
    let site = Site::bare();
    site.file("a.txt", "one\ntwo\n");
    std::fs::write(site.path("outside.txt"), "outside\n").unwrap();
    site
}

fn tool(site: &Site, name: &str, args: &Value) -> (Ran, Value) {
    let ran = site.run(&["tool", name, "--args", &args.to_string()]);
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    let keys: Vec<&String> = output.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["title", "output", "metadata", "is_error", "spill", "attachments"]);
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    (ran, output)
}

fn good(site: &Site, name: &str, args: &Value) -> Value {
    let (ran, output) = tool(site, name, args);
    assert_eq!(output["is_error"], false, "{ran:?}");
    output
}

/// The stable word for the error.
fn bad(site: &Site, name: &str, args: &Value) -> String {
    let (ran, output) = tool(site, name, args);
    assert_eq!(output["is_error"], true, "{ran:?}");
    assert_ne!(output["output"], "");
    output["metadata"]["error_kind"].as_str().unwrap().to_owned()
}

fn says(output: &Value, part: &str) {
    assert!(output["output"].as_str().unwrap().contains(part), "no `{part}` in {output}");
}

#[test]
fn each_tool_has_a_schema_of_its_arguments() {
    let site = site();
    for (name, required) in [
        ("read", json!(["filePath"])),
        ("write", json!(["filePath", "content"])),
        ("edit", json!(["filePath", "oldString", "newString"])),
        ("bash", json!(["command"])),
        ("glob", json!(["pattern"])),
        ("grep", json!(["pattern"])),
        ("multiedit", json!(["filePath", "edits"])),
        ("apply_patch", json!(["patchText"])),
        ("batch", json!(["tool_calls"])),
        ("question", json!(["questions"])),
        ("webfetch", json!(["url"])),
        ("websearch", json!(["query"])),
        ("codesearch", json!(["query"])),
        ("lsp", json!(["operation", "filePath"])),
        ("skill", json!(["name"])),
        ("task", json!(["prompt", "subagent_type"])),
        ("todowrite", json!(["todos"])),
        ("todoread", Value::Null),
    ] {
        let schema = site.run(&["tool", name, "--schema"]).ok().stdout;
        let schema: Value = serde_json::from_str(&schema).unwrap();
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &required), "{name}");
        for (property, of) in schema["properties"].as_object().unwrap() {
            assert!(of["description"].is_string(), "{name}: {property}");
        }
    }
    site.run(&["tool", "nope", "--schema"])
        .with(2)
        .saying(&["nope", "read, write, edit, glob, grep, bash"]);
    site.run(&["tool", "read"]).with(2);
}

#[test]
fn read_write_and_edit() {
    let site = site();
    says(&good(&site, "read", &json!({ "filePath": "a.txt", "offset": 2 })), "two");
    good(&site, "write", &json!({ "filePath": "new/deep/b.txt", "content": "x\n" }));
    assert_eq!(site.text("new/deep/b.txt"), "x\n");
    good(&site, "edit", &json!({ "filePath": "a.txt", "oldString": "two", "newString": "2" }));
    assert_eq!(site.text("a.txt"), "one\n2\n");
    let edit = |old: &str| json!({ "filePath": "a.txt", "oldString": old, "newString": "z" });
    assert_ne!(bad(&site, "edit", &edit("three")), bad(&site, "edit", &edit("\n")));
    assert_eq!(site.text("a.txt"), "one\n2\n");
    assert_eq!(bad(&site, "read", &json!({ "filePath": "none" })), "not_found");
    assert_eq!(bad(&site, "read", &json!({ "filePath": 7 })), "invalid_arguments");
}

#[test]
fn arguments_that_are_no_json() {
    let site = site();
    for args in ["{", "", "null", "[]", "\"a.txt\""] {
        let ran = site.run(&["tool", "read", "--args", args]).with(1);
        let output: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(output["metadata"]["error_kind"], "invalid_arguments", "{args}");
    }
}

#[test]
fn bash_has_both_streams_the_exit_code_and_no_keys() {
    let site = site().env("ANTHROPIC_API_KEY", "sk-very-secret");
    let output = good(&site, "bash", &json!({ "command": "echo out; echo err >&2; exit 3" }));
    says(&output, "out");
    says(&output, "err");
    assert_eq!(output["metadata"]["exit"], 3);
    let output = good(&site, "bash", &json!({ "command": "env; pwd" }));
    assert!(!output.to_string().contains("sk-very-secret"), "{output}");
    says(&output, site.project().to_str().unwrap());
    good(&site, "write", &json!({ "filePath": "sub/x", "content": "" }));
    says(&good(&site, "bash", &json!({ "command": "pwd", "workdir": "sub" })), "/sub");
    let output = good(&site, "bash", &json!({ "command": "read line; echo \"end $?\"" }));
    says(&output, "end 1");
}

#[test]
fn bash_is_stopped_when_its_time_is_over_with_all_that_it_started() {
    let site = site();
    let start = Instant::now();
    let command = "echo begun; setsid sleep 1003 & sleep 1003";
    let (_, output) = tool(&site, "bash", &json!({ "command": command, "timeout": 200 }));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(output["metadata"]["error_kind"], "timeout");
    says(&output, "begun");
    // a leftover process would name its folder in its environment
    assert_eq!(left_in(&site), Vec::<String>::new());
}

/// Command lines of processes that work in the site's project.
fn left_in(site: &Site) -> Vec<String> {
    let Ok(table) = std::fs::read_dir("/proc") else { return Vec::new() };
    let there = |folder: &std::path::Path| {
        std::fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(site.project()))
    };
    let folders = table.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| there(path));
    folders
        .map(|folder| std::fs::read_to_string(folder.join("cmdline")).unwrap_or_default())
        .collect()
}

#[test]
fn what_a_command_leaves_in_the_background_ends_with_it() {
    let site = site();
    let output =
        good(&site, "bash", &json!({ "command": "sleep 1004 & setsid sleep 1004 & echo on" }));
    says(&output, "on");
    assert_eq!(left_in(&site), Vec::<String>::new());
}

#[test]
fn only_the_workspace_is_in_reach() {
    let site = site();
    std::os::unix::fs::symlink(site.path("outside.txt"), site.project().join("link")).unwrap();
    std::os::unix::fs::symlink(site.path("none"), site.project().join("dangling")).unwrap();
    std::os::unix::fs::symlink(site.path(""), site.project().join("up")).unwrap();
    let outside = site.path("outside.txt").display().to_string();
    for path in ["../outside.txt", &outside, "link", "up/outside.txt", "/etc/passwd", "a/../../x"] {
        let read = bad(&site, "read", &json!({ "filePath": path }));
        let write = bad(&site, "write", &json!({ "filePath": path, "content": "changed" }));
        let kinds = [read.as_str(), write.as_str()];
        assert!(kinds.iter().all(|kind| *kind == "outside_workspace"), "{path}: {kinds:?}");
    }
    bad(&site, "write", &json!({ "filePath": "dangling", "content": "x" }));
    assert!(!common::exists(&site.path("none")));
    bad(&site, "bash", &json!({ "command": "pwd", "workdir": ".." }));
    assert_eq!(std::fs::read_to_string(site.path("outside.txt")).unwrap(), "outside\n");
}

#[test]
fn the_workspace_reaches_up_to_the_worktree() {
    let site = site();
    std::fs::create_dir(site.project().join(".git")).unwrap();
    site.file("sub/b.txt", "b");
    let mut command = site.command(&["tool", "read", "--args", r#"{"filePath":"../a.txt"}"#]);
    command.current_dir(site.project().join("sub"));
    common::Live::start(command).wait().ok();
}

#[test]
fn long_output_is_cut_and_kept_whole_in_a_file() {
    let site = site();
    let output = good(&site, "bash", &json!({ "command": "seq 1 50000" }));
    assert_eq!(output["metadata"]["truncated"], true);
    assert!(output["output"].as_str().unwrap().len() < 60_000);
    let spill = output["spill"].as_str().unwrap();
    let whole = std::fs::read_to_string(spill).unwrap();
    assert_eq!(whole.lines().count(), 50_000);
    let limited = site.setting("tool_output/max_lines", json!(10));
    let output = good(&limited, "bash", &json!({ "command": "seq 1 100" }));
    assert_eq!(output["metadata"]["truncated"], true);
    assert!(output["output"].as_str().unwrap().lines().count() < 20, "{output}");
}

#[test]
fn todos() {
    let site = site();
    let todos = json!([{ "content": "a", "status": "in_progress", "priority": "low" }]);
    let output = good(&site, "todowrite", &json!({ "todos": todos }));
    assert_eq!(output["metadata"]["todos"], todos);
    good(&site, "todoread", &json!({}));
    assert_eq!(bad(&site, "todowrite", &json!({ "todos": "a" })), "invalid_arguments");
}
