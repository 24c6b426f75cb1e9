//! Sessions that move from one data folder to another: `leftfold import`.

use std::io::Write;
use std::process::Stdio;

use common::{Live, Site, call, kind, only, says, script};
use serde_json::json;

/// A session with a child, more than one prompt, and contents too large for the database.
fn full() -> Site {
    let task =
        json!({ "description": "Look", "prompt": "look at a.txt", "subagentType": "general" });
    let site = Site::scripted(&script(json!([
        call("task", task),
        says("The parent has heard."),
        says("Long."),
        says("No more."),
        says("Really."),
        { "match": { "prompt": "look at a.txt", "answers": 0 },
          "parts": [{ "call": { "name": "read", "input": { "filePath": "a.txt" } } }] },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "One." }] },
    ])));
    site.file("a.txt", "one\n");
    site.prompt("go").ok();
    let long = "a long prompt ".repeat(10_000);
    site.file("long.txt", &long);
    site.run(&["run", "--continue", "--file", "long.txt", "and now?"]).ok();
    site
}

fn export(site: &Site) -> String {
    site.run(&["export", "last"]).ok().stdout
}

#[test]
fn export_import_export_is_the_identity() {
    let site = full();
    let exported = export(&site);
    let file = site.file("session.jsonl", &exported);
    let file = file.to_str().unwrap();
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    site.run(&["import", file]).with(2).saying(&["already exists", &id]);

    let child = only(&site.exported(), "subagent.spawned")["data"]["session"].clone();
    let child = child.as_str().unwrap().to_owned();
    let state = site.run(&["replay", "last", "--state"]).ok().stdout;
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    assert_eq!(site.run(&["import", file]).ok().stdout.trim(), id);
    assert_eq!(export(&site), exported);
    assert_eq!(site.run(&["replay", "last", "--state"]).ok().stdout, state);
    site.assert_sound();
    // and it can be continued
    site.run(&["run", "--continue", "more"]).ok();
    site.assert_sound();
    let continued = export(&site);
    assert!(continued.starts_with(&exported[..exported.find("subagent.ended").unwrap()]));
    let resumed = only(&site.exported(), "session.resumed").clone();
    assert_eq!(resumed["data"]["imported"].as_u64(), resumed["seq"].as_u64().map(|seq| seq - 1));
    // only the first time
    site.run(&["run", "--continue", "and more"]).ok();
    only(&site.exported(), "session.resumed");
    // a fork has nothing to say about it again, and an earlier one says it of its own part
    for (at, says) in [("3", 1), (&*(resumed["seq"].as_u64().unwrap() + 1).to_string(), 0)] {
        let fork = site.run(&["fork", "last", "--at", at]).ok().stdout.trim().to_owned();
        let events = site.run(&["export", &fork]).ok().events();
        let own = events.iter().filter(|event| event["session"] == fork.as_str());
        let resumed: Vec<_> = own.filter(|event| kind(event) == "session.resumed").collect();
        assert_eq!(resumed.len(), says, "{resumed:?}");
        assert!(resumed.iter().all(|resumed| resumed["data"]["imported"] == 3), "{resumed:?}");
        site.run(&["verify", &fork]).ok();
        let rerun = site.run(&["rerun", &fork]).ok();
        assert!(rerun.stdout.contains("all the same"), "{rerun:?}");
    }
    let id = site.exported()[0]["session"].clone();
    for session in [id.as_str().unwrap(), &child] {
        let rerun = site.run(&["rerun", session]).ok();
        assert!(rerun.stdout.contains("all the same"), "{rerun:?}");
    }

    // the continued session moves on too
    let exported = export(&site);
    let file = site.file("session.jsonl", &exported);
    let home = site.path("third-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    site.run(&["import", file.to_str().unwrap()]).ok();
    assert_eq!(export(&site), exported);
}

/// The line has no end: it is refused where the limit is, long before 300 MB are read.
#[test]
fn a_line_without_end_is_refused() {
    let site = Site::bare();
    let mut command = site.command(&["import", "/dev/stdin"]);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    let mut input = live.input();
    let piece = vec![b'x'; 1 << 20];
    let written = (0..300).take_while(|_| input.write_all(&piece).is_ok()).count();
    assert!((64..80).contains(&written), "{written} MiB");
    live.wait().with(2).saying(&["/dev/stdin, line 1: it has more than 64 MiB"]);
    assert!(site.sessions().is_empty());
}

#[test]
fn a_line_that_is_wrong_is_named_and_nothing_is_taken_in() {
    let site = full();
    let exported = export(&site);
    let lines: Vec<&str> = exported.lines().collect();
    let payload = lines.iter().position(|line| line.contains("\"payload\"")).unwrap();
    let events: Vec<usize> =
        (0..lines.len()).filter(|index| !lines[*index].contains("\"payload\"")).collect();
    let without = |gone: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != gone);
        kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    };
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    for (text, parts) in [
        (without(payload), vec!["line ", "no line before it has the payload"]),
        (without(events[2]), vec!["does not follow 2"]),
        (
            exported.replace("You are Leftfold", "I am Leftfold"),
            vec!["the hash of the text is not"],
        ),
        (format!("{exported}nonsense\n"), vec!["not JSON"]),
        (exported.replacen("{\"v\":1", "{\"v\":9", 1), vec!["line 1", "version 9"]),
        (String::new(), vec!["no event"]),
    ] {
        let file = site.file("session.jsonl", &text);
        site.run(&["import", file.to_str().unwrap()]).with(2).saying(&parts);
    }
    site.run(&["import", "nowhere.jsonl"]).with(2).saying(&["nowhere.jsonl"]);
    let left = std::fs::read_dir(home.join("sessions"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
}
