//! Permission questions, and the effects of their answers.

use std::io::{PipeWriter, Write};
use std::process::Stdio;

use common::{Live, Site, all, end, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A run in which the model reads a secret file twice.
fn start(mode: &[&str]) -> (Site, Live, PipeWriter) {
    let read = json!({ "name": "read", "input": { "filePath": ".env" } });
    let reply = json!({ "parts": [{ "call": read }] });
    let site = Site::scripted(&script(json!([reply, reply, says("So be it.")])));
    site.file(".env", "PASSWORD=very-secret\n");
    let mut command = site.command(&[&["run", "--format", "json", "go"], mode].concat());
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    (site, Live::start(command), writer)
}

/// The events of a run whose questions get these lines as answers.
fn answered(answers: &[&str], code: i32) -> Vec<Value> {
    let (site, mut live, mut terminal) = start(&["--permission-mode", "ask"]);
    for answer in answers {
        let asked = live.until("permission.asked");
        assert_eq!(asked["data"]["permission"], "read");
        assert!(asked["until"].is_string());
        writeln!(terminal, "{answer}").unwrap();
    }
    let events = live.wait().with(code).events();
    assert_eq!(all(&events, "permission.asked").len(), answers.len());
    site.assert_sound();
    events
}

#[test]
fn once_is_for_one_call() {
    let events = answered(&["once", "o"], 0);
    let finished = all(&events, "tool.finished");
    assert_eq!(finished.len(), 2);
    assert!(finished.iter().all(|event| event.to_string().contains("very-secret")));
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn always_is_for_the_rest_of_the_session() {
    let events = answered(&["always"], 0);
    assert_eq!(all(&events, "tool.finished").len(), 2);
    assert_eq!(only(&events, "permission.answered")["data"]["reply"], "always");
}

#[test]
fn no_ends_the_turn_as_blocked() {
    let events = answered(&["n"], 3);
    assert_eq!(end(&events)["reason"], "blocked");
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 1);
    assert!(all(&events, "tool.started").is_empty());
}

#[test]
fn no_with_a_reason_is_told_to_the_model_and_the_turn_goes_on() {
    let events = answered(&["use the example instead", "o"], 0);
    let answer = &all(&events, "permission.answered")[0]["data"];
    assert_eq!(
        (&answer["reply"], &answer["feedback"]),
        (&json!("reject"), &json!("use the example instead"))
    );
    assert_eq!(all(&events, "tool.finished").len(), 1);
    assert_eq!(end(&events)["text"], "So be it.");
}

#[test]
fn an_interrupt_ends_a_question() {
    let (site, mut live, terminal) = start(&["--permission-mode", "ask"]);
    live.until("permission.asked");
    live.signal(Signal::INT);
    let events = live.wait().with(130).events();
    assert_eq!(end(&events)["reason"], "aborted");
    assert!(all(&events, "tool.started").is_empty());
    site.assert_sound();
    drop(terminal);
}

/// A run that is killed at its question, and then resumed.
fn resumed(mode: &[&str], answer: &str) -> Vec<Value> {
    let (site, mut live, _terminal) = start(&["--permission-mode", "ask"]);
    live.until("permission.asked");
    live.signal(Signal::KILL);
    live.wait();
    let mut command = site.command(&[&["resume", "--format", "json", "last"], mode].concat());
    let (reader, mut terminal) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    let live = Live::start(command);
    write!(terminal, "{answer}").unwrap();
    drop(terminal);
    let events = live.wait().with(0).events();
    site.assert_sound();
    events
}

#[test]
fn a_question_outlives_a_crash_and_is_answered_after_it() {
    let events = resumed(&["--permission-mode", "ask"], "once\nonce\n");
    assert_eq!(all(&events, "tool.finished").len(), 2);
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn a_question_that_nobody_is_asked_after_a_crash_is_denied_at_once() {
    let events = resumed(&[], "");
    assert_eq!(end(&events)["text"], "So be it.");
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 2);
}

#[test]
fn a_question_after_a_crash_may_be_answered_beforehand() {
    let events = resumed(&["--yes"], "");
    assert_eq!(all(&events, "tool.finished").len(), 2);
}
