//! Calls of one reply run at once, except those that write one file.

use common::{Site, all, end, says, script};
use serde_json::{Value, json};

fn reply(calls: &[Value]) -> Value {
    json!({ "parts": calls.iter().map(|call| json!({ "call": call })).collect::<Vec<_>>() })
}

fn bash(command: &str) -> Value {
    json!({ "name": "bash", "input": { "command": command } })
}

fn turn(calls: &[Value], prepare: impl Fn(&Site)) -> (Site, Vec<Value>) {
    let site = Site::scripted(&script(json!([reply(calls), says("done")])));
    prepare(&site);
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "done");
    site.assert_sound();
    (site, events)
}

#[test]
fn calls_of_one_reply_run_at_once() {
    // each waits for all others, so running them in sequence would never end
    let wait = |n: usize| {
        bash(&format!("touch met-{n}; while [ $(ls met-* | wc -l) -lt 4 ]; do sleep 0.01; done"))
    };
    let calls: Vec<Value> = (0..4).map(wait).collect();
    let (_site, events) = turn(&calls, |_| ());
    let last = &all(&events, "tool.started")[3]["seq"];
    let first_end = &all(&events, "tool.finished")[0]["seq"];
    assert!(last.as_u64() < first_end.as_u64());
}

#[test]
fn at_most_eight_run_at_once_and_all_run() {
    let calls: Vec<Value> = (0..12).map(|n| bash(&format!("echo {n}; sleep 0.1"))).collect();
    let (_site, events) = turn(&calls, |_| ());
    let (mut running, mut most) = (0, 0);
    for event in &events {
        match common::kind(event) {
            "tool.started" => running += 1,
            "tool.finished" => running -= 1,
            _ => {}
        }
        most = most.max(running);
    }
    assert_eq!((running, most), (0, 8));
    assert_eq!(all(&events, "tool.finished").len(), 12);
}

#[test]
fn edits_of_one_file_wait_for_each_other_in_order() {
    let letters: Vec<char> = ('a'..='h').collect();
    let edits: Vec<Value> = letters
        .windows(2)
        .map(|two| {
            json!({ "name": "edit", "input": { "filePath": "file",
            "oldString": two[0].to_string(), "newString": two[1].to_string() } })
        })
        .collect();
    let (site, events) = turn(&edits, |site| drop(site.file("file", "a")));
    assert_eq!(site.text("file"), "h");
    let order: Vec<&str> = events
        .iter()
        .map(common::kind)
        .filter(|kind| ["tool.started", "tool.finished"].contains(kind))
        .collect();
    assert_eq!(order, ["tool.started", "tool.finished"].repeat(7));
}

#[test]
fn a_call_starts_while_the_model_still_writes() {
    let mut reply = reply(&[bash("touch ran")]);
    let parts = reply["parts"].as_array_mut().unwrap();
    parts.push(json!({ "text": "more and more ".repeat(200) }));
    (reply["chunk"], reply["delay_ms"]) = (json!(1), json!(20));
    let site = Site::scripted(&script(json!([reply, says("done")])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.finished");
    assert!(!live.seen.contains("model.finished"));
    live.signal(rustix::process::Signal::INT);
    live.wait().with(130);
    site.assert_sound();
}

#[test]
fn a_call_that_takes_too_long_is_stopped_and_the_others_are_not() {
    let slow =
        json!({ "name": "bash", "input": { "command": "echo begun; sleep 1000", "timeout": 300 } });
    let (_site, events) = turn(&[slow, bash("sleep 0.6; echo whole")], |_| ());
    let finished = all(&events, "tool.finished");
    let outputs: Vec<&str> =
        finished.iter().map(|event| event["data"]["output"].as_str().unwrap()).collect();
    assert!(outputs.iter().any(|output| output.contains("whole")), "{outputs:?}");
    assert_eq!(all(&events, "session.deadline_passed").len(), 1);
    assert_eq!(all(&events, "tool.cancelled").len(), 1);
    assert_eq!(common::marked(events[0]["session"].as_str().unwrap()), []);
}

#[test]
fn any_number_of_sessions_work_side_by_side() {
    let waits =
        "touch begun-$LEFTFOLD_CALL; while [ $(ls begun-* | wc -l) -lt 4 ]; do sleep 0.01; done";
    let site = Site::scripted(&script(json!([reply(&[bash(waits)]), says("done")])));
    let runs: Vec<_> = (0..4).map(|_| site.start(&["run", "--format", "json", "go"])).collect();
    let mut sessions: Vec<String> = runs
        .into_iter()
        .map(|run| {
            let events = run.wait().ok().events();
            assert_eq!(end(&events)["text"], "done");
            events[0]["session"].as_str().unwrap().to_owned()
        })
        .collect();
    sessions.sort_unstable();
    sessions.dedup();
    assert_eq!(sessions.len(), 4);
    assert_eq!(site.sessions().len(), 4);
}
