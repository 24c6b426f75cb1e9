//! Promise 17, "Resume Means Resume" (arXiv 2608.03836): six properties of a session that is resumed after SIGKILL.
//!
//! Each session has one effect behind a question to a person. The node is killed at six places around the answer to
//! that question, and the session is resumed, forked, or resumed by several processes at once. Effects are counted
//! outside of Leftfold: each leaves a line in a file. A cell is one property at one place with one effect.
//!
//! | property | what must hold |
//! | --- | --- |
//! | prefix continuation | the log of the killed session, and each line that it printed, begins the resumed one |
//! | exactly-once effects | an effect that the log calls finished happened once; a lost one at most once, and the model is told |
//! | fork determinism | several processes fork the killed session at once: equal prefixes, equal next requests, no effect |
//! | checkpoint validity | the killed store has no damage, and its logs fold and verify |
//! | consume-once permissions | each question has at most one answer, also if several processes resume and answer: one of them takes it |
//! | recovery determinism | the killed site, put back and resumed again, makes an equal log but for times and ids of processes and sessions |
//!
//! Two more tests belong to it: a resumed process that runs calls again must break exactly-once effects, and invalid
//! inputs must leave valid checkpoints ([`invalid`]).
//!
//! `LEFTFOLD_CELLS=all` resumes each killed session eight times instead of three, has eight processes race instead of
//! four, and does all that in ten rounds.

mod invalid;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::aftermath::{assert_started_once, assert_told};
use common::corpus::{Act, Logs, PLUGIN, SERVER, is_child, logs, store};
use common::{Live, Ran, Saved, Site, Tally, call, mcp, plugin, says, skipped};
use leftfold_events::event::{Event, Permission, Session, Tool};
use leftfold_events::{Envelope, SessionId, fold, line, request_builder, verify};
use rustix::process::Signal;
use serde_json::{Value, json};

const PREFIX: &str = "broken prefixes";
const EFFECTS: &str = "effects doubled, unlogged or untold";
const FORKS: &str = "forks that differ";
const VALID: &str = "invalid checkpoints";
const ONCE: &str = "questions answered twice";
const RECOVERY: &str = "recoveries that differ";
/// A node that neither ends nor says why.
const ENDS: &str = "resumes that do not end";

/// A session whose effect waits for the answer to a question.
struct Gated {
    name: &'static str,
    site: fn() -> Site,
    /// How often the effect has happened, as seen outside.
    count: fn(&Site) -> usize,
    /// The tool whose call is the effect.
    tool: &'static str,
    /// The answer is the outcome of a call. The effect is the call after it.
    asks_by_itself: bool,
    /// The first group after which the answer is in the log, as the first test that needs it has found it.
    group: OnceLock<usize>,
}

static EFFECTS_BEHIND_A_QUESTION: [Gated; 6] = [
    Gated {
        name: "command",
        site: command,
        count: marks,
        tool: "bash",
        asks_by_itself: false,
        group: OnceLock::new(),
    },
    Gated {
        name: "edit",
        site: edit,
        count: lines_of_notes,
        tool: "edit",
        asks_by_itself: false,
        group: OnceLock::new(),
    },
    Gated {
        name: "MCP call",
        site: mcp_call,
        count: marks,
        tool: "m_mark",
        asks_by_itself: false,
        group: OnceLock::new(),
    },
    Gated {
        name: "plugin's tool",
        site: plugin_tool,
        count: calls_of_plugin,
        tool: "d_job",
        asks_by_itself: false,
        group: OnceLock::new(),
    },
    Gated {
        name: "subagent's command",
        site: childs_command,
        count: marks,
        tool: "bash",
        asks_by_itself: false,
        group: OnceLock::new(),
    },
    Gated {
        name: "command after a question",
        site: question,
        count: marks,
        tool: "bash",
        asks_by_itself: true,
        group: OnceLock::new(),
    },
];

/// Where the node is killed. The answer becomes durable in one group of appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillPoint {
    /// The answer is not written.
    Before,
    /// Its group is on the disk, and its heads are not.
    Synced,
    /// Its heads are written, and nothing acknowledged.
    Headed,
    /// The effect has happened or happens, and its outcome is not written.
    Effect,
    /// The node that resumes is killed, too.
    Recovering,
    /// The question is open; eight processes resume at once, and each answers.
    Racing,
}

const PLACES: [KillPoint; 6] = [
    KillPoint::Before,
    KillPoint::Synced,
    KillPoint::Headed,
    KillPoint::Effect,
    KillPoint::Recovering,
    KillPoint::Racing,
];

const MARK: &str = "echo effect >> marks";

fn gated(replies: &[Value], permission: &str) -> Site {
    let replies = [replies, &[says("The end.")]].concat();
    let site = Site::scripted(&json!({ "replies": replies, "on_end": "repeat" }));
    site.setting("permission", json!({ permission: "ask" }))
}

fn command() -> Site {
    gated(&[call("bash", json!({ "command": MARK }))], "bash")
}

fn edit() -> Site {
    let change =
        json!({ "filePath": "notes.txt", "oldString": "end\n", "newString": "effect\nend\n" });
    let read = call("read", json!({ "filePath": "notes.txt" }));
    let site = gated(&[read, call("edit", change)], "edit");
    site.file("notes.txt", "end\n");
    site
}

fn mcp_call() -> Site {
    gated(&[call("m_mark", json!({ "mark": "effect" }))], "m_*")
        .setting("/mcp", json!({ "m": mcp::local(SERVER, "") }))
}

fn plugin_tool() -> Site {
    let handshake = json!({ "name": "d", "tools": [{ "name": "job" }] });
    let double = plugin::double(PLUGIN, handshake, json!({ "tool": "done" }));
    gated(&[call("d_job", json!({}))], "d_*").setting("/plugin", json!([double]))
}

fn childs_command() -> Site {
    let task = json!({ "description": "A part", "prompt": "the part", "subagentType": "general" });
    let mut inner = call("bash", json!({ "command": MARK }));
    inner["match"] = json!({ "prompt": "the part", "answers": 0 });
    let mut done = says("The part is done.");
    done["match"] = json!({ "prompt": "the part" });
    gated(&[inner, done, call("task", task)], "bash")
}

fn question() -> Site {
    let which = json!({ "questions": [{ "question": "Which?", "options": [{ "label": "red" }] }] });
    let replies = [call("question", which), call("bash", json!({ "command": MARK }))];
    gated(&replies, "webfetch")
}

fn marks(site: &Site) -> usize {
    site.text("marks").lines().count()
}

fn lines_of_notes(site: &Site) -> usize {
    site.text("notes.txt").lines().filter(|line| *line == "effect").count()
}

fn calls_of_plugin(site: &Site) -> usize {
    plugin::asked_for(&site.project(), "tool").len()
}

/// Runs the session; a person answers with yes.
fn run(site: &Site, fault: &str) -> Ran {
    let mut command = site.command(&["run", "--format", "json", "--permission-mode", "ask", "go"]);
    command.env("LEFTFOLD_CRASH_AT", fault).stdin(Stdio::piped());
    let mut live = Live::start(command);
    // the node may be dead already
    let _ = live.input().write_all(b"once\n");
    live.wait()
}

fn resume(site: &Site, session: &str, fault: Option<&str>) -> Ran {
    Act::resume(true).play_with(site, fault, &[session])
}

/// The events of all logs that are not shared with another.
fn own(logs: &Logs) -> impl Iterator<Item = &Envelope> {
    logs.iter().flat_map(|(session, log)| log.iter().filter(move |event| event.session == *session))
}

fn answers(logs: &Logs) -> Vec<&Envelope> {
    let answered =
        |event: &&Envelope| matches!(event.event, Event::Permission(Permission::Answered { .. }));
    own(logs).filter(answered).collect()
}

fn root(logs: &Logs) -> Option<&(SessionId, Vec<Envelope>)> {
    logs.iter().find(|(_, log)| !is_child(log))
}

/// One effect, with the folder in which its session is played again and again.
struct Trials<'a> {
    tally: &'a Tally,
    gated: &'a Gated,
    site: &'a Site,
    /// The site before the session.
    fresh: &'a Saved,
    /// How often a killed session is resumed.
    recoveries: usize,
    /// Processes that fork or resume the session at the same time.
    racers: usize,
}

impl Trials<'_> {
    fn check(&self, kind: &str, place: KillPoint, holds: bool, why: impl FnOnce() -> String) {
        let name = self.gated.name;
        self.tally.check(kind, holds, || format!("{name}, {place:?}: {}", why()));
    }

    fn cell(&self, property: &str, place: KillPoint) {
        self.tally.distinct("cells", format!("{property} {place:?} {}", self.gated.name));
        self.tally.add("trials", 1);
    }

    fn count(&self) -> usize {
        (self.gated.count)(self.site)
    }

    /// Plays the session anew and kills its node there. Returns its output.
    fn killed(&self, group: usize, place: &str) -> Ran {
        self.site.restore(self.fresh);
        run(self.site, &format!("{group}:{place}"))
    }

    fn group_of_answer(&self) -> usize {
        *self.gated.group.get_or_init(|| self.search_group_of_answer())
    }

    fn search_group_of_answer(&self) -> usize {
        let (mut without, mut with) = (0, 64);
        while with - without > 1 {
            let middle = usize::midpoint(without, with);
            self.killed(middle, "headed");
            if answers(&logs(self.site)).is_empty() {
                without = middle;
            } else {
                with = middle;
            }
        }
        with
    }

    /// Kills the session at a place. Groups may be divided otherwise in each run, so the neighbours of the
    /// group are tried, too. Returns the lines that were printed.
    fn kill_at(&self, place: KillPoint, group: usize, round: usize) -> Option<Vec<String>> {
        if place == KillPoint::Racing {
            return Some(self.park());
        }
        let less = group.saturating_sub(1).max(1);
        // a busy machine divides them otherwise more often
        let groups = [group, group + 1, less, group + 2, group, group + 1, less, group + 3];
        for group in groups.into_iter().cycle().take(40) {
            let ran = match place {
                KillPoint::Before => self.killed(group, "before"),
                KillPoint::Synced => self.killed(group, "synced"),
                KillPoint::Headed | KillPoint::Recovering | KillPoint::Racing => {
                    self.killed(group, "headed")
                }
                KillPoint::Effect => self.killed(group + 1, "before"),
            };
            let logs = logs(self.site);
            let (answered, happened) = (!answers(&logs).is_empty(), self.count() > 0);
            let is_there = match place {
                KillPoint::Before => !answered && !logs.is_empty(),
                KillPoint::Synced
                | KillPoint::Headed
                | KillPoint::Recovering
                | KillPoint::Racing => answered && !happened,
                KillPoint::Effect => answered && (happened || self.gated.asks_by_itself),
            };
            if ran.code != -1 || !is_there {
                continue;
            }
            let mut shown = lines(&ran);
            if place == KillPoint::Recovering {
                let session = root(&logs)?.0.to_string();
                let fault = ["1:synced", "1:headed", "2:before", "2:synced"][round % 4];
                let ran = resume(self.site, &session, Some(fault));
                if ran.code != -1 {
                    continue;
                }
                shown.extend(lines(&ran));
            }
            return Some(shown);
        }
        None
    }

    /// Kills the node while the question is open.
    fn park(&self) -> Vec<String> {
        self.site.restore(self.fresh);
        let mut command =
            self.site.command(&["run", "--format", "json", "--permission-mode", "ask", "go"]);
        command.stdin(Stdio::piped());
        let mut live = Live::start(command);
        let _input = live.input();
        live.until("permission.asked");
        live.signal(Signal::KILL);
        lines(&live.wait())
    }

    /// All properties of the session that is killed at this place.
    fn try_at(&self, place: KillPoint, group: usize, round: usize) {
        let Some(shown) = self.kill_at(place, group, round) else { return };
        let killed = self.site.save();
        let before = logs(self.site);
        let happened = self.count();
        self.look_at_checkpoint(place, &before);
        let Some((root, _)) = root(&before) else { return };
        let session = root.to_string();
        self.fork(place, &before, &session, happened);
        if place == KillPoint::Racing {
            self.site.restore(&killed);
            self.race(&before, &shown, &session);
            return;
        }
        let mut first: Option<Vec<Value>> = None;
        for _ in 0..self.recoveries {
            self.site.restore(&killed);
            let ran = resume(self.site, &session, None);
            self.check(ENDS, place, ran.code == 0, || format!("{ran:?}"));
            let shown = [shown.clone(), lines(&ran)].concat();
            let after = self.look_at_resumed(place, &before, &shown);
            let log = comparable(&after);
            if let Some(first) = &first {
                self.cell("recovery determinism", place);
                let differs = first.iter().zip(&log).find(|(a, b)| a != b);
                let equal = differs.is_none() && first.len() == log.len();
                self.check(RECOVERY, place, equal, || {
                    format!("{} and {} events, {differs:?}", first.len(), log.len())
                });
            } else {
                first = Some(log);
            }
        }
    }

    fn look_at_checkpoint(&self, place: KillPoint, logs: &Logs) {
        self.cell("checkpoint validity", place);
        let faults = faults(self.site, logs);
        self.check(VALID, place, faults.is_empty(), || faults.join("; "));
    }

    /// Several processes fork the session at its end.
    fn fork(&self, place: KillPoint, before: &Logs, session: &str, happened: usize) {
        let Some((_, parent)) = root(before) else { return };
        let prompted = parent.iter().any(|event| line::type_of(&event.event) == "turn.prompted");
        if !prompted {
            return;
        }
        self.cell("fork determinism", place);
        let at = parent.len().to_string();
        let racers = (0..self.racers).map(|_| self.site.start(&["fork", session, "--at", &at]));
        let racers: Vec<Live> = racers.collect();
        self.tally.add("racing processes", racers.len());
        let mut ids = Vec::new();
        for racer in racers {
            let ran = racer.wait();
            self.check(FORKS, place, ran.code == 0, || format!("{ran:?}"));
            ids.push(ran.stdout.trim().to_owned());
        }
        let after = logs(self.site);
        let mut requests = Vec::new();
        for id in &ids {
            let log = after.iter().find(|(session, _)| session.to_string() == *id);
            let Some((_, log)) = log else {
                self.check(FORKS, place, false, || format!("the fork {id} is gone"));
                continue;
            };
            let prefix = log.len() > parent.len() && log[..parent.len()] == parent[..];
            self.check(FORKS, place, prefix, || format!("the prefix of {id}"));
            let forked = log.get(parent.len()).map(|event| &event.event);
            let named = matches!(forked, Some(Event::Session(Session::Forked { .. })));
            self.check(FORKS, place, named, || format!("{id} begins with {forked:?}"));
            let request = serde_json::to_string(&request_builder::request(&fold(log))).unwrap();
            requests.push(request.replace(id, "ID"));
        }
        requests.dedup();
        self.check(FORKS, place, requests.len() == 1, || format!("{} requests", requests.len()));
        let kept = before.iter().all(|log| after.contains(log));
        self.check(FORKS, place, kept, || "the parent has changed".to_owned());
        let now = self.count();
        self.check(FORKS, place, now == happened, || format!("{happened} effects, now {now}"));
    }

    /// Several processes resume the session, and each answers its question.
    fn race(&self, before: &Logs, shown: &[String], session: &str) {
        let place = KillPoint::Racing;
        let racers = std::thread::scope(|scope| {
            let racers = (0..self.racers).map(|_| scope.spawn(|| resume(self.site, session, None)));
            let racers: Vec<_> = racers.collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<Ran>>()
        });
        self.tally.add("racing processes", racers.len());
        let mut shown_by_first = shown.to_vec();
        let after = logs(self.site);
        let answered: Vec<String> = answers(&after).into_iter().map(line::write).collect();
        let mut resumed = 0;
        for ran in &racers {
            // the others are told who continues it, or find it finished
            let held = ran.code == 1 && ran.stderr.contains("is in use by another node");
            let over = ran.code == 0 && ran.stdout.is_empty();
            let saw = ran.code == 0 && answered.iter().any(|line| ran.stdout.contains(line));
            resumed += usize::from(saw);
            self.check(ENDS, place, held || over || saw, || format!("{ran:?}"));
        }
        self.check(ONCE, place, resumed == 1, || {
            format!("{resumed} of {} have resumed it", self.racers)
        });
        if let Some(first) = racers.iter().max_by_key(|ran| ran.stdout.len()) {
            shown_by_first.extend(lines(first));
        }
        self.check(ONCE, place, answered.len() == 1, || format!("{answered:?}"));
        self.look_at_resumed(place, before, &shown_by_first);
    }

    /// Prefix continuation, exactly-once effects and consume-once permissions of a resumed session.
    fn look_at_resumed(&self, place: KillPoint, before: &Logs, shown: &[String]) -> Logs {
        for property in ["prefix continuation", "exactly-once effects", "consume-once permissions"]
        {
            self.cell(property, place);
        }
        let after = logs(self.site);
        self.look_at_prefix(place, before, &after, shown);
        let mut asked = BTreeMap::<_, usize>::new();
        for event in answers(&after) {
            *asked.entry((event.session, event.of)).or_default() += 1;
        }
        let once = asked.values().all(|answers| *answers == 1);
        self.check(ONCE, place, once, || format!("{asked:?}"));
        for (session, log) in &after {
            let told = self.tally.attempt(EFFECTS, self.gated.name, || assert_told(log));
            self.tally.add("lost calls told", told.unwrap_or_default());
            let open = fold(log).turn.is_some();
            self.check(ENDS, place, !open, || format!("{session} is open"));
        }
        let (started, finished) = self.logged_effects(&after);
        self.tally.attempt(EFFECTS, self.gated.name, || assert_started_once(&after));
        let happened = self.count();
        self.tally.add("effects", happened);
        let right = if finished > 0 { happened == 1 } else { happened <= started.min(1) };
        self.check(EFFECTS, place, right, || {
            format!("{happened} effects, {started} started, {finished} finished")
        });
        after
    }

    fn look_at_prefix(&self, place: KillPoint, before: &Logs, after: &Logs, shown: &[String]) {
        for (session, log) in before {
            let now = after.iter().find(|(known, _)| known == session).map(|(_, now)| now);
            let kept = now.is_some_and(|now| now.starts_with(log));
            self.check(PREFIX, place, kept, || format!("{session}"));
            let next = now.and_then(|now| now.get(log.len())).map(|event| &event.event);
            let resumed = match next {
                Some(Event::Session(session)) => {
                    line::type_of(&Event::Session(session.clone())) == "session.resumed"
                }
                Some(_) => false,
                None => true,
            };
            self.check(PREFIX, place, resumed, || format!("{session} goes on with {next:?}"));
        }
        let lines: HashMap<String, usize> =
            own(after).map(|event| (line::write(event), 0)).collect();
        for shown in shown.iter().filter(|line| !line.contains(r#""payload":"#)) {
            self.check(PREFIX, place, lines.contains_key(shown), || format!("lost: {shown}"));
        }
    }

    /// How often the effect has started and finished in the logs.
    fn logged_effects(&self, logs: &Logs) -> (usize, usize) {
        let (mut started, mut finished) = (0, 0);
        for (session, log) in logs {
            let mine = log.iter().filter(|event| event.session == *session);
            let starts =
                mine.clone().filter(|event| self.starts_effect(event)).map(|event| event.seq);
            let starts: Vec<_> = starts.collect();
            started += starts.len();
            finished += mine
                .filter(|event| matches!(event.event, Event::Tool(Tool::Finished(_))))
                .filter(|event| event.of.is_some_and(|of| starts.contains(&of)))
                .count();
        }
        (started, finished)
    }

    fn starts_effect(&self, event: &Envelope) -> bool {
        let Event::Tool(tool) = &event.event else { return false };
        tool.started().is_some()
            && line::write(event).contains(&format!(r#""name":"{}""#, self.gated.tool))
    }
}

/// The faults of a store: damage, a gap in a log, an event that no decision explains, a state that cannot be
/// written.
fn faults(site: &Site, logs: &Logs) -> Vec<String> {
    let damage = store(site).map(|store| leftfold_store::check(&store).unwrap().damage);
    let damage = damage.into_iter().flatten();
    let mut faults: Vec<String> = damage.map(|damage| format!("{damage:?}")).collect();
    for (session, log) in logs {
        if !log.iter().zip(1..).all(|(event, seq)| event.seq == seq) {
            faults.push(format!("{session} has a gap"));
        }
        let other = verify(log);
        if !other.is_empty() {
            faults.push(format!("{session}: {other:?}"));
        }
        if let Err(error) = serde_json::to_value(fold(log)) {
            faults.push(format!("{session}: {error}"));
        }
    }
    faults
}

fn lines(ran: &Ran) -> Vec<String> {
    let whole = ran.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| line.trim_end().to_owned()).collect()
}

/// The logs without times, ids of processes and ids of sessions, which no two runs share.
fn comparable(logs: &Logs) -> Vec<Value> {
    let mut logs: Vec<_> = logs.iter().collect();
    logs.sort_by_key(|(_, log)| is_child(log));
    let ids: Vec<String> = logs.iter().map(|(session, _)| session.to_string()).collect();
    let comparable = |event: &Envelope| {
        let mut text = line::write(event);
        for (n, id) in ids.iter().enumerate() {
            text = text.replace(id.as_str(), &format!("session {n}"));
        }
        let mut event: Value = serde_json::from_str(&text).unwrap();
        for name in ["at", "until"] {
            event.as_object_mut().unwrap().remove(name);
        }
        // the time of a file's last change
        if let Some(metadata) = event["data"]["metadata"].as_object_mut() {
            metadata.remove("seen");
        }
        if let Some(by) = event["data"]["by"].as_str().and_then(|by| by.split_once(" (pid ")) {
            event["data"]["by"] = by.0.to_owned().into();
        }
        event
    };
    logs.iter().flat_map(|(_, log)| log).map(comparable).collect()
}

#[test]
fn resume_means_resume() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds have faults to inject");
    }
    let all = std::env::var("LEFTFOLD_CELLS").is_ok_and(|cells| cells == "all");
    let (rounds, recoveries, racers) = if all { (10, 8, 8) } else { (1, 2, 3) };
    let tally = Tally::promise(17, "resume")
        .counts(&[
            "properties", "places", "kinds of effect", "cells", "trials", "racing processes",
            "effects", "lost calls told",
        ])
        .never(&[PREFIX, EFFECTS, FORKS, VALID, ONCE, RECOVERY, ENDS]);
    tally.add("properties", 6);
    tally.add("places", PLACES.len());
    tally.add("kinds of effect", EFFECTS_BEHIND_A_QUESTION.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(gated) =
                    EFFECTS_BEHIND_A_QUESTION.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let site = (gated.site)();
                    let fresh = site.save();
                    let (site, fresh) = (&site, &fresh);
                    let trials = Trials { tally: &tally, gated, site, fresh, recoveries, racers };
                    let group = trials.group_of_answer();
                    for round in 0..rounds {
                        for place in PLACES {
                            let attempt = || trials.try_at(place, group, round);
                            tally.attempt(ENDS, format!("{}, {place:?}", gated.name), attempt);
                        }
                    }
                }
            });
        }
    });
    let cells = tally.get("cells");
    tally.finish();
    assert!(cells >= 200, "{cells} cells");
}

/// A tally that is looked at, and never printed.
fn probe() -> Tally {
    Tally::promise(17, "probe")
        .counts(&["cells", "trials", "racing processes", "effects", "lost calls told"])
        .never(&[PREFIX, EFFECTS, FORKS, VALID, ONCE, RECOVERY, ENDS])
}

/// A process that resumes the session, and runs each call again once it has finished.
fn resume_twice(site: &Site, session: &str) -> Ran {
    let args = ["resume", "--format", "json", "--permission-mode", "ask", session];
    let mut command = site.command(&args);
    command.env("LEFTFOLD_SABOTAGE", "twice").stdin(Stdio::piped());
    let mut live = Live::start(command);
    // the node may have ended already
    let _ = live.input().write_all(b"once\nonce\n");
    live.wait()
}

const MISSED: &str = "doubled effects that nobody noticed";
const OTHERS: &str = "other properties that were broken";

/// A resumed process that runs finished calls again breaks exactly-once effects, and no other property, in each cell
/// in which the effect finishes in that process. In the other cells the call had started before the kill, so it is
/// lost, or had finished.
#[test]
fn calls_that_run_again_are_noticed() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds have faults to inject");
    }
    let tally = Tally::promise(17, "control: calls that run again")
        .counts(&["kinds of effect", "places", "cells", "doubled effects noticed", "other cells"])
        .never(&[MISSED, OTHERS, ENDS]);
    for gated in &EFFECTS_BEHIND_A_QUESTION {
        let site = (gated.site)();
        let fresh = site.save();
        let mut group = None;
        for place in PLACES {
            let (site, fresh) = (&site, &fresh);
            let trials = Trials { tally: &probe(), gated, site, fresh, recoveries: 1, racers: 2 };
            let group = *group.get_or_insert_with(|| trials.group_of_answer());
            let cell = format!("{}, {place:?}", gated.name);
            tally.attempt(ENDS, &cell, || resumed_twice(&tally, &trials, place, group));
        }
    }
    let noticed = tally.get("doubled effects noticed");
    tally.finish();
    assert!(noticed >= 12, "{noticed} doubled effects noticed");
}

/// Resumes a session with a process that runs calls again. `trials` count the violations of this cell alone.
fn resumed_twice(tally: &Tally, trials: &Trials<'_>, place: KillPoint, group: usize) {
    let Some(shown) = trials.kill_at(place, group, 0) else { return };
    let before = logs(trials.site);
    let Some((root, _)) = root(&before) else { return };
    let ran = resume_twice(trials.site, &root.to_string()).ok();
    let after = trials.look_at_resumed(place, &before, &[shown, lines(&ran)].concat());
    let cell = || format!("{}, {place:?}", trials.gated.name);
    let finished = |logs| trials.logged_effects(logs).1;
    let (broken, noticed) = (trials.tally.broken(), trials.tally.found(EFFECTS));
    tally.add("cells", 1);
    tally.check(OTHERS, broken == noticed, cell);
    if finished(&after) == finished(&before) {
        tally.add("other cells", 1);
        return;
    }
    tally.distinct("kinds of effect", trials.gated.name);
    tally.distinct("places", format!("{place:?}"));
    tally.add("doubled effects noticed", noticed.min(1));
    tally.check(MISSED, noticed > 0, cell);
}

/// The checks notice an effect that happens twice, a lost event, and a log that goes on otherwise.
#[test]
fn violations_are_noticed() {
    if cfg!(not(debug_assertions)) {
        return skipped("only debug builds have faults to inject");
    }
    let tally = probe();
    let gated = &EFFECTS_BEHIND_A_QUESTION[0];
    let site = (gated.site)();
    let fresh = site.save();
    let trials =
        Trials { tally: &tally, gated, site: &site, fresh: &fresh, recoveries: 1, racers: 2 };
    let shown =
        trials.kill_at(KillPoint::Effect, trials.group_of_answer(), 0).expect("it is killed");
    let before = logs(trials.site);
    let session = root(&before).expect("a session").0.to_string();
    let shown = [shown, lines(&resume(trials.site, &session, None).ok())].concat();
    let after = trials.look_at_resumed(KillPoint::Effect, &before, &shown);
    assert_eq!(tally.broken(), 0);
    trials.site.file("marks", "effect\neffect\n");
    trials.look_at_resumed(KillPoint::Effect, &before, &shown);
    assert_eq!(tally.broken(), 1, "an effect that happens twice");
    let mut shorter = after.clone();
    shorter[0].1.pop();
    trials.look_at_prefix(KillPoint::Effect, &before, &shorter, &shown);
    assert_eq!(tally.broken(), 2, "a line whose event is lost");
    let mut other = before.clone();
    other[0].1.pop();
    trials.look_at_prefix(KillPoint::Effect, &other, &after, &[]);
    assert_eq!(tally.broken(), 3, "a log that goes on with another event");
}
