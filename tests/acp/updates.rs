//! Updates to an editor other than replies and calls: summaries, changes of several files,
//! commands.

use common::{Editor, Site, call, says, script};
use serde_json::{Value, json};

fn kinds(editor: &Editor, session: &str, wanted: &str) -> Vec<Value> {
    let updates = editor.updates(session);
    updates.into_iter().filter(|update| update["sessionUpdate"] == wanted).collect()
}

/// A session whose one answer is summarised.
fn summed_up(capabilities: &Value) -> (Editor, String) {
    let summary = json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Short." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello.")] }));
    let mut editor = Editor::raw(&site, &[]);
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let initialized = editor.ask("initialize", params);
    editor.result(initialized);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "hi");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let asked = editor.ask("_leftfold/compact", json!({ "session": session }));
    assert_eq!(editor.result(asked), json!({ "accepted": true }));
    editor.until(|message| message.to_string().contains("Short."));
    (editor, session)
}

#[test]
fn a_summary_is_told_by_its_own_name() {
    let (editor, session) = summed_up(&json!({ "session": { "compaction": {} } }));
    let told = kinds(&editor, &session, "compaction_update");
    assert_eq!((told.len(), &told[0]["status"]), (2, &json!("in_progress")));
    assert_eq!(
        (&told[1]["status"], &told[1]["compactionId"]),
        (&json!("completed"), &told[0]["compactionId"])
    );
    assert_eq!(told[1]["summary"], json!([{ "type": "text", "text": "Short." }]));
    assert_eq!(kinds(&editor, &session, "tool_call").len(), 0);
    editor.leave();
}

#[test]
fn a_summary_is_a_call_for_those_who_do_not_know_the_name() {
    let (editor, session) = summed_up(&json!({}));
    let calls = kinds(&editor, &session, "tool_call");
    assert_eq!((calls.len(), &calls[0]["_meta"]["leftfold/compaction"]), (1, &json!(true)));
    let about = kinds(&editor, &session, "tool_call_update");
    assert_eq!(
        (&about[0]["toolCallId"], &about[0]["status"]),
        (&calls[0]["toolCallId"], &json!("completed"))
    );
    assert_eq!(about[0]["content"][0]["content"]["text"], "Short.");
    assert_eq!(kinds(&editor, &session, "compaction_update").len(), 0);
    editor.leave();
}

#[test]
fn a_patch_is_a_change_of_each_of_its_files() {
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** Add File: d/b\n+new\n*** End Patch";
    let site = Site::scripted(&script(json!([
        call("apply_patch", json!({ "patchText": patch })),
        says(".")
    ])))
    .setting("model", json!("double/gpt-5"))
    .setting(
        "provider/double/models/gpt-5",
        json!({ "limit": { "context": 100_000, "output": 8_000 } }),
    );
    let (a, b) = (site.file("a", "one\n"), site.project().join("d/b"));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let about = kinds(&editor, &session, "tool_call_update");
    assert_eq!(about[0]["locations"], json!([{ "path": a }, { "path": b }]));
    let content = about.last().unwrap()["content"].as_array().unwrap();
    let diff = |path: &Value, old: Value, new: &str| {
        let found = content.iter().find(|change| change["path"] == *path).unwrap();
        assert_eq!((&found["oldText"], &found["newText"]), (&old, &json!(new)));
    };
    assert_eq!(content.len(), 2);
    diff(&json!(a), json!("one\n"), "two\n");
    diff(&json!(b), Value::Null, "new\n");
    editor.leave();
}

#[test]
fn commands_are_told_when_they_have_changed() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    for times in 1..=2 {
        let prompt = editor.prompt(&session, "hello");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        assert_eq!(kinds(&editor, &session, "available_commands_update").len(), 1, "{times}");
    }
    site.file(".leftfold/command/greet.md", "---\ndescription: Says hello\n---\nSay hello.\n");
    let prompt = editor.prompt(&session, "/greet");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let told = kinds(&editor, &session, "available_commands_update");
    let commands = told[1]["availableCommands"].as_array().unwrap();
    let greet = commands.iter().find(|command| command["name"] == "greet").unwrap();
    assert_eq!((told.len(), &greet["description"]), (2, &json!("Says hello")));
    editor.leave();
}

#[test]
fn a_call_is_shown_while_the_model_writes_it() {
    let content = "a line of text\n".repeat(40);
    let mut write = json!({ "parts": [{ "call": {
        "name": "write", "input": { "filePath": "a.txt", "content": content } } }] });
    (write["chunk"], write["delay_ms"]) = (json!(40), json!(150));
    let site = Site::scripted(&script(json!([write, says("Done.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let calls = kinds(&editor, &session, "tool_call");
    // without a status it is pending
    assert_eq!((calls.len(), &calls[0]["status"]), (1, &Value::Null), "{calls:?}");
    assert!(calls[0]["title"].as_str().unwrap().starts_with("writing a file ("), "{calls:?}");
    // all updates are of that call: first its size, then its arguments, at last its end
    let about = kinds(&editor, &session, "tool_call_update");
    assert!(about.iter().all(|update| update["toolCallId"] == calls[0]["toolCallId"]), "{about:?}");
    let place = |wanted: &dyn Fn(&Value) -> bool| about.iter().position(wanted).unwrap();
    let sized = place(&|update| update["title"].as_str().is_some_and(|title| title.contains("B)")));
    let known = place(&|update| update["rawInput"]["content"] == *content);
    assert!(sized < known, "{about:?}");
    assert_eq!(about.last().unwrap()["status"], "completed");
    editor.leave();
    assert_eq!(site.text("a.txt"), content);
    let sizes: Vec<u64> = common::all(&site.exported(), "tool.input_streamed")
        .iter()
        .map(|event| event["data"]["calls"][0]["bytes"].as_u64().unwrap())
        .collect();
    assert!(sizes.len() >= 2 && sizes.is_sorted(), "{sizes:?}");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}
