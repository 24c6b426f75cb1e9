//! Measures the node's own overhead: processor time of a late step in a long session and of an
//! early one, of a step with ten subagents and with one, and the time from a reply's last byte
//! until its consequence is visible. `cargo bench --bench steps`. Stores are kept in memory if
//! there is such a folder, so that the disk is not measured; the cost of one flush is printed
//! separately.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

mod http;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use http::request;
use serde_json::{Value, json};
use tempfile::TempDir;

const SESSIONS: usize = 15;
const STEPS: usize = 205;
/// Answers until the context is full and a summary replaces them.
const COMPACTED: usize = 70;
/// Steps on each side of the measured one whose times count too.
const AROUND: usize = 5;

const PAIRS: usize = 5;
const CHILDREN: usize = 10;
const CHILD_STEPS: usize = 100;

const REPLIES: usize = 200;

fn main() {
    let disk = fdatasync(tempfile::tempdir().unwrap().path());
    println!("an append and fdatasync in the folder for temporary files: {:.2} ms", ms(disk));
    long_session();
    subagents();
    after_the_last_byte();
}

// --- a long session ---

fn long_session() {
    let rounds: Vec<Vec<Duration>> = (0..SESSIONS).map(|_| session()).collect();
    let at = |step: usize| {
        let near = step - 1 - AROUND..step + AROUND;
        median(rounds.iter().flat_map(|times| times[near.clone()].iter().copied()).collect())
    };
    let early = at(10);
    println!("processor time of step 10: {:.2} ms", ms(early));
    for step in [50, 65, 100, 135, 150, 200] {
        let times = at(step).as_secs_f64() / early.as_secs_f64();
        println!("of step {step}: {times:.2} times as much");
    }
}

/// The processor time of each step, from one request of the turn to the next.
fn session() -> Vec<Duration> {
    let folder = Folder::new();
    let reply = |n: usize| {
        let full = n + 1 == COMPACTED;
        let usage = json!({ "input": if full { 95_000 } else { 1_000 } });
        json!({ "parts": [{ "text": "I look." }, read(n)], "usage": usage })
    };
    let mut replies = vec![
        json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Much was read." }] }),
    ];
    replies.extend((0..COMPACTED).map(reply));
    let mut node = folder.scripted(&replies).stdout(Stdio::piped()).spawn().unwrap();
    let mut spent = Vec::new();
    let mut summaries = 0;
    for line in BufReader::new(node.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        summaries += usize::from(line.contains("\"compaction.finished\""));
        if line.contains("\"model.requested\"") && line.contains("\"purpose\":\"turn\"") {
            spent.push(processor_time(&node));
        }
        if spent.len() > STEPS {
            break;
        }
    }
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(spent.len() > STEPS && summaries == STEPS / COMPACTED, "{} {summaries}", spent.len());
    spent.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
}

/// Processor time that all threads of a process have used, from the scheduler.
fn processor_time(node: &Child) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{}/task", node.id())).unwrap();
    let of = |thread: std::fs::DirEntry| -> u64 {
        let account = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        account.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default()
    };
    Duration::from_nanos(threads.map(|thread| of(thread.unwrap())).sum())
}

// --- subagents ---

fn subagents() {
    let (mut one, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let started = subagents_time(0);
        let per_step = |children: usize| {
            let steps = children * CHILD_STEPS;
            subagents_time(children).saturating_sub(started) / u32::try_from(steps).unwrap()
        };
        let (single, ten) = (per_step(1), per_step(CHILDREN));
        one.push(single);
        ratios.push(ten.as_secs_f64() / single.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!("processor time of a subagent's step: {:.2} ms", ms(median(one)));
    println!("of ten at once: {:.2} times as much", ratios[PAIRS / 2]);
}

/// Processor time of a run whose model starts `children` subagents at once.
fn subagents_time(children: usize) -> Duration {
    let folder = Folder::new();
    let task = |n: usize| {
        let input = json!({ "description": "d", "prompt": format!("child {n}"), "subagentType": "general" });
        json!({ "call": { "name": "task", "input": input } })
    };
    let of_child = |n: usize| {
        let parts = if n < CHILD_STEPS { read(n) } else { json!({ "text": "Done." }) };
        json!({ "match": { "prompt": "child", "answers": n }, "parts": [parts] })
    };
    let mut replies: Vec<Value> = (0..=CHILD_STEPS).map(of_child).collect();
    let tasks: Vec<Value> = (0..children).map(task).collect();
    replies.push(json!({ "parts": if tasks.is_empty() { vec![read(0)] } else { tasks } }));
    replies.push(json!({ "parts": [{ "text": "All done." }] }));
    let before = time_of_children();
    let output = folder.scripted(&replies).output().unwrap();
    assert!(output.status.success());
    let ends = String::from_utf8(output.stdout).unwrap().matches("\"turn.ended\"").count();
    assert_eq!(ends, children + 1);
    time_of_children() - before
}

/// Processor time of all processes that were waited for, in steps of 10 ms.
fn time_of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

// --- after the last byte ---

fn after_the_last_byte() {
    let folder = Folder::new();
    let (port, sent) = serve();
    let url = format!("http://127.0.0.1:{port}/v1");
    let options = json!({ "baseURL": url, "apiKey": "k" });
    let mut node = folder.program("anthropic", &options).stdout(Stdio::piped()).spawn().unwrap();
    let (mut calls, mut last) = (Vec::new(), None);
    for line in BufReader::new(node.stdout.take().unwrap()).lines() {
        let (line, now) = (line.unwrap(), Instant::now());
        if line.contains("\"tool.resolve_started\"") {
            calls.push(now - sent.recv().unwrap());
        }
        if line.contains("\"turn.ended\"") {
            last = sent.try_recv().ok().map(|at| now - at);
        }
    }
    assert!(node.wait().unwrap().success());
    assert_eq!(calls.len(), REPLIES);
    let sync = fdatasync(folder.0.path());
    calls.sort_unstable();
    println!(
        "from a reply's last byte to the intent that follows from it: {:.2} ms (median of {REPLIES}; one in ten over {:.2} ms), with a flush of {:.3} ms",
        ms(calls[REPLIES / 2]),
        ms(calls[REPLIES * 9 / 10]),
        ms(sync)
    );
    println!("to the end of the turn: {:.2} ms", ms(last.unwrap()));
}

/// Time of one append and fdatasync there now.
fn fdatasync(folder: &Path) -> Duration {
    let mut file = std::fs::File::create(folder.join("probe")).unwrap();
    file.write_all(&[0; 64 * 1024]).unwrap();
    file.sync_all().unwrap();
    let time = |_| {
        let began = Instant::now();
        file.write_all(&[1; 1024]).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    };
    median((0..9).map(time).collect())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

// --- the program, its project and its models ---

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        let line = "A line of a file, as long as lines are.\n";
        std::fs::write(folder.path().join("project/a.txt"), line.repeat(60)).unwrap();
        Self(folder)
    }

    fn scripted(&self, replies: &[Value]) -> Command {
        self.program("scripted", &json!({ "script": { "replies": replies } }))
    }

    fn program(&self, wire: &str, options: &Value) -> Command {
        let limit = json!({ "context": 100_000, "output": 8_000 });
        let settings = json!({
            "model": "local/m",
            "title": false,
            "provider": { "local": {
                "wire": wire, "options": options, "models": { "m": { "limit": limit } },
            } },
        });
        std::fs::write(self.0.path().join("settings.json"), settings.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
        command
            .args(["run", "--format", "json", "go"])
            .current_dir(self.0.path().join("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path())
            .env("LEFTFOLD_HOME", self.0.path().join("home"))
            .env("LEFTFOLD_CONFIG", self.0.path().join("settings.json"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// A call that differs from all before it.
fn read(n: usize) -> Value {
    json!({ "call": { "name": "read", "input": { "filePath": "a.txt", "offset": 0, "limit": 1_000 + n } } })
}

/// A server that asks for a file `n` times, and then answers. Sends the time just before the last
/// part of each reply, when everything else has arrived.
fn serve() -> (u16, Receiver<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, sent) = mpsc::channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || answer(&socket.unwrap(), &sender));
        }
    });
    (port, sent)
}

fn answer(mut socket: &TcpStream, sender: &Sender<Instant>) {
    socket.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    while let Some(body) = request(&mut reader) {
        let (events, last) = reply(&body);
        let length = events.len() + last.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        let head = format!("{head}content-length: {length}\r\n\r\n{events}");
        if socket.write_all(head.as_bytes()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
        let _ = sender.send(Instant::now());
        if socket.write_all(last.as_bytes()).is_err() {
            return;
        }
    }
}

/// The events of a reply, and separately the last ones, from the end of its one block.
fn reply(body: &Value) -> (String, String) {
    let messages = body["messages"].as_array().unwrap();
    let answers = messages.iter().filter(|message| message["role"] == "assistant").count();
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let (reason, block, delta) = if answers < REPLIES {
        let input = read(answers)["call"]["input"].to_string();
        let block = json!({ "type": "tool_use", "id": format!("toolu_{answers}"), "name": "read", "input": {} });
        ("tool_use", block, json!({ "type": "input_json_delta", "partial_json": input }))
    } else {
        let block = json!({ "type": "text", "text": "" });
        ("end_turn", block, json!({ "type": "text_delta", "text": "Done." }))
    };
    let first = [
        json!({ "type": "message_start", "message": {
            "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage
        } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
    ];
    let last = [
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let line =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    (first.iter().map(line).collect(), last.iter().map(line).collect())
}
