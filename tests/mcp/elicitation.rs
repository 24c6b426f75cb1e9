//! Elicitations: servers ask people in the middle of a call, and get the answer.

use std::io::{PipeWriter, Write};
use std::process::Stdio;

use common::{Editor, Live, Site, all, call, end, mcp, only, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const SERVER: &str = "elicitation::the_server_answers";

#[test]
fn the_server_answers() {
    mcp::serve_if_asked();
    let site = site(&json!({}));
    let listed = site.run(&["mcp", "--format", "json"]).ok();
    assert!(listed.stdout.contains("connected"), "{}", listed.stdout);
}

/// A site whose model makes one call, in which the server asks `ask`. All other permissions are
/// granted.
fn site(ask: &Value) -> Site {
    let replies = json!([call("m_ask", ask), says("So be it.")]);
    let site = Site::scripted(&script(replies));
    let site = site.setting("/permission", json!({ "m_*": "allow" }));
    site.setting("/mcp", json!({ "m": mcp::local(SERVER, "") }))
}

/// A form of two fields, the second optional.
fn form() -> Value {
    json!({ "ask": {
        "message": "Which seat?",
        "requestedSchema": { "type": "object", "required": ["row"], "properties": {
            "row": { "type": "integer", "minimum": 1, "maximum": 9 },
            "side": { "type": "string", "enum": ["l", "r"], "enumNames": ["Left", "Right"] },
        } },
    } })
}

fn start(site: &Site, mode: &[&str]) -> (Live, PipeWriter) {
    let mut command = site.command(&[&["run", "--format", "json", "go"], mode].concat());
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    (Live::start(command), writer)
}

/// The server's view of the answer, from the call's result.
fn answer_received(events: &[Value]) -> Value {
    let finished = only(events, "tool.finished");
    serde_json::from_str(finished["data"]["output"].as_str().unwrap()).unwrap()
}

fn answered(ask: &Value, answers: &[&str]) -> Vec<Value> {
    let site = site(ask);
    let (mut live, mut terminal) = start(&site, &["--permission-mode", "ask"]);
    for answer in answers {
        let asked = live.until("permission.asked");
        assert_eq!(asked["data"]["permission"], "question");
        writeln!(terminal, "{answer}").unwrap();
    }
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "So be it.");
    site.assert_sound();
    common::rerun_all(&site);
    events
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let events = answered(&form(), &["ten", "3", "2"]);
    let asked = all(&events, "permission.asked");
    let texts: Vec<&Value> = asked.iter().map(|event| &event["data"]["patterns"]).collect();
    assert_eq!(texts[0], &json!(["Which seat?\nrow"]));
    assert_eq!(texts[1][1], "a whole number from 1 up to 9 is expected");
    assert_eq!(texts[2], &json!(["Which seat?\nside"]));
    let content = json!({ "row": 3, "side": "r" });
    assert_eq!(answer_received(&events), json!({ "action": "accept", "content": content }));
    let replied = &only(&events, "tool.elicitation_answered")["data"];
    assert_eq!((&replied["consent"], &replied["content"]), (&json!("accepted"), &content));
}

#[test]
fn an_empty_line_declines_and_the_call_goes_on() {
    let events = answered(&form(), &[""]);
    assert_eq!(answer_received(&events)["action"], "decline");
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn an_address_is_shown_whole_and_never_opened() {
    let url = "https://pay.example/checkout?id=7";
    let ask = json!({ "ask": {
        "mode": "url", "message": "Pay first.", "url": url, "elicitationId": "e1",
    } });
    let events = answered(&ask, &["1"]);
    let asked = only(&events, "permission.asked");
    assert!(asked["data"]["patterns"][0].as_str().unwrap().ends_with(url));
    assert_eq!(answer_received(&events)["action"], "accept");
}

#[test]
fn where_nobody_is_asked_it_is_declined_at_once() {
    for mode in [&["--permission-mode", "deny"][..], &["--yes"], &[]] {
        let site = site(&form());
        let events = site.run(&[&["run", "--format", "json", "go"], mode].concat()).ok().events();
        assert_eq!(answer_received(&events)["action"], "decline", "{mode:?}");
        assert!(all(&events, "permission.asked").is_empty());
    }
}

#[test]
fn a_question_that_its_server_does_not_wait_for_goes_with_the_call() {
    let mut ask = form();
    ask["alone"] = true.into();
    let site = site(&ask);
    let (live, _terminal) = start(&site, &["--permission-mode", "ask"]);
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "So be it.");
    site.assert_sound();
}

#[test]
fn a_node_that_is_killed_meanwhile_leaves_a_call_that_is_lost() {
    let site = site(&form());
    let (mut live, _terminal) = start(&site, &["--permission-mode", "ask"]);
    let asked = live.until("permission.asked");
    let (node, session) = (live.id(), asked["session"].as_str().unwrap().to_owned());
    live.signal(Signal::KILL);
    drop(live);
    wait_until("the node is gone", || !std::path::Path::new(&format!("/proc/{node}")).exists());
    let events = site.run(&["resume", &session, "--format", "json"]).ok().events();
    only(&events, "tool.lost");
    assert_eq!(end(&events)["text"], "So be it.");
    site.assert_sound();
    wait_until("the server is gone", || mcp::servers_of(node).is_empty());
}

#[test]
fn an_editor_gets_each_field_as_a_form() {
    let site = site(&form());
    let mut editor = Editor::raw(&site, &[]);
    let able = json!({ "elicitation": { "form": {} } });
    let initialized = json!({ "protocolVersion": 1, "clientCapabilities": able });
    let initialized = editor.ask("initialize", initialized);
    editor.result(initialized);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    for (field, answer) in [
        ("Which seat?\nrow", json!({ "words": "4" })),
        ("Which seat?\nside", json!({ "answer": "Left" })),
    ] {
        let asked = editor.until(|message| message["method"] == "elicitation/create");
        assert_eq!(asked["params"]["message"], format!("[m] {field}"));
        editor.reply(&asked, json!({ "action": "accept", "content": answer }));
    }
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let events = site.run(&["export", &session]).ok().events();
    assert_eq!(
        answer_received(&events),
        json!({ "action": "accept", "content": { "row": 4, "side": "l" } })
    );
    editor.leave();
}

#[test]
fn a_form_left_empty_gives_its_server_no_value_that_nobody_said() {
    let site = site(&form());
    let mut editor = Editor::raw(&site, &[]);
    let able = json!({ "elicitation": { "form": {} } });
    let initialized = json!({ "protocolVersion": 1, "clientCapabilities": able });
    let initialized = editor.ask("initialize", initialized);
    editor.result(initialized);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let asked = editor.until(|message| message["method"] == "elicitation/create");
    editor.reply(&asked, json!({ "action": "accept", "content": {} }));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let events = site.run(&["export", &session]).ok().events();
    assert_eq!(answer_received(&events)["action"], "decline");
    editor.leave();
}
