//! Three nodes on one database, which may have a synchronous standby, with clients at work and an observer, while nodes are killed,
//! stand still and leave, the database is killed, its disk is full, its standby takes over, clocks jump, and connections are
//! cut around the answers to commits. A server beside them shows the sessions all the time.
//!
//! The checks read what the observer printed, what `export` prints, the lines that commands have written and what the server
//! has shown. They share no code with the node.
//!
//! `LEFTFOLD_FAULTS` sets the number of faults (default 10), `LEFTFOLD_CHAOS_SEED` which come. The database has its standby and a
//! disk that can be full if the number is set.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use common::postgres::{Cluster, free_port, own_in, own_on_disk};
use common::postgres_proxy::{CUTS, Proxy};
use common::{Clock, Ran, Random, Site, Tally, marked, number, script, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http_client::Served;
use crate::shown::{self, FEEDS, MESSAGES, Viewer};
use crate::url;

const NODES: usize = 3;
/// MiB of the disk of a server.
const DISK: u32 = 600;
/// Clients at once, each with a session of its own.
const CLIENTS: usize = 6;
/// How long a client waits for an answer or for the end of a turn. Two leases, and the time until the database is back.
const LIMIT: Duration = Duration::from_secs(90);

const LOST: &str = "acknowledged prompts that are missing or there twice";
const TWICE: &str = "prompts that are there twice";
const GAPS: &str = "sessions that an observer saw otherwise";
const CHAINS: &str = "logs that do not check or verify";
const DOUBLED: &str = "effects without an attempt of their own";
const UNDONE: &str = "finished calls without their effect";
const ANSWERS: &str = "questions that were answered twice";
const UNFINISHED: &str = "turns without an end";
const LEFT: &str = "processes left behind";
const WAITING: &str = "messages left behind";
const UNANSWERED: &str = "requests without an answer";

/// A kind of prompt, its command, and the words of the command's output. A client changes from one to the next, so that the
/// output of the last turn is not taken for that of this one.
const TASKS: [(&str, &str); 3] = [("red", "sleep 0.1"), ("green", "sleep 0.4"), ("ask", "touch x")];

fn replies() -> Value {
    let mut replies = Vec::new();
    for (task, command) in TASKS {
        let command = format!("{command}; echo \"$LEFTFOLD_CALL\" >> effects; echo effect {task}");
        let input = json!({ "command": command, "description": task });
        let call = json!({ "call": { "name": "bash", "input": input } });
        let result = format!("effect {task}");
        let done = json!({ "prompt": task, "result": result });
        replies.push(json!({ "match": done, "parts": [{ "text": "Done." }] }));
        replies.push(json!({ "match": { "prompt": task }, "parts": [call] }));
    }
    json!(replies)
}

#[derive(Clone, Copy)]
enum Fault {
    Kill,
    StandStill,
    Leave,
    Cut,
    Disconnect,
    Jump,
    KillDatabase,
    JumpDatabase,
    FullDisk,
    Promote,
}

/// Each as often as it comes.
const FAULTS: [Fault; 14] = [
    Fault::Kill,
    Fault::Kill,
    Fault::Kill,
    Fault::StandStill,
    Fault::StandStill,
    Fault::Leave,
    Fault::Cut,
    Fault::Cut,
    Fault::Disconnect,
    Fault::Jump,
    Fault::KillDatabase,
    Fault::JumpDatabase,
    Fault::FullDisk,
    Fault::Promote,
];

/// Seconds by which a clock jumps.
const JUMPS: [i64; 4] = [-3_600, -5, 5, 3_600];

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kills of a node",
            Self::StandStill => "nodes that stood still",
            Self::Leave => "nodes that left",
            Self::Cut => "connections cut at a commit",
            Self::Disconnect => "nodes without a database",
            Self::Jump => "clocks of nodes that jumped",
            Self::KillDatabase => "kills of the database",
            Self::JumpDatabase => "clocks of the database that jumped",
            Self::FullDisk => "full disks",
            Self::Promote => "standbys that took over",
        }
    }
}

/// The answers of a node to its client.
#[derive(Default)]
struct Answers {
    by_id: Mutex<HashMap<u64, Value>>,
    is_over: AtomicBool,
}

struct Running {
    child: Child,
    input: ChildStdin,
    answers: Arc<Answers>,
    last: u64,
}

/// A node, which is now and then not there.
struct Node<'a> {
    site: &'a Site,
    url: String,
    home: String,
    /// In front of both servers.
    proxies: [Proxy; 2],
    clock: Option<Clock>,
    running: Mutex<Option<Running>>,
    /// The requests that it has not answered in time.
    unanswered: Mutex<Vec<String>>,
}

impl Node<'_> {
    /// The file of the node's own log.
    fn log(&self) -> PathBuf {
        self.site.path(&format!("{}.log", self.home))
    }

    fn start(&self) {
        let mut command = self.site.command(&["node"]);
        command.env("LEFTFOLD_HOME", self.site.path(&self.home)).env("LEFTFOLD_STORE", &self.url);
        command.envs(self.clock.iter().flat_map(Clock::env));
        command.env("LEFTFOLD_LOG", "leftfold=info");
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let answers = Arc::new(Answers::default());
        let heard = Arc::clone(&answers);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap();
                if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                    heard.by_id.lock().unwrap().insert(id, message);
                }
            }
            heard.is_over.store(true, Ordering::SeqCst);
        });
        let input = child.stdin.take().unwrap();
        *self.running.lock().unwrap() = Some(Running { child, input, answers, last: 0 });
        self.ask("initialize", &json!({ "protocolVersion": 1 }));
    }

    /// The result of a request. `None`: it was refused, or the node was not there or ended, so that nobody knows.
    fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let (answers, id) = {
            let mut running = self.running.lock().unwrap();
            let running = running.as_mut()?;
            running.last += 1;
            let id = running.last;
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            writeln!(running.input, "{request}").ok()?;
            (Arc::clone(&running.answers), id)
        };
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let is_over = answers.is_over.load(Ordering::SeqCst);
            if let Some(mut answer) = answers.by_id.lock().unwrap().remove(&id) {
                return answer.get_mut("result").map(Value::take);
            }
            if is_over {
                return None;
            }
            sleep(Duration::from_millis(5));
        }
        self.unanswered.lock().unwrap().push(format!("{}: {method} {params}", self.home));
        None
    }

    fn signal(&self, signal: Signal) {
        let running = self.running.lock().unwrap();
        let id = running.as_ref().unwrap().child.id();
        kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for the end of the node, for whom no request is sent from now on.
    fn end(&self, signal: Signal) {
        self.signal(signal);
        let Some(mut running) = self.running.lock().unwrap().take() else { return };
        let start = Instant::now();
        while running.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LIMIT, "a node does not end");
            sleep(Duration::from_millis(5));
        }
    }
}

/// The lines of an observer, by session.
type Seen = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn observer(site: &Site, url: &str) -> (Child, Seen) {
    let mut command = site.command(&["observe", "--all", "--format", "json"]);
    command.env("LEFTFOLD_HOME", site.path("observer")).env("LEFTFOLD_STORE", url);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let seen = Seen::default();
    let lines = Arc::clone(&seen);
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let event: Value = serde_json::from_str(&line).unwrap();
            if let Some(session) = event["session"].as_str() {
                lines.lock().unwrap().entry(session.to_owned()).or_default().push(line);
            }
        }
    });
    (child, seen)
}

fn seen_of(seen: &Seen, session: &str) -> Vec<Value> {
    let lines = seen.lock().unwrap().get(session).cloned().unwrap_or_default();
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of(event: &Value, kind: &str) -> bool {
    event["type"] == kind
}

/// The questions that nobody has answered.
fn open_questions(events: &[Value]) -> Vec<u64> {
    let ended = events.iter().filter_map(|event| event["of"].as_u64());
    let ended: HashSet<u64> = ended.collect();
    let last = events.iter().rev().find(|event| of(event, "turn.ended"));
    let since = last.and_then(|event| event["seq"].as_u64()).unwrap_or(0);
    let asked = events.iter().filter(|event| of(event, "permission.asked"));
    let asked = asked.filter_map(|event| event["seq"].as_u64());
    asked.filter(|seq| *seq > since && !ended.contains(seq)).collect()
}

/// Whether the session has no turn.
fn rests(events: &[Value]) -> bool {
    let last = |kind| events.iter().rposition(|event| of(event, kind));
    last("turn.ended") >= last("turn.prompted")
}

/// The database.
struct Servers {
    primary: Cluster,
    standby: Option<Cluster>,
    ports: [u16; 2],
    clock: Option<Clock>,
}

impl Servers {
    /// `None`, visibly, without PostgreSQL. The long form has a standby, and disks that can be full.
    fn start(is_long: bool) -> Option<Self> {
        let clock = Clock::new();
        let env: Vec<(String, String)> = clock.iter().flat_map(Clock::env).collect();
        let on_disk = if is_long { own_on_disk(&env, DISK) } else { None };
        let primary = on_disk.or_else(|| own_in(&env))?;
        let ports = [primary.port(), free_port()];
        let standby = is_long.then(|| primary.standby(ports[1]));
        primary.wait_for_standby(is_long);
        Some(Self { primary, standby, ports, clock })
    }

    fn allow(&self, fault: Fault) -> bool {
        match fault {
            Fault::Jump | Fault::JumpDatabase => self.clock.is_some(),
            Fault::FullDisk => self.primary.has_disk(),
            Fault::Promote => self.standby.is_some(),
            Fault::Kill
            | Fault::StandStill
            | Fault::Leave
            | Fault::Cut
            | Fault::Disconnect
            | Fault::KillDatabase => true,
        }
    }

    /// The primary dies, its standby takes over, and it gets a standby at the place of the first.
    fn promote(self) -> Self {
        let Self { primary: before, standby, ports, clock } = self;
        let primary = standby.unwrap();
        before.kill();
        primary.sql("select pg_promote()");
        primary.wait_for_standby(false);
        let standby = primary.standby(before.port());
        primary.wait_for_standby(true);
        Self { primary, standby: Some(standby), ports, clock }
    }
}

struct Run<'a> {
    nodes: &'a [Node<'a>],
    seen: &'a Seen,
    tally: &'a Tally,
    is_over: &'a AtomicBool,
    acknowledged: &'a Mutex<Vec<(String, String, bool)>>,
}

impl Run<'_> {
    /// A client: prompts its session at any node, and answers its questions at two.
    fn work(&self, session: &str, mut random: Random) {
        for turn in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let text = format!("{} {turn}.", TASKS[turn % TASKS.len()].0);
            let node = &self.nodes[random.below(NODES)];
            let prompt = json!({ "session": session, "text": text, "by": "client" });
            let is_acknowledged = node.ask("_leftfold/prompt", &prompt).is_some();
            let prompted = (session.to_owned(), text.clone(), is_acknowledged);
            self.acknowledged.lock().unwrap().push(prompted);
            if is_acknowledged {
                self.tally.add("turns", 1);
                self.wait_for_end(session, &text, &mut random);
            } else {
                self.tally.add("prompts without an answer", 1);
                sleep(Duration::from_millis(200));
            }
        }
    }

    fn wait_for_end(&self, session: &str, text: &str, random: &mut Random) {
        let start = Instant::now();
        let mut answered = HashMap::new();
        loop {
            let events = seen_of(self.seen, session);
            let is_prompt =
                |event: &Value| of(event, "turn.prompted") && event.to_string().contains(text);
            let prompt = events.iter().position(is_prompt);
            let has_ended = |at: usize| events[at..].iter().any(|event| of(event, "turn.ended"));
            if prompt.is_some_and(has_ended) {
                self.tally.check(UNFINISHED, true, String::new);
                return;
            }
            if start.elapsed() > LIMIT {
                let last: Vec<String> = events.iter().rev().take(5).map(Value::to_string).collect();
                self.tally.check(UNFINISHED, false, || format!("{session} {text}: {last:#?}"));
                return;
            }
            for of in open_questions(&events) {
                let last = answered.insert(of, Instant::now());
                if last.is_some_and(|at| at.elapsed() < Duration::from_secs(2)) {
                    answered.insert(of, last.unwrap());
                    continue;
                }
                self.answer(session, of, random);
            }
            sleep(Duration::from_millis(30));
        }
    }

    /// Two nodes get an answer at the same time.
    fn answer(&self, session: &str, of: u64, random: &mut Random) {
        let first = random.below(NODES);
        thread::scope(|scope| {
            for at in [first, (first + 1) % NODES] {
                let node = &self.nodes[at];
                scope.spawn(move || {
                    let answer =
                        json!({ "session": session, "of": of, "reply": "once", "by": at.to_string() });
                    node.ask("_leftfold/answer", &answer)
                });
            }
        });
    }

    /// Makes a fault, and mends it.
    fn fault(&self, servers: Servers, random: &mut Random) -> Servers {
        let node = &self.nodes[random.below(NODES)];
        let short = Duration::from_millis(random.below(1_500) as u64);
        let possible: Vec<Fault> =
            FAULTS.into_iter().filter(|fault| servers.allow(*fault)).collect();
        let fault = possible[random.below(possible.len())];
        self.tally.add(fault.name(), 1);
        self.tally.add("faults", 1);
        match fault {
            Fault::Kill => {
                node.end(Signal::KILL);
                sleep(short);
                node.start();
            }
            Fault::StandStill => {
                node.signal(Signal::STOP);
                // the lease takes 2 s
                sleep(short * 3);
                node.signal(Signal::CONT);
            }
            Fault::Leave => {
                node.end(Signal::TERM);
                sleep(short);
                node.start();
            }
            Fault::Cut => {
                let cut = CUTS[random.below(CUTS.len())];
                node.proxies.iter().for_each(|proxy| proxy.cut(cut));
                sleep(short);
            }
            Fault::Disconnect => {
                for proxy in &node.proxies {
                    proxy.refuse_connections(true);
                    proxy.disconnect();
                }
                sleep(short * 2);
                node.proxies.iter().for_each(|proxy| proxy.refuse_connections(false));
            }
            Fault::Jump => {
                let clock = node.clock.as_ref().unwrap();
                clock.set(JUMPS[random.below(JUMPS.len())]);
                sleep(short * 2);
                clock.set(0);
            }
            Fault::KillDatabase => {
                servers.primary.kill();
                sleep(short);
                servers.primary.begin();
            }
            Fault::JumpDatabase => {
                let clock = servers.clock.as_ref().unwrap();
                clock.set(JUMPS[random.below(JUMPS.len())]);
                sleep(short * 2);
                clock.set(0);
            }
            Fault::FullDisk => {
                servers.primary.fill_disk();
                sleep(short * 2);
                servers.primary.free_disk();
            }
            Fault::Promote => return servers.promote(),
        }
        servers
    }
}

/// A server, and its port.
fn serve(site: &Site, url: &str, home: &str) -> (Served, u16) {
    let port = free_port();
    let mut command = site.command(&["serve", "--port", &port.to_string()]);
    command.env("LEFTFOLD_HOME", site.path(home)).env("LEFTFOLD_STORE", url);
    (Served::from_command(command), port)
}

fn exported(site: &Site, session: &str) -> Vec<(String, Value)> {
    let ran: Ran = site.run(&["export", session]).ok();
    let lines =
        ran.stdout.lines().map(|line| (line.to_owned(), serde_json::from_str(line).unwrap()));
    lines.filter(|(_, event): &(String, Value)| event["session"] == session).collect()
}

#[test]
fn faults_lose_and_double_nothing() {
    let is_long = std::env::var_os("LEFTFOLD_FAULTS").is_some();
    let Some(servers) = Servers::start(is_long) else { return };
    let tally = Tally::also("chaos in a fleet")
        .counts(&[
            "faults", "kills of a node", "nodes that stood still", "nodes that left",
            "connections cut at a commit", "nodes without a database",
            "clocks of nodes that jumped", "kills of the database",
            "clocks of the database that jumped", "full disks", "standbys that took over", "turns",
            "prompts without an answer", "sessions", "events", "effects", "takeovers",
            "lost calls told", "questions",
        ])
        .never(&[
            LOST, TWICE, GAPS, CHAINS, DOUBLED, UNDONE, ANSWERS, UNFINISHED, LEFT, WAITING,
            UNANSWERED, MESSAGES, FEEDS,
        ]);
    let ports = servers.ports;
    let address = format!("{}&lease=2", url(&servers.primary));
    let has_standby = servers.standby.is_some();
    let through = |[first, second]: [u16; 2]| {
        let mut hosts = format!("127.0.0.1:{first}");
        if has_standby {
            write!(hosts, ",127.0.0.1:{second}").unwrap();
        }
        address.replace(&format!("127.0.0.1:{}", ports[0]), &hosts)
    };
    let direct = through(ports);
    let schema = direct.split_once("schema=").unwrap().1.split('&').next().unwrap().to_owned();
    let site = Site::scripted(&script(replies()))
        .setting("/permission", json!({ "bash": { "*": "allow", "touch *": "ask" } }))
        .env("LEFTFOLD_STORE", direct.clone());
    site.run(&["fleet", "init"]).ok();
    let nodes: Vec<Node<'_>> = (0..NODES)
        .map(|at| {
            let proxies = ports.map(Proxy::before);
            let url = through(proxies.each_ref().map(Proxy::port));
            let home = format!("node-{at}");
            let (site, clock) = (&site, servers.clock.as_ref().and_then(|_| Clock::new()));
            Node {
                site,
                url,
                home,
                proxies,
                clock,
                running: Mutex::default(),
                unanswered: Mutex::default(),
            }
        })
        .collect();
    let (mut observer, seen) = observer(&site, &direct);
    nodes.iter().for_each(Node::start);
    // its connections are cut, too
    let server = serve(&site, &nodes[0].url, "page");
    let watching = Arc::new(AtomicBool::new(false));
    let feed = shown::follow(server.1, &watching);
    let viewer = Viewer { name: "page".to_owned(), port: server.1, feed };
    let sessions: Vec<String> = (0..CLIENTS)
        .map(|at| {
            let new = json!({ "cwd": site.project(), "mcpServers": [] });
            let made = nodes[at % NODES].ask("session/new", &new).unwrap();
            made["sessionId"].as_str().unwrap().to_owned()
        })
        .collect();
    let (is_over, acknowledged) = (AtomicBool::new(false), Mutex::default());
    let run = Run {
        nodes: &nodes,
        seen: &seen,
        tally: &tally,
        is_over: &is_over,
        acknowledged: &acknowledged,
    };
    // only the node that has begun a session knows it before its first prompt
    for (at, session) in sessions.iter().enumerate() {
        let text = format!("{} first.", TASKS[0].0);
        let prompt = json!({ "session": session, "text": text, "by": "client" });
        assert!(nodes[at % NODES].ask("_leftfold/prompt", &prompt).is_some());
        run.wait_for_end(session, &text, &mut Random::new(7));
        run.acknowledged.lock().unwrap().push((session.clone(), text, true));
    }
    let working = AtomicUsize::new(CLIENTS);
    let servers = thread::scope(|scope| {
        for (at, session) in (1..).zip(&sessions) {
            let (run, working) = (&run, &working);
            scope.spawn(move || {
                run.work(session, Random::new(1_000 * at));
                working.fetch_sub(1, Ordering::SeqCst);
            });
        }
        // the times decide more than the seed, so it is not that of the commit
        let seed = number("LEFTFOLD_CHAOS_SEED", 1) as u64;
        let (mut servers, mut random) = (servers, Random::new(seed));
        for _ in 0..number("LEFTFOLD_FAULTS", 10) {
            sleep(Duration::from_millis(300 + random.below(1_500) as u64));
            servers = run.fault(servers, &mut random);
        }
        is_over.store(true, Ordering::SeqCst);
        servers
    });
    assert_eq!(working.load(Ordering::SeqCst), 0);

    // prompts whose outcome no client knows may still be at work
    let mut random = Random::new(7);
    let start = Instant::now();
    for session in &sessions {
        loop {
            let events: Vec<Value> =
                exported(&site, session).into_iter().map(|(_, event)| event).collect();
            if rests(&events) {
                break;
            }
            let last = events.last().cloned();
            if !tally.check(UNFINISHED, start.elapsed() < LIMIT, || format!("{session}: {last:?}"))
            {
                break;
            }
            for of in open_questions(&events) {
                run.answer(session, of, &mut random);
            }
            sleep(Duration::from_millis(200));
        }
    }
    for node in &nodes {
        tally.none(UNANSWERED, std::mem::take(&mut *node.unanswered.lock().unwrap()));
    }
    let waiting = servers.primary.logs(&format!("select count(*) from {schema}.inbox"));
    tally.equal(WAITING, &waiting.as_str(), &"0", "inbox");
    let fresh = serve(&site, &direct, "fresh");
    let deadline = Instant::now() + Duration::from_secs(10);
    for session in &sessions {
        let prompts = exported(&site, session).into_iter().filter_map(|(_, event)| {
            let text = event["data"]["parts"][0]["text"].as_str().map(str::to_owned);
            text.filter(|_| of(&event, "turn.prompted"))
        });
        let prompts: Vec<String> = prompts.collect();
        shown::check(&tally, deadline, fresh.1, std::slice::from_ref(&viewer), session, &prompts);
    }
    watching.store(true, Ordering::SeqCst);
    for (server, _) in [server, fresh] {
        server.end();
    }
    for node in &nodes {
        node.end(Signal::TERM);
    }
    let all: Vec<Vec<(String, Value)>> =
        sessions.iter().map(|session| exported(&site, session)).collect();
    wait_until("the observer has all", || {
        let seen = seen.lock().unwrap();
        let has = |(session, events): (&String, &Vec<_>)| {
            seen.get(session).is_some_and(|lines| lines.len() >= events.len())
        };
        sessions.iter().zip(&all).all(has)
    });
    check(&tally, &site, &sessions, &all, &seen, &acknowledged.into_inner().unwrap());
    tally.check(GAPS, observer.try_wait().unwrap().is_none(), || "it has ended".to_owned());
    observer.kill().unwrap();
    observer.wait().unwrap();
    if tally.broken() > 0 {
        for node in &nodes {
            println!("{} logged:\n{}", node.home, std::fs::read_to_string(node.log()).unwrap());
        }
    }
    tally.finish();
}

fn check(
    tally: &Tally,
    site: &Site,
    sessions: &[String],
    all: &[Vec<(String, Value)>],
    seen: &Seen,
    prompts: &[(String, String, bool)],
) {
    let effects = site.text("effects");
    let mut attempts = HashMap::new();
    for (session, events) in sessions.iter().zip(all) {
        tally.add("sessions", 1);
        tally.add("events", events.len());
        let lines: Vec<&String> = events.iter().map(|(line, _)| line).collect();
        let seen = seen.lock().unwrap();
        let seen: Vec<&String> = seen[session].iter().collect();
        tally.check(GAPS, seen == lines, || {
            let at = seen.iter().zip(&lines).take_while(|(seen, line)| seen == line).count();
            format!("{session} at {at}: {:?} and not {:?}", seen.get(at), lines.get(at))
        });
        let is_whole = (1..).zip(events).all(|(seq, (_, event))| event["seq"] == seq);
        tally.check(GAPS, is_whole, || format!("{session} has a gap"));
        for command in ["check", "verify"] {
            let ran = site.run(&[command, session]);
            tally.check(CHAINS, ran.code == 0, || format!("{command} {session}: {ran:?}"));
        }
        let events: Vec<&Value> = events.iter().map(|(_, event)| event).collect();
        let count = |kind: &str| events.iter().filter(|event| of(event, kind)).count();
        tally.add("takeovers", count("session.resumed"));
        tally.add("lost calls told", count("tool.lost"));
        tally.add("questions", count("permission.asked"));
        for (_, text, is_acknowledged) in prompts.iter().filter(|(of, _, _)| of == session) {
            let is_prompt =
                |event: &&&Value| of(event, "turn.prompted") && event.to_string().contains(text);
            let found = events.iter().filter(is_prompt).count();
            if *is_acknowledged {
                tally.check(LOST, found == 1, || format!("{session} {text}: {found} times"));
            }
            tally.check(TWICE, found <= 1, || format!("{session} {text}: {found} times"));
        }
        let mut answered = HashSet::new();
        for event in events.iter().filter(|event| of(event, "permission.answered")) {
            tally.check(ANSWERS, answered.insert(event["of"].as_u64()), || event.to_string());
        }
        for event in events.iter().filter(|event| of(event, "tool.started")) {
            let attempt = format!("{session}:{}:{}", event["of"], event["data"]["attempt"]);
            attempts.insert(attempt, event["seq"].as_u64());
        }
        for event in events.iter().filter(|event| of(event, "tool.finished")) {
            let started = attempts.iter().find(|(attempt, seq)| {
                **seq == event["of"].as_u64() && attempt.starts_with(session.as_str())
            });
            let attempt = started.map(|(attempt, _)| attempt.as_str()).unwrap_or_default();
            let is_effect =
                event["data"]["output"].as_str().is_some_and(|it| it.contains("effect"));
            let has = !is_effect || effects.lines().any(|line| line.ends_with(attempt));
            tally.check(UNDONE, has && !attempt.is_empty(), || event.to_string());
        }
        tally.none(LEFT, marked(session).into_iter().map(|process| format!("{process:?}")));
    }
    let mut done = HashSet::new();
    for line in effects.lines() {
        tally.add("effects", 1);
        let attempt: Vec<&str> = line.rsplitn(4, ':').take(3).collect();
        let attempt = attempt.into_iter().rev().collect::<Vec<&str>>().join(":");
        let is_logged = attempts.contains_key(&attempt);
        tally.check(DOUBLED, is_logged && done.insert(attempt), || line.to_owned());
    }
}
