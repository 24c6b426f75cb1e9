//! `observe`: prints events from a cursor on and then live, across different nodes and their
//! deaths.

use std::process::Stdio;

use common::{ASK, Live, Site, asking, bash, from_on, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn observe(site: &Site, session: &str, from: u64) -> Live {
    site.start(&["observe", session, "--from", &from.to_string(), "--format", "json"])
}

/// Reads until the event with this seq.
fn through(observer: &mut Live, seq: u64) {
    observer.until_event(|line| line["seq"] == seq);
}

/// Stops an observer, which must exit cleanly. Returns its output.
fn stopped(observer: Live, signal: Signal) -> String {
    observer.signal(signal);
    let ran = observer.wait().ok();
    assert_eq!(ran.stderr, "");
    ran.stdout
}

fn last_seq(export: &str) -> u64 {
    let last: Value = serde_json::from_str(export.lines().last().unwrap()).unwrap();
    last["seq"].as_u64().unwrap()
}

#[test]
fn without_a_node_it_has_what_an_export_has() {
    let site = asking();
    site.prompt("go").ok();
    let export = site.run(&["export", "last"]).ok().stdout;
    let head = last_seq(&export);
    for from in [1, 2, 3, head] {
        let mut observer = observe(&site, "last", from);
        through(&mut observer, head);
        let signal = if from == 1 { Signal::INT } else { Signal::TERM };
        assert_eq!(stopped(observer, signal), from_on(&export, from), "from {from}");
    }
    site.run(&["observe", "last", "--from", "0"]).with(2);
    site.run(&["observe", "nonsense"]).with(2).saying(&["no session `nonsense`"]);
}

#[test]
fn early_late_killed_and_restarted_observers_have_exactly_the_log_across_a_crash() {
    let read = common::call("read", json!({ "filePath": ".env" }));
    let again = common::call("read", json!({ "filePath": "other.env" }));
    let trickle =
        json!({ "chunk": 2, "delay_ms": 1, "parts": [{ "text": "So be it, all of it." }] });
    let site = Site::scripted(&script(json!([bash("echo hi"), read, again, trickle])));
    site.file(".env", "A=1\n");
    site.file("other.env", "B=2\n");
    let mut node = site.start(&ASK);
    let session = node.line().unwrap();
    let session: Value = serde_json::from_str(&session).unwrap();
    let session = session["session"].as_str().unwrap();
    let mut early = observe(&site, session, 1);
    let middle = observe(&site, session, 4);
    let asked = node.until("permission.asked")["seq"].as_u64().unwrap();
    through(&mut early, asked);
    let mut killed = observe(&site, session, 1);
    through(&mut killed, 5);
    killed.signal(Signal::KILL);
    // the lines that its reader has handled; later output is lost with it
    let mut pieces = killed.seen.clone();
    drop(killed);
    let mut cursor = 6;

    node.signal(Signal::KILL);
    node.wait();
    let mut late = observe(&site, session, 3);
    through(&mut late, asked);
    let mut again = observe(&site, session, cursor);
    through(&mut again, asked);
    pieces += &stopped(again, Signal::TERM);
    cursor = asked + 1;

    let resume = ["resume", session, "--format", "json", "--permission-mode", "ask"];
    let mut node = site.start(&resume);
    node.until("session.resumed");
    let mut again = observe(&site, session, cursor);
    site.run(&["permission", "answer", session, &asked.to_string(), "once"]).ok();
    let second = node.until("permission.asked")["seq"].as_u64().unwrap();
    site.run(&["permission", "answer", session, &second.to_string(), "once"]).ok();
    let ran = node.wait().ok();
    let export = site.run(&["export", session]).ok().stdout;
    assert!(ran.stdout.contains("turn.ended"));
    let head = last_seq(&export);
    for (mut observer, from) in [(early, 1), (middle, 4), (late, 3)] {
        through(&mut observer, head);
        assert_eq!(stopped(observer, Signal::TERM), from_on(&export, from), "from {from}");
    }
    through(&mut again, head);
    pieces += &stopped(again, Signal::TERM);
    let events = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with(r#"{"v":1,"payload""#));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(events(&pieces), events(&export));
    site.assert_sound();
}

#[test]
fn a_slow_observer_holds_up_nobody_and_misses_nothing() {
    // far more than a pipe and a socket hold
    let long = |n| bash(&format!("head -c 40000 /dev/zero | tr '\\0' {n}"));
    let mut replies: Vec<Value> = (10..30).map(long).collect();
    replies.insert(0, common::call("read", json!({ "filePath": ".env" })));
    replies.push(says("The end."));
    let site = Site::scripted(&script(Value::Array(replies)))
        .setting("provider/double/models/m/limit/context", json!(10_000_000));
    site.file(".env", "A=1\n");
    let mut node = site.start(&ASK);
    let asked = node.until("permission.asked")["seq"].as_u64().unwrap();
    let mut command = site.command(&["observe", "last", "--format", "json"]);
    let mut slow = command.stdout(Stdio::piped()).spawn().unwrap();
    site.run(&["permission", "answer", "last", &asked.to_string(), "once"]).ok();
    // the node ends although nobody reads the observer's output
    node.wait().ok();
    let export = site.run(&["export", "last"]).ok().stdout;
    let mut read = vec![0; export.len()];
    let mut stdout = slow.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut read).unwrap();
    assert!(export.len() > 20 * 40_000);
    assert_eq!(String::from_utf8(read).unwrap(), export);
    drop(stdout);
    assert!(slow.wait().unwrap().success(), "it ends with its reader");
}

#[test]
fn it_ends_when_nobody_reads_any_more_although_nothing_happens() {
    let site = asking();
    site.prompt("go").ok();
    for head in [0, 1] {
        let mut command = site.command(&["observe", "last", "--format", "json"]);
        let mut observer = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = observer.stdout.take().unwrap();
        std::io::Read::read_exact(&mut stdout, &mut vec![0; head]).unwrap();
        drop(stdout);
        assert!(observer.wait().unwrap().success());
    }
}

#[test]
fn text_is_what_a_run_prints() {
    let site = Site::scripted(&script(json!([bash("echo hi"), says("Hello,\nworld.")])));
    let ran = site.run(&["run", "go"]).ok();
    let mut observer = site.start(&["observe"]);
    while !observer.seen.contains("world.") {
        observer.line().unwrap();
    }
    observer.signal(Signal::TERM);
    let observed = observer.wait().ok();
    assert_eq!(observed.stdout, ran.stdout);
    assert_eq!(observed.stderr, ran.stderr);
}

#[test]
fn an_idle_observer_takes_no_processor_time_to_speak_of() {
    let site = asking();
    site.prompt("go").ok();
    let export = site.run(&["export", "last"]).ok().stdout;
    let mut observer = observe(&site, "last", 1);
    through(&mut observer, last_seq(&export));
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", observer.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (start, before) = (std::time::Instant::now(), ticks());
    wait_until("a second has passed", || start.elapsed().as_secs() >= 1);
    // in hundredths of a second
    assert!(ticks() - before <= 3, "{} ticks", ticks() - before);
    stopped(observer, Signal::TERM);
}
