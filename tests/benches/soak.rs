//! A node after thousands of prompts: how much memory it has when all its sessions rest. `cargo bench --bench
//! soak [PROMPTS]`; it waits for three minutes at the end, until the sessions rest.
//!
//! An open session takes up some 0.6 MiB. When it rests, its threads and files are gone, and 0.08 MiB is left, mostly the
//! conversation that an editor has not closed yet. glibc keeps a part of the rest for the next sessions, in proportion
//! to the sessions that were open at once, so the node lets unused ones rest early when there are many. Measured in
//! release: 2 MiB at the start, 61 MiB after 4,120 prompts in 412 sessions, 56 MiB when they rest, with 13 threads.
//! jemalloc keeps more: 95 and 63 MiB.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Prompts, unless the command line says otherwise.
const PROMPTS: usize = 4_120;
/// Prompts of one session.
const EACH: usize = 10;
/// Reports on the way.
const REPORTS: usize = 4;
/// Sessions rest a minute after they were last used, and are looked at once a minute.
const RESTED: Duration = Duration::from_secs(180);

fn main() {
    let prompts = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(PROMPTS);
    let sessions = usize::max(prompts / EACH, 1);
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path());
    node.ask("initialize", &json!({ "protocolVersion": 1 }));
    node.report("at its start");
    for number in 1..=sessions {
        let params = json!({ "cwd": folder.path(), "mcpServers": [] });
        let session = node.ask("session/new", &params)["sessionId"].clone();
        let prompt = json!([{ "type": "text", "text": "Say hello." }]);
        for _ in 0..EACH {
            node.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        }
        if number % sessions.div_ceil(REPORTS) == 0 {
            node.report(&format!("after {} prompts in {number} sessions", number * EACH));
        }
    }
    std::thread::sleep(RESTED);
    node.report(&format!("at rest after {} prompts in {sessions} sessions", sessions * EACH));
    drop(node.input);
    node.process.wait().unwrap();
}

struct Node {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Node {
    fn start(folder: &Path) -> Self {
        let script =
            json!({ "on_end": "repeat", "replies": [{ "parts": [{ "text": "Hello." }] }] });
        let settings = json!({
            "model": "double/m",
            "title": false,
            "snapshot": false,
            "provider": { "double": {
                "wire": "scripted", "options": { "script": script }, "models": { "m": {} }
            } }
        });
        let mut process = Command::new(env!("CARGO_BIN_EXE_leftfold"))
            .arg("node")
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("LEFTFOLD_HOME", folder.join("home"))
            .env("LEFTFOLD_CONFIG_CONTENT", settings.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, input, output: BufReader::new(output), last: 0 }
    }

    /// The result of a request.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the node has ended");
            let mut answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{answer}");
                return answer["result"].take();
            }
        }
    }

    fn report(&self, when: &str) {
        let proc = format!("/proc/{}", self.process.id());
        let memory = std::fs::read_to_string(format!("{proc}/smaps_rollup")).unwrap();
        let of = |name: &str| -> u64 {
            let line = memory.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let threads = std::fs::read_dir(format!("{proc}/task")).unwrap().count();
        let (own, all) = (of("Anonymous:") >> 10, of("Rss:") >> 10);
        println!("{when}: {own} MiB of its own, {all} MiB with its files, {threads} threads");
    }
}
