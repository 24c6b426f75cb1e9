//! `leftfold why`: says why a session is waiting, while it runs, after its node is gone, and at
//! rest.

use std::collections::BTreeMap;

use common::plugin::{self, double};
use common::{ASK, Site, asking, bash, call, end, filled, says, script};
use leftfold_events::{Envelope, State, Time};
use leftfold_store::{Reader, Store};
use rustix::process::Signal;
use serde_json::{Value, json};

fn why(site: &common::Site) -> Value {
    serde_json::from_str(&site.run(&["why", "last", "--format", "json"]).ok().stdout).unwrap()
}

#[test]
fn a_question_is_named_with_who_has_to_answer_it_and_until_when() {
    let site = asking();
    let mut live = site.start(&[&ASK[..5], &["--timeout", "3600", "go"]].concat());
    let prompted = live.until("turn.prompted");
    let asked = live.until("permission.asked");
    let report = why(&site);
    // the turn has a time limit of its own too
    let turn = &report["waits"].as_array().unwrap()[1];
    assert_eq!((&turn["kind"], &turn["seq"]), (&"turn".into(), &prompted["seq"]), "{report}");
    let time = |value: &Value| serde_json::from_value::<Time>(value.clone()).unwrap();
    assert_eq!(time(&turn["until"]).since(time(&prompted["at"])), 3_600_000);
    assert_eq!(report["state"], "running");
    assert_eq!(report["node"], live.id());
    let wait = &report["waits"][0];
    assert_eq!(wait["kind"], "question", "{report}");
    assert_eq!((&wait["seq"], &wait["owner"]), (&asked["seq"], &"a person".into()));
    assert_eq!((&wait["since"], &wait["until"]), (&asked["at"], &asked["until"]));
    let text = site.run(&["why"]).ok();
    let seq = asked["seq"].to_string();
    let answer = format!("{} {seq} once|always|reject", asked["session"].as_str().unwrap());
    assert!(text.stdout.contains(&format!("leftfold permission answer {answer}")), "{text:?}");

    live.signal(Signal::KILL);
    live.wait();
    assert_eq!(why(&site)["state"], "interrupted");
    let text = site.run(&["why"]).ok().stdout;
    assert!(text.contains("leftfold resume"), "{text}");

    site.run(&["run", "--continue", "--permission-mode", "deny", "never mind"]).ok();
    let report = why(&site);
    assert_eq!((&report["state"], &report["ended"]), (&"idle".into(), &"completed".into()));
    assert_eq!(report["waits"], serde_json::json!([]));
    assert_eq!(end(&site.exported())["reason"], "completed");
}

#[test]
fn the_plugin_answers() {
    plugin::serve_if_asked();
}

/// The sessions that have every kind of wait somewhere: an answered question; a subagent, a command
/// with a plugin and a title; a retried summary; a reverted change.
fn sessions() -> [Site; 4] {
    let question = asking();
    let mut live = question.start(&ASK);
    live.until("permission.asked");
    question.run(&["permission", "answer", "last", "call_1_1", "once"]).ok();
    live.wait().ok();
    let task = call(
        "task",
        json!({ "description": "look", "prompt": "look", "subagent_type": "general" }),
    );
    let mut look = says("Seen.");
    look["match"] = json!({ "prompt": "look" });
    let mut title = says("A title");
    title["match"] = json!({ "purpose": "title" });
    let hooks = json!({ "name": "d", "hooks": ["shell.env"] });
    let plugin = double("why::the_plugin_answers", hooks, json!({ "shell.env": { "env": {} } }));
    let several = Site::scripted(&script(json!([title, look, task, bash("true"), says("Done.")])))
        .setting("title", json!(true))
        .setting("plugin", json!([plugin]));
    several.run(&["run", "--timeout", "3600", "go"]).ok();
    let summary = filled();
    summary.run(&["run", "go"]).ok();
    let write = call("write", json!({ "filePath": "a", "content": "new\n" }));
    let reverted =
        Site::scripted(&script(json!([write, says("Done.")]))).setting("snapshot", json!(true));
    reverted.run(&["run", "go"]).ok();
    reverted.run(&["revert", "last", "--to", "3"]).ok();
    [question, several, summary, reverted]
}

/// The log as it was when its node ended after the first `count` events, in a store of its own.
fn cut(site: &Site, events: &[Envelope], count: usize) -> String {
    let session = events[0].session;
    let dir = site.path(&format!("cut-{count}")).join(session.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    Store::open(&dir).unwrap().import(session, &events[..count]).unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn every_kind_of_wait_names_the_party_that_ends_it() {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for site in sessions() {
        let store = site.session();
        let session = store.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let events = Reader::open(&store).unwrap().read(session, 1).unwrap();
        let mut state = State::default();
        for (at, event) in events.iter().enumerate() {
            state.apply(event);
            let kinds = state.waits().into_iter().map(|wait| match wait.kind {
                Some(kind) => json!(kind).as_str().unwrap().to_owned(),
                None => "turn".to_owned(),
            });
            let new: Vec<String> = kinds.filter(|kind| !owners.contains_key(kind)).collect();
            if new.is_empty() {
                continue;
            }
            let ran = site.run(&["why", &cut(&site, &events, at + 1), "--format", "json"]).ok();
            let report: Value = serde_json::from_str(&ran.stdout).unwrap();
            for wait in report["waits"].as_array().unwrap() {
                let time = |name: &str| serde_json::from_value::<Time>(wait[name].clone()).unwrap();
                assert!(time("until") >= time("since"), "{wait}");
                let text = |name: &str| wait[name].as_str().unwrap().to_owned();
                owners.entry(text("kind")).or_insert(text("owner"));
            }
            assert!(new.iter().all(|kind| owners.contains_key(kind)), "{new:?}: {report}");
        }
    }
    let subagent = owners.insert("child".to_owned(), "session".to_owned()).unwrap();
    assert!(subagent.starts_with("session 01"), "{subagent}");
    let expected = [
        ("check", "the tool"),
        ("child", "session"),
        ("compaction", "the summary"),
        ("hook", "the plugin d"),
        ("question", "a person"),
        ("request", "model double/m"),
        ("restore", "the snapshots of the project's files"),
        ("retry", "the clock"),
        ("snapshot", "the snapshots of the project's files"),
        ("title", "model double/m"),
        ("tool", "the tool"),
        ("turn", "the clock"),
    ];
    let expected = expected.map(|(kind, owner)| (kind.to_owned(), owner.to_owned()));
    assert_eq!(owners, BTreeMap::from(expected));
}
