//! Nodes that die, stand still or leave: another one goes on with their sessions, and nothing happens twice.
//!
//! `LEFTFOLD_ROUNDS` sets how often a node stands still (default 3).

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};

use common::postgres::{Cluster, shared};
use common::{
    Editor, Live, Random, STEP_TIMEOUT, Site, all, bash, call, end, kinds, marked, number, says,
    script, wait_until,
};
use leftfold_events::Time;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{session_of, url};

/// A site with tables of its own, whose nodes lose their sessions after two seconds.
fn site(cluster: &Cluster, replies: Value) -> Site {
    site_on(&url(cluster), replies)
}

/// As [`site`], on these tables.
fn site_on(url: &str, replies: Value) -> Site {
    let url = format!("{url}&lease=2");
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!({ "bash": "allow", "task": "allow" }))
        .env("LEFTFOLD_STORE", url);
    site.run(&["fleet", "init"]).ok();
    site
}

/// A node with files of its own, and a client.
fn editor(site: &Site, home: &str) -> Editor {
    let mut command = site.command(&["node"]);
    command.env("LEFTFOLD_HOME", site.path(home));
    let mut editor = Editor::from_command(command);
    let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
    editor.result(initialized);
    editor
}

/// A server with files of its own.
fn server(site: &Site, home: &str) -> Live {
    let mut command = site.command(&["serve", "--port", "0"]);
    command.env("LEFTFOLD_HOME", site.path(home));
    let mut server = Live::start(command);
    server.line().unwrap();
    server
}

/// The session's own events.
fn events(site: &Site, session: &str) -> Vec<Value> {
    let mut events = site.run(&["export", session]).ok().events();
    events.retain(|event| event["session"] == session);
    events
}

fn wait_for_end(site: &Site, session: &str) -> Vec<Value> {
    let start = Instant::now();
    let mut found = events(site, session);
    while !kinds(&found).contains(&"turn.ended") {
        assert!(
            start.elapsed() < STEP_TIMEOUT,
            "the turn has not ended: {:#?}",
            found.last_chunk::<6>()
        );
        std::thread::sleep(Duration::from_millis(100));
        found = events(site, session);
    }
    for command in ["check", "verify"] {
        site.run(&[command, session]).ok();
    }
    found
}

#[test]
fn another_node_ends_the_turn_of_a_node_that_was_killed() {
    let Some(cluster) = shared() else { return };
    let other = bash("echo begun > other; sleep 9; echo lived >> other");
    let begin = bash("echo begun >> begun; sleep 600");
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "general" });
    let site = site(
        cluster,
        json!([
            { "match": { "prompt": "other", "answers": 0 }, "parts": other["parts"] },
            { "match": { "prompt": "other" }, "parts": [{ "text": "It lives." }] },
            { "match": { "prompt": "look", "answers": 0 }, "parts": begin["parts"] },
            { "match": { "prompt": "look" }, "parts": [{ "text": "I looked." }] },
            call("task", task),
            says("Done."),
        ]),
    );
    let next = server(&site, "b");
    let mut killed = editor(&site, "a");
    let session = killed.session(&site);
    killed.prompt(&session, "go");
    wait_until("the subagent's command", || !site.text("begun").is_empty());
    // a sibling's command that the takeover must not end
    let sibling = site.start(&["run", "--format", "json", "other"]);
    wait_until("the sibling's command", || !site.text("other").is_empty());
    let why = site.run(&["why", &session]).ok();
    assert!(why.stdout.contains(&format!("pid {}", killed.live.id())), "{why:?}");
    killed.live.signal(Signal::KILL);
    let ended = wait_for_end(&site, &session);
    assert_eq!(end(&ended)["reason"], "completed");
    // the child went on below its parent, under the same claim
    let child = all(&ended, "subagent.spawned")[0]["data"]["session"].as_str().unwrap().to_owned();
    for session in [&session, &child] {
        assert_eq!(all(&events(&site, session), "session.resumed").len(), 1);
        assert!(marked(session).is_empty());
    }
    assert_eq!(site.text("begun"), "begun\n");
    let sibling = sibling.wait();
    assert_eq!(site.text("other"), "begun\nlived\n", "{sibling:?}");
    drop(next);
}

/// The owner dies. A client sends an answer to another node before that node has looked for sessions without an owner, so
/// the answer opens the session there.
#[test]
fn a_session_that_an_answer_opens_goes_on() {
    let Some(cluster) = shared() else { return };
    let begin = bash("echo begun >> begun; sleep 600");
    let url = url(cluster);
    let schema = url.split_once("schema=").unwrap().1;
    let site = site_on(&url, json!([begin, says("Done.")]));
    let mut next = editor(&site, "b");
    let mut killed = editor(&site, "a");
    let session = killed.session(&site);
    killed.prompt(&session, "go");
    wait_until("the command", || !site.text("begun").is_empty());
    killed.live.signal(Signal::KILL);
    let is_over = format!(
        "select n.until < clock_timestamp() from {schema}.session s join {schema}.node n on n.id = s.owner"
    );
    while cluster.logs(&is_over) == "f" {}
    // nobody has asked this
    let answer = json!({ "session": session, "of": 3, "reply": "once", "by": "client" });
    let asked = next.ask("_leftfold/answer", answer);
    assert_eq!(next.result(asked)["accepted"], false);
    let start = Instant::now();
    assert_eq!(end(&wait_for_end(&site, &session))["reason"], "completed");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "it went on by itself only when it had rested"
    );
}

/// A node that has begun just now waits for a whole lease before it takes the session of a dead one.
#[test]
fn a_session_that_waits_for_a_lease_keeps_no_other_one_waiting() {
    const LEASE: Duration = Duration::from_secs(15);
    let Some(cluster) = shared() else { return };
    let url = url(cluster);
    let schema = url.split_once("schema=").unwrap().1;
    let site = site_on(&url, json!(vec![says("Done."); 9]));
    let mut killed = editor(&site, "a");
    let waiting = killed.session(&site);
    let prompt = killed.prompt(&waiting, "go");
    assert_eq!(killed.stop_reason(prompt), "end_turn");
    killed.live.signal(Signal::KILL);
    let is_over = format!("select bool_and(until < clock_timestamp()) from {schema}.node");
    while cluster.logs(&is_over) == "f" {}
    let mut command = site.command(&["node"]);
    command.env("LEFTFOLD_HOME", site.path("b"));
    command.env("LEFTFOLD_STORE", format!("{url}&lease={}", LEASE.as_secs()));
    let mut next = Editor::from_command(command);
    let begun = Instant::now();
    let initialized = next.ask("initialize", json!({ "protocolVersion": 1 }));
    next.result(initialized);
    let opens = next.ask("_leftfold/prompt", json!({ "session": waiting, "text": "again" }));
    let other = next.session(&site);
    let prompt = next.prompt(&other, "go");
    assert_eq!(next.stop_reason(prompt), "end_turn");
    assert!(begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
    next.result(opens);
    assert!(begun.elapsed() > LEASE / 2, "it did not have to wait");
    drop(killed);
}

/// A tool appends to a file. The node stands still at any moment for longer than its lease, and goes on after another one
/// has taken its session: each line is there at most once, and none comes after the next owner's.
#[test]
fn a_node_that_stood_still_has_no_effect() {
    let Some(cluster) = shared() else { return };
    let lines = "for i in $(seq 30); do echo $i >> $LINES; sleep 0.05; done";
    let mut random = Random::seeded();
    for round in 0..number("LEFTFOLD_ROUNDS", 3) {
        let file = format!("lines-{round}");
        let command = lines.replace("$LINES", &file);
        let after = bash(&format!("echo after >> {file}"));
        let site = site(cluster, json!([bash(&command), after, says("Done.")]));
        let mut zombie = editor(&site, "a");
        let session = zombie.session(&site);
        // a bystander, so that the session is there when its node stands still
        let next = server(&site, "b");
        zombie.prompt(&session, "go");
        wait_until("the session", || site.run(&["export", &session]).code == 0);
        std::thread::sleep(Duration::from_millis(random.below(1_200) as u64));
        zombie.live.signal(Signal::STOP);
        let before = wait_for_end(&site, &session);
        let written = site.text(&file);
        zombie.live.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(site.text(&file), written, "round {round}: the zombie has written");
        let mut seen = HashSet::new();
        assert!(written.lines().all(|line| seen.insert(line)), "round {round}: {written}");
        assert_eq!(events(&site, &session), before, "round {round}");
        drop((next, zombie));
    }
}

/// Ends a node in good order. Another one goes on with the session at once, and not when a lease is over. That takes less than
/// a second on a machine that has time.
fn hand_over(site: &Site, node: Live, session: &str, count: usize) {
    let left = Time::from(SystemTime::now());
    node.signal(Signal::TERM);
    let mut at = None;
    wait_until("the next node", || {
        let events = events(site, session);
        let resumed = all(&events, "session.resumed");
        at = resumed.get(count - 1).map(|event| event["at"].clone());
        at.is_some()
    });
    let at: Time = serde_json::from_value(at.unwrap()).unwrap();
    let took = at.millis().saturating_sub(left.millis());
    assert!(took < 5_000, "{took} ms");
    println!("handed over within {took} ms");
    node.wait();
}

/// Two nodes. The session of the first one is in the middle of its first command.
struct Working {
    site: Site,
    first: Editor,
    second: Live,
    session: String,
}

fn working(cluster: &Cluster) -> Working {
    let work = |n| bash(&format!("echo {n} >> work; sleep 600"));
    let site = site(cluster, json!([work(1), work(2), says("Done.")]));
    let second = server(&site, "b");
    let mut first = editor(&site, "a");
    let session = first.session(&site);
    first.prompt(&session, "go");
    wait_until("the first command", || site.text("work") == "1\n");
    Working { site, first, second, session }
}

#[test]
fn a_node_that_leaves_hands_its_sessions_over() {
    let Some(cluster) = shared() else { return };
    let Working { site, first, second, session } = working(cluster);
    hand_over(&site, first.live, &session, 1);
    let third = editor(&site, "c");
    wait_until("the second command", || site.text("work") == "1\n2\n");
    hand_over(&site, second, &session, 2);
    let ended = wait_for_end(&site, &session);
    assert_eq!(end(&ended)["reason"], "completed");
    assert_eq!(site.text("work"), "1\n2\n");
    assert!(marked(&session).is_empty());
    drop(third);
}

/// The id of the node that this process is.
fn node_of(site: &Site, pid: u32) -> String {
    let nodes = site.run(&["fleet", "nodes", "--format", "json"]).ok().stdout;
    let nodes = nodes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let label = Value::from(format!("pid {pid}"));
    let mut found = nodes.filter(|node| node["labels"].as_array().unwrap().contains(&label));
    found.next().unwrap()["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_node_that_is_drained_hands_its_sessions_over_and_ends() {
    let Some(cluster) = shared() else { return };
    let Working { site, first, second, session } = working(cluster);
    let node = node_of(&site, first.live.id());
    let drained = site.run(&["fleet", "drain", &node[..13]]).ok();
    assert_eq!(drained.stdout, format!("node {node} has handed over 1 session and ended\n"));
    first.live.wait().ok().saying(&["an operator drains this node"]);
    site.run(&["fleet", "drain", &node]).with(1).saying(&["knows no node", "fleet nodes"]);
    wait_until("the second command", || site.text("work") == "1\n2\n");
    // a node that does not answer keeps its sessions until its lease has run out
    let node = node_of(&site, second.id());
    second.signal(Signal::STOP);
    let late = site.run(&["fleet", "drain", &node, "--timeout", "1"]).with(1);
    late.saying(&["still has 1 session", "fleet nodes"]);
    let dead = site.run(&["fleet", "drain", &node]).with(1);
    dead.saying(&["take", "over"]);
    wait_until("the end of the lease", || {
        site.run(&["fleet", "drain", &node]).stderr.contains("nothing to drain")
    });
    second.signal(Signal::CONT);
    let third = server(&site, "c");
    let ended = wait_for_end(&site, &session);
    assert_eq!(end(&ended)["reason"], "completed");
    assert_eq!(site.text("work"), "1\n2\n");
    assert_eq!(all(&ended, "session.resumed").len(), 2);
    drop((second, third));
}

/// Asks `why` until it says so.
fn wait_for_why(site: &Site, session: &str, says: &str) -> String {
    let mut why = String::new();
    wait_until(says, || {
        why = site.run(&["why", session]).ok().stdout;
        why.contains(says)
    });
    why
}

#[test]
fn a_session_of_a_dead_host_moves_to_another_one() {
    let Some(cluster) = shared() else { return };
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "general" });
    let begin = bash("echo begun >> begun; sleep 600");
    let url = url(cluster);
    let site = site_on(
        &url,
        json!([
            { "match": { "prompt": "look", "answers": 0 }, "parts": begin["parts"] },
            { "match": { "prompt": "look" }, "parts": [{ "text": "I looked." }] },
            call("task", task),
            says("Done."),
        ]),
    );
    let mut run = site.start(&["run", "--format", "json", "go"]);
    let session = run.until("session.created")["session"].as_str().unwrap().to_owned();
    wait_until("the subagent's command", || !site.text("begun").is_empty());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let moving = ["fleet", "move", &session, "--to", &host];
    site.run(&moving).with(1).saying(&["belongs to a living node", "leftfold fleet drain"]);
    run.signal(Signal::KILL);
    run.wait();
    // as if the run had been on another host
    let schema = url.rsplit_once("schema=").unwrap().1;
    cluster.logs(&format!(
        "update {schema}.session set place = 'host:gone'; \
         update {schema}.node set until = clock_timestamp() - interval '1 s'"
    ));
    let server = server(&site, "b");
    std::thread::sleep(Duration::from_secs(2));
    wait_for_why(&site, &session, "gone");
    // its project is not there yet
    let away = site.path("away");
    std::fs::rename(site.project(), &away).unwrap();
    let elsewhere = |args: &[&str]| {
        let mut command = site.command(args);
        command.current_dir(site.path(""));
        Live::start(command).wait()
    };
    let moved = elsewhere(&["fleet", "move", &session[..20], "--host", &host]).ok();
    moved.saying(&["no files have moved"]);
    wait_until("the node's error", || {
        elsewhere(&["why", &session]).ok().stdout.contains("a node could not go on with it")
    });
    let why = elsewhere(&["why", &session, "--format", "json"]).ok();
    let why: Value = serde_json::from_str(&why.stdout).unwrap();
    assert_eq!(why["place"], format!("host:{host}"));
    let trouble = why["trouble"]["why"].as_str().unwrap();
    assert!(trouble.contains(site.project().to_str().unwrap()), "{trouble}");
    std::fs::rename(&away, site.project()).unwrap();
    let ended = wait_for_end(&site, &session);
    assert_eq!(end(&ended)["reason"], "completed");
    // the subagent has moved, too
    let child = all(&ended, "subagent.spawned")[0]["data"]["session"].as_str().unwrap().to_owned();
    assert_eq!(all(&events(&site, &child), "session.resumed").len(), 1);
    assert!(!site.run(&["why", &session]).ok().stdout.contains("could not go on"));
    for (args, says) in [
        (&["fleet", "move", "01", "--to", &host][..], "say more of it"),
        (&["fleet", "move", "7ZZZ", "--to", &host][..], "has no session"),
        (&["fleet", "move", "no id", "--to", &host][..], "has no session"),
    ] {
        site.run(args).with(1).saying(&[says]);
    }
    site.run(&["fleet", "move", &session]).with(2);
    site.run(&["fleet", "move", "last", "--to", &host]).with(2).saying(&["by its id"]);
    drop(server);
}

#[test]
fn a_session_without_an_owner_says_what_it_waits_for() {
    let Some(cluster) = shared() else { return };
    let site = site(cluster, json!([bash("sleep 600"), says("Done.")]));
    let mut run = site.start(&["run", "--format", "json", "go"]);
    run.until("tool.started");
    run.signal(Signal::KILL);
    let session = session_of(&run.wait());
    wait_until("the end of the lease", || {
        !site.run(&["why", &session]).ok().stdout.contains("owner: host")
    });
    let why = site.run(&["why", &session]).ok();
    assert!(why.stdout.contains("interrupted") && why.stdout.contains("leftfold serve"), "{why:?}");
    let json = site.run(&["why", &session, "--format", "json"]).ok();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["state"], "interrupted");
    assert!(
        json["place"].as_str().unwrap().starts_with("host:") && json["owner"].is_null(),
        "{json}"
    );
    // a server of this host goes on with it
    let server = server(&site, "b");
    wait_for_end(&site, &session);
    drop(server);
}
