//! The feed over cuts: `curl -N` across kills, and the moment in which a client connects.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Site, says, script, skipped, wait_until};
use serde_json::{Value, json};

use crate::client::{Answered, Served, SseFrame};

/// `curl -N` of the feed into a file.
fn curl(server: &Served, query: &str, into: &Path) -> Child {
    let url = format!("http://127.0.0.1:{}/global/event{query}", server.port);
    let mut command = Command::new("curl");
    command.args(["-sN", "--noproxy", "*", &url]).stdin(Stdio::null());
    command.stdout(File::create(into).unwrap()).spawn().unwrap()
}

/// The frames that have arrived whole, with their ids. A greeting and heartbeats are left out.
fn frames(file: &Path) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(file).unwrap();
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let frame = |lines: &str| {
        let field = |name: &str| lines.lines().find_map(|line| line.strip_prefix(name));
        let data: Value = serde_json::from_str(field("data: ")?).unwrap();
        let kind = data["payload"]["type"].as_str().unwrap().to_owned();
        let id = field("id: ").unwrap_or_else(|| panic!("no id: {lines}")).to_owned();
        (!kind.starts_with("server.")).then_some((id, data["payload"].clone()))
    };
    whole.split("\n\n").filter_map(frame).collect()
}

/// `curl -N` prints every event once and in order, before and after each kill taken together.
#[test]
fn curl_shows_every_event_once_across_kills() {
    if Command::new("curl").arg("--version").output().is_err() {
        skipped("curl is not installed");
        return;
    }
    // it is never done
    let slow = json!({ "match": { "prompt": "slowly" }, "chunk": 2, "delay_ms": 50,
        "parts": [{ "text": "on and ".repeat(500) }] });
    let fast = json!({ "match": { "prompt": "" }, "parts": [{ "text": "Done." }] });
    let site = Site::scripted(&script(json!([slow, fast])));
    let files: Vec<_> = (0..5).map(|n| site.path("user").join(format!("curl-{n}"))).collect();
    let mut server = Served::start(&site);
    let session = server.session();
    // whichever directory the client names, as the SDK always does
    let mut reading = curl(&server, "?directory=/elsewhere", &files[0]);
    wait_until("it is greeted", || !std::fs::read_to_string(&files[0]).unwrap().is_empty());
    let mut shown: Vec<(String, Value)> = Vec::new();
    for (round, file) in files.iter().enumerate().take(3) {
        server.begin(&session, &format!("slowly {round}"));
        // in the middle of the answer
        let is_delta = |(_, payload): &(String, Value)| {
            let properties = &payload["properties"];
            payload["type"] == "message.part.delta" && properties["delta"].as_str().is_some()
        };
        wait_until("the answer begins", || frames(file).iter().filter(|f| is_delta(f)).count() > 2);
        server.kill();
        reading.wait().unwrap();
        shown.extend(frames(file).into_iter().filter(|(id, _)| id.contains('-')));
        let last = shown.last().unwrap().0.clone();
        server = Served::start(&site);
        reading = curl(&server, &format!("?after={last}"), &files[round + 1]);
        wait_until("the cut turn is shown", || {
            frames(&files[round + 1]).iter().any(|(_, f)| f["type"] == "session.idle")
        });
    }
    server.prompt(&session, "the last one");
    wait_until("all has come", || {
        let last = frames(&files[3]);
        last.iter().filter(|(_, frame)| frame["type"] == "session.idle").count() > 1
    });
    server.get("/session").ok();
    reading.kill().unwrap();
    reading.wait().unwrap();
    shown.extend(frames(&files[3]));
    let ids: HashSet<&String> = shown.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), shown.len(), "an event came twice");
    // a client that was never cut has the same
    let first = &shown[0].0;
    let mut whole = curl(&server, &format!("?after={first}"), &files[4]);
    let wanted = shown.len() - 1;
    wait_until("it has all", || frames(&files[4]).len() >= wanted);
    whole.kill().unwrap();
    whole.wait().unwrap();
    assert_eq!(frames(&files[4]), shown[1..]);
    server.end();
}

/// Nothing is lost while a client connects: neither what happens before its greeting, nor right after.
#[test]
fn no_event_is_lost_while_a_client_connects() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    let server = Served::start(&site);
    let session = server.session();
    let path = format!("/session/{session}");
    let rename = |title: &str| {
        let body = json!({ "title": title }).to_string();
        server.send("PATCH", &path, &[("content-type", "application/json")], Some(&body))
    };
    let has = |title: String| move |frame: &SseFrame| frame.properties["info"]["title"] == title;
    for round in 0..20 {
        let (before, after) = (format!("before {round}"), format!("after {round}"));
        // at the same time
        let renaming = rename(&before);
        let mut feed = server.feed(None);
        assert_eq!(feed.next().unwrap().kind, "server.connected");
        Answered::read(renaming).ok();
        Answered::read(rename(&after)).ok();
        let seen = feed.until(has(after));
        // in the state or in a later frame
        assert!(seen.iter().any(has(before)), "{seen:#?}");
    }
    // on the feed of a directory, too, from the greeting on
    for round in 0..20 {
        let title = format!("of the directory {round}");
        let mut feed = server.feed_of_directory();
        assert_eq!(feed.next().unwrap().kind, "server.connected");
        Answered::read(rename(&title)).ok();
        feed.until(has(title));
    }
    server.end();
}
