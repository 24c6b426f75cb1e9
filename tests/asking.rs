//! `question`: the model asks, a person answers, from wherever they are.
#![cfg(test)]

mod common;

use common::{ASK, Site, all, call, end, only, says, script};
use serde_json::json;

fn site() -> Site {
    let questions = json!({ "questions": [
        { "question": "Which colour?", "options": [{ "label": "red" }, { "label": "blue" }] },
        { "question": "Are you sure?" },
    ] });
    Site::scripted(&script(json!([call("question", questions), says("So be it.")])))
}

#[test]
fn answers_reach_the_model() {
    let site = site();
    let mut live = site.start(&ASK);
    for answer in ["blue", "quite sure"] {
        let asked = live.until("permission.asked");
        assert_eq!(asked["data"]["permission"], "question");
        let seq = asked["seq"].to_string();
        site.run(&["permission", "answer", "last", &seq, "once", "--feedback", answer]).ok();
    }
    let events = live.wait().ok().events();
    let output = only(&events, "tool.finished")["data"]["output"].clone();
    assert_eq!(
        output,
        "Question: Which colour?\nAnswer: blue\n\nQuestion: Are you sure?\nAnswer: quite sure"
    );
    site.run(&["verify", "last"]).ok();
}

#[test]
fn a_dismissed_question_ends_the_turn() {
    let site = site();
    let mut live = site.start(&ASK);
    let seq = live.until("permission.asked")["seq"].to_string();
    site.run(&["permission", "answer", "last", &seq, "reject"]).ok();
    assert_eq!(end(&live.wait().with(3).events())["reason"], "blocked");
}

#[test]
fn where_nobody_is_there_the_model_is_told_so_and_goes_on() {
    for args in
        [&["run", "--format", "json", "go"][..], &["run", "--format", "json", "--yes", "go"]]
    {
        let events = site().run(args).ok().events();
        assert_eq!(end(&events)["permission_denials"][0]["permission"], "question");
        assert!(all(&events, "tool.started").is_empty());
    }
}
