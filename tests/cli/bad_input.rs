//! Bad input from the model, the project's files and the caller: a helpful message, a correct exit
//! code, and nothing lost.

use common::{
    Answer, Block, Live, Server, Site, Split, all, bash, call, end, message, only, says, script,
};
use serde_json::{Value, json};

/// The result of a turn whose first reply makes one call with raw arguments. The turn must end well
/// and the model must get a result.
fn result_of(tool: &'static str, input: &str, prepare: impl Fn(&Site)) -> Value {
    let server = calling(tool, input);
    let site = Site::served(&server);
    prepare(&site);
    result_on(&site, &server)
}

/// A server whose model makes one call.
fn calling(tool: &'static str, input: &str) -> Server {
    Server::start(vec![
        Answer::Stream(message(&[Block::Call("toolu_1", tool, input.to_owned())]), Split::Whole),
        Answer::Stream(message(&[Block::Text("I see.")]), Split::Whole),
    ])
}

fn result_on(site: &Site, server: &Server) -> Value {
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "I see.");
    site.assert_sound();
    let body = server.requests()[1].body.clone();
    // a call goes back to the model as an object, whatever it was
    assert!(body["messages"][1]["content"][0]["input"].is_object(), "{body}");
    let result = body["messages"][2]["content"][0].clone();
    assert_eq!(result["tool_use_id"], "toolu_1");
    result
}

fn assert_told(tool: &'static str, input: &str, parts: &[&str]) {
    let result = result_of(tool, input, |_| ());
    assert_eq!(result["is_error"], true, "{result}");
    for part in parts {
        assert!(result.to_string().contains(part), "no `{part}` in {result}");
    }
}

#[test]
fn a_call_that_is_not_json() {
    for input in [r#"{"filePath": "a.txt"#, r#"{"filePath": }"#, "read a.txt", "\"a.txt\"", "[1]"] {
        assert_told("read", input, &["invalid arguments"]);
    }
}

#[test]
fn a_call_with_wrong_types_or_without_what_it_needs() {
    assert_told("read", r#"{"filePath": 7}"#, &["`filePath`", "expected a string"]);
    assert_told("read", "{}", &["filePath"]);
    assert_told("bash", r#"{"command": "true", "timeout": "soon"}"#, &["timeout"]);
    assert_told("bash", r#"{"command": "  "}"#, &["command"]);
    assert_told("todowrite", r#"{"todos": [{"content": "x", "status": "maybe"}]}"#, &["status"]);
}

#[test]
fn a_tool_that_is_not_there() {
    assert_told(
        "open_file",
        r#"{"path": "a"}"#,
        &["open_file", "read, write, edit, glob, grep, bash"],
    );
}

#[test]
fn a_name_in_the_wrong_case_is_understood() {
    let result = result_of("Read", r#"{"filePath": "a.txt"}"#, |site| {
        site.file("a.txt", "hello\n");
    });
    assert!(result.to_string().contains("hello"), "{result}");
}

#[test]
fn files_that_can_not_be_read_as_text() {
    let result = result_of("read", r#"{"filePath": "a.bin"}"#, |site| {
        site.file("a.bin", [0, 159, 146, 150, 0, 1, 2, 3]);
    });
    assert!(result["is_error"] == true && result.to_string().contains("binary"), "{result}");
    let result = result_of("read", r#"{"filePath": "main.rz"}"#, |site| {
        site.file("main.rs", "fn main() {}\n");
    });
    assert!(result.to_string().contains("does not exist"), "{result}");
    assert!(result.to_string().contains("main.rs"), "{result}");
    let edit = r#"{"filePath": "a.txt", "oldString": "x", "newString": "y"}"#;
    let result = result_of("edit", edit, |site| {
        site.file("a.txt", "x and x\n");
    });
    assert_eq!(result["is_error"], true, "{result}");
}

#[test]
fn a_folder_that_may_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let server = calling("read", r#"{"filePath": "closed"}"#);
    let Some(site) = Site::served(&server).obeying_permissions() else { return };
    let file = site.file("closed/a.txt", "a");
    let close = |mode| {
        let closed = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.parent().unwrap(), closed).unwrap();
    };
    close(0o000);
    let result = result_on(&site, &server);
    close(0o700);
    assert!(result["is_error"] == true && result.to_string().contains("ermission"), "{result}");
}

#[test]
fn a_second_writer_is_refused_and_does_no_harm() {
    let waits = "touch ready; while [ ! -e go ]; do sleep 0.01; done";
    let site = Site::scripted(&script(json!([bash(waits), says("done")])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let created = live.until("session.created");
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    let session = created["session"].as_str().unwrap();
    site.run(&["resume", session]).with(1).saying(&["in use by another node"]);
    site.file("go", "");
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "done");
    assert_eq!(only(&events, "turn.prompted")["data"]["parts"][0]["text"], "go");
    assert_eq!(common::kinds(&site.exported()), common::kinds(&events));
    site.assert_sound();
}

#[test]
fn a_home_where_nothing_can_be_written() {
    let site = Site::scripted(&script(json!([says("never")])));
    std::fs::remove_dir(site.path("home")).unwrap();
    std::fs::write(site.path("home"), "a file").unwrap();
    let ran = site.run(&["run", "hello"]).with(1);
    ran.saying(&[site.path("home/sessions").to_str().unwrap()]);
}

/// A limit on file sizes replaces a full disk: both fail a write of the log.
#[test]
fn a_log_that_can_not_grow_ends_the_run_and_resume_goes_on_with_more_room() {
    let mut replies: Vec<Value> = (0..16)
        .map(|n| {
            bash(&format!(
                "echo {n} >> effects; head -c 20000 /dev/urandom | od -c | head -c 40000"
            ))
        })
        .collect();
    replies.push(says("done"));
    let site = Site::scripted(&script(json!(replies)))
        .setting("provider/double/models/m/limit/context", json!(10_000_000));
    let limited = site.limited(&["run", "--format", "json", "go"], "-f 800");
    let cut = Live::start(limited).wait().with(1);
    assert!(all(&cut.events(), "turn.ended").is_empty());
    let cut = cut.saying(&["/db"]);
    site.assert_sound();
    let export = site.run(&["export", "last"]).ok().stdout;
    assert!(cut.stdout.lines().all(|line| export.contains(line)), "shown and not in the log");
    let events = site.run(&["resume", "--format", "json", "last"]).ok().events();
    assert_eq!(end(&events)["text"], "done");
    let effects = site.text("effects");
    let numbers: Vec<u32> = effects.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "doubled: {effects}");
    site.assert_sound();
}

#[test]
fn an_answer_that_is_no_stream() {
    for (status, headers, body, parts) in [
        (200, "content-type: text/html", "<!doctype html><html><body>Hi</body></html>", "baseURL"),
        (404, "content-type: text/html", "<html><title>No</title></html>", "baseURL"),
        (200, "content-type: application/json", r#"{"error":{"message":"odd"}}"#, "odd"),
    ] {
        let answer = Answer::Status(status, vec![headers.to_owned()], body.to_owned());
        let server = Server::start(vec![answer]);
        let site = Site::served(&server).setting("retry/attempts", json!(0));
        let events = site.prompt("go").with(1).events();
        let error = end(&events)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(parts), "{error}");
        assert_eq!(all(&events, "model.failed").len(), 1);
    }
}

#[test]
fn an_answer_without_a_word() {
    let server = Server::start(vec![Answer::Stream(message(&[]), Split::Whole)]);
    let site = Site::served(&server);
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "");
    site.assert_sound();
    // the next prompt's request has no empty message
    let ran = site.run(&["run", "--format", "json", "-c", "more"]).with(1);
    drop(ran);
    let messages = server.requests()[1].body["messages"].clone();
    for message in messages.as_array().unwrap() {
        assert_ne!(message["content"].as_array().unwrap().len(), 0, "{messages}");
    }
}

#[test]
fn a_file_that_is_larger_than_what_a_model_is_shown() {
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let site = Site::scripted(&script(json!([
        call("read", json!({ "filePath": "large.txt" })),
        bash("cat large.txt"),
        says("done"),
    ])));
    site.file("large.txt", lines);
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    for event in &finished {
        assert_eq!(event["data"]["metadata"]["truncated"], true);
        assert!(event["data"]["output"].as_str().unwrap().len() < 60_000);
    }
    let spill = finished[1]["data"]["spill"]["path"].as_str().unwrap();
    assert!(std::fs::read_to_string(spill).unwrap().ends_with("line 4999\n"));
    site.assert_sound();
    std::fs::remove_file(spill).unwrap();
    let check = site.run(&["check", "last"]).ok();
    assert!(check.stdout.contains("pruned"), "{check:?}");
}
