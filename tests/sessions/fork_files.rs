//! `leftfold fork --files`: restores the project's files as they were at the fork point.

use common::{Ran, Site, all, bash, end, kinds, only, says, script};
use serde_json::{Value, json};

/// A session that has written `a` twice, `b` once and removed `gone`; and its events.
fn written() -> (Site, Vec<Value>) {
    let site = Site::scripted(&script(json!([
        { "parts": [{ "text": "Done otherwise." }], "match": { "prompt": "otherwise" } },
        bash("echo one > a"),
        bash("echo two > a; echo new > b; rm gone"),
        says("Done."),
    ])))
    .setting("snapshot", json!(true));
    site.file("a", "zero\n");
    site.file("gone", "here\n");
    site.file("mine", "mine\n");
    let events = site.prompt("go").ok().events();
    (site, events)
}

fn seq(events: &[Value], kind: &str, nth: usize) -> String {
    all(events, kind)[nth]["seq"].to_string()
}

fn fork(site: &Site, at: &str, more: &[&str]) -> Ran {
    site.run(&[&["fork", "last", "--at", at, "--files"], more].concat())
}

fn files(site: &Site) -> [String; 3] {
    ["a", "b", "gone"].map(|name| site.text(name).trim().to_owned())
}

#[test]
fn files_are_what_the_fork_has_been_told_of_them() {
    let (site, events) = written();
    let first = seq(&events, "tool.finished", 0);
    // directly and again: a fork of a fork uses the session's own knowledge
    for (at, expected) in [
        (first.as_str(), ["one", "", "here"]),
        (&seq(&events, "tool.started", 0), ["zero", "", "here"]),
        (&seq(&events, "tool.started", 1), ["one", "", "here"]),
        (&seq(&events, "turn.prompted", 0), ["zero", "", "here"]),
    ] {
        let ran = fork(&site, at, &[]).ok();
        assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
        assert_eq!(files(&site), expected, "{at}");
        let id = ran.stdout.trim();
        for command in ["check", "verify", "rerun"] {
            site.run(&[command, id]).ok();
        }
        // the earlier files come back
        site.run(&["unrevert", id]).ok();
        assert_eq!(files(&site), ["two", "new", ""], "{at}");
    }
    let ran = fork(&site, &seq(&events, "tool.finished", 1), &[]).ok();
    ran.saying(&["no file had to be restored"]);
    assert_eq!(
        (files(&site), site.text("mine")),
        (["two", "new", ""].map(str::to_owned), "mine\n".to_owned())
    );
}

#[test]
fn what_somebody_has_changed_meanwhile_is_kept_and_comes_back() {
    let (site, events) = written();
    site.file("a", "edited by hand\n");
    site.file("mine", "changed\n");
    let ran = fork(&site, &seq(&events, "tool.finished", 0), &[]).ok();
    assert_eq!(files(&site), ["one", "", "here"]);
    assert_eq!(site.text("mine"), "changed\n", "no call has changed it");
    let id = ran.saying(&["files changed"]).stdout.trim().to_owned();
    site.run(&["unrevert", &id]).ok();
    assert_eq!(site.text("a"), "edited by hand\n");
}

#[test]
fn a_prompt_follows_in_the_fork() {
    let (site, events) = written();
    let at = seq(&events, "tool.finished", 0);
    let own = fork(&site, &at, &["--format", "json", "otherwise"]).ok().events();
    assert_eq!(end(&own)["text"], "Done otherwise.");
    assert_eq!(files(&site), ["one", "", "here"]);
    let id = own[0]["session"].as_str().unwrap();
    let log = site.run(&["export", id]).ok().events();
    let asked = only(&log, "files.checkout_asked");
    assert_eq!(asked["data"]["paths"].as_array().map(Vec::len), Some(3), "{asked}");
    assert_eq!(all(&log, "files.restored").len(), 1, "{:?}", kinds(&log));
}

#[test]
fn what_no_snapshot_holds_is_refused_and_nothing_is_changed() {
    let site = Site::scripted(&script(json!([bash("echo one > a"), says("Done.")])));
    site.file("a", "zero\n");
    let events = site.prompt("go").ok().events();
    let at = seq(&events, "turn.prompted", 0);
    fork(&site, &at, &[]).with(2).saying(&["no snapshot was taken", "Without --files"]);
    assert_eq!(site.text("a"), "one\n");
    let listed = site.run(&["sessions", "list", "--format", "json"]).ok().events();
    assert_eq!(listed.len(), 1, "no fork is left behind");
    // nothing has changed since, so there is nothing to restore
    fork(&site, &seq(&events, "tool.finished", 0), &[]).ok();
}
