//! `question`: the model asks, a person answers, from wherever they are.

use std::io::Write;
use std::process::Stdio;

use common::{ASK, Editor, Live, Site, all, call, end, only, says, script};
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

/// A run with these lines as standard input, one for each question: the model's view, and the text
/// for people.
fn typed(lines: &[&str], code: i32) -> (String, String) {
    let site = site();
    let mut command = site.command(&ASK);
    let (reader, mut terminal) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    let mut live = Live::start(command);
    for line in lines {
        live.until("permission.asked");
        writeln!(terminal, "{line}").unwrap();
    }
    let ran = live.wait().with(code);
    let events = ran.events();
    let finished =
        all(&events, "tool.finished").first().map(|event| event["data"]["output"].clone());
    (finished.unwrap_or_default().as_str().unwrap_or_default().to_owned(), ran.stderr)
}

#[test]
fn a_line_answers_by_number_or_in_words() {
    let (told, said) = typed(&["2", "2"], 0);
    assert_eq!(told, "Question: Which colour?\nAnswer: blue\n\nQuestion: Are you sure?\nAnswer: 2");
    assert!(said.contains("  Which colour?\n    1. red\n    2. blue\n  a number, or"), "{said}");
    assert!(said.contains("once --feedback ANSWER"), "{said}");
    assert!(!said.contains("[o]nce"), "{said}");
}

#[test]
fn an_empty_line_dismisses() {
    let (told, said) = typed(&[""], 3);
    assert_eq!(told, "");
    assert!(said.contains("an empty line dismisses"), "{said}");
}

#[test]
fn an_editor_chooses_a_label() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    let names = |question: &serde_json::Value| -> Vec<String> {
        let options = question["params"]["options"].as_array().unwrap();
        options.iter().map(|option| option["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&question), ["red", "blue", "Dismiss"]);
    editor.choose(&question, "allow_once");
    let question = editor.question(&session);
    assert_eq!(names(&question), ["Go on as you think best", "Dismiss"]);
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = site.exported();
    assert_eq!(
        only(&events, "tool.finished")["data"]["output"],
        "Question: Which colour?\nAnswer: red\n\nQuestion: Are you sure?\nAnswer: Go on as you think \
         best"
    );
    let replay = site.run(&["replay", "last"]).ok().stdout;
    assert!(replay.contains("\"Which colour?\" red | blue"), "{replay}");
    assert!(replay.contains("\"Which colour?\" → \"red\" by acp"), "{replay}");
    site.assert_sound();
}

#[test]
fn a_session_that_is_held_is_attached_to_and_not_resumed() {
    let site = site();
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    let pid = format!("(pid {})", live.id());
    site.run(&["resume", "last"]).with(1).saying(&[&pid, "run --session", "observe"]);
    let options = ["run", "--session", "last", "--yes", "--max-steps", "3", "me too"];
    site.run(&options).with(2).saying(&[&pid, "cannot apply --max-steps, --yes:"]);
    let mut second = site.start(&["run", "--session", "last", "--format", "json", "me too"]);
    second.until("turn.prompted");
    site.run(&["permission", "answer", "last", &asked["seq"].to_string(), "reject"]).ok();
    second.wait().with(3);
    live.wait().with(3);
}
