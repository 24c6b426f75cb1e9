//! The node with an editor that uses the protocol's own library, which checks every message against
//! its schema. Skipped if npm cannot install it.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use std::path::Path;
use std::process::Command;

use common::peers::Peers;
use common::{Live, Site, bash, call, exists, says, script};
use serde_json::{Value, json};

/// Runs the steps and returns their report. Checks that no message broke the protocol and that the
/// node exited cleanly.
fn run_steps(peers: &Peers, site: &Site, steps: &[Value]) -> Value {
    let node = site.command(&["node"]);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/acp_client.mjs");
    let mut command = Command::new(peers.node());
    command.arg(client).arg(peers.folder()).arg(json!(steps).to_string());
    command.arg(node.get_program()).args(node.get_args()).current_dir(site.project());
    command.env_clear().envs(node.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Live::start(command).wait();
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(report["problems"], json!([]));
    assert_eq!((ran.code, &report["exit"]), (0, &json!(0)), "{ran:?}");
    report
}

/// The `initialize` request, with the client's capabilities.
fn initialize(all: bool) -> Value {
    let fs = json!({ "readTextFile": all, "writeTextFile": all });
    let capabilities = json!({ "fs": fs, "terminal": all });
    step("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }))
}

fn step(method: &str, params: Value) -> Value {
    json!({ "method": method, "params": params })
}

fn here(site: &Site, session: Option<&str>) -> Value {
    let mut params = json!({ "cwd": site.project(), "mcpServers": [] });
    if let Some(session) = session {
        params["sessionId"] = json!(session);
    }
    params
}

fn prompt(session: &str, more: Value) -> Value {
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let mut step = step("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

/// A turn with a command, a change and a plan; the command needs permission.
fn site() -> Site {
    let todo = json!({ "content": "do it", "status": "pending", "priority": "high" });
    let write = json!({ "filePath": "a.txt", "content": "a\n" });
    let parts = json!([
        { "reasoning": "Hm.", "signature": "s" },
        { "text": "Let me see." },
        { "call": { "name": "bash", "input": { "command": "echo hi; touch ran" } } },
        { "call": { "name": "write", "input": write } },
        { "call": { "name": "todowrite", "input": { "todos": [todo] } } },
    ]);
    Site::scripted(&script(json!([{ "parts": parts }, says("Done."), says("More.")])))
        .setting("permission/bash", json!({ "*": "ask" }))
}

#[test]
fn a_turn_that_is_allowed() {
    let Some(peers) = Peers::installed() else { return };
    for offers in [false, true] {
        let site = site();
        let allowed = json!({ "answer": "allow_once" });
        let steps =
            [initialize(offers), step("session/new", here(&site, None)), prompt("$1", allowed)];
        let report = run_steps(&peers, &site, &steps);
        assert_eq!(report["results"][2]["stopReason"], "end_turn");
        assert!(exists(&site.project().join("ran")));
        assert_eq!(site.text("a.txt"), "a\n");
        for kind in ["agent_thought_chunk", "agent_message_chunk", "plan", "usage_update"] {
            assert!(report["updates"][kind].as_u64() > Some(0), "{kind}: {}", report["updates"]);
        }
        let asked = |method: &str| report["asked"][method].as_u64().unwrap_or(0);
        assert_eq!(asked("session/request_permission"), 1);
        assert_eq!(
            (asked("fs/write_text_file"), asked("terminal/create")),
            (offers.into(), offers.into())
        );
        assert_eq!(report["updates"]["terminal"].is_u64(), offers);
        site.assert_sound();
    }
}

#[test]
fn a_turn_that_is_rejected_or_cancelled() {
    let Some(peers) = Peers::installed() else { return };
    for (more, stop) in [
        (json!({ "answer": "reject_once" }), "end_turn"),
        (json!({ "cancelOn": "tool_call" }), "cancelled"),
    ] {
        let site = site();
        let steps = [initialize(true), step("session/new", here(&site, None)), prompt("$1", more)];
        let report = run_steps(&peers, &site, &steps);
        assert_eq!(report["results"][2]["stopReason"], stop);
        assert!(!exists(&site.project().join("ran")));
        site.assert_sound();
    }
}

#[test]
fn what_runs_in_a_terminal_is_cancelled_with_it() {
    let Some(peers) = Peers::installed() else { return };
    let site = Site::scripted(&script(json!([bash("sleep 1000"), says("Never.")])));
    // the first update of the call precedes its command, later ones have its terminal
    let cancelled = json!({ "cancelOn": "tool_call_update" });
    let steps = [initialize(true), step("session/new", here(&site, None)), prompt("$1", cancelled)];
    let report = run_steps(&peers, &site, &steps);
    assert_eq!(report["results"][2]["stopReason"], "cancelled");
    site.assert_sound();
}

#[test]
fn sessions_are_loaded_forked_listed_and_closed() {
    let Some(peers) = Peers::installed() else { return };
    let read = call("read", json!({ "filePath": "a" }));
    let site = Site::scripted(&script(json!([read, says("One."), says("Two."), says("Three.")])));
    site.file("a", "text\n");
    let steps = [
        initialize(true),
        step("session/new", here(&site, None)),
        prompt("$1", json!({})),
        step("session/set_mode", json!({ "sessionId": "$1", "modeId": "plan" })),
        step(
            "session/set_config_option",
            json!({ "sessionId": "$1", "configId": "mode", "value": "build" }),
        ),
        step("session/fork", here(&site, Some("$1"))),
        prompt("$5", json!({})),
        step("session/list", json!({})),
        step("session/load", here(&site, Some("$5"))),
        step("session/close", json!({ "sessionId": "$5" })),
        step("session/resume", here(&site, Some("$5"))),
        step("_leftfold/verify", json!({ "session": "x" })),
    ];
    let report = run_steps(&peers, &site, &steps);
    let results = report["results"].as_array().unwrap();
    for (number, result) in results[..11].iter().enumerate() {
        assert!(result.get("error").is_none(), "{number}: {result}");
    }
    assert_eq!(results[11]["error"]["code"], -32602);
    assert_ne!(results[1]["sessionId"], results[5]["sessionId"]);
    assert_eq!(results[7]["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(report["asked"]["fs/read_text_file"], 1);
    // from the load: the shared prompt, and the fork's own
    assert_eq!(report["updates"]["user_message_chunk"], 2);
    site.assert_sound();
}
