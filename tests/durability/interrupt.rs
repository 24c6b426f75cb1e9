//! A signal ends the turn at once, wherever it is, and leaves no process behind.

use std::time::{Duration, Instant};

use common::{
    Answer, Live, Server, Site, all, bash, call, end, marked, only, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Ten times the promise, for busy machines.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Sends a signal, and checks that the turn ends in time with the exit code of an interrupt.
fn interrupted(mut live: Live, signal: Signal) -> Vec<Value> {
    let start = Instant::now();
    live.signal(signal);
    live.until("turn.ended");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let events = live.wait().with(130).events();
    assert_eq!(all(&events, "turn.ended").len(), 1);
    assert_eq!(end(&events)["reason"], "aborted");
    events
}

#[test]
fn while_the_model_streams() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let reply =
            json!({ "chunk": 1, "delay_ms": 20, "parts": [{ "text": "word ".repeat(2000) }] });
        let site = Site::scripted(&script(json!([reply])));
        let mut live = site.start(&["run", "--format", "json", "go"]);
        live.until("model.streamed");
        let events = interrupted(live, signal);
        assert!(
            only(&events, "turn.interrupted")["data"]["by"].as_str().unwrap().starts_with("SIG")
        );
        // the shown text is the answer so far
        assert!(end(&events)["text"].as_str().unwrap().starts_with('w'));
        site.assert_sound();
    }
}

#[test]
fn while_the_server_is_silent() {
    let server = Server::start(vec![Answer::Silence]);
    let site = Site::served(&server);
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("the request is there", || !server.requests().is_empty());
    interrupted(live, Signal::INT);
    site.assert_sound();
}

#[test]
fn while_it_waits_for_the_next_attempt() {
    let headers = vec!["retry-after: 300".to_owned()];
    let server = Server::start(vec![Answer::Status(529, headers, String::new())]);
    let site = Site::served(&server);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("model.retry_scheduled");
    interrupted(live, Signal::INT);
    assert_eq!(server.requests().len(), 1);
    site.assert_sound();
}

#[test]
fn while_a_subagent_runs_a_command() {
    let on = |prompt: &str, mut reply: Value| {
        reply["match"] = json!({ "prompt": prompt });
        reply
    };
    let task = json!({ "description": "Wait", "prompt": "wait", "subagent_type": "general" });
    for signal in [Signal::INT, Signal::TERM] {
        let replies = [
            on("wait", bash("touch ready; sleep 1000 & wait")),
            on("go", call("task", task.clone())),
        ];
        let site = Site::scripted(&script(json!(replies)));
        let mut live = site.start(&["run", "--format", "json", "go"]);
        wait_until("the command runs", || common::exists(&site.project().join("ready")));
        let start = Instant::now();
        live.signal(signal);
        let [child, root] = [live.until("turn.ended"), live.until("turn.ended")];
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        let events = live.wait().with(130).events();
        assert_eq!(root["session"], events[0]["session"]);
        assert_eq!(only(&events, "subagent.ended")["data"]["session"], child["session"]);
        for ended in [&child, &root] {
            assert_eq!(ended["data"]["reason"], "aborted", "{ended}");
            assert_eq!(marked(ended["session"].as_str().unwrap()), [], "left behind");
        }
        site.assert_sound();
    }
}

#[test]
fn while_a_command_runs() {
    // one process that ignores signals, and two that have left their group
    let command = "trap '' TERM INT HUP; sleep 1000 & setsid sleep 1001 & echo here; touch ready; \
                   while :; do sleep 1; done";
    for signal in [Signal::INT, Signal::TERM] {
        let site = Site::scripted(&script(json!([bash(command), says("never")])));
        let live = site.start(&["run", "--format", "json", "go"]);
        wait_until("the command runs", || common::exists(&site.project().join("ready")));
        let events = interrupted(live, signal);
        let session = events[0]["session"].as_str().unwrap();
        assert_eq!(marked(session), [], "left behind");
        assert_eq!(only(&events, "tool.cancelled")["data"]["reason"], "interrupt");
        assert!(all(&events, "tool.finished").is_empty());
        site.assert_sound();
    }
}

#[test]
fn a_turn_that_was_interrupted_is_over_and_the_next_prompt_is_told() {
    let server = Server::start(vec![
        Answer::Stream(
            common::message(&[common::Block::Call(
                "toolu_1",
                "bash",
                json!({ "command": "touch ready; sleep 1000" }).to_string(),
            )]),
            common::Split::Whole,
        ),
        Answer::Stream(common::message(&[common::Block::Text("I see.")]), common::Split::Whole),
    ]);
    let site = Site::served(&server);
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("the command runs", || common::exists(&site.project().join("ready")));
    interrupted(live, Signal::INT);
    // nothing to resume
    assert_eq!(site.run(&["resume", "last"]).ok().stdout, "");
    let events = site.run(&["run", "--format", "json", "-c", "what happened?"]).ok().events();
    assert_eq!(end(&events)["text"], "I see.");
    let body = &server.requests()[1].body;
    let result = &body["messages"][2]["content"][0];
    assert_eq!(result["tool_use_id"], "toolu_1");
    assert!(result.to_string().contains("abort"), "{result}");
    site.assert_sound();
}

#[test]
fn a_closed_standard_output_is_an_interrupt() {
    let reply = json!({ "chunk": 1, "delay_ms": 20, "parts": [{ "text": "word ".repeat(2000) }] });
    let site = Site::scripted(&script(json!([reply])));
    let mut command = site.command(&["run", "--format", "json", "go"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command); // it has an end of the pipe, too
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let events = site.exported();
    assert_eq!(only(&events, "turn.interrupted")["data"]["by"], "standard output closed");
    assert_eq!(end(&events)["reason"], "aborted");
    site.assert_sound();
}
