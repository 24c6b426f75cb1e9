//! What a model was asked, rebuilt from the log alone: `leftfold explain`.
#![cfg(test)]

mod common;

use common::{Site, all, bash, call, says, script};
use leftfold_events::Sha256;
use serde_json::{Value, json};

fn explained(site: &Site, seq: &Value, more: &[&str]) -> String {
    let seq = seq.to_string();
    site.run(&[&["explain", "last", &seq], more].concat()).ok().stdout
}

fn report(site: &Site, seq: &Value) -> Value {
    serde_json::from_str(&explained(site, seq, &["--format", "json"])).unwrap()
}

#[test]
fn every_request_is_rebuilt_to_the_byte_and_says_where_it_comes_from() {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([read, bash("echo hello"), says("Done.")])));
    site.file("a.txt", "alpha\n");
    let events = site.prompt("go").ok().events();
    let requests = all(&events, "model.requested");
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let bytes = explained(&site, &request["seq"], &["--request"]);
        let hash = Sha256::of(bytes.as_bytes()).to_string();
        assert_eq!(request["data"]["request_sha256"], hash);
        assert_eq!(report(&site, &request["seq"])["sha256"]["recorded"], hash);
    }
    let last = report(&site, &requests[2]["seq"]);
    let prompt = all(&events, "turn.prompted")[0]["seq"].clone();
    let calls: Vec<Value> =
        all(&events, "model.called").iter().map(|called| called["seq"].clone()).collect();
    let from: Vec<&Value> =
        last["messages"].as_array().unwrap().iter().map(|message| &message["from"]).collect();
    let expected = [
        json!([prompt]),
        json!([requests[0]["seq"]]),
        json!([calls[0]]),
        json!([requests[1]["seq"]]),
        json!([calls[1]]),
    ];
    assert_eq!(from, expected.iter().collect::<Vec<_>>());
    assert_eq!(last["left_out"], json!([]));
    let text = explained(&site, &requests[1]["seq"], &[]);
    for part in ["as logged", "alpha", "left out: nothing", &format!("user, from {prompt}")] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_a_summary_stands_for_is_said() {
    let summary = json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Short." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello."), says("Again.")] }));
    site.prompt("hi").ok();
    let events = site.run(&["compact", "last", "--format", "json"]).ok().events();
    let through = all(&events, "compaction.started")[0]["data"]["through"].clone();
    let events = site.run(&["run", "--continue", "--format", "json", "more"]).ok().events();
    let last = report(&site, &all(&events, "model.requested")[0]["seq"]);
    assert_eq!(last["left_out"][0]["seq"], through);
    assert_eq!(last["messages"][0]["from"], json!([]));
    assert!(last["messages"][0]["text"].as_str().unwrap().contains("Short."), "{last}");
}

#[test]
fn another_event_is_named_and_requests_are_offered() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    let events = site.prompt("go").ok().events();
    let request = all(&events, "model.requested")[0]["seq"].to_string();
    let offers = format!("give the seq of a model.requested: {request}");
    let explain = |seq: &str| site.run(&["explain", "last", seq]).with(2);
    explain("1").saying(&["event 1 is session.created", &offers]);
    explain("99").saying(&["there is no event 99", &offers]);
}
