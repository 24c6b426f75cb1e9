//! Prompts, answers, interrupts and forks of a session at another node than the one that owns it.

use std::process::Command;

use common::postgres::{Cluster, shared};
use common::{Editor, Live, Ran, Site, all, bash, kinds, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_client::{Served, SseFrame};
use crate::{session_of, url};

/// A site whose nodes lose their sessions after two seconds, and the schema of its tables.
fn site(cluster: &Cluster, replies: Value) -> (Site, String) {
    let url = format!("{}&lease=2", url(cluster));
    let schema = url.split_once("schema=").unwrap().1.split('&').next().unwrap().to_owned();
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!({ "bash": "allow" }))
        .env("LEFTFOLD_STORE", url);
    site.run(&["fleet", "init"]).ok();
    (site, schema)
}

/// A command with files of its own, as at another machine.
fn at(site: &Site, home: &str, args: &[&str]) -> Command {
    let mut command = site.command(args);
    command.env("LEFTFOLD_HOME", site.path(home));
    command
}

fn node(site: &Site, home: &str) -> Editor {
    let mut editor = Editor::from_command(at(site, home, &["node"]));
    let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
    editor.result(initialized);
    editor
}

fn run(site: &Site, home: &str, args: &[&str]) -> Ran {
    Live::start(at(site, home, args)).wait()
}

/// The session's own events; none before it exists.
fn events(site: &Site, session: &str) -> Vec<Value> {
    let mut events = site.run(&["export", session]).events();
    events.retain(|event| event["session"] == session);
    events
}

fn wait_for(site: &Site, session: &str, kind: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    wait_until(kind, || {
        found = events(site, session);
        kinds(&found).iter().filter(|found| **found == kind).count() >= count
    });
    found
}

/// A session at a node, after its first turn.
fn session_at(site: &Site, node: &mut Editor) -> String {
    let session = node.session(site);
    let prompted = node.prompt(&session, "go");
    assert_eq!(node.stop_reason(prompted), "end_turn");
    session
}

/// Whether the log is sound, and what the database keeps of messages.
fn assert_settled(cluster: &Cluster, site: &Site, schema: &str, session: &str) {
    for command in ["check", "verify"] {
        site.run(&[command, session]).ok();
    }
    assert_eq!(cluster.logs(&format!("select count(*) from {schema}.inbox")), "0");
    assert_eq!(cluster.logs(&format!("select count(*) from {schema}.outcome")), "0");
}

#[test]
fn a_prompt_reaches_the_session_from_another_node() {
    let Some(cluster) = shared() else { return };
    let (site, schema) = site(cluster, json!([says("One."), says("Two."), says("Three.")]));
    let mut owner = node(&site, "a");
    let session = session_at(&site, &mut owner);
    let owned = format!("pid {}", owner.live.id());
    // a command
    let ran = run(&site, "b", &["run", "--session", &session, "again"]).ok();
    assert!(ran.stdout.contains("Two."), "{ran:?}");
    // a node, which sends the events too
    let mut other = node(&site, "c");
    let watch = json!({ "session": session, "from": 1 });
    let watched = other.ask("_leftfold/watch", watch);
    other.result(watched);
    let prompt = json!({ "session": session, "text": "once more", "by": "c" });
    let prompted = other.ask("_leftfold/prompt", prompt);
    assert_eq!(other.result(prompted), json!({}));
    let is_end = |message: &Value| {
        message["params"]["type"] == "turn.ended" && message["params"]["data"]["text"] == "Three."
    };
    // the turn may end before the answer comes
    if !other.got.iter().any(is_end) {
        other.until(is_end);
    }
    let found = events(&site, &session);
    assert_eq!(all(&found, "turn.prompted").len(), 3);
    assert_eq!(all(&found, "session.resumed").len(), 0);
    let by = all(&found, "turn.prompted")[2]["data"]["by"].as_str().unwrap().to_owned();
    assert!(by.starts_with('c'), "{by}");
    let why = site.run(&["why", &session]).ok();
    assert!(why.stdout.contains(&owned), "{why:?}");
    // what is wrong comes back
    let wrong = other.ask("_leftfold/prompt", json!({ "session": session, "text": "", "by": "c" }));
    let error = other.error(wrong);
    assert!(error["message"].as_str().unwrap().contains("empty"), "{error}");
    assert_settled(cluster, &site, &schema, &session);
}

#[test]
fn the_first_of_two_nodes_answers_a_question() {
    let Some(cluster) = shared() else { return };
    let (site, schema) = site(cluster, json!([bash("echo asked"), says("Done.")]));
    let site = site.setting("/permission", json!({ "bash": "ask" }));
    let mut owner = node(&site, "a");
    let session = owner.session(&site);
    owner.prompt(&session, "go");
    let asked = wait_for(&site, &session, "permission.asked", 1);
    let call = all(&asked, "permission.asked")[0]["data"]["call"].as_str().unwrap().to_owned();
    let answer =
        |home| Live::start(at(&site, home, &["permission", "answer", &session, &call, "reject"]));
    let mut ran = [answer("b"), answer("c")].map(Live::wait);
    ran.sort_by_key(|ran| ran.code);
    let [won, lost] = ran;
    assert_eq!((won.code, lost.code), (0, 1), "{won:?} {lost:?}");
    assert!(lost.stderr.contains("already answered by leftfold permission answer"), "{lost:?}");
    let ended = wait_for(&site, &session, "turn.ended", 1);
    assert_eq!(all(&ended, "permission.answered").len(), 1);
    assert_settled(cluster, &site, &schema, &session);
}

#[test]
fn another_node_interrupts_forks_and_reverts() {
    let Some(cluster) = shared() else { return };
    let replies = json!([says("One."), bash("echo begun > begun; sleep 600"), says("Never.")]);
    let (site, schema) = site(cluster, replies);
    let mut owner = node(&site, "a");
    let session = session_at(&site, &mut owner);
    let forked = run(&site, "b", &["fork", &session]).ok();
    let fork = forked.stdout.trim().to_owned();
    assert_eq!(all(&events(&site, &fork), "session.forked").len(), 1);
    owner.prompt(&session, "work");
    wait_until("the command", || !site.text("begun").is_empty());
    let mut other = node(&site, "c");
    let cancelled = other.ask("_leftfold/cancel", json!({ "session": session, "by": "c" }));
    assert_eq!(other.result(cancelled), json!({}));
    let ended = wait_for(&site, &session, "turn.ended", 2);
    assert_eq!(all(&ended, "turn.ended")[1]["data"]["reason"], "aborted");
    assert_eq!(all(&ended, "turn.interrupted").len(), 1);
    // without a turn it has nothing to do
    let cancelled = other.ask("_leftfold/cancel", json!({ "session": session, "by": "c" }));
    assert_eq!(other.result(cancelled), json!({}));
    let to = all(&ended, "turn.prompted")[1]["seq"].clone();
    let revert = json!({ "session": session, "to": to, "by": "c" });
    let reverted = other.ask("_leftfold/revert", revert);
    assert_eq!(other.result(reverted), json!({ "accepted": true, "refused": null }));
    wait_for(&site, &session, "files.revert_asked", 1);
    let forked = other.ask("_leftfold/fork", json!({ "session": session, "at": 5 }));
    let fork = other.result(forked)["session"].as_str().unwrap().to_owned();
    assert_eq!(all(&events(&site, &fork), "session.forked").len(), 1);
    assert_settled(cluster, &site, &schema, &session);
}

#[test]
fn a_message_counts_once_although_the_owner_dies() {
    let Some(cluster) = shared() else { return };
    let (site, schema) = site(cluster, json!([says("One."), says("Two."), says("Three.")]));
    let mut owner = node(&site, "a");
    let session = session_at(&site, &mut owner);
    let mut other = node(&site, "b");
    owner.live.signal(Signal::STOP);
    let prompt = json!({ "session": session, "text": "again", "by": "b" });
    let prompted = other.ask("_leftfold/prompt", prompt);
    let waiting = format!("select count(*) from {schema}.inbox");
    wait_until("the message", || cluster.logs(&waiting) == "1");
    owner.live.signal(Signal::KILL);
    // the sender's node takes the session, and its own message
    let answer = other.answer(prompted);
    assert!(answer.get("result").is_some(), "{answer}");
    let ended = wait_for(&site, &session, "turn.ended", 2);
    assert_eq!(all(&ended, "turn.prompted").len(), 2);
    assert_settled(cluster, &site, &schema, &session);
}

#[test]
fn a_wrong_row_holds_up_nothing() {
    let Some(cluster) = shared() else { return };
    let (site, schema) = site(cluster, json!([says("One."), says("Two.")]));
    let mut owner = node(&site, "a");
    let session = session_at(&site, &mut owner);
    for (number, body) in [
        (1, "nonsense".to_owned()),
        (2, "[".repeat(100_000)),
        (3, json!({ "v": 7, "method": "_leftfold/prompt", "params": {} }).to_string()),
        (4, json!({ "v": 1, "method": "_leftfold/remove", "params": {} }).to_string()),
        (5, json!({ "v": 1, "method": "_leftfold/cancel", "params": [1] }).to_string()),
    ] {
        cluster.logs(&format!(
            "insert into {schema}.inbox (id, session, body) select lpad('{number}', 32, '0')::uuid, id, \
             convert_to('{body}', 'UTF8') from {schema}.session"
        ));
    }
    let ran = run(&site, "b", &["run", "--session", &session, "again"]).ok();
    assert!(ran.stdout.contains("Two."), "{ran:?}");
    assert_eq!(cluster.logs(&format!("select count(*) from {schema}.inbox")), "0");
    let refused = format!(
        "select string_agg(convert_from(body, 'UTF8'), ' ' order by message) from {schema}.outcome"
    );
    let refused = cluster.logs(&refused);
    for why in ["cannot be read", "version 7", "no method"] {
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(all(&events(&site, &session), "turn.prompted").len(), 2);
}

#[test]
fn a_message_waits_for_a_node_of_the_sessions_host() {
    let Some(cluster) = shared() else { return };
    let (site, schema) = site(cluster, json!([says("One."), says("Two.")]));
    let session = session_of(&site.run(&["run", "--format", "json", "go"]).ok());
    let place = |to: &str| cluster.logs(&format!("update {schema}.session set place = '{to}'"));
    let here = cluster.logs(&format!("select place from {schema}.session"));
    place("host:elsewhere");
    let mut other = node(&site, "b");
    let prompt = json!({ "session": session, "text": "again", "by": "b" });
    let prompted = other.ask("_leftfold/prompt", prompt);
    let error = other.error(prompted);
    let why = error["message"].as_str().unwrap();
    assert!(why.contains("waits for a node of host elsewhere"), "{error}");
    let status = site.run(&["fleet", "status", "--format", "json"]).ok().events().remove(0);
    assert_eq!((&status["waiting"], &status["messages"]), (&json!(1), &json!(1)), "{status}");
    let why = site.run(&["why", &session]).ok();
    assert!(why.stdout.contains("1 message waits for a node of host elsewhere"), "{why:?}");
    // a node there starts
    place(&here);
    wait_for(&site, &session, "turn.ended", 2);
    for command in ["check", "verify"] {
        site.run(&[command, &session]).ok();
    }
}

/// The text of a message's part in a frame, once it is whole.
fn has_text(frame: &SseFrame, text: &str) -> bool {
    frame.kind == "message.part.updated" && frame.properties["part"]["text"] == text
}

#[test]
fn a_server_serves_the_sessions_of_another_one() {
    let Some(cluster) = shared() else { return };
    let sleep = bash("echo begun > begun; sleep 600");
    let replies = json!([says("One."), says("Two."), bash("true"), says("Three."), sleep]);
    let (site, schema) = site(cluster, replies);
    let site = site.setting("/permission", json!({ "bash": { "*": "allow", "true": "ask" } }));
    let server = |home| Served::from_command(at(&site, home, &["serve", "--port", "0"]));
    let (owner, other) = (server("a"), server("b"));
    let mut feed = other.feed(None);
    let session = owner.session();
    owner.begin(&session, "go");
    // live, without a request about the session
    feed.until(|frame| has_text(frame, "One."));
    feed.until(|frame| frame.kind == "session.idle");
    let answer = other.prompt(&session, "again");
    assert!(answer["parts"].to_string().contains("Two."), "{answer}");
    feed.until(|frame| has_text(frame, "Two."));
    owner.begin(&session, "once more");
    let asked = feed.until(|frame| frame.kind == "permission.asked").pop().unwrap();
    let id = asked.properties["id"].as_str().unwrap().to_owned();
    let reply = format!("/permission/{id}/reply");
    assert_eq!(other.post(&reply, json!({ "reply": "once" })).ok(), json!(true));
    assert_eq!(other.post(&reply, json!({ "reply": "once" })).status, 404);
    feed.until(|frame| has_text(frame, "Three."));
    owner.begin(&session, "work");
    wait_until("the command", || !site.text("begun").is_empty());
    other.post(&format!("/session/{session}/abort"), json!({})).ok();
    feed.until(|frame| frame.kind == "session.idle");
    let forked = other.post(&format!("/session/{session}/fork"), json!({})).ok();
    let fork = forked["id"].as_str().unwrap();
    assert!(owner.sessions().contains(fork) && other.sessions().contains(fork));
    let listed = |server: &Served| server.get(&format!("/session/{session}/message")).ok();
    assert_eq!(listed(&owner), listed(&other));
    let found = events(&site, &session_id(&site));
    assert_eq!(all(&found, "turn.prompted").len(), 4);
    assert_eq!(all(&found, "turn.ended")[3]["data"]["reason"], "aborted");
    assert_settled(cluster, &site, &schema, &session_id(&site));
    owner.end();
    other.end();
}

/// The id of the only session that is no fork, as the command line has it.
fn session_id(site: &Site) -> String {
    let listed = site.run(&["sessions", "--format", "json"]).ok().events();
    let mut ids: Vec<String> =
        listed.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids.remove(0)
}
