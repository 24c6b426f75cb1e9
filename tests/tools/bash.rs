//! The tool `bash`, through the program.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Site, bash, only, says, script};
use serde_json::{Value, json};

fn tool(site: &Site, args: &Value) -> Value {
    let output = site.run(&["tool", "bash", "--args", &args.to_string()]);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn exits_output_and_place() {
    let site = Site::scripted(&script(json!([])));
    site.file("sub/file", "");
    for (args, output, exit) in [
        (json!({ "command": "echo out; echo err >&2" }), "out\nerr\n", 0),
        (json!({ "command": "printf x; exit 3" }), "x\n(exit code 3)", 3),
        (json!({ "command": "ls", "workdir": "sub" }), "file\n", 0),
        (json!({ "command": "cat; read x; echo \"no input: $?\"" }), "no input: 1\n", 0),
        (json!({ "command": "printf 'a\\377b'" }), "a\u{fffd}b", 0),
    ] {
        let told = tool(&site, &args);
        assert_eq!((&told["output"], &told["metadata"]["exit"]), (&json!(output), &json!(exit)));
    }
}

/// A shell that shows the line before it runs it.
const SHELL: &str = "#!/bin/sh\necho \"mine: $2\"\nexec sh \"$@\"\n";

fn executable(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_shell_of_the_settings_runs_lines() {
    let site = Site::scripted(&script(json!([bash("echo hi"), says("Done.")])));
    let shell = site.file("shell", SHELL);
    executable(&shell);
    let mine = |site: Site| site.setting("/shell", json!(shell));
    let site = mine(site);
    let events = site.prompt("go").ok().events();
    let data = |kind: &str| only(&events, kind)["data"].clone();
    assert_eq!(data("tool.finished")["output"], "mine: echo hi\nhi\n");
    // rules cannot tell how this shell reads a line
    assert_eq!(data("tool.resolved")["access"][0]["patterns"], json!(["echo hi", "<dynamic>"]));
    assert!(site.run(&["export", "last"]).ok().stdout.contains("The shell is `shell`."));
    assert_eq!(tool(&site, &json!({ "command": "true" }))["output"], "mine: true\n");
    let site = site.sandboxed();
    assert_eq!(tool(&site, &json!({ "command": "true" }))["output"], "mine: true\n");
    // a name is searched in PATH
    let site = site.setting("/shell", json!("sh")).unsandboxed();
    let output = tool(&site, &json!({ "command": "echo $0" }))["output"].clone();
    assert!(output.as_str().unwrap().ends_with("/sh\n"), "{output}");
    let site = site.setting("/shell", json!("./none")).unsandboxed();
    let ran = site.run(&["tool", "bash", "--args", r#"{"command": "echo hi"}"#]).ok();
    assert!(ran.stdout.contains(r#""output":"hi\n""#), "{ran:?}");
    let why = "`shell`: there is no program \"./none\", so commands run in bash";
    assert!(site.run(&["doctor"]).stdout.contains(why));
}

#[test]
fn the_shell_of_a_project_needs_trust() {
    let site = Site::scripted(&script(json!([])));
    executable(&site.file_of_stranger("shell", SHELL));
    site.file_of_stranger("leftfold.json", r#"{ "shell": "./shell" }"#);
    let output = || tool(&site, &json!({ "command": "echo hi" }))["output"].clone();
    assert_eq!(output(), "hi\n");
    let shown = site.run(&["trust", "--show"]).stdout;
    assert!(shown.contains("is the program that runs commands"), "{shown}");
    site.trust(&site.project());
    assert_eq!(output(), "mine: echo hi\nhi\n");
    site.file_of_stranger("shell", SHELL.replace("mine", "changed"));
    assert_eq!(output(), "hi\n");
}

#[test]
fn a_command_that_ignores_its_end_is_ended() {
    let site = Site::scripted(&script(json!([])));
    let command = "trap '' TERM; echo begun; while :; do sleep 1; done";
    let told = tool(&site, &json!({ "command": command, "timeout": 300 }));
    assert_eq!(told["metadata"]["error_kind"], "timeout", "{told}");
    assert!(told["output"].as_str().unwrap().contains("begun"), "{told}");
}

#[test]
fn no_line_is_too_long_to_be_refused() {
    let site = Site::scripted(&script(json!([])));
    let told = tool(&site, &json!({ "command": format!("echo {}", "x".repeat(70_000)) }));
    assert!(told["output"].as_str().unwrap().contains("at most 65536 bytes"), "{told}");
}

#[test]
fn a_line_that_leaves_the_worktree_is_not_run_alone() {
    let site = Site::scripted(&script(json!([])));
    for command in ["cat /etc/passwd", "cd .. && ls", "echo x > ../x", "rm \"$SOMEWHERE\""] {
        let told = tool(&site, &json!({ "command": command }));
        assert_eq!(told["metadata"]["error_kind"], "outside_workspace", "{command}: {told}");
    }
}

/// A clone can bring one: it is a folder of ordinary files, and git would run what its settings say.
#[test]
fn git_runs_nothing_of_a_bare_repository_in_the_project() {
    let site = Site::scripted(&script(json!([])));
    let ran = site.path("ran");
    for name in ["objects/x", "refs/x", "deep/x"] {
        site.file(&format!("docs/{name}"), "");
    }
    site.file("docs/HEAD", "ref: refs/heads/main\n");
    let program = format!("touch {}; false", ran.display());
    let settings = format!("[core]\nbare = false\nworktree = ..\nfsmonitor = {program:?}\n");
    site.file("docs/config", settings);
    let lines = ["cd docs && git status", "git -C docs status", "cd docs/deep; git add -A"];
    let refused = |site: &Site, line: &str| {
        let told = tool(site, &json!({ "command": line }));
        told["output"].as_str().unwrap().contains("cannot use bare repository")
    };
    for line in lines {
        assert!(refused(&site, line) && !ran.exists(), "{line}");
    }
    // one that the line names is meant
    assert!(!refused(&site, "git --git-dir docs config core.bare"));
    // and the user can say otherwise, as for Bundler
    let site = site
        .setting("/environment", json!(["GIT_CONFIG_*"]))
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.bareRepository")
        .env("GIT_CONFIG_VALUE_0", "all");
    let told = tool(&site, &json!({ "command": "git -C docs config core.bare" }));
    assert!(told["output"].as_str().unwrap().starts_with("false"), "{told}");
}
