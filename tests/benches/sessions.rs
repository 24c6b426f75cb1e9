//! Measures many sessions: listing a thousand, and a node that opens three hundred and lets them
//! rest. `cargo bench --bench sessions`; the node part takes about three minutes. A second argument
//! sets another number of sessions to list, and leaves out the node.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leftfold_events::{Envelope, SessionId, Time};
use leftfold_store::{Reader, Store};
use serde_json::{Value, json};

const LISTED: u64 = 1_000;
const LOADED: usize = 300;
const ROUNDS: usize = 15;
/// A session rests a minute after its last use. Nodes check once a minute.
const RESTED: Duration = Duration::from_secs(150);
const IDLE: Duration = Duration::from_secs(30);

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("project")).unwrap();
    let run = program(folder, &["run", "Say hello"]).status().unwrap();
    assert!(run.success());
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let ids = multiply(&folder.join("home/sessions"), wanted.unwrap_or(LISTED));
    list(folder, ids.len() + 1);
    if wanted.is_none() {
        node(folder, &ids);
    }
}

/// Copies one session until there are `count`.
fn multiply(sessions: &Path, count: u64) -> Vec<SessionId> {
    let first = std::fs::read_dir(sessions).unwrap().next().unwrap().unwrap().path();
    let id: SessionId = first.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let log = Reader::open(&first).unwrap().read(id, 1).unwrap();
    let copy = |n| {
        let session = id.child(n, Time::from_millis(n));
        let events: Vec<Envelope> =
            log.iter().map(|event| Envelope { session, ..event.clone() }).collect();
        let store = Store::open(&sessions.join(session.to_string())).unwrap();
        store.import(session, &events).unwrap();
        session
    };
    (1..count).map(copy).collect()
}

fn list(folder: &Path, count: usize) {
    let time = |_| {
        let began = Instant::now();
        let listed = program(folder, &["sessions", "list"]).output().unwrap().stdout;
        assert_eq!(listed.split(|byte| *byte == b'\n').count(), count + 1);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(time).collect();
    times.sort_unstable();
    println!("list of {count} sessions: {:.1} ms", times[ROUNDS / 2].as_secs_f64() * 1000.0);
}

fn node(folder: &Path, ids: &[SessionId]) {
    let mut node =
        program(folder, &["node"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (node.stdin.take().unwrap(), node.stdout.take().unwrap());
    let mut output = BufReader::new(output);
    let mut ask = |id: usize, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
        let mut answer = Value::Null;
        while answer["id"] != id {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            answer = serde_json::from_str(&line).unwrap();
        }
        assert!(answer["error"].is_null(), "{answer}");
    };
    ask(0, "initialize", json!({ "protocolVersion": 1 }));
    report(&node, "a node that knows a thousand sessions by their folders");
    let cwd = folder.join("project");
    for (id, session) in (1..).zip(&ids[..LOADED]) {
        let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        ask(id, "session/load", params);
    }
    report(&node, "with three hundred of them open");
    std::thread::sleep(RESTED);
    report(&node, "at rest");
    std::thread::sleep(IDLE);
    report(&node, "half a minute later");
    drop(input);
    node.wait().unwrap();
}

fn report(node: &Child, when: &str) {
    let proc = format!("/proc/{}", node.id());
    let status = std::fs::read_to_string(format!("{proc}/status")).unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let stat = std::fs::read_to_string(format!("{proc}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    let memory = memory.trim_start_matches("VmRSS:").trim();
    println!("{when}: {memory}, {ticks} ticks of processor time so far");
}

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let settings = json!({
        "model": "double/m",
        "provider": { "double": {
            "wire": "scripted",
            "options": { "script": { "replies": [{ "parts": [{ "text": "Hello." }] }] } },
            "models": { "m": {} }
        } }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
    command
        .args(arguments)
        .current_dir(folder.join("project"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("LEFTFOLD_HOME", folder.join("home"))
        .env("LEFTFOLD_CONFIG_CONTENT", settings.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}
