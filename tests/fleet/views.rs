//! A node shows each session as its log has it, also after another node has gone on with the session.

use common::postgres::{Cluster, shared};
use common::{Editor, Site, says, script, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http_client::{Served, SseReader};
use crate::url;

/// Sessions beside which another one that is not used rests after two seconds.
const OTHERS: usize = 20;

/// Two servers on one database, whose leases last two seconds, and the schema of its tables.
fn servers(cluster: &Cluster) -> (Site, String, [Served; 2]) {
    let replies: Vec<Value> = (0..500).map(|_| says("Answered.")).collect();
    let url = url(cluster);
    let schema = url.split_once("schema=").unwrap().1.to_owned();
    let site =
        Site::scripted(&script(json!(replies))).env("LEFTFOLD_STORE", format!("{url}&lease=2"));
    site.run(&["fleet", "init"]).ok();
    let servers = ["a", "b"].map(|home| serve(&site, home));
    (site, schema, servers)
}

/// A server with files of its own, as at another machine.
fn serve(site: &Site, home: &str) -> Served {
    let mut command = site.command(&["serve", "--port", "0"]);
    command.env("LEFTFOLD_HOME", site.path(home));
    Served::from_command(command)
}

/// Whether all prompts of the session, and as many answers, are shown.
fn shows(server: &Served, session: &str, prompts: &[&str]) -> bool {
    let messages = server.get(&format!("/session/{session}/message")).ok();
    let texts: Vec<String> =
        messages.as_array().unwrap().iter().map(|message| message["parts"].to_string()).collect();
    let answers = texts.iter().filter(|text| text.contains("Answered.")).count();
    let is_shown = |prompt: &&str| texts.iter().any(|text| text.contains(*prompt));
    prompts.iter().all(is_shown) && answers == prompts.len()
}

/// Waits until both show these prompts with their answers and nobody is busy.
fn until_both_show(servers: &[Served; 2], session: &str, prompts: &[&str]) {
    wait_until(prompts.last().unwrap(), || {
        servers.iter().all(|server| {
            let busy = server.get("/session/status").ok();
            shows(server, session, prompts) && busy.get(session).is_none()
        })
    });
}

#[test]
fn a_session_that_rested_here_and_goes_on_elsewhere_is_shown_and_answers() {
    let Some(cluster) = shared() else { return };
    let (_site, schema, servers) = servers(cluster);
    let [a, b] = &servers;
    let session = a.session();
    let mut feed = a.feed(None);
    a.prompt(&session, "first");
    let rests = format!("select owner is null from {schema}.session order by id limit 1");
    for count in 0.. {
        if count > OTHERS && cluster.logs(&rests) == "t" {
            break;
        }
        let other = a.session();
        a.prompt(&other, "other");
    }
    b.prompt(&session, "second");
    until_both_show(&servers, &session, &["first", "second"]);
    feed.until(|frame| frame.properties.to_string().contains("second"));
    let answer = a.prompt(&session, "third");
    assert!(answer["parts"].to_string().contains("Answered."), "{answer}");
    until_both_show(&servers, &session, &["first", "second", "third"]);
}

#[test]
fn an_observer_at_a_node_where_the_session_rested_sees_what_goes_on_elsewhere() {
    let Some(cluster) = shared() else { return };
    let (site, schema, [_, b]) = servers(cluster);
    let mut command = site.command(&["node"]);
    command.env("LEFTFOLD_HOME", site.path("c"));
    let mut c = Editor::from_command(command);
    let initialized = c.ask("initialize", json!({ "protocolVersion": 1 }));
    c.result(initialized);
    let new = |c: &mut Editor| {
        let session = c.session(&site);
        let prompt = c.prompt(&session, "go");
        c.stop_reason(prompt);
        session
    };
    let session = new(&mut c);
    let watched = c.ask("_leftfold/watch", json!({ "session": session, "from": 1 }));
    c.result(watched);
    let rests = format!("select owner is null from {schema}.session order by id limit 1");
    for count in 0.. {
        if count > OTHERS && cluster.logs(&rests) == "t" {
            break;
        }
        new(&mut c);
    }
    for prompt in ["second", "third"] {
        b.prompt(&session, prompt);
        c.until(|message| message.to_string().contains(prompt));
    }
}

/// Waits until a feed has the prompt, the answer and the end of a turn.
fn until_shown(feed: &mut SseReader, prompt: &str) {
    feed.until(|frame| frame.properties.to_string().contains(prompt));
    feed.until(|frame| frame.properties.to_string().contains("Answered."));
    feed.until(|frame| frame.kind == "session.idle");
}

#[test]
fn a_feed_has_the_sessions_that_began_elsewhere_while_its_server_was_down() {
    let Some(cluster) = shared() else { return };
    let (site, _, [a, b]) = servers(cluster);
    let mut feed = b.feed(None);
    let known = b.session();
    b.prompt(&known, "before");
    feed.until(|frame| frame.properties.to_string().contains("before"));
    let last = feed.until(|frame| frame.kind == "session.idle").pop().unwrap();
    b.kill();
    let session = a.session();
    a.prompt(&session, "meanwhile");
    let b = serve(&site, "b");
    let mut feed = b.feed(Some(&last.id));
    feed.until(|frame| frame.kind == "session.created");
    until_shown(&mut feed, "meanwhile");
}

#[test]
fn a_node_that_stood_still_for_longer_than_its_lease_shows_what_another_one_did() {
    let Some(cluster) = shared() else { return };
    let (_site, _, servers) = servers(cluster);
    let [a, b] = &servers;
    let session = b.session();
    b.prompt(&session, "first");
    let signal = |signal| {
        let pid = Pid::from_raw(i32::try_from(b.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    };
    signal(Signal::STOP);
    let taken = a.prompt(&session, "second");
    assert!(taken["parts"].to_string().contains("Answered."), "{taken}");
    signal(Signal::CONT);
    until_both_show(&servers, &session, &["first", "second"]);
    let answer = b.prompt(&session, "third");
    assert!(answer["parts"].to_string().contains("Answered."), "{answer}");
    until_both_show(&servers, &session, &["first", "second", "third"]);
}
