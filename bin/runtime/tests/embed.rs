//! Runs the example of a program that embeds Leftfold, as a user would.
#![cfg(test)]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// The example that was built beside this test.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().parent().unwrap().join("examples/observer");
    assert!(
        example.exists(),
        "`cargo test -p leftfold-runtime` builds the example, `--test embed` does not"
    );
    example
}

fn run(folder: &std::path::Path, settings: &Value, prompt: &str) -> Output {
    Command::new(example())
        .arg(prompt)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // a home folder is no project
        .env("HOME", "/no/such/home")
        .env("LEFTFOLD_HOME", folder.join("home"))
        .env("LEFTFOLD_CONFIG_CONTENT", settings.to_string())
        .output()
        .unwrap()
}

fn settings() -> Value {
    let call = json!({ "call": { "name": "bash", "input": { "command": "echo made by a call" } } });
    let script = json!({ "replies": [{ "parts": [call] }, { "parts": [{ "text": "Done." }] }] });
    json!({ "model": "double/m", "title": false, "snapshot": false, "provider": { "double": {
        "wire": "scripted", "options": { "script": script }, "models": { "m": {} } } } })
}

#[test]
fn a_program_prompts_and_its_own_actor_sees_every_event_once() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &settings(), "go");
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{told}");
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "Done.\n");
    let events: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["type"], "session.created");
    assert!(told.contains("made by a call"), "{told}");
    assert_eq!(events.last().unwrap()["type"], "turn.ended");
}

#[test]
fn wrong_settings_are_named_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &json!({ "model": 3 }), "go");
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success() && told.contains("LEFTFOLD_CONFIG_CONTENT:1:"), "{told}");
}
