//! Titles in lists, and the cost of a run without them.

use common::*;
use serde_json::{Value, json};

fn script(title: &Value) -> Value {
    json!({ "replies": [
        { "match": { "purpose": "title" }, "parts": title },
        { "parts": [ { "text": "Hello." } ] },
    ] })
}

fn requests(ran: &Ran) -> Vec<String> {
    let events = ran.events();
    let requested = events.iter().filter(|event| event["type"] == "model.requested");
    requested
        .map(|event| event["data"]["purpose"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_session_is_listed_under_the_title_that_a_model_gave_it() {
    let text = "<think>What is it?</think>\n\n  Greeting a stranger  \nor a friend";
    let site = Site::scripted(&script(&json!([{ "text": text }]))).setting("title", true.into());
    let ran = site.prompt("hello");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(requests(&ran), ["turn", "title"]);
    let events = ran.events();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types.last(), Some(&"turn.ended"), "{types:?}");
    let titled = events.iter().find(|event| event["type"] == "session.titled").unwrap();
    assert_eq!(titled["data"], json!({ "title": "Greeting a stranger" }));
    let list = site.run(&["sessions", "list"]);
    assert!(list.stdout.contains("Greeting a stranger"), "{}", list.stdout);
    let verified = site.run(&["verify", "last"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn a_title_that_fails_harms_nobody() {
    let failing = json!([{ "fault": { "class": "auth", "message": "no" } }]);
    let site = Site::scripted(&script(&failing)).setting("title", true.into());
    let ran = site.prompt("hello");
    assert_eq!((ran.code, requests(&ran).len()), (0, 2), "{ran:?}");
    assert!(ran.events().iter().all(|event| event["type"] != "session.titled"));
    assert_eq!(ran.events().last().unwrap()["data"]["text"], "Hello.");
}

#[test]
fn without_titles_none_is_asked_for() {
    let site = Site::scripted(&script(&json!([{ "text": "T" }])));
    assert_eq!(requests(&site.prompt("hello")), ["turn"]);
}

#[test]
fn the_small_model_writes_titles() {
    let site = Site::scripted(&script(&json!([{ "text": "not this one" }])))
        .setting("title", true.into())
        .setting("small_model", json!("other/s"))
        .setting(
            "provider/other",
            json!({ "wire": "scripted", "options": { "script": script(&json!([{ "text": "Small" }])) },
                "models": { "s": {} } }),
        );
    let events = site.prompt("hello").ok().events();
    let titled = events.iter().find(|event| event["type"] == "session.titled").unwrap();
    assert_eq!(titled["data"]["title"], "Small");
    site.run(&["verify", "last"]).ok();
}

#[test]
fn a_session_is_summed_up_after_its_first_turn() {
    let about = json!({ "match": { "purpose": "session_summary" },
        "parts": [{ "text": "A stranger\nwas greeted." }] });
    let replies = json!({ "replies": [about, says("Hello."), says("Again.")] });
    let site = Site::scripted(&replies).setting("summary", true.into());
    let ran = site.prompt("hello");
    assert_eq!(requests(&ran), ["turn", "session_summary"]);
    assert_eq!(
        only(&ran.events(), "session.summarised")["data"]["summary"],
        "A stranger was greeted."
    );
    assert_eq!(end(&ran.events())["text"], "Hello.");
    let listed = site.run(&["sessions", "list", "--format", "json"]).ok().events();
    assert_eq!(listed[0]["summary"], "A stranger was greeted.");
    let shown = site.run(&["sessions", "show", "last"]).ok().stdout;
    assert!(shown.contains("A stranger was greeted."), "{shown}");
    let list = site.run(&["sessions", "list"]).ok().stdout;
    assert!(list.contains("A stranger was greeted."), "{list}");
    let ran = site.run(&["run", "--session", "last", "--format", "json", "and again"]);
    assert_eq!(requests(&ran), ["turn"]);
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}
