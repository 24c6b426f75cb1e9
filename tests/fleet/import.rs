//! Sessions of this machine move into a database, and come out of it, byte for byte.

use common::postgres::shared;
use common::{Site, bash, call, says, script};
use serde_json::json;

use crate::{on, session_of, url};

#[test]
fn sessions_are_the_same_bytes_in_a_database() {
    let Some(cluster) = shared() else { return };
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "general" });
    let replies = json!([
        { "match": { "prompt": "look" }, "parts": [{ "text": "I looked." }] },
        call("task", task),
        bash("seq 1 30000"),
        says("Done."),
        says("And a fork."),
    ]);
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!({ "bash": "allow", "task": "allow" }))
        .setting("/snapshot", json!(true));
    let url = url(cluster);
    site.run(&["fleet", "init", &url]).ok();
    let session = session_of(&site.prompt("go").ok());
    let fork = site.run(&["fork", &session, "--at", "6", "Go on."]).ok();
    drop(fork);
    // and one that was imported, which has a note
    let exported = site.run(&["export", &session, "--bundle", "--unmasked"]).ok().stdout;
    let other = Site::bare();
    let file = other.file("bundle.jsonl", &exported);
    other.run(&["import", file.to_str().unwrap()]).ok();
    let home = site.path("home").display().to_string();
    let sessions = site.run(&["sessions", "--format", "json"]).ok().events();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    for expected in ["copied", "there already"] {
        let ran = on(&url, &site, &["fleet", "import", &home]).ok();
        assert!(ran.stdout.lines().count() >= 3, "a subagent too: {ran:?}");
        assert!(ran.stdout.lines().all(|line| line.contains(expected)), "{ran:?}");
    }
    for listed in &sessions {
        let id = listed["id"].as_str().unwrap();
        for args in [
            &["export", id, "--bundle", "--unmasked"][..],
            &["export", id, "--bundle"],
            &["replay", id, "--all"],
            &["replay", id, "--state"],
            &["verify", id],
            &["rerun", id],
            &["check", id],
            &["why", id],
        ] {
            let (here, there) = (site.run(args).ok(), on(&url, &site, args).ok());
            let same = |text: &str| match args[0] {
                // of a folder, all sessions are counted
                "check" => text.contains("no damage").to_string(),
                _ => text.to_owned(),
            };
            assert_eq!(same(&here.stdout), same(&there.stdout), "{args:?}");
        }
    }
    // the note moves with the session: an imported log grants nothing there either
    let tables = crate::url(cluster);
    other.run(&["fleet", "init", &tables]).ok();
    let home = other.path("home").display().to_string();
    on(&tables, &other, &["fleet", "import", &home]).ok();
    let diff = |ran: common::Ran| (ran.code, ran.stdout, ran.stderr);
    let args = ["diff", &session];
    assert_eq!(diff(other.run(&args)), diff(on(&tables, &other, &args)));
    let schema = tables.rsplit_once("schema=").unwrap().1;
    let notes = cluster.logs(&format!("select note from {schema}.imported order by session"));
    let file = other.path("home/sessions").join(&session).join("imported");
    let mut lines: Vec<String> =
        std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let mut notes: Vec<&str> = notes.lines().collect();
    notes.sort_unstable();
    assert_eq!(notes, lines);
}
