//! Promise 8: standard output is a projection of the durable log. A line is printed only when its event
//! is on the disk, and once.
//!
//! Each commit is delayed, so that a line that does not wait for it comes far too early. When a line is
//! seen, on the output of `run` or of `observe`, the log is read from the disk. `LEFTFOLD_DELAY` is the delay
//! in milliseconds (20 if it is not set).

use std::collections::HashSet;
use std::path::PathBuf;

use common::corpus::scenario;
use common::{Live, Tally, number, skipped};
use leftfold_events::line;
use rustix::process::Signal;
use serde_json::Value;

use crate::effects::on_disk;

/// Sessions of the corpus with one run, whose output ends with the end of its turn.
const SESSIONS: [&str; 11] = [
    "tools",
    "parallel",
    "children",
    "permissions",
    "retry",
    "plan",
    "incomplete",
    "mixed",
    "plugins",
    "mcp",
    "snapshots",
];

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

#[test]
fn a_line_is_printed_once_its_event_is_durable_and_once() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds delay commits");
    }
    let delay = number("LEFTFOLD_DELAY", 20).to_string();
    let tally = Tally::promise(8, "projection")
        .counts(&["sessions", "lines of run", "lines of observe"])
        .never(&[EARLY, TWICE]);
    for name in SESSIONS {
        let mut scenario = scenario(name);
        scenario.site = scenario.site.env("LEFTFOLD_SLOW_COMMITS", delay.as_str());
        let (site, act) = (&scenario.site, &scenario.acts[0]);
        let seen = |way| Seen {
            tally: &tally,
            way,
            name,
            home: site.path("home"),
            durable: HashSet::new(),
            printed: HashSet::new(),
        };
        let mut output = seen("lines of run");
        std::thread::scope(|scope| {
            let mut begun = false;
            let ran = act.play_seen(site, None, &[], |text| {
                output.line(text);
                if !std::mem::replace(&mut begun, true) {
                    let first: Value = serde_json::from_str(text).unwrap();
                    let session = first["session"].as_str().unwrap().to_owned();
                    let observer = site.start(&["observe", &session, "--format", "json"]);
                    let seen = seen("lines of observe");
                    scope.spawn(move || observe(observer, &session, seen));
                }
            });
            assert_eq!(ran.code, act.code, "{name}: {ran:?}");
        });
        tally.add("sessions", 1);
    }
    let lines = tally.get("lines of run") + tally.get("lines of observe");
    tally.finish();
    assert!(lines > 500, "{lines} lines");
}
