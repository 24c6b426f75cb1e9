//! `observe --all` and `--type`: one feed of all sessions, and only some types of events.

use std::collections::{BTreeMap, BTreeSet};

use common::{ASK, Live, Site, all, asking, bash, call, kinds, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

fn events(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("payload").is_none()).collect()
}

/// Stops an observer, which must exit cleanly. Returns its output.
fn stopped(observer: Live) -> String {
    observer.signal(Signal::INT);
    let ran = observer.wait().ok();
    assert_eq!(ran.stderr, "");
    ran.stdout
}

/// Reads until a turn of this session ends.
fn until_end(observer: &mut Live, session: &str) {
    observer.until_event(|event| event["session"] == session && event["type"] == "turn.ended");
}

/// The seqs of each session, in the order of the feed.
fn seqs(events: &[Value]) -> BTreeMap<String, Vec<u64>> {
    let mut seqs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for event in events {
        let session = event["session"].as_str().unwrap().to_owned();
        seqs.entry(session).or_default().push(event["seq"].as_u64().unwrap());
    }
    seqs
}

/// The events of every session as exported, without those that a fork shares.
fn exported(site: &Site) -> BTreeSet<String> {
    let list = site.run(&["sessions", "--format", "json"]).ok().stdout;
    let ids = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ids = ids.map(|session| session["id"].as_str().unwrap().to_owned());
    let exports = ids.map(|id| site.run(&["export", &id]).ok().stdout);
    exports.flat_map(|export| export.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Checks that the feed has every line of every export once, and each session's events in order.
fn assert_whole(site: &Site, feed: &str) {
    let lines: Vec<&str> = feed.lines().collect();
    let once: BTreeSet<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(lines.len(), once.len(), "a line came twice");
    assert_eq!(once, exported(site));
    for (session, seqs) in seqs(&events(feed)) {
        let whole: Vec<u64> = (seqs[0]..).take(seqs.len()).collect();
        assert_eq!(seqs, whole, "{session}");
    }
}

fn session_of(live: &mut Live) -> String {
    let line: Value = serde_json::from_str(&live.line().unwrap()).unwrap();
    line["session"].as_str().unwrap().to_owned()
}

/// A killed node may leave events in its log that its head does not count. A node that opens the store and changes
/// nothing makes them final, and no file shows that.
#[test]
fn events_after_the_head_are_shown_once_no_node_has_the_store_open() {
    let site = asking();
    let mut node = site.start(&ASK);
    let session = session_of(&mut node);
    let asked = node.until("permission.asked")["seq"].as_u64().unwrap();
    let store = site.session();
    let head = store.join("heads").join(&session);
    let early = std::fs::read(&head).unwrap();
    site.run(&["permission", "answer", &session, &asked.to_string(), "once"]).ok();
    node.wait().ok();
    std::fs::write(&head, early).unwrap();

    let held = std::fs::File::open(store.join("db")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut observer = site.start(&["observe", "--all", "--format", "json"]);
    observer.until_event(|event| event["seq"] == asked);
    drop(held);
    until_end(&mut observer, &session);
    assert_whole(&site, &stopped(observer));
}

#[test]
fn earlier_running_and_later_sessions_and_forks_are_one_feed_without_gaps() {
    let site = asking().setting("provider/double/options/script/on_end", json!("repeat"));
    let ended = site.prompt("earlier").ok();
    let ended = ended.events()[0]["session"].as_str().unwrap().to_owned();
    let mut node = site.start(&ASK);
    let running = session_of(&mut node);
    let asked = node.until("permission.asked")["seq"].to_string();

    let mut observer = site.start(&["observe", "--all", "--format", "json"]);
    let in_running = |event: &Value| event["session"] == running.as_str();
    observer.until_event(|event| in_running(event) && event["type"] == "permission.asked");
    // one that begins later, and one whose node dies and comes back
    let later = site.prompt("later").ok();
    let later = later.events()[0]["session"].as_str().unwrap().to_owned();
    until_end(&mut observer, &later);
    node.signal(Signal::KILL);
    node.wait();
    let resume = ["resume", &running, "--format", "json", "--permission-mode", "ask"];
    let mut node = site.start(&resume);
    node.until("session.resumed");
    observer.until_event(|event| in_running(event) && event["type"] == "session.resumed");
    site.run(&["permission", "answer", &running, &asked, "once"]).ok();
    node.wait().ok();
    until_end(&mut observer, &running);
    // a fork of the first, and a further turn of the first
    let fork = site.run(&["fork", &ended]).ok().stdout.trim().to_owned();
    let fork = fork.split_whitespace().last().unwrap().to_owned();
    site.run(&["run", "--session", &fork, "--format", "json", "in the fork"]).ok();
    until_end(&mut observer, &fork);
    site.run(&["run", "--session", &ended, "--format", "json", "once more"]).ok();
    until_end(&mut observer, &ended);
    assert_whole(&site, &stopped(observer));
}

#[test]
fn children_are_sessions_of_the_feed() {
    let task = call(
        "task",
        json!({ "description": "look", "prompt": "look",
        "subagent_type": "general" }),
    );
    let answer = json!({ "match": { "prompt": "look" }, "parts": [{ "text": "Seen." }] });
    let site = Site::scripted(&script(json!([answer, task, says("Done.")])));
    let mut observer = site.start(&["observe", "--all", "--format", "json"]);
    let ran = site.prompt("go").ok();
    let events = ran.events();
    let root = events[0]["session"].as_str().unwrap();
    assert_eq!(seqs(&events).len(), 2, "{:?}", kinds(&events));
    until_end(&mut observer, root);
    let feed = stopped(observer);
    assert_whole(&site, &feed);
    // and the feed has it again from the logs
    let mut again = site.start(&["observe", "--all", "--format", "json"]);
    until_end(&mut again, root);
    assert_eq!(stopped(again).lines().collect::<BTreeSet<_>>(), feed.lines().collect());
}

#[test]
fn a_feed_continues_at_its_cursors_or_with_what_is_new() {
    let repeated = json!({ "replies": [says("One.")], "on_end": "repeat" });
    let site = Site::scripted(&repeated);
    let first = site.prompt("go").ok();
    let session = first.events()[0]["session"].as_str().unwrap().to_owned();
    let last = first.events().last().unwrap()["seq"].as_u64().unwrap();
    let named = format!("{session}:{last}");
    let mut from = site.start(&["observe", "--all", "--from", &named, "--format", "json"]);
    let mut new = site.start(&["observe", "--all", "--from", "now", "--format", "json"]);
    let mut one = site.start(&["observe", &session, "--from", "now", "--format", "json"]);
    until_end(&mut from, &session);
    // the other two have nothing to print, so they may not have started yet
    let mut second = String::new();
    while !new.seen.contains("turn.ended") {
        second = site.prompt("again").ok().events()[0]["session"].as_str().unwrap().to_owned();
        until_end(&mut new, &second);
    }
    until_end(&mut from, &second);
    assert_eq!(events(&from.seen)[0]["seq"], last);
    let new = seqs(&events(&stopped(new)));
    assert!(!new.contains_key(&session), "{new:?}");
    assert_eq!(new[&second][0], 1);
    site.run(&["run", "--session", &session, "--format", "json", "more"]).ok();
    until_end(&mut one, &session);
    let one = seqs(&events(&stopped(one)));
    assert!(one[&session][0] > last, "{one:?}");
    stopped(from);
    for wrong in [["--from", "3"], ["--project", "."], ["--from", "x"]] {
        let all = if wrong[0] == "--project" { "last" } else { "--all" };
        site.run(&["observe", all, wrong[0], wrong[1]]).with(2);
    }
    site.run(&["observe", "--all", &session]).with(2);
}

#[test]
fn a_project_has_its_own_feed() {
    let site = Site::scripted(&script(json!([says("One.")])));
    let here = site.prompt("go").ok().events()[0]["session"].clone();
    let other = site.path("other");
    std::fs::create_dir(&other).unwrap();
    let elsewhere = || {
        let mut command = site.command(&["run", "--format", "json", "go"]);
        command.current_dir(&other);
        Live::start(command).wait().ok().events()[0]["session"].as_str().unwrap().to_owned()
    };
    let before = elsewhere();
    let folder = other.to_str().unwrap();
    let observe = ["observe", "--all", "--project", folder, "--format", "json"];
    let mut observer = site.start(&observe);
    until_end(&mut observer, &before);
    site.prompt("go").ok();
    let after = elsewhere();
    until_end(&mut observer, &after);
    let seen = seqs(&events(&stopped(observer)));
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&before, &after], "not {here}");
}

#[test]
fn types_select_events_live_and_from_the_log() {
    let site = Site::scripted(&script(json!([bash("echo hi"), says("Done.")])));
    let mut live = site.start(&[
        "observe", "--all", "--type", "tool.*", "--type", "turn.ended", "--format", "json",
    ]);
    let ran = site.prompt("go").ok();
    let wanted = |event: &&Value| {
        let kind = common::kind(event);
        kind.starts_with("tool.") || kind == "turn.ended"
    };
    let expected: Vec<Value> = ran.events().iter().filter(wanted).cloned().collect();
    assert!(all(&expected, "tool.finished").len() == 1, "{:?}", kinds(&expected));
    live.until("turn.ended");
    // no contents behind hashes: no event that is printed names any
    let lines = |text: String| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(lines(stopped(live)), expected);
    let mut one = site.start(&["observe", "last", "--type", "t*", "--format", "json"]);
    one.until("turn.ended");
    let one = stopped(one);
    let payloads = one.lines().filter(|line| line.starts_with(r#"{"v":1,"payload""#)).count();
    assert!(payloads > 0 && one.contains("turn.configured"), "{one}");

    let mut text =
        site.start(&["observe", "last", "--type", "tool.started", "--type", "turn.ended"]);
    text.line().unwrap();
    text.line().unwrap();
    let text = stopped(text);
    let started = only(&expected, "tool.started");
    let seq = started["seq"].as_u64().unwrap();
    let begins = format!("{} {seq:>5} ", started["session"].as_str().unwrap());
    assert!(text.starts_with(&begins) && text.lines().count() == 2, "{text}");
    assert!(text.contains("  tool.started of ") && text.contains("  turn.ended"), "{text}");
}
