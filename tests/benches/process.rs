//! Measures the built program against a local server: time from start to first request, fdatasyncs
//! of a turn, a turn's own time without flushes, peak memory of a long run. `cargo bench --bench
//! process`. Counting flushes needs strace.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

mod http;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use http::request;
use serde_json::{Value, json};

const ROUNDS: usize = 15;
const LONG: usize = 50;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("project")).unwrap();
    std::fs::write(folder.path().join("project/a.txt"), "hello\n").unwrap();
    let (port, requests) = serve();
    start_and_turn(folder.path(), port, &requests);
    flushes(folder.path(), port);
    memory(folder.path(), port);
}

fn program(folder: &Path, port: u16, calls: usize) -> Command {
    let url = format!("http://127.0.0.1:{port}/v1");
    let settings = json!({
        "model": "local/m",
        "provider": { "local": {
            "wire": "anthropic",
            "options": { "baseURL": url, "apiKey": "k" },
            "models": { "m": {} }
        } }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
    command
        .args(["run", "--format", "json", &format!("calls {calls}")])
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

fn start_and_turn(folder: &Path, port: u16, requests: &Receiver<Instant>) {
    let (mut starts, mut turns, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        while requests.try_recv().is_ok() {}
        syncs.push(fdatasync(folder));
        let began = Instant::now();
        let output = program(folder, port, 1).output().unwrap();
        assert!(output.status.success());
        let first = requests.recv().unwrap();
        starts.push(first - began);
        turns.push(turn(&String::from_utf8(output.stdout).unwrap()));
    }
    let (start, turn, sync) = (median(starts), median(turns), median(syncs));
    println!("process start to first request: {:.1} ms", ms(start));
    println!(
        "turn of two requests and one call: {:.1} ms, {:.1} fdatasyncs of {:.2} ms",
        ms(turn),
        ms(turn) / ms(sync),
        ms(sync)
    );
}

/// Time from the prompt to the end of the turn, by the log.
fn turn(lines: &str) -> Duration {
    let at = |kind: &str| {
        let line = lines.lines().find(|line| line.contains(kind)).unwrap();
        let event: Value = serde_json::from_str(line).unwrap();
        let text = event["at"].as_str().unwrap().to_owned();
        let seconds: f64 = text[17..23].parse().unwrap();
        let minutes: f64 = text[14..16].parse().unwrap();
        minutes * 60.0 + seconds
    };
    let seconds = (at("turn.ended") - at("turn.prompted")).rem_euclid(3600.0);
    Duration::from_secs_f64(seconds)
}

/// Time of one append and fdatasync on this disk now.
fn fdatasync(folder: &Path) -> Duration {
    let mut file = std::fs::File::create(folder.join("probe")).unwrap();
    file.write_all(&[0; 64 * 1024]).unwrap();
    file.sync_all().unwrap();
    let began = Instant::now();
    for _ in 0..5 {
        file.write_all(&[1; 1024]).unwrap();
        file.sync_data().unwrap();
    }
    began.elapsed() / 5
}

fn flushes(folder: &Path, port: u16) {
    let trace = folder.join("trace");
    let inner = program(folder, port, 1);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=fdatasync", "-o"]).arg(&trace);
    strace.arg(inner.get_program()).args(inner.get_args());
    strace.current_dir(inner.get_current_dir().unwrap());
    for (name, value) in inner.get_envs() {
        strace.env(name, value.unwrap_or_default());
    }
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    match strace.status() {
        Ok(status) if status.success() => {
            let trace = std::fs::read_to_string(&trace).unwrap();
            let count = trace.lines().filter(|line| line.contains("fdatasync(")).count();
            println!("fdatasyncs of that turn: {count}");
        }
        _ => println!("fdatasyncs of that turn: not counted, strace does not run here"),
    }
}

fn memory(folder: &Path, port: u16) {
    let mut child = program(folder, port, LONG).stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if line.unwrap().contains("turn.ended") {
            break;
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let found = status.unwrap_or_default();
        if let Some(line) = found.lines().find(|line| line.starts_with("VmHWM")) {
            line.clone_into(&mut peak);
        }
    }
    child.wait().unwrap();
    println!("peak memory of {} requests: {}", LONG + 1, peak.trim_start_matches("VmHWM:").trim());
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A server that makes as many calls as the prompt says, and then answers. Sends the arrival time
/// of each request.
fn serve() -> (u16, Receiver<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || answer(&socket.unwrap(), &sender));
        }
    });
    (port, requests)
}

fn answer(socket: &TcpStream, sender: &Sender<Instant>) {
    socket.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    while let Some(body) = request(&mut reader) {
        let _ = sender.send(Instant::now());
        let events = reply(&body);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            events.len()
        );
        if (&*socket).write_all((head + &events).as_bytes()).is_err() {
            return;
        }
    }
}

fn reply(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    let answers = messages.iter().filter(|message| message["role"] == "assistant").count();
    let prompt = messages[0]["content"][0]["text"].as_str().unwrap_or_default();
    let calls: usize = prompt.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let mut events = vec![json!({ "type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage
    } })];
    let text = |text: &str| json!({ "type": "text_delta", "text": text });
    let words = [text("I look "), text("at "), text("it.")];
    events.extend(block(0, &json!({ "type": "text", "text": "" }), &words));
    let calling = answers < calls;
    if calling {
        let block_start = json!({ "type": "tool_use", "id": format!("toolu_{answers}"), "name": "read", "input": {} });
        let input =
            json!({ "type": "input_json_delta", "partial_json": "{\"filePath\":\"a.txt\"}" });
        events.extend(block(1, &block_start, &[input]));
    }
    let reason = if calling { "tool_use" } else { "end_turn" };
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } }));
    events.push(json!({ "type": "message_stop" }));
    let line =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(line).collect()
}

fn block(index: u32, start: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": index, "content_block": start })];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
    );
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}
