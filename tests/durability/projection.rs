//! Promise 8: standard output is a projection of the durable log. A line is printed only when its event
//! is on the disk, and once.
//!
//! Each commit is delayed, so that a line that does not wait for it comes far too early. When a line is
//! seen, the log is read from the disk. Lines come in five ways: on the output of `run` and of `observe`, as JSON and
//! as text, in a watch on the socket, and in updates to an editor. `LEFTFOLD_DELAY` is the delay in milliseconds (20 if
//! it is not set).

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use common::corpus::scenario;
use common::{
    Editor, Live, Peer, Site, Tally, number, says, script, skipped, wait_for_node, wait_until,
};
use leftfold_events::event::{Event, Model, PartKind, Permission, StreamedPart, Tool, Turn};
use leftfold_events::{Envelope, Seq, line};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::effects::on_disk;

/// Sessions of the corpus with one run, whose output ends with the end of its turn.
const SESSIONS: [&str; 11] = [
    "tools", "parallel", "children", "permissions", "retry", "plan", "incomplete", "mixed",
    "plugins", "mcp", "snapshots",
];

/// Sessions that an editor runs.
const EDITED: [&str; 8] =
    ["tools", "parallel", "children", "permissions", "retry", "incomplete", "plugins", "mcp"];

const RUN: &str = "lines of run";
const OBSERVE: &str = "lines of observe";
const WATCH: &str = "events of a watch";
const TEXT: &str = "lines of text";
const UPDATES: &str = "updates to an editor";

const EARLY: &str = "lines before their event is durable";
const TWICE: &str = "lines printed twice";

/// The lines that one reader has seen, and those that were on the disk when it last looked.
struct Seen<'a> {
    tally: &'a Tally,
    way: &'static str,
    name: &'static str,
    home: PathBuf,
    durable: HashSet<String>,
    printed: HashSet<String>,
}

impl Seen<'_> {
    fn line(&mut self, text: &str) {
        let text = text.trim_end();
        if !self.durable.contains(text) {
            for (_, log) in on_disk(&self.home) {
                for event in &log {
                    self.durable.insert(line::write(event));
                    self.durable
                        .extend(event.event.payloads().into_iter().map(line::write_payload));
                }
            }
        }
        let place = || format!("{}, {}: {text}", self.name, self.way);
        self.tally.check(EARLY, self.durable.contains(text), place);
        // contents come again with each event that names them
        let once = text.contains(r#""payload":"#) || self.printed.insert(text.to_owned());
        self.tally.check(TWICE, once, place);
        self.tally.add(self.way, 1);
    }
}

/// Reads what an observer prints, up to the end of the session's turn.
fn observe(mut observer: Live, session: &str, mut seen: Seen<'_>) {
    while let Some(text) = observer.line() {
        seen.line(&text);
        let event: Value = serde_json::from_str(&text).unwrap();
        if event["type"] == "turn.ended" && event["session"] == session {
            observer.signal(Signal::TERM);
            return;
        }
    }
}

/// Reads what a watch on the socket sends, up to the end of the session's turn.
fn watch(mut peer: Peer, session: &str, mut seen: Seen<'_>) {
    peer.ask("_leftfold/watch", &json!({ "session": session, "from": 1 }));
    while let Some(text) = peer.raw_line() {
        let begin = r#"{"jsonrpc":"2.0","method":"_leftfold/event","params":"#;
        let Some(event) = text.trim_end().strip_prefix(begin) else { continue };
        seen.line(&event[..event.len() - 1]);
        if event.contains(r#""type":"turn.ended""#) && event.contains(session) {
            return;
        }
    }
}

/// The log of the first session on the disk.
fn root(home: &std::path::Path) -> Vec<Envelope> {
    on_disk(home).into_iter().next().map(|(_, log)| log).unwrap_or_default()
}

/// The streamed text of this kind, of one request or of all.
fn streamed(log: &[Envelope], kind: PartKind, of: Option<Seq>) -> String {
    let mut text = String::new();
    for event in log.iter().filter(|event| of.is_none() || event.of == of) {
        if let Event::Model(Model::Streamed { parts }) = &event.event {
            let parts = parts.iter().filter(|part: &&StreamedPart| part.kind == kind);
            text.extend(parts.map(|part| part.text.as_str()));
        }
    }
    text
}

fn count(log: &[Envelope], wanted: impl Fn(&Event) -> bool) -> usize {
    log.iter().filter(|event| wanted(&event.event)).count()
}

/// Reads what is printed as text for people. Each line is in the durable text, after the line before.
fn read_text(tally: &Tally, site: &Site, mut live: Live, place: &str, until: Option<&str>) {
    let (mut at, mut retries) = (0, 0);
    while let Some(line) = live.line() {
        let words = line.trim();
        if words.is_empty() {
            continue;
        }
        let log = root(&site.path("home"));
        let durable = if words.starts_with("[retrying") {
            retries += 1;
            count(&log, |event| matches!(event, Event::Model(Model::RetryScheduled { .. })))
                >= retries
        } else {
            let text = streamed(&log, PartKind::Text, None);
            let found = text.get(at..).and_then(|rest| rest.find(words));
            at += found.map_or(0, |found| found + words.len());
            found.is_some()
        };
        tally.check(EARLY, durable, || format!("{place}, text: {line}"));
        tally.add(TEXT, 1);
        if until == Some(words) {
            live.signal(Signal::TERM);
        }
    }
}

/// The updates that an editor has got.
#[derive(Default)]
struct Updates {
    /// The text of each kind and message.
    texts: BTreeMap<(String, String), String>,
    /// Ids of updates that may come only once.
    known: HashSet<String>,
    retries: usize,
    questions: usize,
}

impl Updates {
    /// Whether what this message says is in the log. `None`: it says nothing about the log.
    fn is_in(&mut self, message: &Value, log: &[Envelope]) -> Option<bool> {
        if message["method"] == "session/request_permission" {
            self.questions += 1;
            let asked =
                |event: &Event| matches!(event, Event::Permission(Permission::Asked { .. }));
            return Some(count(log, asked) >= self.questions);
        }
        if !message["result"]["stopReason"].is_null() {
            return Some(count(log, |event| matches!(event, Event::Turn(Turn::Ended(_)))) == 1);
        }
        let update = &message["params"]["update"];
        let kind = update["sessionUpdate"].as_str()?;
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let words = update["content"]["text"].as_str().unwrap();
                let Some(of) = update["messageId"].as_str() else {
                    self.retries += 1;
                    let retried =
                        |event: &Event| matches!(event, Event::Model(Model::RetryScheduled { .. }));
                    return Some(
                        words.contains("[retrying") && count(log, retried) >= self.retries,
                    );
                };
                let text = self.texts.entry((kind.to_owned(), of.to_owned())).or_default();
                text.push_str(words);
                let kind = if kind == "agent_message_chunk" {
                    PartKind::Text
                } else {
                    PartKind::Reasoning
                };
                Some(streamed(log, kind, of.parse().ok()).starts_with(text.as_str()))
            }
            "tool_call" | "tool_call_update" => {
                let of: Seq = update["toolCallId"].as_str()?.strip_prefix("call-")?.parse().ok()?;
                let at = |seq: Seq| log.iter().find(|event| event.seq == seq);
                // the outcome names the intent, which names the call
                let of_call = |event: &Envelope| {
                    let intent = event.of.and_then(at).and_then(|event| event.of);
                    event.of == Some(of) || intent == Some(of)
                };
                let has = |wanted: fn(&Tool) -> bool| {
                    log.iter().any(|event| {
                        of_call(event) && matches!(&event.event, Event::Tool(tool) if wanted(tool))
                    })
                };
                Some(match update["status"].as_str() {
                    _ if kind == "tool_call" => log.iter().any(|event| {
                        event.seq == of
                            && matches!(
                                event.event,
                                Event::Tool(Tool::Called { .. } | Tool::Batched { .. })
                            )
                    }),
                    Some("in_progress") => has(|tool| tool.started().is_some()),
                    Some("completed" | "failed") => {
                        has(|tool| matches!(tool, Tool::Finished(_) | Tool::Resolved(_)))
                    }
                    _ => has(|tool| matches!(tool, Tool::Resolved(_) | Tool::Progressed { .. })),
                })
            }
            _ => None,
        }
    }

    /// The id of this message, if it may come only once.
    fn once(message: &Value) -> Option<String> {
        let update = &message["params"]["update"];
        let (kind, id, status) =
            (&update["sessionUpdate"], &update["toolCallId"], &update["status"]);
        let is_once = *kind == "tool_call" || !status.is_null();
        (is_once && !id.is_null()).then(|| format!("{kind} {id} {status}"))
    }
}

/// Runs a session in an editor, which allows everything.
fn edit(tally: &Tally, site: &Site, place: &str) {
    let mut editor = Editor::start(site, &[]);
    let session = editor.session(site);
    let prompt = editor.prompt(&session, "go");
    let mut updates = Updates::default();
    loop {
        let message = editor.until(|_| true);
        if message["method"] == "session/request_permission" {
            editor.choose(&message, "allow_once");
        }
        if let Some(durable) = updates.is_in(&message, &root(&site.path("home"))) {
            tally.check(EARLY, durable, || format!("{place}, editor: {message}"));
            tally.add(UPDATES, 1);
        }
        if let Some(once) = Updates::once(&message) {
            let new = updates.known.insert(once);
            tally.check(TWICE, new, || format!("{place}, editor: {message}"));
        }
        if message["id"] == prompt && message["method"].is_null() {
            break;
        }
    }
    editor.leave();
}

/// The last line of [`long_answer`], after which an observer is stopped.
const LAST: &str = "Line 39 of the answer is here.";

/// A long answer of short lines.
fn long_answer() -> Site {
    let lines: String = (0..40).map(|n| format!("Line {n} of the answer is here.\n")).collect();
    let mut answer = says(&lines);
    (answer["chunk"], answer["delay_ms"]) = (json!(16), json!(2));
    Site::scripted(&script(json!([answer])))
}

/// Runs a long answer as text, with an observer, and each session of [`EDITED`] as text and in an editor.
fn texts_and_editors(tally: &Tally, delay: &str) {
    let site = long_answer().env("LEFTFOLD_SLOW_COMMITS", delay);
    let live = site.start(&["run", "go"]);
    wait_until("the session has begun", || !site.sessions().is_empty());
    wait_for_node(&site.session());
    std::thread::scope(|scope| {
        let session = site.session();
        let observer = site.start(&["observe", session.to_str().unwrap()]);
        scope.spawn(|| read_text(tally, &site, observer, "an observer", Some(LAST)));
        read_text(tally, &site, live, "a long answer", None);
    });
    edit(tally, &long_answer().env("LEFTFOLD_SLOW_COMMITS", delay), "a long answer");
    for name in EDITED {
        let site = || scenario(name).site.env("LEFTFOLD_SLOW_COMMITS", delay);
        edit(tally, &site(), name);
        let site = site();
        read_text(tally, &site, site.start(&["run", "--yes", "go"]), name, None);
    }
}

#[test]
fn a_line_is_printed_once_its_event_is_durable_and_once() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds delay commits");
    }
    let delay = number("LEFTFOLD_DELAY", 20).to_string();
    let tally = Tally::promise(8, "projection")
        .counts(&["sessions", RUN, OBSERVE, WATCH, TEXT, UPDATES])
        .never(&[EARLY, TWICE]);
    std::thread::scope(|scope| {
        scope.spawn(|| texts_and_editors(&tally, &delay));
        json_lines(&tally, &delay);
    });
    let [run, observe, watch, text, updates] =
        [RUN, OBSERVE, WATCH, TEXT, UPDATES].map(|way| tally.get(way));
    tally.finish();
    assert!(run.min(observe).min(watch) > 250, "{run}, {observe}, {watch}");
    assert!(text > 90 && updates > 100, "{text}, {updates}");
}

/// Runs each session with JSON lines, an observer and a watch on the socket.
fn json_lines(tally: &Tally, delay: &str) {
    for name in SESSIONS {
        let mut scenario = scenario(name);
        scenario.site = scenario.site.env("LEFTFOLD_SLOW_COMMITS", delay);
        let (site, act) = (&scenario.site, &scenario.acts[0]);
        let seen = |way| Seen {
            tally,
            way,
            name,
            home: site.path("home"),
            durable: HashSet::new(),
            printed: HashSet::new(),
        };
        let mut output = seen(RUN);
        std::thread::scope(|scope| {
            let mut begun = false;
            let ran = act.play_seen(site, None, &[], |text| {
                output.line(text);
                if !std::mem::replace(&mut begun, true) {
                    let first: Value = serde_json::from_str(text).unwrap();
                    let session = first["session"].as_str().unwrap().to_owned();
                    let observer = site.start(&["observe", &session, "--format", "json"]);
                    let lines = seen(OBSERVE);
                    let (events, id) = (seen(WATCH), session.clone());
                    let peer = Peer::connect(&site.session());
                    scope.spawn(move || observe(observer, &session, lines));
                    scope.spawn(move || watch(peer, &id, events));
                }
            });
            assert_eq!(ran.code, act.code, "{name}: {ran:?}");
        });
        tally.add("sessions", 1);
    }
}
