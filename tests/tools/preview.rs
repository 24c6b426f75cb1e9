//! Previews of changes for the person who is asked about a call; and prompts taken back in a
//! conversation.

use std::process::Stdio;

use common::{Editor, Live, Site, all, call, only, says, script};
use serde_json::{Value, json};

const CTRL_D: &str = "\x04";
const CTRL_U: &str = "\x15";
const PATCH: &str =
    "*** Begin Patch\n*** Update File: a\n@@\n-two\n+2\n*** Add File: b\n+new\n*** End Patch";

fn asking(reply: &Value) -> Site {
    let site = Site::scripted(&script(json!([reply, says("So be it.")])))
        .setting("/permission", json!({ "edit": "ask" }));
    site.file("a", "one\ntwo\nthree\n");
    site
}

fn patch() -> Value {
    call("apply_patch", json!({ "patchText": PATCH }))
}

fn write(path: &str, content: &str) -> Value {
    call("write", json!({ "filePath": path, "content": content }))
}

#[test]
fn a_conversation_shows_the_diff_of_the_files_as_they_are() {
    let site = asking(&write("a", "one\n2\nthree\n"));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("go\r").until("[o]nce");
    let shown = terminal.shown();
    let diff = "    a +1 -1\n    1   one\n    2 - two\n    2 + 2\n    3   three\n";
    assert!(shown.contains(&format!("? write a\n{diff}")), "{shown}");
    terminal.press("n").until("rejected").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(site.text("a"), "one\ntwo\nthree\n");
    let asked = only(&site.exported(), "permission.asked")["data"].clone();
    assert!(!asked.to_string().contains("-two"), "what is shown is not stored: {asked}");
    site.assert_sound();
}

#[test]
fn run_shows_every_file_of_a_patch_and_a_rejection_changes_none() {
    let site = asking(&patch());
    let mut command = site.command(&["run", "--permission-mode", "ask", "--format", "json", "go"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    let mut live = Live::start(command);
    live.until("permission.asked");
    std::io::Write::write_all(&mut writer, b"n\n").unwrap();
    live.wait().with(3).saying(&[
        "    a +1 -1\n    @@ -1,3 +1,3 @@\n     one\n    -two\n    +2\n     three\n",
        "    b (new file) +1 -0\n    @@ -0,0 +1 @@\n    +new\n    asked because of the rule ask edit `*` (",
        "\n  allow edit on a, b?",
    ]);
    assert_eq!((site.text("a"), site.text("b")), ("one\ntwo\nthree\n".into(), String::new()));
    site.assert_sound();
}

#[test]
fn an_editor_gets_the_change_with_the_question() {
    let site = asking(&patch());
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    let path = |name: &str| site.project().join(name);
    let content = &question["params"]["toolCall"]["content"];
    assert_eq!(content[0]["content"]["text"], "edit: a, b", "{content}");
    let (old, new) = ("one\ntwo\nthree\n", "one\n2\nthree\n");
    assert_eq!(
        content.as_array().unwrap()[1..],
        [
            json!({ "type": "diff", "path": path("a"), "oldText": old, "newText": new }),
            json!({ "type": "diff", "path": path("b"), "newText": "new\n" }),
        ]
    );
    editor.choose(&question, "reject_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert_eq!(site.text("a"), old);
    site.assert_sound();
}

#[test]
fn a_file_that_can_not_be_compared_is_asked_about_with_all_arguments() {
    for content in [b"\0\x01binary".to_vec(), b"line\n".repeat(300_000)] {
        let site = asking(&write("large", "small\n"));
        site.file("large", &content);
        let mut editor = Editor::start(&site, &[]);
        let session = editor.session(&site);
        let prompt = editor.prompt(&session, "go");
        let question = editor.question(&session);
        let shown = question["params"]["toolCall"]["content"].as_array().unwrap();
        let texts: Vec<&Value> = shown.iter().map(|part| &part["content"]["text"]).collect();
        assert_eq!(texts, ["edit: large", "large\n\ncontent: small\n"], "{shown:?}");
        editor.choose(&question, "allow_once");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        editor.leave();
        assert_eq!(site.text("large"), "small\n");
    }
}

#[test]
fn a_rule_for_a_tool_that_is_judged_as_edit_is_pointed_out() {
    let site = Site::scripted(&script(json!([says("Done.")])))
        .setting("/permission", json!({ "write": "deny", "edit": "allow", "bash": "allow" }));
    let ran = site.prompt("go").ok();
    ran.saying(&["`permission.write` has no effect: the permission of this tool is `edit`"]);
}

#[test]
fn a_prompt_is_taken_back_and_comes_again() {
    let site = Site::scripted(&script(json!([write("a", "changed\n"), says("Written.")])))
        .setting("/snapshot", json!(true));
    site.file("a", "first\n");
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("/undo\r").until("the session has only begun");
    terminal.until_prompt().press("go\r").until("Written.").until_prompt();
    assert_eq!(site.text("a"), "changed\n");
    terminal.press("/undo\r").until("[restored: 1 file changed, +1 -1]");
    assert_eq!(site.text("a"), "first\n");
    // the prompt is in the composer again
    terminal.until("› go").press(CTRL_U);
    terminal.until_prompt().press("/undo\r").until("no prompt to go back to");
    terminal.until_prompt().press("/redo\r");
    terminal
        .until_so("redone", |screen| screen.contents().matches("[restored: 1 file").count() == 2);
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(site.text("a"), "changed\n");
    assert_eq!(all(&site.exported(), "files.restored").len(), 2);
    site.assert_sound();
}
