//! Calls that work on the client's files and in its terminals, if the client offers them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{
    Editor, EditorHost, Site, all, bash, call, exists, marked, only, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

fn edit(file: &str, old: &str, new: &str) -> Value {
    call("edit", json!({ "filePath": file, "oldString": old, "newString": new }))
}

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

/// A turn of a session whose client offers files and terminals.
fn turn(site: &Site, editor_host: &mut EditorHost) -> (Editor, String) {
    let mut editor = Editor::offering(site, &[]);
    let session = editor.session(site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor_host.result(&mut editor, prompt)["stopReason"], "end_turn");
    (editor, session)
}

fn outputs(events: &[Value]) -> Vec<&str> {
    all(events, "tool.finished").iter().map(|e| e["data"]["output"].as_str().unwrap()).collect()
}

/// Runs a command in a terminal of the editor until it is ended. The command has created `ready`.
fn in_terminal(site: &Site) -> (EditorHost, Editor, String, u64) {
    let mut editor_host = EditorHost::new(site);
    editor_host.patient = true;
    let mut editor = Editor::offering(site, &[]);
    let session = editor.session(site);
    let prompt = editor.prompt(&session, "go");
    editor_host.until(&mut editor, |message| message["method"] == "terminal/wait_for_exit");
    wait_until("it runs", || exists(&site.project().join("ready")));
    (editor_host, editor, session, prompt)
}

#[test]
fn what_is_not_saved_is_read_and_changed() {
    let read = call("read", json!({ "filePath": "a" }));
    let site = Site::scripted(&script(json!([read, edit("a", "two", "three"), says("Done.")])));
    let file = site.file("a", "one\n");
    let mut editor_host = EditorHost::new(&site);
    editor_host.unsaved.insert(file.to_str().unwrap().to_owned(), "two\n".to_owned());
    let (editor, session) = turn(&site, &mut editor_host);
    assert_eq!(site.text("a"), "three\n");
    let written = editor_host.asked("fs/write_text_file");
    assert_eq!(written.len(), 1);
    assert_eq!((&written[0]["path"], &written[0]["content"]), (&json!(file), &json!("three\n")));
    editor.leave();
    let events = events(&site, &session);
    assert!(outputs(&events)[0].starts_with("1: two\n"));
    site.assert_sound();
}

#[test]
fn a_change_that_the_model_has_not_seen_is_kept() {
    let read = call("read", json!({ "filePath": "a" }));
    let site = Site::scripted(&script(json!([
        read,
        bash("true"),
        edit("a", "one", "three"),
        edit("b", "b", "B"),
        says("Done.")
    ])));
    let file = site.file("a", "one\n").to_str().unwrap().to_owned();
    site.file("b", "b\r\n");
    let mut editor_host = EditorHost::new(&site);
    let mut editor = Editor::offering(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    editor_host.until(&mut editor, |message| message["method"] == "terminal/create");
    editor_host.unsaved.insert(file, "one, and more\n".to_owned());
    assert_eq!(editor_host.result(&mut editor, prompt)["stopReason"], "end_turn");
    // line endings alone are not a change
    assert_eq!((site.text("a").as_str(), site.text("b").as_str()), ("one\n", "B\r\n"));
    editor.leave();
    let events = events(&site, &session);
    let finished = all(&events, "tool.finished");
    assert_eq!(finished[2]["data"]["metadata"]["error_kind"], "changed_on_disk");
    assert!(finished[2]["data"]["output"].as_str().unwrap().contains("unsaved changes"));
}

#[test]
fn what_the_client_refuses_is_done_here() {
    let write = call("write", json!({ "filePath": "new/a", "content": "text\n" }));
    let read = call("read", json!({ "filePath": "new/a" }));
    let command = bash("echo here; exit 3");
    let site = Site::scripted(&script(json!([write, read, command, says("Done.")])));
    let mut editor_host = EditorHost::new(&site);
    editor_host.refused = vec!["fs/read_text_file", "fs/write_text_file", "terminal/create"];
    let (editor, session) = turn(&site, &mut editor_host);
    assert_eq!(site.text("new/a"), "text\n");
    assert_eq!(editor_host.asked.len(), 3);
    editor.leave();
    let events = events(&site, &session);
    assert!(outputs(&events)[1].starts_with("1: text\n"));
    assert_eq!(outputs(&events)[2], "here\n\n(exit code 3)".replace("\n\n", "\n"));
    site.assert_sound();
}

#[test]
fn a_command_runs_in_the_clients_terminal() {
    let command = bash("echo hi; pwd; env | grep -c EDITORS; exit 3");
    let site = Site::scripted(&script(json!([command, says("Done.")])));
    let mut editor_host = EditorHost::new(&site);
    let (editor, session) = turn(&site, &mut editor_host);
    let terminal = json!([{ "type": "terminal", "terminalId": "t1" }]);
    let updates = editor.updates(&session);
    let about = updates.iter().filter(|update| update["sessionUpdate"] == "tool_call_update");
    let content: Vec<&Value> = about.map(|update| &update["content"]).collect();
    assert_eq!(content.iter().filter(|content| ***content == terminal).count(), 2);
    assert_eq!(editor_host.asked("terminal/release").len(), 1);
    editor.leave();
    let events = events(&site, &session);
    let finished = only(&events, "tool.finished");
    let expected = format!("hi\n{}\n0\n(exit code 3)", site.project().display());
    assert_eq!(finished["data"]["output"], expected);
    assert_eq!(finished["data"]["metadata"]["exit"], 3);
    site.assert_sound();
}

#[test]
fn the_shell_of_the_settings_runs_in_the_clients_terminal() {
    let site = Site::scripted(&script(json!([bash("echo hi"), says("Done.")])));
    let shell = site.file("shell", "#!/bin/sh\necho \"mine: $2\"\nexec sh \"$@\"\n");
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let site = site.setting("/shell", json!(shell));
    let mut editor_host = EditorHost::new(&site);
    let (editor, session) = turn(&site, &mut editor_host);
    assert_eq!(editor_host.asked("terminal/create").len(), 1);
    editor.leave();
    assert_eq!(outputs(&events(&site, &session)), ["mine: echo hi\nhi\n"]);
}

#[test]
fn a_cancel_ends_what_runs_in_a_terminal() {
    let command = bash("echo before; sleep 1000 & touch ready; sleep 1000");
    let site = Site::scripted(&script(json!([command, says("Never.")])));
    let (mut editor_host, mut editor, session, prompt) = in_terminal(&site);
    editor.notify("session/cancel", json!({ "sessionId": session }));
    editor_host.until(&mut editor, |message| message["method"] == "terminal/release");
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    assert_eq!(editor_host.asked("terminal/kill").len(), 1);
    wait_until("all of it is gone", || marked(&session).is_empty());
    editor.leave();
    site.assert_sound();
}

#[test]
fn after_a_crash_nobody_knows_what_became_of_a_command_in_a_terminal() {
    let command = bash("touch ready; sleep 1000");
    let site = Site::scripted(&script(json!([command, says("I see.")])));
    let (_desk, editor, session, _) = in_terminal(&site);
    editor.live.signal(Signal::KILL);
    drop(editor);
    let resumed = site.run(&["resume", "--format", "json", &session]).ok().events();
    only(&resumed, "tool.lost");
    wait_until("it is gone", || marked(&session).is_empty());
    site.assert_sound();
}

#[test]
fn what_runs_in_a_terminal_ends_with_the_node() {
    let command = bash("touch ready; sleep 1000");
    let site = Site::scripted(&script(json!([command, says("Resumed.")])));
    let (_desk, editor, session, _) = in_terminal(&site);
    editor.leave();
    let resumed = site.run(&["resume", "--format", "json", &session]).ok().events();
    assert!(marked(&session).is_empty(), "{:?}", marked(&session));
    only(&resumed, "tool.lost");
    assert_eq!(resumed.last().unwrap()["data"]["text"], "Resumed.");
    site.assert_sound();
}

#[test]
fn a_patch_is_made_of_what_is_shown() {
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-two\n+three\n*** Add File: b\n+new\n*** End Patch";
    let reply = call("apply_patch", json!({ "patchText": patch }));
    let site = Site::scripted(&script(json!([reply, says("Done.")])))
        .setting("model", json!("double/gpt-5"))
        .setting(
            "provider/double/models/gpt-5",
            json!({ "limit": { "context": 100_000, "output": 8_000 } }),
        );
    let file = site.file("a", "one\n");
    let mut editor_host = EditorHost::new(&site);
    editor_host.unsaved.insert(file.to_str().unwrap().to_owned(), "two\n".to_owned());
    let (editor, _) = turn(&site, &mut editor_host);
    assert_eq!((site.text("a").as_str(), site.text("b").as_str()), ("three\n", "new\n"));
    assert!(!editor_host.unsaved.contains_key(file.to_str().unwrap()), "the editor shows it");
    let told: Vec<&str> = editor_host
        .asked("fs/write_text_file")
        .iter()
        .filter_map(|asked| Path::new(asked["path"].as_str()?).file_name()?.to_str())
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_token_is_not_handed_over() {
    let token = format!("sk-ant-api03-{}", "a1B2c3D4".repeat(12));
    let write = call("write", json!({ "filePath": "a", "content": format!("KEY={token}\n") }));
    let site =
        Site::scripted(&script(json!([write, bash(&format!("echo {token} > b")), says(".")])));
    let mut editor_host = EditorHost::new(&site);
    let (editor, _) = turn(&site, &mut editor_host);
    assert_eq!((site.text("a"), site.text("b")), (format!("KEY={token}\n"), format!("{token}\n")));
    assert_eq!(editor_host.asked.len(), 0, "{:?}", editor_host.asked);
    editor.leave();
}
