//! `leftfold run`: a prompt goes in, events or text come out, and the log has them.

use std::io::Write;
use std::process::Stdio;

use common::{Live, Site, all, call, end, kinds, only, says, script};
use serde_json::{Value, json};

fn reads_and_answers() -> Value {
    script(json!([
        { "parts": [
            { "text": "I look.\n" },
            { "call": { "name": "read", "input": { "filePath": "a.txt" } } },
        ] },
        says("It says hello. Grüße! 👋"),
    ]))
}

#[test]
fn json_lines_tell_a_turn_from_its_prompt_to_its_one_end() {
    let site = Site::scripted(&reads_and_answers());
    site.file("a.txt", "hello\n");
    let ran = site.prompt("What does a.txt say?").ok();
    let events = ran.events();
    // the end of a reply overlaps with the events of its calls, and pieces of text arrive in any
    // sizes
    let overlaps = ["model.streamed", "model.finished"];
    let mut order = kinds(&events);
    order.retain(|kind| !overlaps.contains(kind));
    assert_eq!(
        order,
        [
            "session.created", "turn.configured", "turn.prompted", "model.requested",
            "tool.called", "tool.resolve_started", "tool.resolved", "permission.ruled",
            "tool.started", "tool.finished", "model.requested", "turn.ended",
        ]
    );
    assert_eq!(all(&events, "model.finished").len(), 2);
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], seq);
        assert_eq!(event["v"], 1);
        assert_eq!(event["session"], events[0]["session"]);
    }
    let end = end(&events);
    assert_eq!(end["reason"], "completed");
    assert_eq!(end["text"], "It says hello. Grüße! 👋");
    assert_eq!(end["steps"], 2);
    assert_eq!(end["permission_denials"], json!([]));
    assert_eq!(only(&events, "tool.finished")["data"]["is_error"], false);
    assert!(only(&events, "tool.finished")["data"]["output"].as_str().unwrap().contains("hello"));
    assert_eq!(only(&events, "session.created")["data"]["directory"], json!(site.project()));
    site.assert_sound();
}

#[test]
fn text_has_the_answer_on_stdout_and_the_rest_on_stderr() {
    let site = Site::scripted(&reads_and_answers());
    site.file("a.txt", "hello\n");
    let ran = site.run(&["run", "What does a.txt say?"]).ok();
    assert_eq!(ran.stdout, "I look.\nIt says hello. Grüße! 👋\n");
    assert!(ran.stderr.contains("read a.txt"), "{ran:?}");
}

#[test]
fn a_prompt_comes_from_a_pipe_with_and_without_a_dash() {
    for args in [&["run", "--format", "json"][..], &["run", "--format", "json", "-"][..]] {
        let site = Site::scripted(&script(json!([says("fine")])));
        let mut command = site.command(args);
        let (reader, mut writer) = std::io::pipe().unwrap();
        command.stdin(Stdio::from(reader));
        let live = Live::start(command);
        writer.write_all("many\nlines, even ünicode\n".as_bytes()).unwrap();
        drop(writer);
        let events = live.wait().ok().events();
        let prompted = only(&events, "turn.prompted");
        assert_eq!(prompted["data"]["parts"][0]["text"], "many\nlines, even ünicode\n", "{args:?}");
    }
}

#[test]
fn a_second_prompt_goes_on_where_the_first_has_ended() {
    let replies = json!([says("one"), says("two"), says("three")]);
    let site = Site::scripted(&script(replies));
    let first = site.prompt("first").ok().events();
    let second = site.run(&["run", "--format", "json", "--continue", "second"]).ok().events();
    let id = first[0]["session"].as_str().unwrap();
    // ids differ at their ends; they begin with the time
    let third =
        site.run(&["run", "--format", "json", "--session", &id[..25], "third"]).ok().events();
    assert_eq!(end(&second)["text"], "two");
    assert_eq!(end(&third)["text"], "three");
    assert_eq!(third[0]["session"].as_str(), Some(id));
    let mut seqs = [&first, &second, &third].into_iter().flatten().map(|event| &event["seq"]);
    assert!((1_u64..).zip(&mut seqs).all(|(expected, found)| *found == expected));
    assert_eq!(site.sessions().len(), 1);
    site.assert_sound();
}

#[test]
fn the_session_goes_on_in_its_own_folder_wherever_it_is_called_from() {
    let site = Site::scripted(&script(json!([
        says("one"),
        call("write", json!({ "filePath": "made.txt", "content": "x" })),
        says("done"),
    ])));
    site.prompt("first").ok();
    let folder = site.session();
    let mut command =
        site.command(&["run", "--format", "json", "--session", folder.to_str().unwrap(), "more"]);
    command.current_dir(site.path("user"));
    Live::start(command).wait().ok();
    assert_eq!(site.text("made.txt"), "x");
}

#[test]
fn no_prompt_leaves_no_session() {
    let site = Site::scripted(&script(json!([says("never")])));
    site.run(&["run", "   "]).with(2).saying(&["the prompt is empty"]);
    site.run(&["run"]).with(2).saying(&["the prompt is empty"]);
    assert!(site.sessions().is_empty());
}

/// Data goes to `XDG_DATA_HOME`, or to `~/.local/share`.
#[test]
fn without_its_variable_the_data_folder_is_where_xdg_has_it() {
    for (variable, folder) in
        [(Some("data"), "data/leftfold"), (None, "user/.local/share/leftfold")]
    {
        let site = Site::scripted(&script(json!([says("Hello.")])));
        let command = |args: &[&str]| {
            let mut command = site.command(args);
            command.env_remove("LEFTFOLD_HOME");
            if let Some(name) = variable {
                command.env("XDG_DATA_HOME", site.path(name));
            }
            Live::start(command).wait().ok()
        };
        command(&["run", "hi"]);
        assert_eq!(std::fs::read_dir(site.path(folder).join("sessions")).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(site.path("home")).unwrap().count(), 0);
        assert_eq!(command(&["sessions", "list", "--format", "json"]).stdout.lines().count(), 1);
    }
}
