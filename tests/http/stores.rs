//! Sessions of the server's store and sessions with a store of their own, on the server and on the
//! command line.

use common::{Site, bash, exists, says, script, wait_until};
use serde_json::{Value, json};

use crate::client::{Served, SseFrame};

fn is_idle(frame: &SseFrame) -> bool {
    frame.kind == "session.idle"
}

/// The texts of a session's messages.
fn texts(server: &Served, session: &str) -> Vec<String> {
    let messages = server.get(&format!("/session/{session}/message")).ok();
    let of = |message: &Value| {
        let parts = message["parts"].as_array().unwrap().iter();
        parts.filter_map(|part| part["text"].as_str()).collect::<String>()
    };
    messages.as_array().unwrap().iter().map(of).collect()
}

/// A session that `leftfold run` has made is listed, shown, continued, forked and removed like one of the
/// server's store, and stays in its own store.
#[test]
fn sessions_of_the_command_line_are_on_the_server() {
    let site = Site::scripted(&script(json!([says("Hello.")])))
        .setting("provider/double/options/script/on_end", json!("repeat"));
    let run = site.run(&["run", "--format", "json", "from the shell"]).ok().events();
    let id = run[0]["session"].as_str().unwrap().to_owned();
    let server = Served::start(&site);
    let session = server.sessions().first().unwrap().clone();
    let path = format!("/session/{session}");
    for listed in ["/session", "/session?roots=true", "/experimental/session"] {
        let listed = server.get(listed).ok();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed[0]["id"], session.as_str());
        assert_eq!(listed[0]["title"], "from the shell");
    }
    let listed = server.get("/api/session").ok();
    assert_eq!(listed["data"][0]["id"], session.as_str(), "{listed}");
    assert_eq!(texts(&server, &session), ["from the shell", "Hello."]);

    let mut feed = server.feed(None);
    server.prompt(&session, "over HTTP");
    let frames = feed.until(is_idle);
    let after = frames.last().unwrap().id.clone();
    assert_eq!(texts(&server, &session), ["from the shell", "Hello.", "over HTTP", "Hello."]);
    let fork = server.post(&format!("{path}/fork"), json!({})).ok();
    let fork = fork["id"].as_str().unwrap().to_owned();
    server.prompt(&fork, "in the fork");
    assert_eq!(texts(&server, &fork).len(), 6);
    assert_eq!(server.sessions().len(), 2);
    // both are in the one store of the first
    let stores = std::fs::read_dir(site.path("home/sessions")).unwrap().count();
    assert_eq!((stores, site.path("home/store/heads").read_dir().unwrap().count()), (1, 0));

    server.kill();
    for command in ["check", "verify"] {
        site.run(&[command, &id]).ok();
    }
    // another process goes on; the feed has it for a client with a cursor
    site.run(&["run", "--session", &id, "from the shell again"]).ok();
    let server = Served::start(&site);
    let missed = server
        .feed(Some(&after))
        .until(|frame| is_idle(frame) && frame.properties["sessionID"] == session.as_str());
    let said = |text: &str| missed.iter().any(|frame| frame.properties["part"]["text"] == text);
    assert!(said("from the shell again") && !said("over HTTP"), "{missed:#?}");
    site.run(&["run", "--session", &id, "and while it serves"]).ok();
    assert_eq!(texts(&server, &session)[6..], ["and while it serves", "Hello."]);

    let delete =
        |session: &str| server.request("DELETE", &format!("/session/{session}"), &[], None);
    assert_eq!(delete(&session).status, 500, "the fork shares its events");
    assert_eq!(delete(&fork).ok(), json!(true));
    assert_eq!(delete(&session).ok(), json!(true));
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.get("/session").ok(), json!([]));
    site.run(&["replay", &id]).with(2);
    server.end();
}

/// A turn that another process runs in a store of its own is shown as running, also after it was cut off.
#[test]
fn a_turn_of_the_command_line_is_shown_as_it_is() {
    let command = "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    let site = Site::scripted(&script(json!([bash(command), says("Done."), bash(command)])))
        .setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let running = common::Live::start(site.command(&["run", "wait"]));
    let ready = site.project().join("ready");
    wait_until("its command runs", || exists(&ready));
    let session = server.sessions().first().unwrap().clone();
    let path = format!("/session/{session}");
    let status = |server: &Served| server.get("/session/status").ok()[&session]["type"].clone();
    assert_eq!(status(&server), "busy", "nobody has opened it here");
    // its own process takes prompts
    let prompt = json!({ "parts": [{ "type": "text", "text": "and more" }] });
    let refused = server.post(&format!("{path}/prompt_async"), prompt);
    assert_eq!(refused.status, 409, "{refused:?}");
    let refused = refused.json();
    assert_eq!(refused["_tag"], "SessionBusyError");
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("another process") && why.contains("prompt it there"), "{why}");
    assert_eq!(status(&server), "busy", "it is open here, too");
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    wait_until("it is shown as cut off", || status(&server) == Value::Null);
    let messages = server.get(&format!("{path}/message")).ok();
    assert_eq!(messages[1]["info"]["error"]["name"], "MessageAbortedError", "{messages}");
    // and goes on from here
    site.file("go", "");
    assert_eq!(server.post(&format!("{path}/resume"), json!({})).ok(), json!(true));
    wait_until("it ends", || status(&server) == Value::Null);
    assert_eq!(texts(&server, &session).last().unwrap(), "Done.");

    // an abort reaches the other process
    std::fs::remove_file(&ready).unwrap();
    std::fs::remove_file(site.project().join("go")).unwrap();
    server.end();
    let id = site.run(&["sessions", "--format", "json"]).ok().events()[0]["id"].clone();
    let running =
        common::Live::start(site.command(&["run", "--session", id.as_str().unwrap(), "wait"]));
    wait_until("its command runs again", || exists(&ready));
    let server = Served::start(&site);
    assert_eq!(status(&server), "busy");
    assert_eq!(server.post(&format!("{path}/abort"), json!({})).ok(), json!(true));
    assert_ne!(running.wait().code, 0);
    wait_until("it is idle", || status(&server) == Value::Null);
    server.end();
}

/// `leftfold sessions` tells a turn that was cut off from one that runs, although the store is in use.
/// `sessions prune` removes what rests, and says what does not.
#[test]
fn the_command_line_knows_what_a_server_runs() {
    let command = "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    let site = Site::scripted(&script(json!([
        { "match": { "result": "went" }, "parts": [{ "text": "Done." }] },
        { "match": { "prompt": "wait" }, "parts": [{ "call": { "name": "bash", "input": { "command": command } } }] },
        { "match": { "prompt": "" }, "parts": [{ "text": "Done." }] },
    ])))
    .setting("/permission", json!("allow"));
    let ready = site.project().join("ready");
    let server = Served::start(&site);
    let (resting, working) = (server.session(), server.session());
    server.prompt(&resting, "rest");
    server.begin(&working, "wait");
    wait_until("its command runs", || exists(&ready));
    let states = || {
        let listed = site.run(&["sessions", "--format", "json"]).ok().events();
        let mut states: Vec<String> =
            listed.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect();
        states.sort();
        states
    };
    assert_eq!(states(), ["completed", "running"]);
    server.kill();
    assert_eq!(states(), ["completed", "interrupted"]);
    let server = Served::start(&site);
    server.get("/session").ok();
    assert_eq!(states(), ["completed", "interrupted"]);
    std::fs::remove_file(&ready).unwrap();
    server.begin(&working, "wait");
    wait_until("its command runs again", || exists(&ready));
    assert_eq!(states(), ["completed", "running"]);

    let pruned = site.run(&["sessions", "prune", "--older-than", "0"]).ok();
    pruned.saying(&["is running", "files that nothing refers to stay until it ends"]);
    assert_eq!(states(), ["running"]);
    assert!(server.sessions().iter().eq([&working]));
    assert_eq!(server.get(&format!("/session/{resting}")).status, 404);
    site.file("go", "");
    wait_until("it ends", || server.get("/session/status").ok() == json!({}));
    server.end();
    let id = site.run(&["sessions", "--format", "json"]).ok().events()[0]["id"].clone();
    for command in ["check", "verify"] {
        site.run(&[command, id.as_str().unwrap()]).ok();
    }
}
