//! Clients work at three servers on one database, in any order of prompts and rests, while servers are killed, stand
//! still and lose hints. Each server shows each session as its log has it, and answers each request.
//!
//! The test compares each server with `export`, and with a server that it starts at the end. `LEFTFOLD_ORDERS` sets the
//! number of sessions (default 12). Each session has an order of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use common::postgres::{Cluster, free_port, shared};
use common::{Random, Site, Tally, number, script, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http_client::{Answered, Served};
use crate::shown::{self, FEEDS, MESSAGES, Viewer, same};
use crate::url;

const NODES: usize = 3;
/// Sessions at work at once. With more than 16 open at a server, those that are not used rest.
const CLIENTS: usize = 40;
/// Prompts of a session.
const PROMPTS: usize = 5;
/// The lease of a server.
const LEASE: Duration = Duration::from_secs(2);

const UNANSWERED: &str = "requests without an answer";
const MISSING: &str = "acknowledged prompts that are missing";
const BUSY: &str = "servers that show a session that rests as busy";
const QUESTIONS: &str = "servers that show a question that was answered";

/// A server, which is now and then not there.
struct Node<'a> {
    site: &'a Site,
    name: String,
    /// The folder of its own files, as at a machine of its own.
    home: String,
    port: u16,
    served: Mutex<Option<Served>>,
}

impl Node<'_> {
    fn start(&self) {
        let mut command = self.site.command(&["serve", "--port", &self.port.to_string()]);
        command.env("LEFTFOLD_HOME", self.site.path(&self.home));
        *self.served.lock().unwrap() = Some(Served::from_command(command));
    }

    fn signal(&self, signal: Signal) {
        let id = self.served.lock().unwrap().as_ref().unwrap().id();
        kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

struct Run<'a> {
    nodes: &'a [Node<'a>],
    tally: &'a Tally,
}

impl Run<'_> {
    fn ask(&self, at: usize, method: &str, path: &str, body: &Value) -> Option<Answered> {
        let answered = shown::ask(self.nodes[at].port, method, path, &body.to_string());
        self.tally
            .check(UNANSWERED, answered.is_ok(), || format!("node-{at}: {method} {path} {body}"));
        answered.ok().flatten().filter(|answered| answered.status < 300)
    }

    fn get(&self, at: usize, path: &str) -> Option<Value> {
        Some(self.ask(at, "GET", path, &Value::Null)?.json())
    }

    /// The order of one session. Answers the prompts that were acknowledged.
    fn work(&self, number: usize, mut random: Random) -> Option<(String, Vec<String>)> {
        let first = random.below(NODES);
        let session = loop {
            if let Some(made) = self.ask(first, "POST", "/session", &json!({})) {
                break made.json()["id"].as_str().unwrap().to_owned();
            }
            sleep(Duration::from_millis(50));
        };
        let mut acknowledged = Vec::new();
        let mut at = first;
        for count in 0..PROMPTS {
            let kind = ["say", "ask"][random.below(2)];
            let text = format!("{kind} {number}.{count}.");
            let prompt = json!({ "parts": [{ "type": "text", "text": text }] });
            let is_over = AtomicBool::new(false);
            let is_answered = thread::scope(|scope| {
                let asked = scope.spawn(|| {
                    let path = format!("/session/{session}/message");
                    let answered = self.ask(at, "POST", &path, &prompt);
                    is_over.store(true, Ordering::SeqCst);
                    answered.is_some()
                });
                while !is_over.load(Ordering::SeqCst) {
                    self.answer_questions(random.below(NODES), &session);
                    sleep(Duration::from_millis(50 + random.below(250) as u64));
                }
                asked.join().unwrap()
            });
            self.tally.add("prompts", 1);
            if is_answered {
                acknowledged.push(text);
            } else {
                self.tally.add("prompts without a good answer", 1);
                if count == 0 {
                    // only the server that has begun a session knows it before its first prompt
                    return None;
                }
                // the server was killed
                wait_until("the server is back", || self.get(at, "/session/status").is_some());
            }
            if random.below(3) == 0 {
                sleep(Duration::from_millis(random.below(3_000) as u64));
            }
            at = random.below(NODES);
        }
        Some((session, acknowledged))
    }

    fn answer_questions(&self, at: usize, session: &str) {
        let Some(questions) = self.get(at, "/permission") else { return };
        for question in questions.as_array().unwrap() {
            if question["sessionID"] == session {
                let path = format!("/permission/{}/reply", question["id"].as_str().unwrap());
                self.ask(at, "POST", &path, &json!({ "reply": "once" }));
                self.tally.add("questions answered", 1);
            }
        }
    }

    /// Makes a fault, and mends it.
    fn fault(&self, cluster: &Cluster, random: &mut Random) {
        let node = &self.nodes[random.below(NODES)];
        match random.below(4) {
            0 => {
                self.tally.add("kills", 1);
                let served = node.served.lock().unwrap().take().unwrap();
                served.kill();
                sleep(Duration::from_millis(random.below(1_000) as u64));
                node.start();
            }
            1 => {
                self.tally.add("servers that stood still", 1);
                node.signal(Signal::STOP);
                sleep(LEASE.mul_f64(0.2 * random.below(12) as f64));
                node.signal(Signal::CONT);
            }
            _ => {
                self.tally.add("lost hints", 1);
                cluster.sql(
                    "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity \
                     where query like 'listen%' order by random() limit 1) as one",
                );
            }
        }
    }
}

/// The prompts in the log of a session, in order.
fn prompts_of(site: &Site, session: &str) -> Option<Vec<String>> {
    let events = site.run(&["export", session]).ok().events();
    let is = |event: &&Value, kind: &str| event["type"] == kind;
    let begun = events.iter().filter(|event| is(event, "turn.prompted")).count();
    let ended = events.iter().filter(|event| is(event, "turn.ended")).count();
    let last = |kind| events.iter().rposition(|event| event["type"] == kind);
    let rests = last("turn.ended") >= last("turn.prompted");
    (rests && begun > 0 && ended > 0).then(|| {
        let prompted = events.iter().filter(|event| is(event, "turn.prompted"));
        prompted
            .map(|event| event["data"]["parts"][0]["text"].as_str().unwrap().to_owned())
            .collect()
    })
}

#[test]
fn each_server_shows_what_the_log_has() {
    let Some(cluster) = shared() else { return };
    let tally = Tally::also("views of a fleet")
        .counts(&[
            "orders", "prompts", "prompts without a good answer", "questions answered", "kills",
            "servers that stood still", "lost hints", "ms until the last view was right",
        ])
        .never(&[UNANSWERED, MISSING, MESSAGES, BUSY, QUESTIONS, FEEDS]);
    let input = json!({ "command": "touch x; echo asked", "description": "ask" });
    let replies = json!([
        { "match": { "prompt": "ask", "result": "asked" }, "parts": [{ "text": "Answered." }] },
        { "match": { "prompt": "ask" }, "parts": [{ "call": { "name": "bash", "input": input } }] },
        { "match": { "prompt": "say" }, "parts": [{ "text": "Answered." }] },
    ]);
    let url = format!("{}&lease={}", url(cluster), LEASE.as_secs());
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!({ "bash": { "*": "allow", "touch *": "ask" } }))
        .env("LEFTFOLD_STORE", url);
    site.run(&["fleet", "init"]).ok();
    let nodes: Vec<Node<'_>> = (0..NODES)
        .map(|at| Node {
            site: &site,
            name: format!("node-{at}"),
            // two of them are at one machine
            home: format!("machine-{}", at.min(1)),
            port: free_port(),
            served: Mutex::default(),
        })
        .collect();
    nodes.iter().for_each(Node::start);
    let is_over = Arc::new(AtomicBool::new(false));
    let viewer = |node: &Node<'_>| Viewer {
        name: node.name.clone(),
        port: node.port,
        feed: shown::follow(node.port, &is_over),
    };
    let viewers: Vec<Viewer> = nodes.iter().map(viewer).collect();
    let run = Run { nodes: &nodes, tally: &tally };
    let (next, working) = (AtomicUsize::new(0), AtomicUsize::new(CLIENTS));
    let sessions = Mutex::new(Vec::new());
    let orders = number("LEFTFOLD_ORDERS", 12);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let order = next.fetch_add(1, Ordering::SeqCst)
                    && order < orders
                {
                    let random = Random::new(Random::seeded().below(1 << 20) as u64 + order as u64);
                    let done = run.work(order, random);
                    sessions.lock().unwrap().extend(done);
                    tally.add("orders", 1);
                }
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut random = Random::seeded();
        while working.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(500 + random.below(1_500) as u64));
            run.fault(cluster, &mut random);
        }
    });
    let sessions = sessions.into_inner().unwrap();

    // prompts whose outcome no client knows may still be at work
    let mut logs = BTreeMap::new();
    for (session, acknowledged) in &sessions {
        let id = run.get(0, &format!("/session/{session}")).unwrap()["slug"]
            .as_str()
            .unwrap()
            .to_owned();
        wait_until("the session rests", || {
            run.answer_questions(0, session);
            prompts_of(&site, &id).is_some_and(|prompts| {
                logs.insert(session.clone(), prompts);
                true
            })
        });
        let missing = acknowledged.iter().filter(|text| !logs[session].contains(text));
        tally.none(MISSING, missing.map(|text| format!("{session}: {text}")));
    }
    let start = Instant::now();
    let fresh = Node {
        site: &site,
        name: "fresh".to_owned(),
        home: "fresh".to_owned(),
        port: free_port(),
        served: Mutex::default(),
    };
    fresh.start();
    // a server sees what others do within two seconds; the rest is for a machine with other work
    let deadline = Instant::now() + Duration::from_secs(10);
    let until = |kind: &str, place: &str, so: &dyn Fn() -> Result<(), String>| {
        shown::until(&tally, deadline, kind, place, so);
    };
    for (at, node) in nodes.iter().enumerate() {
        // a session whose only prompt nobody acknowledged may wait for an answer
        until(BUSY, &node.name, &|| {
            let busy = run.get(at, "/session/status").unwrap_or_default();
            same(&logs.keys().find(|session| busy.get(session).is_some()), &None)
        });
        until(QUESTIONS, &node.name, &|| {
            let open = run.get(at, "/permission").unwrap_or_default();
            let mut open = open.as_array().into_iter().flatten();
            let of = |question: &&Value| logs.contains_key(question["sessionID"].as_str().unwrap());
            same(&open.find(of), &None)
        });
    }
    for (session, prompts) in &logs {
        shown::check(&tally, deadline, fresh.port, &viewers, session, prompts);
    }
    tally.add("ms until the last view was right", start.elapsed().as_millis().try_into().unwrap());
    is_over.store(true, Ordering::SeqCst);
    for node in nodes.iter().chain([&fresh]) {
        node.served.lock().unwrap().take().unwrap().kill();
    }
    tally.finish();
}
