//! Every command that takes a store takes a database.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use common::postgres::{PASSWORD, shared};
use common::{Editor, Site, bash, end, says, script};
use rustix::process::Signal;
use serde_json::json;

use crate::{on, session_of, url};

fn site() -> Site {
    let replies = json!([bash("echo hello"), says("It says hello."), says("Again.")]);
    let site = Site::scripted(&script(replies)).setting("/permission", json!({ "bash": "allow" }));
    site.setting("/snapshot", json!(true))
}

#[test]
fn every_command_works_on_a_database() {
    let Some(cluster) = shared() else { return };
    let (site, url) = (site(), url(cluster));
    let refused = on(&url, &site, &["run", "go"]).with(1);
    refused.saying(&["leftfold fleet init"]);
    for _ in 0..2 {
        let done = site.run(&["fleet", "init", &url]).ok();
        assert!(done.stdout.contains("up to date") && !done.stdout.contains(PASSWORD), "{done:?}");
    }
    let ran = on(&url, &site, &["run", "--format", "json", "go"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed");
    let session = session_of(&ran);
    let prefix = &session[..20];
    for (args, expected) in [
        (&["replay", prefix][..], "It says hello."),
        (&["replay", "last", "--state"], "\"session\""),
        (&["verify", prefix], "all the same"),
        (&["rerun", "last"], "all the same"),
        (&["check", prefix], "no damage"),
        (&["why", "last"], "idle"),
        (&["explain", "last", "3"], ""),
        (&["diff", "last", "--stat"], ""),
        (&["stats"], "bash"),
        (&["sessions"], "completed"),
        (&["sessions", "show", prefix], &session),
        (&["export", "last"], "turn.ended"),
        (&["export", "last", "--bundle"], "bundle"),
        (&["export", "last", "--format", "md"], "It says hello."),
        (&["run", "--continue", "again"], "Again."),
        (&["fork", "last", "--at", "5"], ""),
        (&["resume", prefix], ""),
        (&["observe", prefix, "--format", "json", "--from", "now"], "-"),
    ] {
        if args[0] == "observe" {
            let mut observer =
                site.start(&["observe", prefix, "--format", "json", "--store", &url]);
            observer.until("turn.ended");
            observer.signal(Signal::INT);
            assert!(!observer.wait().stderr.contains(PASSWORD));
            continue;
        }
        let ran = on(&url, &site, args).ok();
        assert!(ran.stdout.contains(expected), "{args:?}: {ran:?}");
    }
    let sessions = on(&url, &site, &["sessions", "--format", "json"]).ok().events();
    assert_eq!(sessions.len(), 2, "the session and its fork: {sessions:?}");
    // what makes no sense for a database says so
    let bundle = site.file("bundle.jsonl", &on(&url, &site, &["export", prefix]).ok().stdout);
    let to = site.path("salvaged").display().to_string();
    for (args, code, why) in [
        (&["check", prefix, "--salvage", &to][..], 1, "a database keeps these logs"),
        (&["import", bundle.to_str().unwrap()], 2, "leftfold fleet import"),
        (&["sessions", "prune", "--unused"], 0, "a database keeps these logs"),
        (&["fleet", "import", "/nowhere"], 2, "a folder of sessions"),
    ] {
        on(&url, &site, args).with(code).saying(&[why]);
    }
    // forks share events, so they go first
    let fork = sessions.iter().find(|one| one["id"] != json!(session)).unwrap()["id"].clone();
    on(&url, &site, &["sessions", "rm", fork.as_str().unwrap()]).ok();
    on(&url, &site, &["sessions", "rm", &session]).ok();
    assert_eq!(on(&url, &site, &["sessions", "--format", "json"]).ok().events().len(), 0);
    // nothing of it is in the data folder, and no password anywhere
    assert_eq!(site.sessions().len(), 0);
    let found = Command::new("grep").args(["-rl", PASSWORD]).arg(site.path("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn long_lived_nodes_keep_sessions_in_a_database() {
    let Some(cluster) = shared() else { return };
    let site = site().env("LEFTFOLD_STORE", url(cluster));
    site.run(&["fleet", "init"]).ok();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompted = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompted), "end_turn");
    // another process reads it, and runs a session of its own beside that node
    let listed = site.run(&["sessions", "--format", "json"]).ok().events();
    assert_eq!(listed[0]["id"], json!(session));
    let ran = site.prompt("go").ok();
    assert_ne!(session_of(&ran), session);
    editor.leave();
    // a server has both
    let mut server = site.start(&["serve", "--port", "0"]);
    let line = server.line().unwrap();
    let address = line.trim().split_once("http://").unwrap().1.to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(stream, "GET /session HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(answer.matches("\"projectID\"").count(), 2, "{answer}");
    server.signal(Signal::TERM);
    server.wait();
    assert!(!Path::new(&site.path("home/store/db")).exists());
}
