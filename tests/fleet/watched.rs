//! A page and an observer, while the node of the session and the database are killed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::browser::{chromium, keep_screenshots};
use common::peers::Peers;
use common::postgres::own;
use common::{Live, Site, all, bash, end, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_client::Served;
use crate::url;

const STEPS: usize = 12;

#[test]
fn a_page_and_an_observer_see_every_event_while_a_node_and_the_database_die() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::installed() else { return };
    let Some(cluster) = own() else { return };
    let mut replies: Vec<Value> =
        (0..STEPS).map(|step| bash(&format!("sleep 1; echo {step} >> steps"))).collect();
    replies.push(says("Done."));
    let site = Site::scripted(&script(json!(replies)))
        .setting("/permission", json!({ "bash": "allow" }))
        .env("LEFTFOLD_STORE", format!("{}&lease=2", url(&cluster)));
    site.run(&["fleet", "init"]).ok();
    let server = |home: &str| {
        let mut command = site.command(&["serve", "--port", "0"]);
        command.env("LEFTFOLD_HOME", site.path(home));
        Served::from_command(command)
    };
    let (owner, watched, third) = (server("a"), server("b"), server("c"));
    let mut observe = site.command(&["observe", "--all", "--format", "json"]);
    observe.env("LEFTFOLD_HOME", site.path("observer"));
    let mut observer = Live::start(observe);
    owner.begin(&owner.session(), "go");
    wait_until("the first steps", || site.text("steps").lines().count() >= 2);
    let listed = || watched.get("/leftfold/overview").ok()["sessions"][0]["session"].clone();
    wait_until("the session is listed", || listed().is_string());
    let session = listed().as_str().unwrap().to_owned();

    let folder = site.path("browser");
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(peers.node());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/fleet_page.mjs"));
    command.arg(chromium).arg(&folder);
    command.arg(format!("http://127.0.0.1:{}/?session={session}", watched.port));
    command.env("HOME", &folder).stdin(Stdio::piped());
    let mut page = Live::start(command);
    let mut input = page.input();
    let ready: Value = serde_json::from_str(&page.line().unwrap()).unwrap();
    assert!(ready["ready"].as_u64().is_some_and(|events| events > 0), "{ready}");

    owner.kill();
    let exported = || {
        let ran = site.run(&["export", &session]);
        // the database may be away
        if ran.code == 0 { ran.events() } else { Vec::new() }
    };
    let has_resumed = || !all(&exported(), "session.resumed").is_empty();
    wait_until("the next node", has_resumed);
    cluster.kill();
    sleep(Duration::from_secs(1));
    cluster.begin();
    wait_until("the end of the turn", || !all(&exported(), "turn.ended").is_empty());
    let events = exported();
    assert_eq!(end(&events)["reason"], "completed");

    writeln!(input, "{}", events.len()).unwrap();
    let shown: Value = serde_json::from_str(&page.line().unwrap()).unwrap();
    keep_screenshots(&folder);
    assert_eq!(shown, json!({ "events": events.len(), "state": "idle", "is_same": true }));
    page.wait();

    let mut seen = BTreeMap::new();
    while seen.len() < events.len() {
        let line: Value = serde_json::from_str(&observer.line().expect("all events")).unwrap();
        if line["session"] == *session {
            assert!(seen.insert(line["seq"].as_u64(), line.clone()).is_none(), "twice: {line}");
        }
    }
    assert_eq!(seen.into_values().collect::<Vec<Value>>(), events);
    observer.signal(Signal::KILL);
    drop((watched, third));
}
