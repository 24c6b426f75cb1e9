//! Golden sessions: logs stored by earlier versions decode, fold to their old state and print their
//! old lines for ever. Logs written under today's policy also verify.
//!
//! `store/tests/golden/sessions/` holds for each session `SCHEMA-NAME.hex` (the record of each
//! event), `.jsonl` (its public line) and `.json` (the folded state), and `payloads.jsonl` for all.
//! `LEFTFOLD_GOLDEN=write` adds missing ones and never changes an existing one.

mod more;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::corpus::{CORPUS, Logs, is_child, logs, played, scenario};
use common::{Site, Tally};
use leftfold_events::event::{Event, Model, Session};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, Payload, SessionId, Sha256, State, fold, next, verify};
use leftfold_store::{SCHEMA, decode, encode, encode_as};
use serde_json::Value;

use self::more::MORE;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/store/tests/golden/sessions");

/// The golden sessions of schema 2. Those of today's schema are all sessions of the corpus and those in [`MORE`].
const KEPT_OF_2: [&str; 8] =
    ["tools", "children", "compaction", "permissions", "plan", "revert", "mixed", "sandbox"];

/// Sessions that were exported when events had other names.
const FORMER: [&str; 7] =
    ["tools", "children", "compaction", "permissions", "plan", "revert", "mixed"];

type Payloads = BTreeMap<Sha256, Arc<str>>;

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// A stored session with its children.
struct Golden {
    name: String,
    schema: u8,
    records: Vec<Vec<u8>>,
    lines: Vec<String>,
    states: Value,
}

impl Golden {
    fn read(name: &str) -> Self {
        let text = |end: &str| std::fs::read_to_string(file(&format!("{name}.{end}"))).unwrap();
        Self {
            name: name.to_owned(),
            schema: schema_of(name),
            records: text("hex").lines().map(unhex).collect(),
            lines: text("jsonl").lines().map(str::to_owned).collect(),
            states: serde_json::from_str(&text("json")).unwrap(),
        }
    }

    /// The decoded events, with the contents behind their hashes.
    fn events(&self, payloads: &Payloads) -> Vec<Envelope> {
        let event = |(bytes, n): (&Vec<u8>, usize)| {
            let event = decode(self.schema, bytes)
                .unwrap_or_else(|e| panic!("{}, record {n}: {e}", self.name));
            filled(event, payloads)
        };
        self.records.iter().zip(1..).map(event).collect()
    }
}

fn filled(mut event: Envelope, payloads: &Payloads) -> Envelope {
    for payload in event.event.payloads_mut() {
        // a payload that was never set has no contents
        if payload.sha256() != Sha256::default() {
            let text = payloads.get(&payload.sha256());
            payload.fill(Arc::clone(text.expect("payloads.jsonl has all contents")));
        }
    }
    event
}

fn read_payloads() -> Payloads {
    let text = std::fs::read_to_string(file("payloads.jsonl")).unwrap_or_default();
    let payload = |text: &str| match line::read(text).unwrap() {
        Line::Payload { sha256, text } => (sha256, text.into()),
        Line::Event(event) => panic!("an event among the payloads: {event:?}"),
    };
    text.lines().map(payload).collect()
}

/// Each session's events, in the order in which the sessions begin.
fn by_session(events: &[Envelope]) -> Logs {
    let mut logs: Logs = Vec::new();
    for event in events {
        if let Some((_, log)) = logs.iter_mut().find(|(session, _)| *session == event.session) {
            log.push(event.clone());
        } else {
            let mut log = shared(&logs, event);
            log.push(event.clone());
            logs.push((event.session, log));
        }
    }
    logs
}

/// The events that a fork shares, if this is the first event of one.
fn shared(logs: &Logs, first: &Envelope) -> Vec<Envelope> {
    let Event::Session(Session::Forked { from, at }) = first.event else { return Vec::new() };
    let parent = logs.iter().find(|(session, _)| *session == from);
    let (_, parent) = parent.expect("a fork comes after its parent");
    parent.iter().filter(|event| event.seq <= at).cloned().collect()
}

/// Today's decisions are those of all policies since this one.
const FIRST_VERIFIED: u16 = 2;

#[test]
fn golden_sessions_decode_fold_and_verify() {
    if std::env::var("LEFTFOLD_GOLDEN").as_deref() == Ok("write") {
        for (name, _) in CORPUS {
            write_golden(name, || {
                let scenario = scenario(name);
                played(&scenario);
                scenario.site
            });
        }
        MORE.iter().for_each(|(name, play)| write_golden(name, play));
    }
    let entries = std::fs::read_dir(FOLDER).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".hex").map(str::to_owned));
    let payloads = read_payloads();
    let tally = Tally::promise(5, "golden sessions")
        .counts(&[
            "schemas", "sessions", "events", "types of events", "logs verified",
            "first policy verified",
        ])
        .never(&["sessions that are missing", "types without a session", "sessions that differ"]);
    tally.add("first policy verified", FIRST_VERIFIED.into());
    let mut seen = BTreeSet::new();
    for name in names {
        let golden = Golden::read(&name);
        let verified = tally.attempt("sessions that differ", &name, || {
            let verified = assert_as_ever(&golden, &payloads);
            assert_imported(&golden, &payloads);
            verified
        });
        tally.add("logs verified", verified.unwrap_or_default());
        tally.add("sessions", 1);
        tally.add("events", golden.records.len());
        tally.distinct("schemas", golden.schema);
        for line in &golden.lines {
            tally.distinct("types of events", kind(line));
            seen.insert(kind(line));
        }
    }
    let corpus = CORPUS.iter().map(|(name, _)| *name).chain(MORE.iter().map(|(name, _)| *name));
    let kept = KEPT_OF_2.iter().map(|name| format!("schema2-{name}"));
    let kept: Vec<String> = kept.chain(corpus.map(|name| prefix() + name)).collect();
    let missing = kept.into_iter().filter(|name| !file(&format!("{name}.hex")).exists());
    tally.none("sessions that are missing", missing);
    let known = std::fs::read_to_string(file("../schema3.jsonl")).unwrap();
    let known: BTreeSet<String> = known.lines().map(kind).collect();
    let unseen = known.into_iter().filter(|kind| !seen.contains(kind));
    tally.none("types without a session", unseen);
    tally.finish();
}

/// The type of an event's line.
fn kind(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap();
    line["type"].as_str().unwrap().to_owned()
}

/// Exports from the time when events had other names, in `former-NAME.jsonl`.
#[test]
fn exports_with_former_names_are_taken_in() {
    let payloads = read_payloads();
    let contents = payloads.values().map(|text| line::write_payload(&Payload::new(&**text)));
    let contents: Vec<String> = contents.collect();
    for name in FORMER {
        let text = std::fs::read_to_string(file(&format!("former-{name}.jsonl"))).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let site = Site::bare();
        let file = site
            .file("session.jsonl", [contents.clone(), lines.clone()].concat().join("\n") + "\n");
        let root = site.run(&["import", file.to_str().unwrap()]).ok().stdout.trim().to_owned();
        site.run(&["check", &root]).ok();
        let exported = site.run(&["export", &root]).ok().events();
        let types: Vec<&str> = exported.iter().filter_map(|event| event["type"].as_str()).collect();
        assert_eq!(types.len(), lines.len(), "{name}");
        for former in ["turn.equipped", "model.called", "model.replied", "tool.checked"] {
            assert!(text.contains(former) && !types.contains(&former), "{name}: {former}");
        }
    }
}

/// Returns how many of the logs were verified.
fn assert_as_ever(golden: &Golden, payloads: &Payloads) -> usize {
    let name = &golden.name;
    let events = golden.events(payloads);
    assert_eq!(events.len(), golden.lines.len(), "{name}: one line an event");
    for ((event, record), text) in events.iter().zip(&golden.records).zip(&golden.lines) {
        assert_eq!(line::write(event), *text, "{name}");
        let Ok(Line::Event(read)) = line::read(text) else { panic!("{name}: {text}") };
        assert_eq!(filled(*read, payloads), *event, "{name}");
        // every reader of old events can read today's encoding
        let again = decode(SCHEMA, &encode(event).unwrap()).unwrap();
        assert_eq!(filled(again, payloads), *event, "{name}");
        let encoded = encode_as(golden.schema, event).unwrap();
        assert_eq!(hex(&encoded), hex(record), "{name}: {text}");
    }
    let mut verified = 0;
    for (session, log) in by_session(&events) {
        let state = fold(&log);
        let found = rendered(&state);
        let expected = &golden.states[session.to_string()];
        assert!(expected.is_object(), "{name}: no state of {session}");
        assert_eq!(missing(expected, &found, ""), None, "{name}: the state of {session}");
        if FIRST_VERIFIED <= state.policy {
            assert_eq!(verify(&log), [], "{name}: {session}");
            verified += 1;
        }
    }
    verified
}

/// The built program imports the session, finds no problem in it and exports equal lines.
fn assert_imported(golden: &Golden, payloads: &Payloads) {
    let site = Site::bare();
    let contents = payloads.values().map(|text| line::write_payload(&Payload::new(&**text)));
    let lines: Vec<String> = contents.chain(golden.lines.iter().cloned()).collect();
    let file = site.file("session.jsonl", lines.join("\n") + "\n");
    let ran = site.run(&["import", file.to_str().unwrap()]).ok();
    site.run(&["check", ran.stdout.trim()]).ok();
    // a fork is exported with the events that it shares
    let own = |(session, log): (SessionId, Vec<Envelope>)| (!is_child(&log)).then_some(session);
    let mut exported = String::new();
    for root in by_session(&golden.events(payloads)).into_iter().filter_map(own) {
        exported += &site.run(&["export", &root.to_string()]).ok().stdout;
    }
    let events = exported.lines().filter(|line| !line.starts_with(r#"{"v":1,"payload""#));
    let mut found: Vec<&str> = events.collect();
    let mut kept: Vec<&str> = golden.lines.iter().map(String::as_str).collect();
    found.sort_unstable();
    found.dedup();
    kept.sort_unstable();
    assert_eq!(found, kept, "{}", golden.name);
}

fn prefix() -> String {
    format!("schema{SCHEMA}-")
}

/// The schema of the golden session `schemaN-NAME`.
fn schema_of(name: &str) -> u8 {
    let number = name.strip_prefix("schema").and_then(|rest| rest.split_once('-'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

/// The state without the turn configuration, whose contents the log names by hash; long texts as
/// their hash.
fn rendered(state: &State) -> Value {
    let mut state = serde_json::to_value(state).unwrap();
    state.as_object_mut().unwrap().remove("config");
    shorten(&mut state);
    state
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > 60 => {
            *text = Sha256::digest(text.as_bytes()).to_string();
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first place where `found` differs from the expected state. A state may have new members, so
/// those are skipped.
fn missing(expected: &Value, found: &Value, path: &str) -> Option<String> {
    match (expected, found) {
        (Value::Object(known), Value::Object(members)) => known.iter().find_map(|(key, value)| {
            let found = members.get(key).unwrap_or(&Value::Null);
            missing(value, found, &format!("{path}/{key}"))
        }),
        (Value::Array(known), Value::Array(items)) if known.len() == items.len() => {
            let mut pairs = known.iter().zip(items).zip(0..);
            pairs.find_map(|((known, item), n)| missing(known, item, &format!("{path}/{n}")))
        }
        _ if expected == found => None,
        _ => Some(format!("{path}: expected {expected}, found {found}")),
    }
}

/// Plays a session and stores it, without anything specific to this machine.
fn write_golden(name: &str, play: impl FnOnce() -> Site) {
    let known = format!("{}{name}", prefix());
    if file(&format!("{known}.hex")).exists() {
        return;
    }
    std::fs::create_dir_all(FOLDER).unwrap();
    let site = play();
    let mut logs = logs(&site);
    // the root comes first, because forks and children refer to it
    logs.sort_by_key(|(session, log)| (is_child(log), log[0].session != *session));
    let here = site.path("").display().to_string();
    let double = std::env::current_exe().unwrap().display().to_string();
    let moves = [(here.trim_end_matches('/'), "/home/someone/place"), (&double, "/usr/bin/double")];
    let events = moved(&logs, &moves);
    let mut payloads = read_payloads();
    for payload in events.iter().flat_map(|event| event.event.payloads()) {
        payloads.insert(payload.sha256(), Arc::clone(payload.text()));
    }
    let mut states = serde_json::Map::new();
    for (session, log) in by_session(&events) {
        states.insert(session.to_string(), rendered(&fold(&log)));
    }
    let all = |lines: Vec<String>| lines.join("\n") + "\n";
    let save = |name: &str, text: String| std::fs::write(file(name), text).unwrap();
    let contents = payloads.values().map(|text| line::write_payload(&Payload::new(&**text)));
    save("payloads.jsonl", all(contents.collect()));
    let records = events.iter().map(|event| hex(&encode(event).unwrap()));
    save(&format!("{known}.hex"), all(records.collect()));
    save(&format!("{known}.jsonl"), all(events.iter().map(line::write).collect()));
    save(&format!("{known}.json"), serde_json::to_string_pretty(&states).unwrap() + "\n");
}

/// The events as if they had happened in other folders.
fn moved(logs: &Logs, moves: &[(&str, &str)]) -> Vec<Envelope> {
    let there =
        |text: &str| moves.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let own = |(session, log): &(SessionId, Vec<Envelope>)| -> Vec<Envelope> {
        log.iter().filter(|event| event.session == *session).cloned().collect()
    };
    let (mut events, mut renamed) = (Vec::new(), HashMap::new());
    for mut event in logs.iter().flat_map(own) {
        let contents: Vec<Payload> = event.event.payloads().into_iter().cloned().collect();
        let mut text = there(&line::write(&event));
        for payload in contents {
            let moved = Payload::new(there(payload.text()));
            text = text.replace(&payload.sha256().to_string(), &moved.sha256().to_string());
            renamed.insert(moved.sha256(), Arc::clone(moved.text()));
        }
        let Ok(Line::Event(read)) = line::read(&text) else { panic!("{text}") };
        event = *read;
        for payload in event.event.payloads_mut() {
            let text = Arc::clone(&renamed[&payload.sha256()]);
            payload.fill(text);
        }
        events.push(event);
    }
    let own =
        |(session, log)| asked_there(log).into_iter().filter(move |event| event.session == session);
    by_session(&events).into_iter().flat_map(own).collect()
}

/// Recomputes the hashes of the requests, which differ there.
fn asked_there(mut log: Vec<Envelope>) -> Vec<Envelope> {
    let mut state = State::default();
    for event in &mut log {
        if let Event::Model(Model::Requested { .. }) = &event.event {
            *event = next(&state).expect("a request is decided");
        }
        state.apply(event);
    }
    assert_eq!(verify(&log), []);
    log
}
