//! Reading a session afterwards: `replay`, `verify`, `check` and `export`.

use std::collections::HashSet;

use common::{Live, Site, bash, call, end, kinds, says, script};
use serde_json::{Value, json};

fn finished() -> (Site, String) {
    let todos = json!([{ "content": "look", "status": "pending", "priority": "high" }]);
    let site = Site::scripted(&script(json!([
        { "parts": [
            { "reasoning": "Hm.", "signature": "s" },
            { "call": { "name": "todowrite", "input": { "todos": todos } } },
            { "call": { "name": "bash", "input": { "command": "echo hello" } } },
        ] },
        says("Hello 👋"),
    ])));
    let stdout = site.prompt("go").ok().stdout;
    (site, stdout)
}

/// Runs without model, settings or project.
fn from_the_log_alone(site: &Site, args: &[&str]) -> common::Ran {
    let mut command = site.command(args);
    command.env_remove("LEFTFOLD_CONFIG_CONTENT").current_dir("/");
    Live::start(command).wait()
}

#[test]
fn export_has_the_bytes_that_were_printed_and_the_contents_behind_hashes() {
    let (site, stdout) = finished();
    let folder = site.session();
    let export = from_the_log_alone(&site, &["export", folder.to_str().unwrap()]).ok().stdout;
    let is_payload = |line: &&str| line.starts_with(r#"{"v":1,"payload":"#);
    let events: Vec<&str> = export.lines().filter(|line| !is_payload(line)).collect();
    assert_eq!(events, stdout.lines().collect::<Vec<_>>());
    let mut known: HashSet<String> = HashSet::new();
    for line in export.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if let Some(hash) = value["payload"].as_str() {
            assert!(value["text"].is_string());
            assert!(known.insert(hash.to_owned()), "told twice: {hash}");
        }
        for field in ["system", "tools", "rules", "model", "options"] {
            if value["type"] == "turn.configured" {
                assert!(known.contains(value["data"][field].as_str().unwrap()), "{field}");
            }
        }
    }
}

#[test]
fn replay_tells_each_event_in_a_line() {
    let (site, stdout) = finished();
    let count = stdout.lines().count();
    let folder = site.session();
    let whole =
        from_the_log_alone(&site, &["replay", "--all", folder.to_str().unwrap()]).ok().stdout;
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), count);
    for part in ["bash", "echo hello", "Hello 👋", "todowrite", "completed after 2 steps"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    let part = |args: &[&str]| {
        let replay = site.run(&[&["replay", "last", "--all"], args].concat()).ok();
        replay.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(part(&["--at", "4"]), lines[..4]);
    assert_eq!(part(&["--from", "3", "--to", "5"]), lines[2..5]);
    assert_eq!(part(&["--from", &count.to_string()]), lines[count - 1..]);
    assert_eq!(part(&["--to", "1"]), lines[..1]);
}

#[test]
fn replay_refuses_places_that_the_log_does_not_have() {
    let (site, stdout) = finished();
    let beyond = (stdout.lines().count() + 1).to_string();
    for args in [
        &["--at", "0"][..],
        &["--at", &beyond],
        &["--from", "5", "--to", "4"],
        &["--from", &beyond],
        &["--to", &beyond],
    ] {
        site.run(&[&["replay", "last"], args].concat()).with(2).saying(&["has events 1 to"]);
    }
    site.run(&["replay", "last", "--at", "2", "--from", "1"]).with(2);
}

#[test]
fn the_state_is_the_same_each_time_with_its_keys_in_order() {
    let (site, stdout) = finished();
    let state = |at: usize| {
        let at = at.to_string();
        site.run(&["replay", "last", "--state", "--at", &at]).ok().stdout
    };
    for at in (1..=stdout.lines().count()).step_by(3) {
        let text = state(at);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["seq"], at);
        assert_sorted(&value);
    }
    let head = stdout.lines().count();
    assert_eq!(state(head), state(head));
    assert_eq!(state(head), site.run(&["replay", "last", "--state"]).ok().stdout);
    assert_ne!(state(head), state(head - 1));
}

fn assert_sorted(value: &Value) {
    if let Some(object) = value.as_object() {
        assert!(object.keys().is_sorted(), "{:?}", object.keys().collect::<Vec<_>>());
    }
    let within = value.as_object().into_iter().flat_map(|object| object.values());
    within.chain(value.as_array().into_iter().flatten()).for_each(assert_sorted);
}

#[test]
fn verify_and_check_are_content_with_what_was_written() {
    let (site, stdout) = finished();
    let folder = site.session();
    let folder = folder.to_str().unwrap();
    let verify = from_the_log_alone(&site, &["verify", folder]).ok().stdout;
    assert!(verify.contains("all the same"), "{verify}");
    let check = from_the_log_alone(&site, &["check", folder]).ok().stdout;
    assert!(check.contains(&format!("{} events, no damage", stdout.lines().count())), "{check}");
    for command in ["verify", "check"] {
        let json = site.run(&[command, "--all", "--format", "json", "last"]);
        let json = if command == "check" {
            site.run(&[command, "--format", "json", "last"])
        } else {
            json
        };
        assert_eq!(json.ok().stdout, "");
    }
}

#[test]
fn a_session_is_named_by_id_beginning_last_or_folder() {
    let (site, _) = finished();
    let folder = site.session();
    let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let whole = site.run(&["replay", &id]).ok().stdout;
    for name in [&id[..12], &id.to_lowercase(), "last", folder.to_str().unwrap()] {
        assert_eq!(site.run(&["replay", name]).ok().stdout, whole, "{name}");
    }
    // a copy of the folder works too
    let copy = site.path("copy");
    let copied = std::process::Command::new("cp").arg("-r").args([&folder, &copy]).status();
    assert!(copied.unwrap().success());
    assert_eq!(site.run(&["replay", copy.to_str().unwrap()]).ok().stdout, whole);
    // a second session makes the prefix ambiguous
    site.prompt("another").ok();
    site.run(&["replay", "0"]).with(2).saying(&["prefix of 2 ids"]);
}

#[test]
fn last_means_the_project_that_one_is_in() {
    let (site, _) = finished();
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let elsewhere = |args: &[&str]| {
        let mut command = site.command(args);
        command.current_dir(site.path("user"));
        Live::start(command).wait()
    };
    // where there is none, the newest of all projects is read, and a note says so
    for command in ["replay", "export", "why", "verify", "rerun", "check"] {
        elsewhere(&[command, "last"]).ok().saying(&["has no sessions yet: `last` is", &id]);
    }
    elsewhere(&["explain", "last", "1"]).ok().saying(&["has no sessions yet: `last` is", &id]);
    elsewhere(&["sessions", "show", "last"]).ok().saying(&["has no sessions yet: `last` is", &id]);
    // and none is changed
    for args in [
        &["resume", "last"][..],
        &["fork", "last"],
        &["revert", "last", "--to", "3"],
        &["unrevert", "last"],
        &["compact", "last"],
        &["sessions", "rm", "last"],
        &["permission", "answer", "last", "1", "once"],
        &["share", "last"],
        &["run", "--continue", "more"],
    ] {
        let refused = elsewhere(args).with(2);
        refused
            .saying(&["has no sessions yet; those of other projects", "`leftfold sessions` lists"]);
    }
}

#[test]
fn reading_does_not_change_a_byte() {
    let (site, _) = finished();
    let folder = site.session();
    let snapshot = || {
        let mut files: Vec<_> = ["db", "conf"].map(|name| folder.join(name)).into();
        files.extend(std::fs::read_dir(folder.join("heads")).unwrap().map(|e| e.unwrap().path()));
        files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    let before = snapshot();
    for args in
        [&["replay", "last"][..], &["verify", "last"], &["check", "last"], &["export", "last"]]
    {
        site.run(args).ok();
    }
    assert!(snapshot() == before);
}

#[test]
fn a_run_can_be_read_while_it_goes_on() {
    let site = Site::scripted(&script(json!([
        bash("touch ready; while [ ! -e go ]; do sleep 0.01; done"),
        call("read", json!({ "filePath": "ready" })),
        says("done")
    ])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    let so_far = live.seen.clone();
    let export = site.run(&["export", "last"]).ok().stdout;
    assert!(so_far.lines().all(|line| export.contains(line)));
    let replay = site.run(&["replay", "last", "--all"]).ok();
    assert!(replay.stdout.contains("tool.started"));
    site.file("go", "");
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "done", "{:?}", kinds(&events));
    site.assert_sound();
}

#[test]
fn a_shared_session_is_a_file_without_tokens_that_others_import() {
    let token = ["sk", "ant", "api03", &"a1B2".repeat(10)].join("-");
    let site = Site::scripted(&script(json!([says(&format!("The key is {token}."))])));
    site.prompt("go").ok();
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(!exported.contains(&token), "{exported}");
    let shared = site.run(&["share", "last"]).ok().stdout;
    let shared = std::path::Path::new(shared.trim());
    assert_eq!(std::fs::read_to_string(shared).unwrap(), exported);
    let mode = std::os::unix::fs::PermissionsExt::mode(&shared.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let shown = site.run(&["sessions", "show", "last", "--format", "json"]).ok().stdout;
    assert!(shown.contains(shared.to_str().unwrap()), "{shown}");
    let other = Site::bare();
    let here = other.file("shared.jsonl", std::fs::read(shared).unwrap());
    other.run(&["import", here.to_str().unwrap()]).ok();
    let id = shared.file_stem().unwrap().to_str().unwrap();
    assert_eq!(other.run(&["export", id]).ok().stdout, exported);

    site.run(&["unshare", "last"]).ok();
    assert!(!shared.exists());
    site.run(&["unshare", "last"]).with(1).saying(&["not shared"]);
    let file = site.path("own.jsonl");
    site.run(&["share", "last", "-o", file.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    let all = site.path("all.jsonl");
    let ran = site.run(&["export", "last", "--unmasked", "-o", all.to_str().unwrap()]).ok();
    assert!(ran.stdout.is_empty() && std::fs::read_to_string(&all).unwrap().contains(&token));
    site.run(&["share", "last"]).ok();
    site.run(&["sessions", "rm", "last"]).ok();
    assert!(!shared.exists());
}
