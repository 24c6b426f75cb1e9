//! The third identical call in a row, in a parent and in a child. Each session counts its own
//! calls.

use common::{Site, all, call, end, says, script};
use serde_json::{Value, json};

fn task() -> Value {
    call(
        "task",
        json!({ "description": "Look", "prompt": "look at a.txt", "subagentType": "general" }),
    )
}

fn reads(answers: u32) -> Value {
    let read = json!({ "call": { "name": "read", "input": { "filePath": "a.txt" } } });
    json!({ "match": { "prompt": "look at a.txt", "answers": answers }, "parts": [read] })
}

/// Started calls of `tool`, in the root's session or in all others.
fn started(events: &[Value], tool: &str, of_root: bool) -> usize {
    let root = &events[0]["session"];
    let of = |event: &&&Value| (event["session"] == *root) == of_root;
    let named = |event: &&&Value| event["data"]["name"] == tool;
    all(events, "tool.started").iter().filter(of).filter(named).count()
}

#[test]
fn a_child_that_goes_round_in_circles_is_stopped_and_its_parent_goes_on() {
    let mut turns = vec![task(), says("The parent has heard.")];
    turns.extend((0..4).map(reads));
    let site = Site::scripted(&script(Value::from(turns)));
    site.file("a.txt", "one\n");
    let events = site.prompt("go").ok().events();
    assert_eq!(started(&events, "read", false), 2, "the third did not run");
    let of_root = |event: &&&Value| event["session"] == events[0]["session"];
    let ends = all(&events, "turn.ended");
    let (root, child): (Vec<&Value>, Vec<&Value>) = ends.iter().partition(|event| of_root(event));
    assert_eq!(child[0]["data"]["reason"], "blocked");
    assert_eq!(child[0]["data"]["permission_denials"][0]["permission"], "doom_loop");
    assert_eq!(child[0]["data"]["permission_denials"][0]["patterns"], json!(["read"]));
    assert_eq!((root.len(), &end(&events)["text"]), (1, &json!("The parent has heard.")));
    assert_eq!(end(&events)["reason"], "completed");
    let told = all(&events, "tool.finished");
    let task = told.iter().find(of_root).unwrap();
    assert_eq!(task["data"]["is_error"], true, "{task}");
}

#[test]
fn a_parent_that_asks_for_the_same_again_is_stopped_before_the_third_child() {
    let answer =
        json!({ "match": { "prompt": "look at a.txt" }, "parts": [{ "text": "It says one." }] });
    let turns = vec![task(), task(), task(), says("Never said."), answer];
    let site = Site::scripted(&script(Value::from(turns)));
    let events = site.prompt("go").with(3).events();
    assert_eq!(started(&events, "task", true), 2);
    assert_eq!(all(&events, "subagent.spawned").len(), 2);
    assert_eq!(end(&events)["reason"], "blocked");
    let denied = &end(&events)["permission_denials"][0];
    assert_eq!(
        (&denied["permission"], &denied["patterns"]),
        (&json!("doom_loop"), &json!(["task"]))
    );
    assert_eq!(denied["class"], "doom_loop");
}

/// Rules name the tool: one tool may be allowed to repeat and others not.
#[test]
fn a_rule_allows_one_tool_to_be_repeated() {
    for (allowed, code, ran) in [("read", 0, 4), ("bash", 3, 2), ("*", 0, 4)] {
        let again = || call("read", json!({ "filePath": "a.txt" }));
        let site =
            Site::scripted(&script(json!([again(), again(), again(), again(), says("Done.")])))
                .setting("permission", json!({ "doom_loop": { allowed: "allow" } }));
        site.file("a.txt", "a\n");
        let events = site.prompt("go").with(code).events();
        assert_eq!(started(&events, "read", true), ran, "{allowed}");
        site.assert_sound();
    }
}
