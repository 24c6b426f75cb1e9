//! Sessions with stores of their own and sessions of the shared store: every command finds both.

use common::{Editor, Live, Ran, Site};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A site, a session with a store of its own, and one of the shared store.
fn site() -> (Site, [String; 2]) {
    let usage = json!({ "input": 100, "output": 10 });
    let site = Site::scripted(&json!({
        "replies": [{ "parts": [{ "text": "Done." }], "usage": usage }],
        "on_end": "repeat",
    }));
    let own = site.prompt("mine").ok().events()[0]["session"].as_str().unwrap().to_owned();
    let mut editor = node(&site);
    let shared = editor.session(&site);
    let prompt = editor.prompt(&shared, "ours");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    (site, [own, shared])
}

/// A node of the shared store.
fn node(site: &Site) -> Editor {
    Editor::start(site, &["--store", site.path("home/store").to_str().unwrap()])
}

fn listed(site: &Site) -> Vec<String> {
    let listed = site.run(&["sessions", "--format", "json"]).ok();
    let id = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let mut ids: Vec<String> = listed.stdout.lines().map(id).collect();
    ids.sort();
    ids
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

#[test]
fn every_command_finds_sessions_of_both_kinds() {
    let (site, ids) = site();
    assert_eq!(listed(&site), sorted(&ids));
    let table: [(&[&str], &str); 13] = [
        (&["sessions", "show", "ID", "--format", "json"], "ID"),
        (&["replay", "ID"], "turn.ended"),
        (&["verify", "ID"], "all the same"),
        (&["check", "ID"], "no damage"),
        (&["export", "ID"], "session.created"),
        (&["explain", "ID", "1"], "session.created"),
        (&["why", "ID"], ""),
        (&["diff", "ID"], ""),
        (&["rerun", "ID"], ""),
        (&["resume", "ID"], ""),
        (&["run", "--session", "ID", "again"], "Done."),
        (&["share", "ID"], "ID"),
        (&["unshare", "ID"], ""),
    ];
    for id in &ids {
        for (command, part) in &table {
            // a unique prefix names the session, too
            let args: Vec<&str> =
                command.iter().map(|arg| if *arg == "ID" { &id[..25] } else { *arg }).collect();
            let ran = site.run(&args);
            let wanted = if *part == "ID" { id.as_str() } else { *part };
            assert!(ran.code == 0 && ran.stdout.contains(wanted), "{args:?}: {ran:?}");
        }
        let fork = site.run(&["fork", id]).ok().stdout.trim().to_owned();
        assert!(listed(&site).contains(&fork), "{fork}");
        site.run(&["sessions", "rm", id]).with(1).saying(&["have to go first"]);
        site.run(&["sessions", "rm", &fork]).ok();
    }
    let stats = site.run(&["stats", "--format", "json"]).ok().stdout;
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!((&stats["sessions"], &stats["turns"]), (&json!(2), &json!(4)));
}

#[test]
fn the_last_session_is_the_newest_of_both_kinds() {
    let (site, [own, shared]) = site();
    let last = |site: &Site| -> String {
        let shown = site.run(&["sessions", "show", "last", "--format", "json"]).ok().stdout;
        serde_json::from_str::<Value>(&shown).unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(last(&site), shared);
    site.run(&["run", "--session", &own, "again"]).ok();
    assert_eq!(last(&site), own);
    site.run(&["run", "--session", &shared, "again"]).ok();
    site.run(&["run", "--continue", "again"]).ok();
    assert_eq!(last(&site), shared);
    let turns = site.run(&["export", "last"]).ok().events();
    assert_eq!(turns.iter().filter(|event| event["type"] == "turn.ended").count(), 3);
    // of another project
    let folder = site.path("user");
    let ran = Live::start({
        let mut command = site.command(&["replay", "last"]);
        command.current_dir(folder);
        command
    });
    ran.wait().ok().saying(&["has no sessions yet", &shared]);
    let folder = site.path("home/store");
    let named = site.run(&["replay", folder.to_str().unwrap()]);
    named.with(2).saying(&["give the id of one"]);
}

#[test]
fn one_feed_has_the_sessions_of_both_kinds() {
    let (site, [own, shared]) = site();
    let mut observer = site.start(&["observe", "--all", "--project", ".", "--format", "json"]);
    let mut ended = Vec::new();
    for _ in 0..2 {
        ended.push(observer.until("turn.ended")["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(sorted(&ended), sorted(&[own.clone(), shared.clone()]));
    // while a node has it
    let mut editor = node(&site);
    let loaded = editor.ask(
        "session/load",
        json!({ "sessionId": shared, "cwd": site.project(), "mcpServers": [] }),
    );
    editor.result(loaded);
    let prompt = editor.prompt(&shared, "again");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let ended = observer.until("turn.ended");
    assert_eq!(ended["session"], shared.as_str());
    let other = editor.session(&site);
    let prompt = editor.prompt(&other, "new");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(observer.until("turn.ended")["session"], other.as_str());
    editor.leave();
    observer.signal(Signal::INT);
    let ran = observer.wait().ok();
    let mut seen: Vec<String> = Vec::new();
    for event in ran.events() {
        let line = format!("{} {}", event["session"], event["seq"]);
        assert!(!seen.contains(&line), "{line} came twice");
        seen.push(line);
    }
    let count = |id: &str| site.run(&["export", id]).ok().events().len();
    assert_eq!(seen.len(), [&own, &shared, &other].into_iter().map(|id| count(id)).sum::<usize>());
}

#[test]
fn removing_a_session_of_the_shared_store_leaves_the_others() {
    let (site, [own, first]) = site();
    let mut editor = node(&site);
    let second = editor.session(&site);
    let prompt = editor.prompt(&second, "second");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site.run(&["sessions", "rm", &first]).ok();
    assert_eq!(listed(&site), sorted(&[own.clone(), second.clone()]));
    site.run(&["check", &second]).ok();
    site.run(&["replay", &first]).with(2);
    let dry = site.run(&["sessions", "prune", "--max-size", "0", "--dry-run"]).ok().stdout;
    for id in [&own, &second] {
        assert!(dry.contains(&format!("{id} would be removed")), "{dry}");
    }
    let sizes: Vec<u64> =
        dry.lines().take(2).map(|line| line.split(' ').nth(4).unwrap().parse().unwrap()).collect();
    // the own one is idle the longest
    site.run(&["sessions", "prune", "--max-size", &sizes[1].to_string()]).ok();
    assert_eq!(listed(&site), std::slice::from_ref(&second));
    let pruned: Ran = site.run(&["sessions", "prune", "--max-size", "0"]).ok();
    assert!(pruned.stdout.contains(&format!("{second} removed")), "{pruned:?}");
    assert!(listed(&site).is_empty());
    // the store goes on
    let mut editor = node(&site);
    let third = editor.session(&site);
    let prompt = editor.prompt(&third, "third");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert_eq!(listed(&site), [third]);
}
