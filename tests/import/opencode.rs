//! A session of OpenCode, from its export or its storage, imported and continued.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use common::foreign::{anthropic, assert_taken_over, events, import, outline};
use common::{Site, all, only};
use serde_json::{Value, json};

const BEGAN: u64 = 1_772_359_200_000;

fn user(id: &str, second: u64, parts: Value) -> Value {
    json!({ "info": { "id": id, "sessionID": "ses_1", "role": "user",
        "time": { "created": BEGAN + second * 1000 } }, "parts": parts })
}

fn assistant(id: &str, second: u64, parts: Value) -> Value {
    json!({ "info": { "id": id, "sessionID": "ses_1", "role": "assistant", "providerID": "anthropic",
        "modelID": "claude-sonnet-4-5", "mode": "build", "cost": 0.25,
        "tokens": { "input": 3, "output": 4, "reasoning": 1, "cache": { "read": 5, "write": 6 } },
        "time": { "created": BEGAN + second * 1000 } }, "parts": parts })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn tool(id: &str, name: &str, state: Value) -> Value {
    json!({ "type": "tool", "callID": id, "tool": name, "state": state })
}

fn session(directory: &str) -> Value {
    let done = json!({ "status": "completed", "input": { "filePath": "a" }, "output": "blue",
        "title": "a", "metadata": {}, "time": { "start": 1, "end": 2 } });
    let failed = json!({ "status": "error", "input": {}, "error": "no such file", "time": {} });
    let running =
        json!({ "status": "running", "input": { "command": "make" }, "time": { "start": 1 } });
    let signed = json!({ "type": "reasoning", "text": "Hm.",
        "metadata": { "anthropic": { "signature": "c2ln" } } });
    let finish = json!({ "type": "step-finish", "cost": 0.5,
        "tokens": { "input": 1, "output": 2, "reasoning": 0, "cache": { "read": 0, "write": 0 } } });
    let start = json!({ "type": "step-start" });
    json!({
        "info": { "id": "ses_1", "title": "Colours", "directory": directory, "version": "1.0.150",
            "projectID": "p1", "time": { "created": BEGAN, "updated": BEGAN } },
        "messages": [
            user("msg_1", 0, json!([
                text("What colour is it?"),
                { "type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,aGk=" },
                { "type": "file", "mime": "text/plain", "filename": "a", "url": "file:///a" },
            ])),
            assistant("msg_2", 1, json!([
                start, signed, tool("t1", "read", done), tool("t2", "batch", failed), finish,
                start, text("It is blue."), finish,
            ])),
            user("msg_3", 9, json!([text("Build it.")])),
            assistant("msg_4", 10, json!([start, tool("t3", "bash", running)])),
        ],
    })
}

#[test]
fn an_export_is_told_as_if_it_had_run_here() {
    let site = Site::bare();
    // laid out over several lines, as editors do
    let text = serde_json::to_string_pretty(&session("/nowhere/at/all")).unwrap();
    site.file("theirs.json", format!("Exporting session: ses_1\n{text}\n"));
    let (session, said) = import(&site, "theirs.json");
    assert!(!said.contains("left out"), "{said}");
    assert_taken_over(&site, &session, "OpenCode");
    let events = events(&site, &session);
    assert_eq!(only(&events, "session.titled")["data"]["title"], "Colours");
    let prompts = all(&events, "turn.prompted");
    assert_eq!(prompts[0]["at"], "2026-03-01T10:00:00.000Z");
    assert_eq!(prompts[0]["data"]["parts"][1]["mime"], "image/png");
    let replied = all(&events, "model.finished");
    assert_eq!(replied.len(), 3);
    assert_eq!(
        (&replied[0]["data"]["cost"], &replied[2]["data"]["cost"]),
        (&json!(0.5), &json!(0.25))
    );
    let finished = all(&events, "tool.finished");
    assert_eq!(
        (&finished[0]["data"]["output"], &finished[0]["data"]["title"]),
        (&json!("blue"), &json!("a"))
    );
    assert_eq!(finished[1]["data"]["is_error"], true);
    // a tool of that name works differently here, so it gets another name
    assert_eq!(all(&events, "tool.resolved")[1]["data"]["name"], "their_batch");
    assert_eq!(only(&events, "tool.lost")["data"]["call"], "t3");
    assert_eq!(only(&events, "turn.ended")["data"]["text"], "It is blue.");
}

#[test]
fn storage_is_read_from_the_file_of_the_session() {
    let (server, site) = anthropic(&["Built."]);
    let whole = session(&site.project().display().to_string());
    let storage = |path: &str, value: &Value| {
        let path = site.path("user/storage").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, value.to_string()).unwrap();
    };
    storage("session/p1/ses_1.json", &whole["info"]);
    for message in whole["messages"].as_array().unwrap() {
        let id = message["info"]["id"].as_str().unwrap();
        storage(&format!("message/ses_1/{id}.json"), &message["info"]);
        for (at, part) in message["parts"].as_array().unwrap().iter().enumerate() {
            storage(&format!("part/{id}/prt_{at:03}.json"), part);
        }
    }
    let broken = site.path("user/storage/part/msg_1/prt_999.json");
    std::fs::write(&broken, "{").unwrap();
    let file = site.path("user/storage/session/p1/ses_1.json").display().to_string();
    let (session, said) = import(&site, &file);
    assert!(said.contains(&format!("{}: EOF", broken.display())), "{said}");
    assert_taken_over(&site, &session, "OpenCode");
    site.run(&["run", "--session", &session, "Is it built?"]).ok();
    let told = outline(&server.requests()[0].body);
    let expected = [
        "u: What colour is it?", "u: image", "a: <Hm. \"c2ln\">", "a: read{\"filePath\":\"a\"}",
        "a: their_batch{}", "u: = blue", "u: = no such file", "a: It is blue.", "u: Build it.",
        "a: bash{\"command\":\"make\"}",
    ];
    assert_eq!(&told[..10], expected);
    assert_eq!(told.last().map(String::as_str), Some("u: Is it built?"));
}

#[test]
fn summaries_and_errors_are_what_they_were() {
    let site = Site::bare();
    let mut summary = assistant("msg_4", 3, json!([text("Blue it is.")]));
    summary["info"]["summary"] = true.into();
    let mut failed = assistant("msg_6", 5, json!([]));
    failed["info"]["error"] = json!({ "name": "APIError", "data": { "message": "overloaded" } });
    let mut aborted = assistant("msg_8", 7, json!([text("I be")]));
    aborted["info"]["error"] = json!({ "name": "MessageAbortedError", "data": {} });
    let mut whole = session("/nowhere");
    whole["messages"] = json!([
        user("msg_1", 0, json!([text("Colour?")])),
        assistant("msg_2", 1, json!([text("Blue.")])),
        user("msg_3", 2, json!([{ "type": "compaction", "auto": true }])),
        summary,
        user("msg_5", 4, json!([text("Sure?")])),
        failed,
        user("msg_7", 6, json!([text("Well?")])),
        aborted,
    ]);
    site.file("theirs.json", whole.to_string());
    let (session, _) = import(&site, "theirs.json");
    assert_taken_over(&site, &session, "OpenCode");
    let events = events(&site, &session);
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "Blue it is.");
    let ends = all(&events, "turn.ended");
    assert!(ends[2]["data"]["error"].as_str().unwrap().contains("overloaded"), "{ends:?}");
}

#[test]
fn a_session_whose_messages_are_elsewhere_is_refused() {
    let site = Site::bare();
    site.file("session/p1/ses_1.json", session("/nowhere")["info"].to_string());
    let ran = site.run(&["import", "session/p1/ses_1.json"]).with(2);
    assert!(ran.stderr.contains("opencode export ses_1 > FILE"), "{}", ran.stderr);
    site.file("cut.json", "{ \"info\": { \"id\": \"ses_1\" }, \"messages\": [ {");
    let ran = site.run(&["import", "--from", "opencode", "cut.json"]).with(2);
    assert!(ran.stderr.contains("EOF while parsing"), "{}", ran.stderr);
    assert!(site.sessions().is_empty());
}
