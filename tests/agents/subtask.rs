//! The built-in commands, and commands that another agent carries out before the model answers.

use common::{Site, all, end, kinds, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A site with a child that its prompt names; all other requests are the parent's.
fn site(task: &str, child: &Value) -> Site {
    Site::scripted(&script(json!([
        says("never asked"),
        { "match": { "prompt": task, "answers": 0 }, "parts": child },
        { "match": { "prompt": task, "answers": 1 }, "parts": [{ "text": "One mistake." }] },
        { "match": { "prompt": "Tell what came of that", "answers": 1, "result": "One mistake." },
          "parts": [{ "text": "There is one mistake." }] },
    ])))
}

fn parts(events: &[Value]) -> Vec<Value> {
    let prompted = all(events, "turn.prompted")[0];
    prompted["data"]["parts"].as_array().unwrap().clone()
}

#[test]
fn a_review_is_done_by_an_agent_that_changes_nothing() {
    let answer = json!([{ "text": "One mistake." }]);
    let site = site("Review changes to this project", &answer);
    let events = site.prompt("/review main").ok().events();
    assert_eq!(end(&events)["text"], "There is one mistake.");
    let parts = parts(&events);
    assert_eq!(parts[0]["text"], "/review main");
    assert_eq!((&parts[1]["type"], &parts[1]["name"]), (&json!("task"), &json!("explore")));
    assert!(parts[1]["text"].as_str().unwrap().contains("What to review: \"main\""));
    let spawned = only(&events, "subagent.spawned");
    assert_eq!(spawned["data"]["agent"], "explore");
    let root = spawned["session"].as_str().unwrap();
    let of_root =
        |kind: &str| all(&events, kind).into_iter().filter(|e| e["session"] == root).count();
    assert_eq!(
        (of_root("model.requested"), of_root("tool.called")),
        (1, 0),
        "{:?}",
        kinds(&events)
    );
    site.run(&["verify", root]).ok();
    let more = site.run(&["run", "--format", "json", "--continue", "Tell what came of that"]);
    assert_eq!(only(&more.events(), "turn.prompted")["data"]["agent"], "build");
}

#[test]
fn settings_say_what_is_a_task_and_whose() {
    for (command, agent) in [
        (json!({ "template": "Look", "subtask": true }), Some("general")),
        (json!({ "template": "Look", "subtask": true, "agent": "plan" }), Some("plan")),
        (json!({ "template": "Look", "agent": "explore" }), Some("explore")),
        (json!({ "template": "Look", "agent": "explore", "subtask": false }), None),
        (json!({ "template": "Look" }), None),
    ] {
        let answer = json!([{ "text": "One mistake." }]);
        let site = site("Look", &answer).setting("command", json!({ "look": command }));
        let events = site.prompt("/look").ok().events();
        let spawned = all(&events, "subagent.spawned");
        let found = spawned.first().map(|event| event["data"]["agent"].as_str().unwrap());
        assert_eq!(found, agent, "{command}");
    }
}

#[test]
fn what_is_built_in_can_be_changed_and_replaced() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    let events = site.prompt("/init and name the tests").ok().events();
    let text = parts(&events)[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("`AGENTS.md`") && text.ends_with("and name the tests"), "{text}");
    let changed = json!({ "init": { "template": "Mine" }, "review": { "subtask": false } });
    let site = Site::scripted(&script(json!([says("Done.")]))).setting("command", changed);
    assert_eq!(parts(&site.prompt("/init").ok().events())[0]["text"], "Mine");
    let events = site.prompt("/review").ok().events();
    assert!(parts(&events)[0]["text"].as_str().unwrap().starts_with("Review changes"));
    assert!(all(&events, "subagent.spawned").is_empty());
}

#[test]
fn the_task_outlives_a_kill() {
    let waits = json!([{ "call": { "name": "bash", "input": {
        "command": "touch started; while [ ! -e go ]; do sleep 0.05; done" } } }]);
    let look = json!({ "look": { "template": "Look", "subtask": true } });
    let site = site("Look", &waits).setting("command", look);
    let live = site.start(&["run", "--format", "json", "/look"]);
    common::wait_until("the child's command runs", || site.project().join("started").exists());
    live.signal(Signal::KILL);
    live.wait();
    site.file("go", "");
    let events = site.run(&["resume", "last", "--format", "json"]).ok().events();
    assert_eq!(end(&events)["text"], "There is one mistake.");
    assert!(all(&events, "subagent.spawned").is_empty(), "it was spawned before");
    site.assert_sound();
}
