//! `leftfold fork`: another continuation from any point of a session.

use common::{Site, all, bash, call, end, only, says, script};
use serde_json::{Value, json};

fn finished() -> (Site, Vec<Value>) {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([
        { "parts": [{ "call": { "name": "bash", "input": { "command": "echo one" } } }],
          "match": { "prompt": "go", "answers": 0 } },
        read,
        says("The end."),
        { "match": { "prompt": "otherwise" }, "parts": [{ "text": "Another end." }] },
        bash("true"),
    ])));
    site.file("a.txt", "alpha\n");
    let events = site.prompt("go").ok().events();
    (site, events)
}

fn fork(site: &Site, at: usize) -> String {
    let ran = site.run(&["fork", "last", "--at", &at.to_string()]).ok();
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    ran.stdout.trim().to_owned()
}

fn lines(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

#[test]
fn at_every_seq_a_fork_shares_what_was_before_and_is_sound() {
    let (site, events) = finished();
    let root = &events[0]["session"];
    let prompt = only(&events, "turn.prompted")["seq"].as_u64().unwrap();
    for at in 1..=events.len() {
        if (at as u64) < prompt {
            let none = site.run(&["fork", "last", "--at", &at.to_string()]).with(2);
            none.saying(&["before the first prompt"]);
            continue;
        }
        let id = fork(&site, at);
        let forked = lines(&site, &id);
        assert_eq!(forked[..at], events[..at], "the prefix keeps its session: {at}");
        assert_eq!(forked[at]["type"], "session.forked");
        assert_eq!(forked[at]["data"], json!({ "from": root, "at": at }));
        assert!(forked[at..].iter().all(|event| event["session"] == id.as_str()));
        // anything open there is closed and reported as lost
        let closed = forked.last().unwrap();
        assert!(["session.forked", "turn.ended"].contains(&closed["type"].as_str().unwrap()));
        site.run(&["verify", &id]).ok();
    }
    site.run(&["check", "last"]).ok();
    assert_eq!(lines(&site, root.as_str().unwrap()), events, "the session itself is as it was");
}

#[test]
fn a_prompt_goes_on_in_the_fork_alone() {
    let (site, events) = finished();
    let at = all(&events, "tool.finished")[0]["seq"].to_string();
    let ran = site.run(&["fork", "last", "--at", &at, "--format", "json", "otherwise"]).ok();
    let own = ran.events();
    assert_eq!(end(&own)["text"], "Another end.");
    let id = own[0]["session"].as_str().unwrap();
    assert_eq!(only(&own, "turn.prompted")["data"]["parts"][0]["text"], "otherwise");
    // the model sees the shared part
    let request = all(&own, "model.requested")[0]["seq"].to_string();
    let explained = site.run(&["explain", id, &request]).ok().stdout;
    assert!(explained.contains("one") && explained.contains("otherwise"), "{explained}");
    site.run(&["verify", id]).ok();
    assert_eq!(
        site.exported().iter().filter(|line| line["payload"].is_null()).count(),
        events.len()
    );
    let parted = site.run(&["diff", "last", id]).with(1).stdout;
    assert!(parted.contains("session.forked"), "{parted}");
    // and a fork of the fork
    let again = site.run(&["run", "--session", id, "--fork", "--format", "json", "otherwise"]).ok();
    let third = again.events()[0]["session"].as_str().unwrap().to_owned();
    assert_ne!(third, id);
    let shared = lines(&site, &third);
    assert_eq!(shared[..events.len().min(5)], events[..5]);
    site.run(&["check", "last"]).ok();
    site.run(&["verify", &third]).ok();
}

/// The list names a fork by its number, and shows the state that `why` shows.
#[test]
fn a_fork_is_listed_with_its_number_and_its_state() {
    let (site, events) = finished();
    let open = all(&events, "tool.started")[0]["seq"].as_u64().unwrap();
    let prompt = only(&events, "turn.prompted")["seq"].as_u64().unwrap();
    let whole = fork(&site, events.len());
    let cut = fork(&site, usize::try_from(open).unwrap());
    let early = fork(&site, usize::try_from(prompt).unwrap());
    let ran = site.run(&["run", "--session", &whole, "--fork", "--format", "json", "otherwise"]);
    let again = ran.ok().events()[0]["session"].as_str().unwrap().to_owned();
    let list = site.run(&["sessions", "list", "--format", "json"]).ok().events();
    for (id, title, state) in [
        (events[0]["session"].as_str().unwrap(), "go", "completed"),
        (&whole, "go (fork #1)", "completed"),
        (&cut, "go (fork #2)", "aborted"),
        (&early, "go (fork #3)", "aborted"),
        (&again, "go (fork #4)", "completed"),
    ] {
        let listed = list.iter().find(|session| session["id"] == id).unwrap();
        assert_eq!((&listed["title"], &listed["state"]), (&json!(title), &json!(state)), "{id}");
        let why = site.run(&["why", id, "--format", "json"]).ok().events();
        assert_eq!((&why[0]["state"], &why[0]["ended"]), (&json!("idle"), &json!(state)), "{id}");
    }
}

#[test]
fn many_forks_cost_their_own_events_only() {
    let (site, events) = finished();
    let before = std::fs::metadata(site.session().join("db")).unwrap().len();
    for _ in 0..100 {
        fork(&site, events.len());
    }
    // each fork stores one event
    let whole = site.run(&["check", "last"]).ok().stdout;
    assert!(whole.contains(&format!(" {} events, no damage", events.len() + 100)), "{whole}");
    let after = std::fs::metadata(site.session().join("db")).unwrap().len();
    assert!(after <= before + (256 << 10), "{before} {after}");
    let list = site.run(&["sessions", "list", "--format", "json"]).ok().events();
    assert_eq!(list.len(), 101);
    assert!(list.iter().all(|session| session["directory"] == list[0]["directory"]));
}

#[test]
fn what_has_forks_is_not_removed_before_them() {
    let (site, events) = finished();
    let id = fork(&site, events.len());
    let of_fork =
        site.run(&["run", "--session", &id, "--fork", "otherwise", "--format", "json"]).ok();
    let of_fork = of_fork.events()[0]["session"].as_str().unwrap().to_owned();
    site.run(&["sessions", "rm", "last"]).with(1).saying(&[&id, "have to go first"]);
    site.run(&["sessions", "rm", &id]).with(1).saying(&[&of_fork]);
    site.run(&["sessions", "rm", &of_fork]).ok();
    site.run(&["check", "last"]).ok();
    site.run(&["sessions", "rm", &id]).ok();
    site.run(&["check", "last"]).ok();
    assert_eq!(lines(&site, "last"), events);
    site.run(&["sessions", "rm", "last"]).ok();
    assert_eq!(site.sessions().len(), 0);
}

#[test]
fn there_is_nothing_to_fork_at_beyond_the_log() {
    let (site, events) = finished();
    let beyond = (events.len() + 1).to_string();
    site.run(&["fork", "last", "--at", &beyond]).with(2).saying(&["there is no"]);
    site.run(&["fork", "last", "--at", "0"]).with(2).saying(&["there is no 0"]);
    site.run(&["run", "--fork", "go"]).with(2).saying(&["--session"]);
}
