//! `batch`: each entry is a call of its own; the model gets one result.

use common::{Site, all, call, end, kinds, only, says, script};
use serde_json::{Value, json};

fn entries(entries: &Value) -> Value {
    json!({ "toolCalls": entries })
}

#[test]
fn one_that_is_denied_leaves_the_others_alone() {
    let batch = entries(&json!([
        { "tool": "read", "parameters": { "filePath": "a.txt" } },
        { "tool": "bash", "parameters": { "command": "touch no" } },
        { "tool": "write", "parameters": { "filePath": "b.txt", "content": "b\n" } },
    ]));
    let site = Site::scripted(&script(json!([call("batch", batch), says("Done.")])))
        .setting("permission", json!({ "bash": "deny" }));
    site.file("a.txt", "the text of a\n");
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let batch = finished.last().unwrap();
    assert_eq!(batch["data"]["title"], "Batch execution (2/3 successful)");
    let output = batch["data"]["output"].as_str().unwrap();
    assert!(output.contains("the text of a") && output.contains("Permission denied"), "{output}");
    assert_eq!(all(&events, "tool.batched").len(), 3, "{:?}", kinds(&events));
    assert_eq!(end(&events)["permission_denials"][0]["tool"], "bash");
    assert_eq!(site.text("b.txt"), "b\n");
    assert!(!site.project().join("no").exists());
    site.run(&["verify", "last"]).ok();
    site.run(&["check", "last"]).ok();
}

#[test]
fn calls_of_a_batch_run_side_by_side() {
    // each waits for the other, so running them in sequence would never end
    let meet = |mine: &str, other: &str| {
        json!({ "tool": "bash", "parameters": {
            "command": format!("touch {mine}; until [ -e {other} ]; do sleep 0.02; done") } })
    };
    let batch = entries(&json!([meet("a", "b"), meet("b", "a")]));
    let site = Site::scripted(&script(json!([call("batch", batch), says("Done.")])));
    let events = site.prompt("go").ok().events();
    let title = all(&events, "tool.finished").last().unwrap()["data"]["title"].clone();
    assert_eq!(title, "Batch execution (2/2 successful)");
}

#[test]
fn alone_it_runs_within_the_project() {
    let site = Site::bare();
    site.file("a.txt", "the text of a\n");
    std::fs::write(site.path("outside.txt"), "outside\n").unwrap();
    let read = |path: &str| json!({ "tool": "read", "parameters": { "filePath": path } });
    let many: Vec<Value> = std::iter::repeat_n(read("a.txt"), 27).collect();
    for (calls, title) in [
        (json!([read("a.txt"), read("gone.txt")]), "Batch execution (1/2 successful)"),
        (json!([read("a.txt"), read("../outside.txt")]), "Batch execution (1/2 successful)"),
        (
            json!([read("a.txt"), { "tool": "batch", "parameters": {} }]),
            "Batch execution (1/2 successful)",
        ),
        (
            json!([read("a.txt"), { "tool": "raed", "parameters": {} }]),
            "Batch execution (1/2 successful)",
        ),
        (json!(many), "Batch execution (25/27 successful)"),
    ] {
        let args = entries(&calls).to_string();
        let ran = site.run(&["tool", "batch", "--args", &args]).ok();
        let output: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(output["title"], title, "{output}");
    }
    site.run(&["tool", "batch", "--args", r#"{"toolCalls":[]}"#]).with(1);
}

#[test]
fn the_same_call_for_the_third_time_ends_a_run_that_nobody_watches() {
    let again = || call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([again(), again(), again(), says("Done.")])));
    site.file("a.txt", "a\n");
    let events = site.prompt("go").with(3).events();
    assert_eq!(end(&events)["reason"], "blocked");
    assert_eq!(all(&events, "tool.started").len(), 2);
    let denied = &end(&events)["permission_denials"][0];
    assert_eq!(
        (&denied["permission"], &denied["patterns"]),
        (&json!("doom_loop"), &json!(["read"]))
    );
    let ruled = only(&events, "turn.ended");
    assert_eq!(ruled["data"]["steps"], 3);
}
