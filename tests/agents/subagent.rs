//! Sessions that calls start: their own logs, their answers, and a kill in the middle.

use common::{Site, all, call, end, kind, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

fn task(prompt: &str) -> Value {
    json!({ "description": "Look around", "prompt": prompt, "subagentType": "general" })
}

/// A site with a child that its prompt names; all other requests are the parent's.
fn site(child: &Value) -> Site {
    Site::scripted(&script(json!([
        call("task", task("look at a.txt")),
        says("The parent has heard."),
        { "match": { "prompt": "look at a.txt", "answers": 0 }, "parts": child },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "It says one." }] },
    ])))
}

fn read() -> Value {
    json!([{ "call": { "name": "read", "input": { "filePath": "a.txt" } } }])
}

#[test]
fn a_child_works_in_a_session_of_its_own_and_its_last_text_comes_back() {
    let site = site(&read());
    site.file("a.txt", "one\n");
    let events = site.prompt("go").ok().events();
    let root = events[0]["session"].clone();
    let spawned = only(&events, "subagent.spawned");
    let child = spawned["data"]["session"].clone();
    assert_eq!(spawned["data"]["agent"], "general");
    let ended = only(&events, "subagent.ended");
    assert_eq!((&ended["data"]["answer"], &ended["of"]), (&json!("It says one."), &spawned["seq"]));
    let of_child: Vec<&Value> = events.iter().filter(|event| event["session"] == child).collect();
    assert_eq!(of_child[0]["data"]["parent"], root);
    assert_eq!(kind(of_child.last().unwrap()), "turn.ended");
    let heard = all(&events, "tool.finished");
    let task = heard.iter().find(|event| event["session"] == root).unwrap();
    let output = task["data"]["output"].as_str().unwrap();
    let id = child.as_str().unwrap();
    assert_eq!(output, format!("task_id: {id}\n\n<task_result>\nIt says one.\n</task_result>"));
    let last = events.last().unwrap();
    assert_eq!((kind(last), &last["session"]), ("turn.ended", &root));
    assert_eq!(end(&events)["text"], "The parent has heard.");
    for session in [root.as_str().unwrap(), id] {
        site.run(&["verify", session]).ok();
        site.run(&["check", session]).ok();
    }
    // a list shows roots, and the export of a root includes its children
    assert!(!site.run(&["sessions", "list"]).ok().stdout.contains(id));
    let mut exported = site.run(&["export", root.as_str().unwrap()]).ok().events();
    exported.retain(|line| line["payload"].is_null());
    let of = |events: &[Value], session: &Value| -> Vec<Value> {
        events.iter().filter(|event| event["session"] == *session).cloned().collect()
    };
    assert_eq!(of(&exported, &root), of(&events, &root));
    assert_eq!(of(&exported, &child), of(&events, &child));
    assert_eq!(exported.len(), events.len());
}

#[test]
fn an_agent_that_there_is_not_and_one_that_may_not_be_called() {
    let nobody = json!({ "prompt": "x", "subagentType": "nobody" });
    let site = Site::scripted(&script(json!([call("task", nobody), says("Oh.")])));
    let events = site.prompt("go").ok().events();
    let error = only(&events, "tool.resolved")["data"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("general") && error.contains("nobody"), "{error}");

    let site = site_denied();
    let events = site.prompt("go").ok().events();
    assert!(all(&events, "subagent.spawned").is_empty());
}

/// An error about a name lists the tools of the agent that made the call.
#[test]
fn an_unknown_tool_is_answered_with_the_tools_of_the_agent() {
    let explores =
        json!({ "description": "Look", "prompt": "look at a.txt", "subagentType": "explore" });
    let lost = json!([{ "call": { "name": "nothing", "input": {} } }]);
    let site = Site::scripted(&script(json!([
        { "parts": [{ "call": { "name": "nothing", "input": {} } }, { "call": { "name": "task", "input": explores } }] },
        says("The parent has heard."),
        { "match": { "prompt": "look at a.txt", "answers": 0 }, "parts": lost },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "Nothing." }] },
    ])));
    let events = site.prompt("go").ok().events();
    let resolved = all(&events, "tool.resolved").into_iter();
    let lost = resolved.filter(|event| event["data"]["name"] == "invalid");
    let errors: Vec<&str> = lost.map(|event| event["data"]["error"].as_str().unwrap()).collect();
    let [of_root, of_child] = errors[..] else { panic!("{errors:?}") };
    assert!(of_root.contains("edit, ") && of_root.contains("read, "), "{of_root}");
    assert!(!of_child.contains("edit, ") && of_child.contains("read, "), "{of_child}");
}

fn site_denied() -> Site {
    site(&read()).setting("permission", json!({ "task": { "general": "deny" } }))
}

#[test]
fn parent_and_child_go_on_after_a_kill() {
    let waits = json!([{ "call": { "name": "bash", "input": {
        "command": "touch started; while [ ! -e go ]; do sleep 0.05; done" } } }]);
    let site = site(&waits);
    site.file("a.txt", "one\n");
    let live = site.start(&["run", "--format", "json", "go"]);
    common::wait_until("the child's command runs", || site.project().join("started").exists());
    live.signal(Signal::KILL);
    live.wait();
    site.file("go", "");
    let events = site.run(&["resume", "last", "--format", "json"]).ok().events();
    assert_eq!(end(&events)["text"], "The parent has heard.");
    let last = events.last().unwrap();
    // the child's command is lost, its model is told so, and the child has answered
    let lost = only(&events, "tool.lost");
    assert_ne!(lost["session"], last["session"]);
    assert_eq!(only(&events, "subagent.ended")["data"]["answer"], "It says one.");
    assert!(all(&events, "subagent.spawned").is_empty(), "it was spawned before");
    let root = last["session"].as_str().unwrap();
    site.run(&["verify", root, lost["session"].as_str().unwrap()]).ok();
}

/// The turn's time is over when the next node starts. Nobody waits for the child, but it is ended
/// as well.
#[test]
fn a_child_that_nobody_waits_for_after_a_kill_ends_too() {
    let waits = json!([{ "call": { "name": "bash", "input": { "command": "touch started; sleep 1000" } } }]);
    let site = site(&waits);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let spawned = live.until("subagent.spawned");
    common::wait_until("the child's command runs", || site.project().join("started").exists());
    live.signal(Signal::KILL);
    live.wait();
    let dead = std::time::Instant::now();
    common::wait_until("the time is over", || dead.elapsed().as_millis() > 1_000);
    let args = ["resume", "last", "--format", "json", "--timeout", "1"];
    let root = site.run(&args).with(4).events();
    assert_eq!(end(&root)["reason"], "limit");
    let child = spawned["data"]["session"].as_str().unwrap();
    let events = site.run(&["export", child]).ok().events();
    assert_eq!(end(&events)["reason"], "aborted");
    assert_eq!(all(&events, "tool.lost").len(), 1);
    assert_eq!(common::marked(child), []);
    site.run(&["verify", root[0]["session"].as_str().unwrap(), child]).ok();
}
