//! Text for people: coloured and paged on a terminal, plain and whole elsewhere; numbers with their nouns.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{Site, bash, says, script};
use serde_json::json;

fn finished() -> Site {
    let site = Site::scripted(&script(json!([bash("echo hello"), says("Done.")])));
    site.prompt("go").ok();
    site
}

/// Arguments whose output is text for people.
const TEXTS: [&[&str]; 7] = [
    &["replay", "last"],
    &["explain", "last", "4"],
    &["why", "last"],
    &["stats"],
    &["sessions"],
    &["sessions", "show", "last"],
    &["models"],
];

#[test]
fn colours_come_on_a_terminal_or_when_they_are_asked_for() {
    let site = finished();
    for args in TEXTS {
        let plain = site.run(args).ok().stdout;
        assert!(!plain.contains('\x1b'), "{args:?}: {plain}");
        let painted = site.run(&[args, &["--color", "always"]].concat()).ok().stdout;
        let uncoloured = vt100_text(&painted);
        assert_eq!(uncoloured, plain, "{args:?}");
        let has = |variable: Option<(&str, &str)>, more: &[&str]| {
            let mut command = site.command(&[args, &["--no-pager"], more].concat());
            command.envs(variable);
            let mut terminal = common::Terminal::start(command, 200);
            assert_eq!(terminal.wait(), 0, "{args:?}");
            terminal.raw.contains('\x1b')
        };
        // details of a session and of a model have nothing to colour
        assert_eq!(has(None, &[]), painted != plain, "{args:?}");
        assert!(!has(Some(("NO_COLOR", "1")), &[]), "{args:?}");
        assert!(!has(Some(("TERM", "dumb")), &[]), "{args:?}");
        assert!(!has(None, &["--color", "never"]), "{args:?}");
    }
    let painted = site.run(&["replay", "last", "--color", "always"]).ok().stdout;
    assert!(painted.contains("\x1b[32mtool.called\x1b[0m"), "{painted}");
}

/// The text without colours.
fn vt100_text(painted: &str) -> String {
    let mut pieces = painted.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').unwrap().1)
}

#[test]
fn a_terminal_gets_a_pager() {
    let site = finished().env("PAGER", "sed 's/^/page: /'");
    let paged = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = site.command(args);
        command.envs(variable);
        let mut terminal = common::Terminal::start(command, 200);
        assert_eq!(terminal.wait(), 0, "{args:?}");
        terminal.shown()
    };
    let whole = paged(&["replay", "last"], None);
    assert!(whole.contains("page:     1 ") && whole.contains("turn.ended"), "{whole}");
    for (args, variable) in [
        (&["replay", "last", "--no-pager"][..], None),
        (&["replay", "last"], Some(("PAGER", "cat"))),
        (&["replay", "last"], Some(("PAGER", ""))),
        (&["replay", "last"], Some(("PAGER", "/no/such/pager"))),
        (&["sessions", "--format", "json"], None),
    ] {
        let shown = paged(args, variable);
        assert!(!shown.contains("page:") && shown.trim().lines().count() > 0, "{args:?}: {shown}");
    }
    let piped = site.run(&["replay", "last"]).ok().stdout;
    assert!(!piped.contains("page:"), "{piped}");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let site = finished();
    for args in TEXTS {
        let mut command = site.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("error"), "{args:?}: {said}");
    }
}

#[test]
fn a_command_that_takes_long_shows_that_it_lives() {
    let site = finished();
    let export = site.run(&["export", "last", "--unmasked"]).ok().stdout;
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    site.run(&["sessions", "rm", &id]).ok();
    let pipe = site.project().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut terminal = site.terminal(&["import", "pipe"], 120);
    terminal.until("reading pipe · 1 s");
    std::fs::write(&pipe, &export).unwrap();
    terminal.until(&id);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.shown().contains("reading pipe"), "{}", terminal.shown());
}

#[test]
fn one_is_singular_and_no_price_is_no_cost() {
    let site = finished();
    let stats = site.run(&["stats"]).ok().stdout;
    for part in ["1 session, 1 turn, 3 messages, 2 requests, ", "1 call  0 errors"] {
        assert!(stats.contains(part), "{part}: {stats}");
    }
    let replay = site.run(&["replay", "last"]).ok().stdout;
    assert!(replay.contains("completed after 2 steps"), "{replay}");
    let listed = site.run(&["sessions"]).ok().stdout;
    for text in [&stats, &replay, &listed] {
        assert!(!text.contains("$0"), "{text}");
    }
    let other = Site::scripted(&script(json!([says("Done.")])));
    other.prompt("go").ok();
    let replay = other.run(&["replay", "last"]).ok().stdout;
    assert!(replay.contains("completed after 1 step"), "{replay}");
    let priced = Site::scripted(&script(json!([says("Done.")])))
        .setting("provider/double/models/m/cost", json!({ "input": 500_000, "output": 1_000_000 }));
    priced.prompt("go").ok();
    let stats = priced.run(&["stats"]).ok().stdout;
    assert!(stats.contains(", $"), "{stats}");
}

#[test]
fn a_session_is_described_in_words() {
    let write = common::call("write", json!({ "filePath": "a.txt", "content": "x\n" }));
    let site =
        Site::scripted(&script(json!([write, says("Done.")]))).setting("snapshot", json!(true));
    site.prompt("go").ok();
    let shown = site.run(&["sessions", "show", "last"]).ok().stdout;
    for part in [
        "title        go\n", "state        completed\n", "changes      1 file, +1 -0\n",
        "a.txt +1 -0",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for part in ["null", "{", "cost"] {
        assert!(!shown.contains(part), "{part}: {shown}");
    }
    let nothing = Site::bare();
    let other = site.path("other");
    std::fs::create_dir(&other).unwrap();
    let mut command = site.command(&["run", "--format", "json", "elsewhere"]);
    command.current_dir(&other);
    common::Live::start(command).wait();
    for (args, titles) in [
        (&["sessions"][..], &["elsewhere", "go"][..]),
        (&["sessions", "--project"], &["go"]),
        (&["sessions", "list", "--project", "other"], &["elsewhere"]),
        (&["sessions", "list", "-n", "1"], &["elsewhere"]),
    ] {
        let listed = site.run(&[args, &["--format", "json"]].concat()).ok().events();
        let found: Vec<&str> = listed.iter().map(|it| it["title"].as_str().unwrap()).collect();
        assert_eq!(found, titles, "{args:?}");
    }
    site.run(&["sessions", "--project", "none"]).with(2).saying(&["project `none`"]);
    for (args, said) in [
        (&["sessions"][..], "there are no sessions yet"),
        (&["permission", "list"], "no \"always\""),
    ] {
        let ran = nothing.run(args).ok();
        assert!(ran.stdout.is_empty() && ran.stderr.contains(said), "{ran:?}");
    }
    site.run(&["sessions", "prune"]).with(2).saying(&["--older-than DAYS", "--unused"]);
    site.run(&["diff", "--turn", "9"]).with(2).saying(&["the session has 1 turn"]);
}
