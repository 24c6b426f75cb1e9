//! Measures `leftfold serve` as its clients see it. `cargo bench --bench server [PART …]` with the parts `start`,
//! `feed`, `list`, `messages` and `load`; all of them without a name. `load` takes two minutes: `load=300` has 300
//! sessions instead of 1,000.
//!
//! The stores are in memory (`/dev/shm`) where there is one, so that the disk is not measured.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leftfold_events::event::Turn;
use leftfold_events::{Envelope, Event, SessionId, Time};
use leftfold_store::{Reader, Store, heads};
use serde_json::{Value, json};

const ROUNDS: usize = 15;
/// Clients of the feed.
const CLIENTS: usize = 50;
/// Calls of the turn that they watch.
const CALLS: usize = 100;
const LISTED: u64 = 10_000;
/// Turns of the long session, with two messages each.
const TURNS: u64 = 5_000;
const PAGE: usize = 100;
/// Sessions that work at the same time, and the turns of each.
const WORKING: usize = 1_000;
const EACH: usize = 10;
const THINKING: Duration = Duration::from_secs(4);

fn main() {
    let parts: [(&str, fn()); 4] =
        [("start", start), ("feed", feed), ("list", list), ("messages", messages)];
    let named: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|word| word == name) {
            part();
        }
    }
    if named.is_empty() || named.iter().any(|word| word == "load") {
        load(WORKING);
    }
    for sessions in named.iter().filter_map(|word| word.strip_prefix("load=")) {
        load(sessions.parse().unwrap());
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    println!("load average at the end: {}", load.trim());
}

fn start() {
    let site = Site::new(&json!([{ "text": "Hello." }]));
    println!("start to listening, empty store: {:.1} ms", ms(site.start_time()));
}

/// The time from an event to a client: the event's own time is from before it was written, so this is
/// the most that durable to client can be.
fn feed() {
    let text = json!({ "text": "word ".repeat(20) });
    let call = json!({ "call": { "name": "read", "input": { "filePath": "a.txt" } } });
    let mut replies = vec![json!({ "chunk": 10, "delay_ms": 5, "parts": [text, call] }); CALLS];
    replies.push(json!({ "parts": [{ "text": "Done." }] }));
    let site = Site::with(&json!({ "replies": replies }));
    let server = Server::start(&site);
    let session = server.session();
    let read = |stream: TcpStream| {
        let mut times = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
            if line.contains("\"session.idle\"") {
                break;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                times.push((now, data.to_owned()));
            }
        }
        times
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let stream = server.feed();
            std::thread::spawn(move || read(stream))
        })
        .collect();
    server.connect().prompt(&session);
    let mut times: Vec<Duration> = Vec::new();
    for client in clients {
        let frames = client.join().unwrap();
        // the greeting and the state of a session without messages have no such frame
        times.extend(frames.iter().filter_map(|(now, data)| {
            let frame: Value = serde_json::from_str(data).unwrap();
            let at = frame["payload"]["properties"]["time"].as_f64()?;
            Some(Duration::from_secs_f64((now - at).max(0.0) / 1000.0))
        }));
    }
    times.sort_unstable();
    println!(
        "feed, event to each of {CLIENTS} clients: p50 {:.1} ms, p99 {:.1} ms of {} frames",
        ms(quantile(&times, 50)),
        ms(quantile(&times, 99)),
        times.len()
    );
}

fn list() {
    let site = Site::new(&json!([{ "text": "Hello." }]));
    let (store, id, log) = site.one_turn();
    for n in 1..LISTED {
        let session = id.child(n, Time::from_millis(id.created().millis() - n));
        let events: Vec<Envelope> =
            log.iter().map(|event| Envelope { session, ..event.clone() }).collect();
        store.import(session, &events).unwrap();
    }
    drop(store);
    println!("start to listening, {LISTED} sessions: {:.1} ms", ms(site.start_time()));
    lists(&site, "in one store");
    // a list reads heads alone
    let (from, to) =
        (site.folder.path().join("home/store/heads"), site.folder.path().join("home/sessions"));
    for head in std::fs::read_dir(&from).unwrap().map(|entry| entry.unwrap().file_name()) {
        let folder = to.join(&head).join("heads");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::rename(from.join(&head), folder.join(&head)).unwrap();
    }
    lists(&site, "in stores of their own");
}

fn lists(site: &Site, place: &str) {
    let server = Server::start(site);
    for (path, count) in
        [("/session", 100), ("/session?limit=100000", LISTED as usize), ("/session?search=none", 0)]
    {
        let mut connection = server.connect();
        let times = (0..ROUNDS).map(|_| {
            let began = Instant::now();
            let answer = connection.get(path);
            let took = began.elapsed();
            assert_eq!(answer.json().as_array().unwrap().len(), count);
            took
        });
        println!("GET {path} of {LISTED} sessions {place}: {:.1} ms", ms(median(times.collect())));
    }
}

fn messages() {
    let site = Site::new(&json!([{ "text": "Hello. ".repeat(40) }]));
    let (store, id, log) = site.one_turn();
    let prompted = log
        .iter()
        .position(|event| matches!(event.event, Event::Turn(Turn::Prompted { .. })))
        .unwrap();
    let turn = &log[prompted..];
    let session = id.child(1, Time::from_millis(id.created().millis() + 1));
    let mut events: Vec<Envelope> = log[..prompted].to_vec();
    for n in 0..TURNS {
        let later = n * turn.len() as u64;
        events.extend(turn.iter().map(|event| Envelope {
            seq: event.seq + later,
            of: event.of.map(|of| of + later),
            at: Time::from_millis(event.at.millis() + n * 1_000),
            until: event.until.map(|until| Time::from_millis(until.millis() + n * 1_000)),
            ..event.clone()
        }));
    }
    for event in &mut events {
        event.session = session;
    }
    store.import(session, &events).unwrap();
    drop(store);
    println!(
        "start to listening, one session of {} messages: {:.1} ms",
        2 * TURNS,
        ms(site.start_time())
    );

    let server = Server::start(&site);
    let mut connection = server.connect();
    let newest = connection.get("/session").json()[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/session/{newest}/message?limit={PAGE}");
    let began = Instant::now();
    connection.get(&path).json();
    println!("its first page, for the first time: {:.1} ms", ms(began.elapsed()));
    let mut pages: Vec<Vec<Duration>> = Vec::new();
    for _ in 0..ROUNDS {
        let mut before = String::new();
        for page in 0..2 * TURNS as usize / PAGE {
            let began = Instant::now();
            let answer = connection.get(&format!("{path}{before}"));
            let took = began.elapsed();
            assert_eq!(answer.json().as_array().unwrap().len(), PAGE);
            before = answer.cursor.map(|next| format!("&before={next}")).unwrap_or_default();
            if pages.len() == page {
                pages.push(Vec::new());
            }
            pages[page].push(took);
        }
        assert!(before.is_empty(), "these are all messages");
    }
    let (first, rest) = pages.split_first().unwrap();
    let rest: Vec<Duration> = rest.concat();
    println!(
        "GET message?limit={PAGE}: first page {:.1} ms, later {:.1} ms",
        ms(median(first.clone())),
        ms(median(rest))
    );
}

/// Sessions that prompt again as soon as they have an answer. The gap is the time in which the model does not think:
/// from its answer to the client, to the next prompt, and to the model's request. Gaps and processor time count from
/// when all sessions have had a turn.
fn load(working: usize) {
    let thinking = json!({ "delay_ms": THINKING.as_millis() as u64 });
    let site = Site::new(&json!([thinking, { "text": "Hello." }]));
    let server = Server::start(&site);
    server.connect().prompt(&server.session());
    let before = server.memory();
    let ticks = AtomicU64::new(0);
    let mut threads = 0;
    let is_over = AtomicBool::new(false);
    let mut gaps = Vec::new();
    let is_open = Barrier::new(working);
    let spread = |number: usize| THINKING * number as u32 / working as u32;
    std::thread::scope(|scope| {
        let feed = server.feed();
        let (is_over, is_open, ticks) = (&is_over, &is_open, &ticks);
        let reader = scope.spawn(move || {
            let mut feed = BufReader::new(feed);
            let mut line = String::new();
            while !is_over.load(Ordering::Relaxed) {
                line.clear();
                assert!(feed.read_line(&mut line).unwrap() > 0, "the feed has ended");
            }
        });
        let server = &server;
        let sessions: Vec<_> = (0..working)
            .map(|number| {
                scope.spawn(move || {
                    // not all at the same moment
                    std::thread::sleep(spread(number));
                    let session = server.session();
                    let mut connection = server.connect();
                    // the connection is checked, the session opened
                    connection.prompt(&session);
                    if is_open.wait().is_leader() {
                        ticks.store(server.ticks(), Ordering::Relaxed);
                    }
                    std::thread::sleep(spread(number));
                    let turn = |_| {
                        let began = Instant::now();
                        connection.prompt(&session);
                        began.elapsed().saturating_sub(THINKING)
                    };
                    (0..EACH).map(turn).collect::<Vec<Duration>>()
                })
            })
            .collect();
        while sessions.iter().any(|session| !session.is_finished()) {
            threads = server.threads().max(threads);
            std::thread::sleep(Duration::from_millis(100));
        }
        gaps = sessions.into_iter().flat_map(|session| session.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        // its next frame
        server.session();
        reader.join().unwrap();
    });
    let memory = server.memory().saturating_sub(before) as f64 / working as f64 / 1024.0;
    let turns = gaps.len();
    gaps.sort_unstable();
    println!(
        "{working} sessions, {turns} turns of a model that thinks {THINKING:?}: gap p50 {:.1} ms, p99 {:.1} ms; \
         {:.2} ms of processor time a turn; {memory:.2} MiB of memory a session; at most {threads} threads",
        ms(quantile(&gaps, 50)),
        ms(quantile(&gaps, 99)),
        (server.ticks() - ticks.into_inner()) as f64 * 10.0 / turns as f64,
    );
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A project, and the data folder and settings of a server.
struct Site {
    folder: tempfile::TempDir,
    settings: Value,
}

impl Site {
    /// A model that always gives the same reply.
    fn new(parts: &Value) -> Self {
        Self::with(&json!({ "on_end": "repeat", "replies": [{ "parts": parts }] }))
    }

    fn with(script: &Value) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        std::fs::write(folder.path().join("project/a.txt"), "hello\n").unwrap();
        let settings = json!({
            "model": "double/m",
            "title": false,
            "snapshot": false,
            "permission": "allow",
            "provider": { "double": {
                "wire": "scripted",
                "options": { "script": script },
                "models": { "m": { "limit": { "context": 10_000_000, "output": 8_000 } } }
            } }
        });
        Self { folder, settings }
    }

    fn serve(&self) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
        command
            .args(["serve", "--port", "0"])
            .current_dir(folder.join("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("LEFTFOLD_HOME", folder.join("home"))
            .env("LEFTFOLD_CONFIG_CONTENT", self.settings.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    /// The median of the time until the server listens.
    fn start_time(&self) -> Duration {
        let time = |_| {
            let began = Instant::now();
            let server = Server::start(self);
            let took = began.elapsed();
            drop(server);
            took
        };
        median((0..ROUNDS).map(time).collect())
    }

    /// The store with a session of one turn, which a server has made, and its log.
    fn one_turn(&self) -> (Store, SessionId, Vec<Envelope>) {
        let server = Server::start(self);
        server.connect().prompt(&server.session());
        drop(server);
        let folder: PathBuf = self.folder.path().join("home/store");
        let id = heads(&folder).unwrap()[0].session;
        let log = Reader::open(&folder).unwrap().read(id, 1).unwrap();
        (Store::open(&folder).unwrap(), id, log)
    }
}

/// A running server. It is killed at the end.
struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Server {
    fn start(site: &Site) -> Self {
        let mut process = site.serve().spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().unwrap().parse().unwrap();
        Self { process, port }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream: BufReader::new(stream), port: self.port }
    }

    /// A new session.
    fn session(&self) -> String {
        let created = self.connect().ask("POST", "/session", "{}").json();
        created["id"].as_str().unwrap().to_owned()
    }

    /// The feed of all sessions, after the greeting.
    fn feed(&self) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET /global/event HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", self.port)
            .unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"{}}}\n\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            seen.push(byte[0]);
        }
        stream
    }

    /// Memory of its own, in KiB.
    fn memory(&self) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()));
        let rollup = rollup.unwrap();
        let line = rollup.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap().count()
    }

    /// Processor time, in hundredths of a second.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

/// A connection that carries one request after another.
struct Connection {
    stream: BufReader<TcpStream>,
    port: u16,
}

struct Answer {
    body: Vec<u8>,
    /// Where the next page begins.
    cursor: Option<String>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Connection {
    fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// Prompts, and waits for the answer.
    fn prompt(&mut self, session: &str) {
        let body = json!({ "parts": [{ "type": "text", "text": "Say hello." }] }).to_string();
        self.ask("POST", &format!("/session/{session}/message"), &body);
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "the connection has ended");
            if line == "\r\n" {
                break;
            }
            lines.push(line);
        }
        let header = |name: &str| {
            lines.iter().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        let mut body = vec![0; header("content-length: ").unwrap().parse().unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        assert!(lines[0].contains(" 200 "), "{path}: {}", String::from_utf8_lossy(&body));
        Answer { body, cursor: header("x-next-cursor: ") }
    }
}
