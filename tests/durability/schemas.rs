//! Stores of an earlier schema are continued in today's, and stores of unknown schemas are refused.
//!
//! Debug builds write other schemas with `LEFTFOLD_SCHEMA`, so no test needs a stored database.

use std::fs;

use common::corpus::{Act, is_child, logs, scenario};
use common::{Live, Ran, Site, Tally, bash, rerun_all, says, script};
use leftfold_events::event::{Event, Owner, Session};
use leftfold_events::{Envelope, fold, line, verify};
use serde_json::{Value, json};

use crate::salvage::files;

/// Scenarios of the corpus whose first run is killed in schema 2, and the commit at which it is
/// killed. The order of their events depends on time.
const KILLED: [(&str, &str); 8] = [
    ("tools", "5:synced"),
    ("tools", "10:headed"),
    ("children", "9:synced"),
    ("compaction", "6:synced"),
    ("retry", "5:headed"),
    ("plan", "7:synced"),
    ("revert", "6:synced"),
    ("mixed", "8:synced"),
];

/// Scenarios without parallel calls. Their first run ends in schema 2, and later runs write schema 3.
const CONTINUED: [&str; 2] = ["compaction", "revert"];

fn in_schema(site: Site, schema: u8) -> Site {
    site.env("LEFTFOLD_SCHEMA", schema.to_string())
}

/// Whether the environment can set the schema.
fn can_set() -> bool {
    if cfg!(not(debug_assertions)) {
        common::skipped("only debug builds write other schemas");
    }
    cfg!(debug_assertions)
}

#[test]
fn logs_of_schema_2_are_continued_in_schema_3() {
    if !can_set() {
        return;
    }
    let tally = Tally::promise(5, "logs that continue in schema 3")
        .counts(&[
            "sessions", "events", "events of schema 3", "mixed logs", "forks", "logs compared",
        ])
        .never(&["logs that fail", "other events than without the older schema"]);
    for (name, kill) in KILLED {
        let case = || continued(name, Some(kill), 2, &tally);
        tally.attempt("logs that fail", format!("{name} killed at {kill}"), case);
    }
    for name in CONTINUED {
        let case = |schema| {
            let case = || continued(name, None, schema, &tally);
            tally.attempt("logs that fail", format!("{name} in schema {schema}"), case)
        };
        if let (Some(mixed), Some(pure)) = (case(2), case(3)) {
            tally.add("logs compared", 1);
            let kind = "other events than without the older schema";
            tally.check(kind, mixed == pure, || difference(name, &mixed, &pure));
        }
    }
    assert!(tally.get("mixed logs") >= KILLED.len() + CONTINUED.len());
    tally.finish();
}

/// Plays the first run of a scenario in a schema, and the others in schema 3. Returns its events
/// without all that differs from run to run.
fn continued(name: &str, kill: Option<&str>, schema: u8, tally: &Tally) -> Vec<String> {
    let mut scenario = scenario(name);
    scenario.site = in_schema(scenario.site, schema);
    let (first, rest) = scenario.acts.split_first().unwrap();
    first.play(&scenario.site, kill).with(if kill.is_some() { -1 } else { first.code });
    let before = logs(&scenario.site);
    scenario.site = in_schema(scenario.site, 3);
    let site = &scenario.site;
    if kill.is_some() {
        Act::resume(true).for_session("last").play(site, None).with(0);
    }
    for act in rest {
        act.play(site, None).with(act.code);
    }
    let events = normal(site);
    let forked = site.run(&["fork", "last", "--format", "json", "a fork"]).ok();
    assert_eq!(common::end(&forked.events())["reason"], "completed");
    for command in ["export", "replay", "check", "verify", "why"] {
        site.run(&[command, "last"]).ok();
    }
    let logs = logs(site);
    for (session, log) in &logs {
        assert_eq!(verify(log), [], "{session}");
        let before = before.iter().find(|(known, _)| known == session).map(|(_, log)| &log[..]);
        let before = before.unwrap_or_default();
        assert_eq!(log[..before.len()], *before, "{session}");
        assert_owner(log, schema, !before.is_empty());
        if schema == 2 {
            let own = log.iter().filter(|event| event.session == *session).count();
            let later = log.len() - before.len();
            tally.add("sessions", 1);
            tally.add("events", own);
            tally.add("events of schema 3", later.min(own));
            tally.add("mixed logs", usize::from(!before.is_empty() && later > 0));
            tally.add("forks", usize::from(log[0].session != *session));
        }
    }
    assert_imported_elsewhere(site);
    rerun_all(site);
    events
}

/// Schema 3 names the process that begins or resumes a log.
fn assert_owner(log: &[Envelope], schema: u8, is_old: bool) {
    let is_created =
        |event: &Envelope| matches!(event.event, Event::Session(Session::Created { .. }));
    if is_old {
        assert_eq!(is_created(&log[0]) && log[0].notes.owner.is_none(), schema == 2);
    }
    let owners = log.iter().filter_map(|event| event.notes.owner.as_ref());
    for Owner { version, .. } in owners {
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
    let resumed =
        |event: &&Envelope| matches!(event.event, Event::Session(Session::Resumed { .. }));
    assert!(log.iter().filter(resumed).all(|event| event.notes.owner.is_some()));
}

/// An import writes the log anew, in schema 3 alone.
fn assert_imported_elsewhere(site: &Site) {
    let root = site.sessions().pop().unwrap();
    let export = site.run(&["export", root.to_str().unwrap()]).ok().stdout;
    let other = Site::bare();
    let file = other.file("session.jsonl", &export);
    let imported = other.run(&["import", file.to_str().unwrap()]).ok();
    let again = other.run(&["export", imported.stdout.trim()]).ok().stdout;
    assert_eq!(sorted(&again), sorted(&export));
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// The events of all logs without ids, times, notes and the name of the site's folder.
fn normal(site: &Site) -> Vec<String> {
    let mut logs = logs(site);
    logs.sort_by_key(|(session, log)| (is_child(log), fold(log).seq, *session));
    let mut names: Vec<(String, String)> = Vec::new();
    for (n, (session, _)) in logs.iter().enumerate() {
        names.push((session.to_string(), format!("SESSION{n}")));
    }
    names.push((site.path("").display().to_string(), "/site/".to_owned()));
    let own = logs
        .iter()
        .flat_map(|(session, log)| log.iter().filter(move |event| event.session == *session));
    own.map(|event| anonymous(event, &names)).collect()
}

fn anonymous(event: &Envelope, names: &[(String, String)]) -> String {
    let text = names.iter().fold(line::write(event), |text, (name, with)| text.replace(name, with));
    let mut event: Value = serde_json::from_str(&text).unwrap();
    let members = event.as_object_mut().unwrap();
    for member in ["at", "until", "notes"] {
        members.shift_remove(member);
    }
    forget(&mut event);
    event.to_string()
}

/// Removes hashes and times.
fn forget(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            *text = "SHA256".to_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Object(members) => {
            // when a file was read, by its time
            members.shift_remove("seen");
            members.values_mut().for_each(forget);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn difference(place: &str, mixed: &[String], pure: &[String]) -> String {
    let at = mixed.iter().zip(pure).position(|(mixed, pure)| mixed != pure);
    let at = at.unwrap_or(mixed.len().min(pure.len()));
    format!("{place}, event {at}: {:?} is not {:?}", mixed.get(at), pure.get(at))
}

/// A note about an import from before schema 3 still says where the import ends, so that answers
/// after it count.
#[test]
fn approvals_after_an_import_in_schema_2_count() {
    if !can_set() {
        return;
    }
    for schema in [2, 3] {
        let (site, root) = imported_in(schema);
        let note = fs::read_to_string(site.session().join("imported")).unwrap();
        assert_eq!(note.contains(r#""schema":3"#), schema == 3, "{note}");
        let site = in_schema(site, 3);
        let ask = |prompt: &str, input: &str| {
            let args =
                ["run", "--session", &root, "--format", "json", "--permission-mode", "ask", prompt];
            typed(&site, &args, input).ok().events()
        };
        let count = |events: &[Value], kind: &str| {
            events.iter().filter(|event| event["type"] == kind).count()
        };
        // the approval of the imported log counts no more
        assert_eq!(count(&ask("two", "always\n"), "permission.asked"), 1);
        // without the approvals that the project keeps beside its sessions
        fs::remove_dir_all(site.path("home/projects")).unwrap();
        for prompt in ["three", "four"] {
            let events = ask(prompt, "");
            assert_eq!(count(&events, "permission.asked"), 0, "schema {schema}, {prompt}");
            assert_eq!(count(&events, "tool.finished"), 1);
        }
        site.run(&["verify", &root]).ok();
    }
}

/// A log with an approval, exported and imported elsewhere in this schema. Returns its id.
fn imported_in(schema: u8) -> (Site, String) {
    // each turn has two answers, of which the first calls
    let on = |answers: u32| {
        let mut reply = bash("echo hello");
        reply["match"] = json!({ "answers": answers });
        reply
    };
    let mut replies: Vec<Value> = [0, 2, 4, 6].map(on).into();
    replies.push(says("Done."));
    let mut asks = script(json!(replies));
    asks["on_end"] = json!("repeat");
    let site = Site::scripted(&asks).setting("permission", json!({ "bash": "ask" }));
    let site = in_schema(site, schema);
    let args = ["run", "--format", "json", "--permission-mode", "ask", "one"];
    typed(&site, &args, "always\n").ok();
    let file = site.path("session.jsonl");
    fs::write(&file, site.run(&["export", "last"]).ok().stdout).unwrap();
    // elsewhere: without the stored session
    fs::rename(site.path("home"), site.path("home-before")).unwrap();
    fs::create_dir(site.path("home")).unwrap();
    let root = site.run(&["import", file.to_str().unwrap()]).ok().stdout.trim().to_owned();
    (site, root)
}

/// Runs the program with this input.
fn typed(site: &Site, args: &[&str], input: &str) -> Ran {
    use std::io::Write;

    let mut command = site.command(args);
    command.stdin(std::process::Stdio::piped());
    let mut live = Live::start(command);
    live.input().write_all(input.as_bytes()).unwrap();
    live.wait()
}

/// Commands that read a log, and commands that continue one.
const COMMANDS: [&[&str]; 13] = [
    &["export", "last"],
    &["replay", "last"],
    &["verify", "last"],
    &["check", "last"],
    &["rerun", "last"],
    &["why", "last"],
    &["explain", "last", "4"],
    &["diff", "last", "last"],
    &["resume", "last"],
    &["run", "--continue", "more"],
    &["fork", "last", "more"],
    &["compact", "last"],
    &["revert", "last", "--to", "1"],
];

#[test]
fn stores_of_unknown_schemas_are_refused_and_stay_as_they_are() {
    if !can_set() {
        return;
    }
    let tally = Tally::promise(5, "stores of unknown schemas")
        .counts(&["schemas", "commands", "refusals"])
        .never(&["commands that took one", "unclear refusals", "changed folders"]);
    tally.add("commands", COMMANDS.len());
    for (schema, advice) in [(1, "older leftfold"), (4, "newer leftfold"), (200, "newer leftfold")]
    {
        tally.add("schemas", 1);
        let replies = json!([bash("echo hello"), says("Done.")]);
        let site = in_schema(Site::scripted(&script(replies)), schema);
        // if it has to read its own log to print it, it refuses to
        assert!(site.prompt("go").code <= 1);
        let site = in_schema(site, 3);
        let before = files(&site.session());
        for command in COMMANDS {
            let ran = site.run(command);
            let place = format!("schema {schema}, {}", command.join(" "));
            tally.check("commands that took one", ran.code == 1, || format!("{place}: {ran:?}"));
            let versions = format!("log schema {schema}, this leftfold reads schemas 2 to 3");
            let said = format!("{}{}", ran.stdout, ran.stderr);
            let clear = said.contains(advice) && said.contains(&versions);
            tally.check("unclear refusals", clear, || format!("{place}: {ran:?}"));
            let unchanged = files(&site.session()) == before;
            tally.check("changed folders", unchanged, || place);
            tally.add("refusals", usize::from(ran.code == 1 && clear));
        }
    }
    tally.finish();
}
