//! The node as an editor drives it: prompts, questions and cancels over standard input and output.

use common::{Editor, Site, all, bash, exists, marked, only, says, script, wait_until};
use serde_json::{Value, json};

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

#[test]
fn a_turn_is_told_as_it_goes() {
    let todo = json!({ "content": "do it", "status": "pending", "priority": "high" });
    let parts = json!([
        { "reasoning": "Hm.", "signature": "s" },
        { "text": "Let me see." },
        { "call": { "name": "edit", "input": { "filePath": "a", "oldString": "b", "newString": "B" } } },
        { "call": { "name": "todowrite", "input": { "todos": [todo] } } },
    ]);
    let site = Site::scripted(&script(json!([{ "parts": parts }, says("Done.")])));
    let file = site.file("a", "a\nb\nc\n");
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.text(&session, "agent_thought_chunk"), "Hm.");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Let me see.Done.");
    let updates = editor.updates(&session);
    let of = |kind: &str| -> Vec<&Value> {
        updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    };
    let calls = of("tool_call");
    assert_eq!((&calls[0]["title"], &calls[0]["kind"]), (&json!("edit"), &json!("edit")));
    let edit = &calls[0]["toolCallId"];
    let mut about = of("tool_call_update");
    about.retain(|update| &update["toolCallId"] == edit);
    assert_eq!(about[0]["locations"], json!([{ "path": file }]));
    assert_eq!(about[1]["status"], "in_progress");
    assert_eq!(about[2]["status"], "completed");
    let diff =
        json!({ "type": "diff", "path": file, "oldText": "a\nb\nc\n", "newText": "a\nB\nc\n" });
    assert_eq!(about[2]["content"], json!([diff]));
    let entry = json!({ "content": "do it", "status": "pending", "priority": "high" });
    assert_eq!(of("plan")[0]["entries"], json!([entry]));
    assert_eq!(of("usage_update").len(), 2);
    assert_eq!(of("usage_update")[0]["size"], 100_000);
    editor.leave();
    assert_eq!(site.text("a"), "a\nB\nc\n");
    site.assert_sound();
}

#[test]
fn the_client_answers_what_is_asked() {
    let site = Site::scripted(&script(json!([
        bash("echo 1 >> log"),
        says("One."),
        bash("echo 2 >> log"),
        says("Two.")
    ])))
    .setting("permission/bash", json!({ "*": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    assert!(question["params"]["toolCall"]["title"].as_str().unwrap().contains("echo 1 >> log"));
    assert!(!exists(&site.project().join("log")));
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(site.text("log"), "1\n");

    let prompt = editor.prompt(&session, "again");
    let question = editor.question(&session);
    editor.choose(&question, "reject_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(site.text("log"), "1\n");
    let told = editor.received(&session, &["tool_call_update"]);
    assert_eq!(told.last().unwrap(), "tool_call_update failed");
    editor.leave();
    let events = events(&site, &session);
    let answers: Vec<&Value> = all(&events, "permission.answered");
    assert_eq!(
        (&answers[0]["data"]["reply"], &answers[1]["data"]["reply"]),
        (&json!("once"), &json!("reject"))
    );
    assert_eq!(events.last().unwrap()["data"]["reason"], "blocked");
    site.assert_sound();
}

#[test]
fn always_is_asked_once() {
    let site = Site::scripted(&script(json!([
        bash("echo 1 >> log"),
        bash("echo 1 >> log"),
        says("Done.")
    ])))
    .setting("permission/bash", json!({ "*": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    editor.choose(&question, "allow_always");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(site.text("log"), "1\n1\n");
    editor.leave();
}

#[test]
fn a_cancel_ends_the_turn_and_what_it_runs() {
    let site = Site::scripted(&script(json!([
        bash("touch ready; sleep 1000"),
        says("Never."),
        says("Here.")
    ])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    // nothing runs yet, so nothing happens
    editor.notify("session/cancel", json!({ "sessionId": session }));
    editor.notify("session/cancel", json!({ "sessionId": "nobody" }));
    let prompt = editor.prompt(&session, "go");
    wait_until("it runs", || exists(&site.project().join("ready")));
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    let told = editor.received(&session, &["tool_call_update"]);
    assert_eq!(told.last().unwrap(), "tool_call_update failed");
    wait_until("its processes are gone", || marked(&session).is_empty());
    let prompt = editor.prompt(&session, "and now?");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_cancel_while_it_asks() {
    let site = Site::scripted(&script(json!([bash("touch ran"), says("Never.")])))
        .setting("permission/bash", json!({ "*": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    editor.write(format!("{answer}\n").as_bytes());
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    editor.leave();
    assert!(!exists(&site.project().join("ran")));
    site.assert_sound();
}

/// Two sessions that both wait for an answer.
fn two_sessions(site: &Site, args: &[&str]) -> [String; 2] {
    let mut editor = Editor::start(site, args);
    let sessions = [(); 2].map(|()| editor.session(site));
    let prompts = [0, 1].map(|n| editor.prompt(&sessions[n], "go"));
    let is_question = |message: &Value| message["method"] == "session/request_permission";
    let questions = [(); 2].map(|()| editor.until(is_question));
    // answered in reverse order
    for question in questions.iter().rev() {
        editor.choose(question, "allow_once");
    }
    for prompt in prompts {
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    for session in &sessions {
        assert_eq!(editor.text(session, "agent_message_chunk"), "Done.");
    }
    editor.leave();
    sessions
}

fn asking() -> Site {
    Site::scripted(&script(json!([bash("echo x >> log"), says("Done.")])))
        .setting("permission/bash", json!({ "*": "ask" }))
}

#[test]
fn sessions_do_not_wait_for_each_other() {
    let site = asking();
    let sessions = two_sessions(&site, &[]);
    let listed = site.run(&["sessions", "--format", "json"]).ok().events();
    assert_eq!((site.text("log").as_str(), listed.len()), ("x\nx\n", 2));
    for session in sessions {
        site.run(&["check", &session]).ok();
        site.run(&["verify", &session]).ok();
    }
}

#[test]
fn one_store_can_hold_all_sessions() {
    let site = asking();
    let store = site.path("store");
    two_sessions(&site, &["--store", store.to_str().unwrap()]);
    assert_eq!(site.sessions().len(), 0);
    assert_eq!(std::fs::read_dir(store.join("heads")).unwrap().count(), 2);
    site.run(&["check", store.to_str().unwrap()]).ok();
}

#[test]
fn a_loaded_session_is_told_from_its_beginning() {
    let site = Site::scripted(&script(json!([bash("echo hi"), says("One."), says("Two.")])));
    site.run(&["run", "first"]).ok();
    let session = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let mut editor = Editor::start(&site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    for times in 1..=2 {
        let loaded = editor.ask("session/load", load.clone());
        editor.result(loaded);
        assert_eq!(editor.text(&session, "user_message_chunk"), "first".repeat(times));
        assert_eq!(editor.text(&session, "agent_message_chunk"), "One.".repeat(times));
    }
    let prompt = editor.prompt(&session, "second");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // shown once, by the one observer that is left
    assert_eq!(editor.text(&session, "agent_message_chunk"), "One.One.Two.");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_reply_that_was_cut_at_its_length_says_so() {
    let reply = json!({ "parts": [{ "text": "And then" }], "finish": "length" });
    let site = Site::scripted(&script(json!([reply, reply])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "max_tokens");
    editor.leave();
}

#[test]
fn files_and_pictures_come_with_the_prompt() {
    let site = Site::scripted(&script(json!([says("Seen.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = json!([
        { "type": "text", "text": "Look:" },
        { "type": "resource", "resource": { "uri": "file:///p/a.rs", "text": "fn a() {}" } },
        { "type": "resource_link", "uri": "file:///p/b.rs", "name": "b.rs" },
        { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" },
    ]);
    let prompt = editor.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = events(&site, &session);
    let parts = &only(&events, "turn.prompted")["data"]["parts"];
    assert!(parts[1]["text"].as_str().unwrap().contains("fn a() {}"));
    assert_eq!(parts[2]["text"], "[b.rs](/p/b.rs)");
    assert_eq!((&parts[3]["type"], &parts[3]["mime"]), (&json!("media"), &json!("image/png")));
}

#[test]
fn servers_of_every_kind_are_taken() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    let mut editor = Editor::start(&site, &[]);
    let server =
        json!({ "type": "sse", "name": "files", "url": "http://127.0.0.1:1/sse", "headers": [] });
    let id = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [server] }));
    let result = editor.result(id);
    assert!(result["sessionId"].is_string() && result["_meta"].is_null(), "{result}");
    let prompt = editor.prompt(result["sessionId"].as_str().unwrap(), "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.hang_up();
    editor.live.wait().ok().saying(&["MCP server `files`: no connection"]);
}
