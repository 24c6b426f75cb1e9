//! Measures how much fifty `leftfold observe` processes slow down the run that they watch: each
//! turn alone and watched, in pairs. The ratio is the result. `cargo bench --bench observers`.
//!
//! The first turn streams text between its calls like a real model. The second makes only calls and
//! waits for no model, so that every wake-up of an observer shows on a machine with few processors.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PAIRS: usize = 5;
const WATCHING: usize = 50;

fn main() {
    // each call is another one: a model that repeats itself is stopped
    let call =
        |n| json!({ "call": { "name": "read", "input": { "filePath": "a.txt", "limit": n } } });
    let text = json!({ "text": "word ".repeat(60) });
    let streamed = (1..=15).map(|n| json!({ "chunk": 8, "delay_ms": 5, "parts": [text, call(n)] }));
    let bare = (1..=150).map(|n| json!({ "parts": [{ "text": "I look." }, call(n)] }));
    let turns: [(&str, Vec<Value>); 2] =
        [("text and calls", streamed.collect()), ("calls alone", bare.collect())];
    for (name, replies) in turns {
        let script = script(&replies);
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let (alone, watched) = (turn(&script, 0), turn(&script, WATCHING));
            ratios.push(watched.as_secs_f64() / alone.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[PAIRS / 2];
        println!("{name}: {median:.2} times as long with {WATCHING} observers as alone");
    }
}

/// The turn waits for a file before its main part.
fn script(replies: &[Value]) -> Value {
    let wait = "while [ ! -e go ]; do sleep 0.02; done";
    let mut all =
        vec![json!({ "parts": [{ "call": { "name": "bash", "input": { "command": wait } } }] })];
    all.extend_from_slice(replies);
    all.push(json!({ "parts": [{ "text": "Done." }] }));
    json!({ "replies": all })
}

/// Time of the turn once every observer is connected. Each observer must print the whole export.
fn turn(script: &Value, watching: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir(folder.join("project")).unwrap();
    std::fs::write(folder.join("project/a.txt"), "hello\n").unwrap();
    let mut node = program(folder, script, &["run", "--format", "json", "go"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("tool.started") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
    }
    let outputs: Vec<_> = (0..watching).map(|n| folder.join(format!("output-{n}"))).collect();
    let observe = |output: &std::path::PathBuf| {
        let mut command = program(folder, script, &["observe", "last", "--format", "json"]);
        command.stdout(File::create(output).unwrap()).spawn().unwrap()
    };
    let mut observers: Vec<Child> = outputs.iter().map(observe).collect();
    for output in &outputs {
        wait(|| std::fs::read_to_string(output).unwrap().contains("tool.started"));
    }
    let began = Instant::now();
    std::fs::write(folder.join("project/go"), "").unwrap();
    lines.read_to_end(&mut Vec::new()).unwrap();
    assert!(node.wait().unwrap().success());
    let took = began.elapsed();
    let export = program(folder, script, &["export", "last"]).output().unwrap().stdout;
    for output in &outputs {
        wait(|| std::fs::read(output).unwrap() == export);
    }
    for observer in &mut observers {
        observer.kill().unwrap();
        observer.wait().unwrap();
    }
    took
}

fn wait(until: impl Fn() -> bool) {
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn program(folder: &Path, script: &Value, arguments: &[&str]) -> Command {
    let settings = json!({
        "model": "double/m",
        "provider": { "double": {
            "wire": "scripted",
            "options": { "script": script },
            "models": { "m": { "limit": { "context": 10_000_000, "output": 8_000 } } }
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
