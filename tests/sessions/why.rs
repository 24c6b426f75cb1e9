//! `leftfold why`: says why a session is waiting, while it runs, after its node is gone, and at
//! rest.

use common::{ASK, asking, end};
use leftfold_events::Time;
use rustix::process::Signal;
use serde_json::Value;

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
