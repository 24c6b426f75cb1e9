//! `rerun`: runs the real actors on a log's facts, without the outside world.

use common::{Site, all, bash, call, kind, only, rerun_all, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn text_and_calls_at_once_and_in_a_batch_and_todos_and_a_title() {
    let read = json!({ "call": { "name": "read", "input": { "filePath": "a.txt" } } });
    let todo = json!({ "todos": [{ "content": "x", "status": "pending", "priority": "low" }] });
    let batch = json!({ "tool_calls": [
        { "tool": "read", "parameters": { "filePath": "a.txt" } },
        { "tool": "grep", "parameters": { "pattern": "one" } },
    ] });
    let site = Site::scripted(&script(json!([
        { "chunk": 3, "parts": [{ "reasoning": "hm", "signature": "s" }, { "text": "I look." }, read, read] },
        call("todowrite", todo),
        call("batch", batch),
        bash("echo ran >> marks.txt"),
        call("write", json!({ "filePath": "b.txt", "content": "two\n" })),
        says("Done."),
        { "match": { "purpose": "title" }, "parts": [{ "text": "A look" }] },
    ])))
    .setting("title", json!(true));
    site.file("a.txt", "one\n");
    let events = site.prompt("go").ok().events();
    assert_eq!(all(&events, "model.streamed").len(), all(&site.exported(), "model.streamed").len());
    rerun_all(&site);
    assert_eq!(std::fs::read_to_string(site.path("away/marks.txt")).unwrap(), "ran\n");
}

#[test]
fn a_log_without_a_prompt_is_refused_at_once() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    site.prompt("go").ok();
    let session = only(&site.exported(), "session.created")["session"].as_str().unwrap().to_owned();
    let exported = site.run(&["export", &session]).ok().stdout;
    let first = exported.lines().next().unwrap();
    site.run(&["sessions", "rm", &session]).ok();
    std::fs::write(site.path("one.jsonl"), format!("{first}\n")).unwrap();
    site.run(&["import", &site.path("one.jsonl").display().to_string()]).ok();
    let refused = site.run(&["rerun", &session]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("its log has only `session.created`"), "{}", refused.stderr);
}

#[test]
fn a_child_and_a_question_that_nobody_answers() {
    let task =
        json!({ "description": "Look", "prompt": "look at a.txt", "subagentType": "general" });
    let site = Site::scripted(&script(json!([
        call("task", task),
        call("read", json!({ "filePath": ".env" })),
        says("Heard."),
        { "match": { "prompt": "look at a.txt", "answers": 0 },
          "parts": [{ "call": { "name": "read", "input": { "filePath": "a.txt" } } }] },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "one" }] },
    ])));
    site.file("a.txt", "one\n");
    site.file(".env", "A=b\n");
    let events = site.prompt("go").ok().events();
    only(&events, "subagent.ended");
    rerun_all(&site);
}

#[test]
fn the_recorded_sandbox_of_a_command_is_read_from_the_log() {
    for (variable, setting, backend) in [
        (Some(""), Some(json!("external")), json!("external")),
        (Some(""), Some(json!({ "mode": "off" })), json!("off")),
        (Some("off"), Some(json!("external")), json!("off")),
        (Some("external"), None, json!("external")),
    ] {
        let replies = json!([bash("echo ran >> marks.txt"), says("Done.")]);
        let mut site = Site::scripted(&script(replies));
        if let Some(setting) = setting {
            site = site.setting("sandbox", setting);
        }
        if let Some(variable) = variable {
            site = site.env("LEFTFOLD_SANDBOX", variable);
        }
        let events = site.prompt("go").ok().events();
        let started = only(&events, "tool.started");
        assert_eq!(started["data"]["sandbox"]["backend"], backend);
        site.run(&["verify", "last"]).ok();
        rerun_all(&site);
    }
}

#[test]
fn an_interrupt_a_second_prompt_and_a_fork() {
    let site = Site::scripted(&script(json!([
        bash("touch started; while true; do sleep 0.05; done"),
        says("Again."),
        says("Another way."),
    ])));
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("the command runs", || site.project().join("started").exists());
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    site.run(&["run", "--format", "json", "--continue", "and now"]).ok();
    let events = site.exported();
    let started = only(&events, "tool.started")["seq"].to_string();
    site.run(&["fork", "last", "--at", &started, "else"]).ok();
    let id = only(&events, "session.created")["session"].as_str().unwrap().to_owned();
    let ran = site.run(&["rerun", &id, "last"]).ok();
    assert_eq!(ran.stdout.matches("all the same").count(), 2, "{ran:?}");
}

#[test]
fn a_kill_and_a_resume() {
    let site = Site::scripted(&script(json!([
        bash("touch started; while [ ! -e go ]; do sleep 0.05; done"),
        says("It is lost."),
    ])));
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("the command runs", || site.project().join("started").exists());
    live.signal(Signal::KILL);
    live.wait();
    site.file("go", "");
    site.run(&["resume", "last", "--format", "json"]).ok();
    let events = site.exported();
    only(&events, "session.resumed");
    only(&events, "tool.lost");
    rerun_all(&site);
}

/// The session's export with one event changed, imported into a home of its own.
fn changed(site: &Site, change: impl Fn(&mut Value)) -> Site {
    let lines = site.run(&["export", "last"]).ok().stdout;
    let lines = lines.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        change(&mut event);
        event.to_string() + "\n"
    });
    let other = Site::bare();
    let file = other.file("log.jsonl", lines.collect::<String>());
    other.run(&["import", file.to_str().unwrap()]).ok();
    other
}

fn one_read() -> Site {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([read, says("Done.")])));
    site.file("a.txt", "one\n");
    site.prompt("go").ok();
    site
}

#[test]
fn what_was_changed_is_noticed_at_its_place() {
    let site = one_read();
    let asked = all(&site.exported(), "model.requested")[1]["seq"].clone();
    let other = changed(&site, |event| {
        if kind(event) == "tool.called" {
            event["data"]["call"]["input"]["filePath"] = json!("b.txt");
        }
    });
    let ran = other.run(&["rerun", "--format", "json", other.session().to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let found: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!((&found["seq"], &found["field"]), (&asked, &json!("data.request_sha256")));
    assert_ne!(found["expected"], found["found"]);
    // one event that was never decided, and one whose outcome nobody waits for
    for (wanted, field) in
        [("tool.resolve_started", "data.call"), ("permission.ruled", "data.action")]
    {
        let other = changed(&site, |event| {
            if kind(event) == wanted {
                let key = field.strip_prefix("data.").unwrap();
                event["data"][key] = json!("deny");
            }
        });
        let ran = other.run(&["rerun", "--format", "json", other.session().to_str().unwrap()]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let found: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
        assert_eq!(found["field"], field, "{found}");
    }
}

#[test]
fn many_sessions_and_what_is_no_session() {
    let site = one_read();
    site.prompt("once more").ok();
    let sessions = site.sessions();
    let sessions: Vec<&str> = sessions.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(sessions.len(), 2);
    let ran = site.run(&["rerun", sessions[0], sessions[1]]).ok();
    assert_eq!(ran.stdout.matches("all the same").count(), 2, "{ran:?}");
    assert_eq!(site.run(&["rerun", "--format", "json", sessions[0]]).ok().stdout, "");
    assert_eq!(site.run(&["rerun", sessions[0], "nosuch"]).code, 2);
    assert_eq!(site.run(&["rerun"]).code, 2);
}
