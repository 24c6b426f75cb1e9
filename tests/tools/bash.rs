//! The tool `bash`, through the program.

use common::{Site, script};
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
