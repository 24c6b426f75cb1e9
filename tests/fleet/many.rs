//! Many sessions on three nodes, of which one is killed and one leaves. Prints how long turns and takeovers take.
//!
//! `LEFTFOLD_SESSIONS` sets the number of sessions (default 6). Leases are then the default ones, and the model
//! thinks for longer.

use std::collections::HashMap;
use std::time::SystemTime;

use common::postgres::{Cluster, shared};
use common::{Editor, Site, all, bash, end, number, says, script, wait_until};
use leftfold_events::Time;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::url;

const NODES: usize = 3;
const TURNS: usize = 3;
/// Sessions that change their node at once.
const MOVED: usize = 60;

fn percent(times: &mut [u64], percent: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

fn at(event: &Value) -> u64 {
    serde_json::from_value::<Time>(event["at"].clone()).unwrap().millis()
}

/// The events of sessions, once each has a turn that has ended.
fn ended(site: &Site, sessions: &[String]) -> Vec<Vec<Value>> {
    let mut found = HashMap::new();
    let mut done = 0;
    wait_until("the ends of the turns", || {
        while let Some(session) = sessions.get(done) {
            let mut events = site.run(&["export", session]).ok().events();
            events.retain(|event| event["session"] == **session);
            if all(&events, "turn.ended").is_empty() {
                return false;
            }
            found.insert(session, events);
            done += 1;
        }
        true
    });
    sessions.iter().map(|session| found.remove(session).unwrap()).collect()
}

/// The nodes in the database whose lease holds.
fn living(cluster: &Cluster, url: &str) -> usize {
    let schema = url.split_once("schema=").unwrap().1.split('&').next().unwrap();
    let count = format!("select count(*) from {schema}.node where until > clock_timestamp()");
    cluster.logs(&count).parse().unwrap()
}

/// Sessions in the middle of a command, whose node then gets the signal. Prints how long each waited for its next node.
fn takeover(site: &Site, mut node: Editor, count: usize, signal: Signal, name: &str) {
    let sessions: Vec<String> = (0..count).map(|_| node.session(site)).collect();
    for (n, session) in sessions.iter().enumerate() {
        node.prompt(session, &format!("work {name}-{n}."));
    }
    wait_until("the commands", || {
        sessions.iter().enumerate().all(|(n, _)| !site.text(&format!("{name}-{n}")).is_empty())
    });
    let signalled = Time::from(SystemTime::now()).millis();
    node.live.signal(signal);
    let mut waited = Vec::new();
    for (n, events) in ended(site, &sessions).iter().enumerate() {
        let resumed = all(events, "session.resumed");
        assert_eq!(resumed.len(), 1, "{events:#?}");
        assert_eq!(end(events)["reason"], "completed");
        assert_eq!(site.text(&format!("{name}-{n}")), "begun\n");
        waited.push(at(resumed[0]).saturating_sub(signalled));
    }
    let (half, most) = (percent(&mut waited, 50), percent(&mut waited, 99));
    println!(
        "{count} sessions of a node that was {name}: p50 {half} ms, p99 {most} ms until the next node"
    );
}

#[test]
fn many_sessions_work_on_three_nodes_and_change_them() {
    let Some(cluster) = shared() else { return };
    let is_long = std::env::var_os("LEFTFOLD_SESSIONS").is_some();
    let count = number("LEFTFOLD_SESSIONS", 6);
    let thinking: u64 = if is_long { 4_000 } else { 300 };
    let mut replies: Vec<Value> = Vec::new();
    for name in ["killed", "ended"] {
        for n in 0..MOVED {
            let file = format!("{name}-{n}");
            let work = bash(&format!("echo begun >> {file}; sleep 600"));
            let prompt = format!("work {file}.");
            replies.push(
                json!({ "match": { "prompt": prompt, "answers": 0 }, "parts": work["parts"] }),
            );
            replies.push(json!({ "match": { "prompt": prompt }, "parts": says("Done.")["parts"] }));
        }
    }
    let think = json!([{ "delay_ms": thinking }, { "text": "Hello." }]);
    replies.push(json!({ "match": { "prompt": "think" }, "parts": think }));
    let lease = if is_long { "" } else { "&lease=2" };
    let store = format!("{}{lease}", url(cluster));
    let site = Site::scripted(&script(json!(replies)))
        .setting("/permission", json!({ "bash": "allow" }))
        .env("LEFTFOLD_STORE", store.clone());
    site.run(&["fleet", "init"]).ok();
    let start = |home: String| {
        let mut command = site.command(&["node"]);
        command.env("LEFTFOLD_HOME", site.path(&home));
        let mut editor = Editor::from_command(command);
        let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
        editor.result(initialized);
        editor
    };
    let mut nodes: Vec<Editor> = (0..NODES).map(|at| start(format!("node-{at}"))).collect();

    let sessions: Vec<(usize, String)> =
        (0..count).map(|n| (n % NODES, nodes[n % NODES].session(&site))).collect();
    for _ in 0..TURNS {
        let prompts: Vec<(usize, u64)> = sessions
            .iter()
            .map(|(node, session)| (*node, nodes[*node].prompt(session, "think")))
            .collect();
        for (node, prompt) in prompts {
            assert_eq!(nodes[node].stop_reason(prompt), "end_turn");
        }
    }
    let mut gaps = Vec::new();
    let ids: Vec<String> = sessions.into_iter().map(|(_, session)| session).collect();
    for events in ended(&site, &ids) {
        let (prompts, ends) = (all(&events, "turn.prompted"), all(&events, "turn.ended"));
        assert_eq!((prompts.len(), ends.len()), (TURNS, TURNS));
        let turns = prompts.into_iter().zip(ends);
        gaps.extend(turns.map(|(prompt, end)| (at(end) - at(prompt)).saturating_sub(thinking)));
    }
    let (half, most) = (percent(&mut gaps, 50), percent(&mut gaps, 99));
    println!(
        "{count} sessions on {NODES} nodes, {} turns: p50 {half} ms, p99 {most} ms without the model",
        gaps.len()
    );

    let moved = count.min(MOVED);
    takeover(&site, nodes.remove(0), moved, Signal::KILL, "killed");
    // the other two wanted the same sessions: none of them connects once more for one that it did not get
    assert_eq!(living(cluster, &store), nodes.len());
    takeover(&site, nodes.remove(0), moved, Signal::TERM, "ended");
}
