//! Golden sessions with events and notes that no session of the corpus has: a client's own ids and parts, rules
//! and choices of a session, a title and a summary, sizes of arguments, recorded exchanges, forks with subagents and
//! files, an import, failures.

use std::io::{Read, Write};
use std::net::TcpStream;

use common::corpus::{played, scenario};
use common::{ASK, Live, Peer, STEP_TIMEOUT, Site, asking, bash, call, foreign, only, says};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A name, and the function that plays the session.
pub(super) type Played = (&'static str, fn() -> Site);

pub(super) const MORE: [Played; 11] = [
    ("summary", summary),
    ("recorded", recorded),
    ("clients", clients),
    ("http", http),
    ("archived", archived),
    ("adopted", adopted),
    ("files", files),
    ("imported", imported),
    ("bundled", bundled),
    ("failed", failed),
    ("blocked", blocked),
];

/// A title, arguments that arrive slowly, and a summary.
fn summary() -> Site {
    let about = |purpose: &str, text: &str| json!({ "match": { "purpose": purpose }, "parts": [{ "text": text }] });
    let content = "a line of text\n".repeat(20);
    let mut write = call("write", json!({ "filePath": "a.txt", "content": content }));
    (write["chunk"], write["delay_ms"]) = (json!(40), json!(250));
    let replies = [
        about("title", "A file"),
        about("session_summary", "A file was written."),
        write,
        says("Done."),
    ];
    let site = Site::scripted(&json!({ "replies": replies }))
        .setting("title", true.into())
        .setting("summary", true.into());
    site.prompt("go").ok();
    site
}

/// A model over HTTP, half of whose requests fail. Every exchange is recorded.
fn recorded() -> Site {
    let mut served = scenario("served");
    served.site = served.site.setting("record", json!("wire"));
    played(&served);
    served.site
}

/// Clients of the socket prompt with ids of their own, add a message, choose an agent, set rules and answer.
fn clients() -> Site {
    let site = asking();
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    let session = asked["session"].clone();
    let mut peer = Peer::connect(&site.session());
    for (method, params) in [
        ("prompt", json!({ "text": "and mind the gap", "message_id": "m1", "by": "ann" })),
        ("prompt", json!({ "text": "by the way", "message_id": "m2", "no_reply": true })),
        ("configure", json!({ "choices": { "agent": "plan" }, "by": "ann" })),
        (
            "configure",
            json!({ "rules": [{ "permission": "bash", "pattern": "*", "action": "deny" }] }),
        ),
        ("answer", json!({ "of": asked["seq"], "reply": "once", "by": "ann" })),
    ] {
        let mut params = params;
        params["session"] = session.clone();
        let answer = peer.call(&format!("_leftfold/{method}"), &params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
    }
    live.wait().ok();
    site
}

/// A session of the server, with ids and metadata of a client's message and its part.
fn http() -> Site {
    let site = Site::scripted(&json!({ "replies": [says("Hello.")], "on_end": "repeat" }));
    let (live, port) = serve(&site);
    let rules = json!([{ "permission": "edit", "pattern": "*", "action": "ask" }]);
    let created = post(port, "/session", &json!({ "title": "Mine", "permission": rules }));
    let message = format!("/session/{}/message", created["id"].as_str().unwrap());
    let part = json!({ "id": "prt_ffff00000002AAAAAAAAAAAAAA", "type": "text", "text": "go",
        "metadata": { "a": 1 }, "synthetic": false });
    let prompt = json!({ "messageID": "msg_ffff00000001AAAAAAAAAAAAAA", "parts": [part] });
    let answer = post(port, &message, &prompt);
    assert!(answer["parts"].to_string().contains("Hello."), "{answer}");
    let part = json!({ "type": "text", "text": "by the way" });
    post(port, &message, &json!({ "noReply": true, "parts": [part] }));
    live.signal(Signal::TERM);
    live.wait().ok();
    site
}

/// A session of the server that a slash command begins, and that is put away.
fn archived() -> Site {
    let command = json!({ "tidy": { "template": "Tidy up $1" } });
    let site =
        Site::scripted(&json!({ "replies": [says("Tidied.")] })).setting("/command", command);
    let (live, port) = serve(&site);
    let path = format!("/session/{}", post(port, "/session", &json!({}))["id"].as_str().unwrap());
    let tidy = json!({ "command": "tidy", "arguments": "the shed" });
    post(port, &format!("{path}/command"), &tidy);
    send(port, "PATCH", &path, &json!({ "time": { "archived": 1_790_000_000_000_u64 } }));
    live.signal(Signal::TERM);
    live.wait().ok();
    site
}

/// A server on a store of its own, and its port.
fn serve(site: &Site) -> (Live, u16) {
    let store = site.path("home/sessions/served");
    let mut live = site.start(&["serve", "--port", "0", "--store", store.to_str().unwrap()]);
    let line = live.line().expect("the server says where it listens");
    (live, line.trim().rsplit_once(':').unwrap().1.parse().unwrap())
}

fn post(port: u16, path: &str, body: &Value) -> Value {
    send(port, "POST", path, body)
}

fn send(port: u16, method: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let head =
        format!("host: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-type: application/json");
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {text}");
    serde_json::from_str(body).unwrap()
}

fn on(prompt: &str, answers: usize, mut reply: Value) -> Value {
    reply["match"] = json!({ "prompt": prompt, "answers": answers });
    reply
}

/// A fork whose call continues with a fork of the subagent.
fn adopted() -> Site {
    let task = |prompt: &str, id: &str| {
        let input = json!({ "description": "Look", "prompt": prompt, "subagentType": "general", "taskId": id });
        call("task", input)
    };
    let replies = [
        on("look closely", 0, says("I see.")),
        on("go", 0, task("look closely", "")),
        on("go", 1, says("Heard.")),
    ];
    let site = Site::scripted(&json!({ "replies": replies }));
    let events = site.prompt("go").ok().events();
    let child = only(&events, "subagent.spawned")["data"]["session"].as_str().unwrap();
    let replies = json!([
        on("other", 2, task("look elsewhere", child)),
        on("look elsewhere", 1, says("Not here.")),
        on("other", 3, says("Heard of others.")),
    ]);
    let site = site.setting("/provider/double/options/script/replies", replies);
    site.run(&["fork", "last", "other"]).ok();
    site
}

/// A fork that also restores the files of its fork point, after a command that reports its progress.
fn files() -> Site {
    let slow = "echo two > a; echo half; sleep 2; echo done";
    let replies = [
        on("otherwise", 1, says("Done otherwise.")),
        bash("echo one > a"),
        bash(slow),
        says("Done."),
    ];
    let site = Site::scripted(&json!({ "replies": replies })).setting("/snapshot", json!(true));
    site.file("a", "zero\n");
    let events = site.prompt("go").ok().events();
    let first = common::all(&events, "tool.finished")[0]["seq"].to_string();
    site.run(&["fork", "last", "--at", &first, "--files", "otherwise"]).ok();
    site
}

/// A session of Claude Code that goes on here.
fn imported() -> Site {
    let (_server, site) = foreign::anthropic(&["Indeed."]);
    let record = |kind: &str, id: &str, parent: Value, message: Value| {
        json!({ "type": kind, "uuid": id, "parentUuid": parent, "isSidechain": false,
            "sessionId": "0b1c-22", "version": "2.0.76", "cwd": site.project(),
            "timestamp": "2026-03-01T10:00:00.000Z", "message": message })
    };
    let reply = json!({ "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{ "type": "text", "text": "It works." }], "stop_reason": "end_turn",
        "usage": { "input_tokens": 10, "output_tokens": 40 } });
    let records = [
        record("user", "u1", Value::Null, json!({ "role": "user", "content": "Repair slug.sh" })),
        record("assistant", "a1", json!("u1"), reply),
    ];
    site.file("theirs.jsonl", foreign::as_lines(&records));
    let (session, _) = foreign::import(&site, "theirs.jsonl");
    site.run(&["run", "--session", &session, "Is that so?"]).ok();
    site
}

/// A session that has moved with its snapshots, and is reverted to its prompt.
fn bundled() -> Site {
    let write = call("write", json!({ "filePath": "a.txt", "content": "new\n" }));
    let site = Site::scripted(&json!({ "replies": [write, says("Done.")] }))
        .setting("/snapshot", json!(true));
    let events = site.run(&["run", "--yes", "--format", "json", "go"]).ok().events();
    let prompted = only(&events, "turn.prompted");
    let session = prompted["session"].as_str().unwrap();
    let bundle = site.run(&["export", session, "--unmasked", "--bundle"]).ok().stdout;
    std::fs::remove_dir_all(site.path("home")).unwrap();
    std::fs::write(site.path("session.bundle"), bundle).unwrap();
    site.run(&["import", site.path("session.bundle").to_str().unwrap()]).ok();
    site.run(&["revert", session, "--to", &prompted["seq"].to_string()]).ok();
    assert!(!site.project().join("a.txt").exists());
    site
}

/// Snapshots that cannot be taken or restored any more, and a summary without text.
fn failed() -> Site {
    let replies = [
        json!({ "match": { "purpose": "compaction" }, "parts": [] }),
        on("one", 0, bash("echo one > a")),
        on("one", 1, says("Done.")),
        on("two", 2, bash("echo two > a")),
        on("two", 3, says("Done.")),
    ];
    let site = Site::scripted(&json!({ "replies": replies, "on_end": "repeat" }))
        .setting("/snapshot", json!(true));
    site.file("a", "zero\n");
    let events = site.prompt("one").ok().events();
    let snapshots = site.path("home/snapshots");
    std::fs::remove_dir_all(&snapshots).unwrap();
    std::fs::write(&snapshots, "").unwrap();
    site.run(&["run", "--continue", "two"]).ok();
    let prompt = only(&events, "turn.prompted")["seq"].to_string();
    site.run(&["revert", "last", "--to", &prompt]);
    site.run(&["compact", "last"]);
    site
}

/// A revert that fails because a folder of the session's files is a link by then.
fn blocked() -> Site {
    let replies = [bash("echo one > z/b"), says("Done.")];
    let site = Site::scripted(&json!({ "replies": replies })).setting("/snapshot", json!(true));
    site.file("z/b", "zero\n");
    site.file("elsewhere/b", "mine\n");
    let events = site.prompt("go").ok().events();
    let project = site.project();
    std::fs::remove_dir_all(project.join("z")).unwrap();
    std::os::unix::fs::symlink("elsewhere", project.join("z")).unwrap();
    let prompt = only(&events, "turn.prompted")["seq"].to_string();
    let ran = site.run(&["revert", "last", "--to", &prompt, "--format", "json"]);
    assert!(ran.stdout.contains("files.restore_failed"), "{ran:?}");
    site
}
