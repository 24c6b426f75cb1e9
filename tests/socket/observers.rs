//! Promise 7: observers and nodes are killed at random moments, while they start too, and observers
//! stop for a while. Each observer that continues at its cursor has every event of its sessions
//! once and in order.
//!
//! `LEFTFOLD_KILLS` sets the number of kills (default 100), `LEFTFOLD_SEED` the first seed.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{Random, STEP_TIMEOUT, Site, Tally, call, number, script, wait_until};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

/// Sessions at once, each at a site of its own.
const WORKERS: usize = 4;
/// Sessions at a site, so that its feed of all sessions has several.
const SESSIONS: usize = 6;
/// Steps of a turn.
const STEPS: usize = 20;

const GAPS: &str = "gaps";
const TWICE: &str = "events printed twice or late";
const FOREIGN: &str = "foreign lines";
const FAILED: &str = "observers that ended by themselves";
const UNFINISHED: &str = "turns without an end";

fn pause(random: &mut Random, most_ms: usize) {
    std::thread::sleep(Duration::from_millis(random.below(most_ms + 1) as u64));
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Kills a process that is still running. False: it has ended by itself.
fn kill(child: &mut Child) -> bool {
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    running
}

/// The session and seq of each event; lines with contents behind hashes have none.
fn place(line: &str) -> Option<(String, u64)> {
    let (session, rest) = line.strip_prefix(r#"{"v":1,"session":""#)?.split_once(r#"","seq":"#)?;
    Some((session.to_owned(), rest.split_once(',')?.0.parse().ok()?))
}

/// The events of an export by session and seq.
type Events = BTreeMap<String, BTreeMap<u64, String>>;

fn exported(site: &Site, session: &str) -> Events {
    let mut events = Events::new();
    for line in site.run(&["export", session]).ok().stdout.lines() {
        if let Some((session, seq)) = place(line) {
            events.entry(session).or_default().insert(seq, line.to_owned());
        }
    }
    events
}

/// The events that an observer asked for.
enum Wanted {
    /// One session and its subagents.
    Session {
        id: String,
        from: u64,
    },
    /// Some types of events of one session.
    Types {
        id: String,
        glob: &'static str,
    },
    All,
}

/// An observer that is started again after each kill. All of them append to one file.
struct Watcher<'a> {
    site: &'a Site,
    wanted: Wanted,
    file: PathBuf,
    /// Bytes of the file that are already counted in `next`.
    read: usize,
    next: HashMap<String, u64>,
    child: Option<Child>,
}

impl<'a> Watcher<'a> {
    fn start(site: &'a Site, wanted: Wanted, name: &str) -> Self {
        let file = site.path(name);
        File::create(&file).unwrap();
        let mut watcher = Self { site, wanted, file, read: 0, next: HashMap::new(), child: None };
        watcher.restart();
        watcher
    }

    /// Starts an observer at the cursors of the whole lines so far.
    fn restart(&mut self) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        for line in text[self.read.min(whole)..whole].lines() {
            if let Some((session, seq)) = place(line) {
                self.next.insert(session, seq + 1);
            }
            if line.contains(r#""type":"subagent.spawned""#) {
                let event: Value = serde_json::from_str(line).unwrap();
                let child = event["data"]["session"].as_str().unwrap().to_owned();
                self.next.entry(child).or_insert(1);
            }
        }
        self.read = whole;
        let output = OpenOptions::new().append(true).open(&self.file).unwrap();
        output.set_len(whole as u64).unwrap();
        let mut args = vec!["observe".to_owned()];
        let mut named: Vec<(&String, &u64)> = self.next.iter().collect();
        match &self.wanted {
            Wanted::All => args.push("--all".to_owned()),
            Wanted::Session { id, .. } | Wanted::Types { id, .. } => {
                let from = match self.wanted {
                    Wanted::Session { from, .. } => from,
                    Wanted::Types { .. } | Wanted::All => 1,
                };
                let seq = self.next.get(id).copied().unwrap_or(from);
                args.extend([id.clone(), "--from".to_owned(), seq.to_string()]);
                named.retain(|(session, _)| *session != id);
            }
        }
        for (session, seq) in named {
            args.extend(["--from".to_owned(), format!("{session}:{seq}")]);
        }
        if let Wanted::Types { glob, .. } = self.wanted {
            args.extend(["--type".to_owned(), glob.to_owned()]);
        }
        args.extend(["--format".to_owned(), "json".to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.site.command(&args);
        command.stdout(output).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    fn kill(&mut self, tally: &Tally) {
        let killed = kill(self.child.as_mut().unwrap());
        tally.check(FAILED, killed, || format!("{}", self.file.display()));
        tally.add("kills", 1);
        tally.add("of observers", 1);
    }

    /// The events that the observer must have printed.
    fn expected(&self, events: &Events) -> Events {
        let mut expected = events.clone();
        match &self.wanted {
            Wanted::All => {}
            Wanted::Session { id, from } => {
                // a subagent that had ended before the start is not shown
                let shown = std::fs::read_to_string(&self.file).unwrap();
                expected.retain(|session, _| {
                    session == id
                        || *from == 1
                        || shown.contains(&format!(r#""session":"{session}","seq""#))
                });
                if let Some(own) = expected.get_mut(id) {
                    own.retain(|seq, _| seq >= from);
                }
            }
            Wanted::Types { glob, .. } => {
                let kind = format!(r#""type":"{}"#, glob.trim_end_matches('*'));
                for events in expected.values_mut() {
                    events.retain(|_, line| line.contains(&kind));
                }
                expected.retain(|_, events| !events.is_empty());
            }
        }
        expected
    }

    /// Waits until the last event of each session is printed.
    fn catch_up(&self, events: &Events) {
        let start = Instant::now();
        loop {
            let printed = std::fs::read_to_string(&self.file).unwrap();
            let expected = self.expected(events);
            let mut last = expected.values().filter_map(|events| events.values().next_back());
            if last.all(|line| printed.contains(&format!("{line}\n")))
                || start.elapsed() > STEP_TIMEOUT
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the observer, and compares everything that was printed with the logs.
    fn finish(mut self, tally: &Tally, events: &Events) {
        self.catch_up(events);
        let mut child = self.child.take().unwrap();
        let running = child.try_wait().unwrap().is_none();
        signal(&child, Signal::TERM);
        let ended = child.wait().unwrap();
        let name = self.file.display().to_string();
        // one that was just started does not handle the signal yet
        let stopped = ended.success() || ended.signal() == Some(Signal::TERM.as_raw());
        tally.check(FAILED, running && stopped, || format!("{name}: {ended}"));
        let expected = self.expected(events);
        let printed = std::fs::read_to_string(&self.file).unwrap();
        let mut seen: HashMap<String, u64> = HashMap::new();
        for (session, seq) in printed.lines().filter_map(place) {
            let last = seen.insert(session.clone(), seq).unwrap_or_default();
            let later = seq > last;
            tally.check(TWICE, later, || format!("{name}: {session} {seq} after {last}"));
        }
        let known: HashMap<&str, ()> =
            expected.values().flat_map(|e| e.values()).map(|line| (line.as_str(), ())).collect();
        let mut own = 0;
        for line in printed.lines().filter(|line| place(line).is_some()) {
            let foreign = !known.contains_key(line);
            own += usize::from(!foreign);
            tally.check(FOREIGN, !foreign, || format!("{name}: {line}"));
        }
        let printed: HashMap<&str, ()> = printed.lines().map(|line| (line, ())).collect();
        for (session, events) in &expected {
            let missing = events.iter().filter(|(_, line)| !printed.contains_key(line.as_str()));
            let missing: Vec<u64> = missing.map(|(seq, _)| *seq).collect();
            tally.check(GAPS, missing.is_empty(), || format!("{name}: {session} {missing:?}"));
        }
        tally.add("observers", 1);
        tally.add("events printed", own);
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A turn of many short steps, one of them with a subagent.
fn replies() -> Value {
    let text = "So be it, and so it is written down here, word by word. ".repeat(4);
    let slow = |text: &str| json!({ "chunk": 8, "delay_ms": 2, "parts": [{ "text": text }] });
    // each call differs from the last, or the turn would be stopped for repeating itself
    let todo =
        |n: usize| json!({ "content": format!("{n}"), "status": "pending", "priority": "low" });
    let step = |n: usize| {
        let write = json!({ "name": "todowrite", "input": { "todos": [todo(n)] } });
        json!({ "parts": [{ "delay_ms": 12 }, { "call": write }] })
    };
    let mut replies: Vec<Value> = (0..STEPS).map(step).collect();
    replies[4] = call(
        "task",
        json!({ "description": "look", "prompt": "look", "subagent_type": "general" }),
    );
    replies.push(slow(&text));
    let mut child = slow(&text);
    child["match"] = json!({ "prompt": "look" });
    replies.push(child);
    script(json!(replies))
}

/// The node of a session, which is resumed after each kill.
struct Node<'a> {
    site: &'a Site,
    session: String,
    child: Child,
}

impl<'a> Node<'a> {
    fn start(site: &'a Site) -> Self {
        let file = site.path("node");
        let mut command = site.command(&["run", "--format", "json", "go"]);
        command.stdout(File::create(&file).unwrap()).stderr(Stdio::null());
        let mut node = Self { site, session: String::new(), child: command.spawn().unwrap() };
        wait_until("the node has started", || {
            let text = std::fs::read_to_string(&file).unwrap();
            node.session = text.lines().find_map(place).unwrap_or_default().0;
            !node.session.is_empty()
        });
        node
    }

    fn resume(&mut self) {
        let mut command = self.site.command(&["resume", &self.session, "--format", "json"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = command.spawn().unwrap();
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the turn, which a killed node may have left open, and exports it.
    fn finish(mut self, tally: &Tally) -> Events {
        let mut events = Events::new();
        let mut ended = false;
        for _ in 0..3 {
            self.child.wait().unwrap();
            events = exported(self.site, &self.session);
            ended =
                events[&self.session].values().any(|line| line.contains(r#""type":"turn.ended""#));
            if ended {
                break;
            }
            self.resume();
        }
        tally.check(UNFINISHED, ended, || self.session.clone());
        events
    }
}

/// One session from its start to its end, with kills all the way.
fn session<'a>(
    tally: &Tally,
    site: &'a Site,
    feed: &mut Watcher<'a>,
    random: &mut Random,
    kills: usize,
) -> Events {
    let mut node = Node::start(site);
    let id = node.session.clone();
    let from = random.below(60) as u64 + 2;
    let wanted = [
        Wanted::Session { id: id.clone(), from: 1 },
        Wanted::Session { id: id.clone(), from },
        Wanted::Types { id: id.clone(), glob: "tool.*" },
    ];
    let name = |at: usize| format!("observer-{id}-{at}");
    let mut watchers: Vec<Watcher<'_>> = wanted
        .into_iter()
        .enumerate()
        .map(|(at, wanted)| Watcher::start(site, wanted, &name(at)))
        .collect();
    while !node.has_ended() {
        pause(random, 20);
        if tally.get("kills") >= kills {
            continue;
        }
        let which = random.below(watchers.len() + 1);
        let watcher = watchers.get_mut(which).unwrap_or(feed);
        match random.below(10) {
            0 => {
                signal(watcher.child.as_ref().unwrap(), Signal::STOP);
                pause(random, 200);
                signal(watcher.child.as_ref().unwrap(), Signal::CONT);
                tally.add("pauses", 1);
            }
            1 | 2 => {
                if kill(&mut node.child) {
                    tally.add("kills", 1);
                    tally.add("of nodes", 1);
                }
                pause(random, 20);
                node.resume();
            }
            3..=6 => {
                watcher.kill(tally);
                watcher.restart();
            }
            _ => {
                // while it starts
                watcher.kill(tally);
                watcher.restart();
                pause(random, 15);
                watcher.kill(tally);
                tally.add("while it started", 1);
                watcher.restart();
            }
        }
    }
    let events = node.finish(tally);
    watchers.into_iter().for_each(|watcher| watcher.finish(tally, &events));
    tally.add("sessions", 1);
    tally.add("events", events.values().map(BTreeMap::len).sum());
    events
}

#[test]
fn killed_observers_and_nodes_leave_no_gap() {
    let (kills, seed) = (number("LEFTFOLD_KILLS", 100), number("LEFTFOLD_SEED", 1));
    let tally = Tally::promise(7, "observers")
        .counts(&[
            "kills", "of observers", "while it started", "of nodes", "pauses", "sessions",
            "events", "observers", "events printed",
        ])
        .never(&[GAPS, TWICE, FOREIGN, FAILED, UNFINISHED]);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let tally = &tally;
            scope.spawn(move || {
                let mut random = Random::new((seed * WORKERS + worker) as u64);
                while tally.get("kills") < kills {
                    let site = Site::scripted(&replies());
                    let mut feed = Watcher::start(&site, Wanted::All, "feed");
                    let mut events = Events::new();
                    for _ in 0..SESSIONS {
                        if tally.get("kills") < kills {
                            events.extend(session(tally, &site, &mut feed, &mut random, kills));
                        }
                    }
                    feed.finish(tally, &events);
                }
            });
        }
    });
    tally.finish();
}
