//! A session of Codex, imported and continued.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use common::foreign::{anthropic, as_lines, assert_taken_over, events, import, outline};
use common::{Site, all, only};
use serde_json::{Value, json};

fn line(second: u64, kind: &str, payload: Value) -> Value {
    let at = format!("2026-03-01T10:00:{second:02}.000Z");
    json!({ "timestamp": at, "type": kind, "payload": payload })
}

fn item(second: u64, item: Value) -> Value {
    line(second, "response_item", item)
}

fn message(second: u64, role: &str, text: &str) -> Value {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    item(
        second,
        json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] }),
    )
}

fn call(second: u64, id: &str, arguments: &str) -> Value {
    item(
        second,
        json!({ "type": "function_call", "name": "shell", "arguments": arguments, "call_id": id }),
    )
}

fn output(second: u64, id: &str, output: Value) -> Value {
    item(second, json!({ "type": "function_call_output", "call_id": id, "output": output }))
}

fn tokens(second: u64, total: u64) -> Value {
    let last = json!({ "input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 30,
        "reasoning_output_tokens": 10, "total_tokens": 130 });
    let info = json!({ "total_token_usage": { "total_tokens": total }, "last_token_usage": last });
    line(second, "event_msg", json!({ "type": "token_count", "info": info }))
}

fn meta(cwd: &str) -> Value {
    line(
        0,
        "session_meta",
        json!({ "id": "0199-aa", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": cwd,
        "originator": "codex_cli_rs", "cli_version": "0.65.0", "model_provider": "openai" }),
    )
}

fn conversation(cwd: &str) -> Vec<Value> {
    let reasoning = json!({ "type": "reasoning", "encrypted_content": "c2VhbGVk",
        "summary": [{ "type": "summary_text", "text": "Look first." }] });
    let wrapped = json!({ "output": "a.rs\n", "metadata": { "exit_code": 0 } }).to_string();
    let patch = json!({ "type": "custom_tool_call", "call_id": "c3", "name": "apply_patch",
        "input": "*** Begin Patch" });
    vec![
        meta(cwd),
        message(1, "developer", "<permissions instructions>"),
        message(1, "user", "# AGENTS.md instructions for /x\n\nBe brief."),
        message(1, "user", "<environment_context><cwd>/x</cwd></environment_context>"),
        message(1, "user", "Tidy up."),
        line(1, "event_msg", json!({ "type": "user_message", "message": "Tidy up." })),
        line(1, "turn_context", json!({ "cwd": cwd, "model": "gpt-5-codex" })),
        item(2, reasoning),
        call(3, "c1", r#"{"command":["ls"]}"#),
        call(3, "c2", "{broken"),
        tokens(3, 130),
        tokens(3, 130),
        output(4, "c1", wrapped.into()),
        output(4, "c2", json!({ "content": "no such file", "success": false })),
        item(5, json!({ "type": "web_search_call", "action": { "query": "x" } })),
        item(5, patch),
        tokens(5, 260),
    ]
}

#[test]
fn calls_results_and_tokens_are_those_of_the_rollout() {
    let site = Site::bare();
    site.file("rollout.jsonl", as_lines(&conversation("/nowhere/at/all")));
    let (session, said) = import(&site, "rollout.jsonl");
    assert!(said.contains("item `web_search_call` (1)"), "{said}");
    assert_taken_over(&site, &session, "Codex");
    let events = events(&site, &session);
    let prompt = &only(&events, "turn.prompted")["data"];
    assert_eq!(prompt["parts"].as_array().unwrap().len(), 1, "{prompt}");
    let replied = all(&events, "model.finished");
    let usage =
        json!({ "input": 40, "output": 20, "reasoning": 10, "cache_read": 60, "cache_write": 0 });
    assert_eq!((replied.len(), &replied[0]["data"]["usage"]), (2, &usage));
    assert_eq!(replied[1]["data"]["usage"], usage);
    let called: Vec<&Value> =
        all(&events, "tool.called").iter().map(|event| &event["data"]["call"]["input"]).collect();
    let patch = json!({ "input": "*** Begin Patch" });
    assert_eq!(called, [&json!({ "command": ["ls"] }), &json!("{broken"), &patch]);
    let finished = all(&events, "tool.finished");
    assert_eq!(finished[0]["data"]["output"], "a.rs\n");
    assert_eq!(finished[1]["data"]["is_error"], true);
    assert_eq!(only(&events, "tool.lost")["data"]["call"], "c3");
    // content encrypted for one account is dropped
    assert!(!format!("{events:?}").contains("c2VhbGVk"));
    let requested = all(&events, "model.requested");
    assert_eq!(requested[0]["data"]["model"], json!({ "provider": "openai", "id": "gpt-5-codex" }));
}

#[test]
fn it_is_gone_on_with_by_another_model() {
    let (server, site) = anthropic(&["Tidy."]);
    let cwd = site.project().display().to_string();
    site.file("rollout.jsonl", as_lines(&conversation(&cwd)));
    let (session, _) = import(&site, "rollout.jsonl");
    site.run(&["run", "--session", &session, "-m", "anthropic/m", "Is all tidy?"]).ok();
    let told = outline(&server.requests()[0].body);
    assert_eq!(told[0], "u: Tidy up.");
    assert_eq!(told[1], "a: shell{\"command\":[\"ls\"]}");
    assert!(told.contains(&"u: = a.rs\n".to_owned()), "{told:?}");
    assert!(
        told.iter().any(|text| text.contains("The outcome of this call is unknown")),
        "{told:?}"
    );
    assert_eq!(told.last().map(String::as_str), Some("u: Is all tidy?"));
    site.run(&["check", &session]).ok();
    site.run(&["verify", &session]).ok();
}

#[test]
fn turns_that_were_taken_back_or_stopped_and_summaries_are_what_they_were() {
    let site = Site::bare();
    site.file(
        "rollout.jsonl",
        as_lines(&[
            meta("/nowhere"),
            message(1, "user", "One."),
            message(2, "assistant", "First."),
            message(3, "user", "Two, which is taken back."),
            message(4, "assistant", "Second."),
            line(5, "event_msg", json!({ "type": "thread_rolled_back", "num_turns": 1 })),
            line(6, "compacted", json!({ "message": "We have got to one." })),
            message(7, "user", "Three."),
            call(8, "c1", "{}"),
            line(9, "event_msg", json!({ "type": "turn_aborted", "reason": "interrupted" })),
            message(9, "user", "<turn_aborted>\nthe user stopped it"),
            line(10, "compacted", json!({ "message": "" })),
            message(11, "user", "Four."),
            message(12, "assistant", "Fourth."),
        ]),
    );
    let (session, said) = import(&site, "rollout.jsonl");
    assert!(said.contains("sealed summary (1)") && said.contains("taken back (1)"), "{said}");
    assert_taken_over(&site, &session, "Codex");
    let events = events(&site, &session);
    assert!(!format!("{events:?}").contains("Second."));
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "We have got to one.");
    let ends: Vec<&Value> =
        all(&events, "turn.ended").iter().map(|e| &e["data"]["reason"]).collect();
    assert_eq!(ends, ["completed", "completed", "aborted", "completed"]);
}

#[test]
fn an_older_rollout_has_its_items_bare() {
    let site = Site::bare();
    let bare = |record: Value| record["payload"].clone();
    site.file(
        "rollout.jsonl",
        as_lines(&[
            json!({ "id": "old-1", "timestamp": "2025-06-01T10:00:00.000Z", "instructions": null }),
            json!({ "record_type": "state" }),
            bare(message(1, "user", "<environment_context>\n<cwd>/old/place</cwd>\n")),
            bare(message(1, "user", "Hello.")),
            bare(message(1, "assistant", "Hello to you.")),
        ]),
    );
    let (session, _) = import(&site, "rollout.jsonl");
    let events = events(&site, &session);
    assert_eq!(only(&events, "session.created")["data"]["directory"], "/old/place");
    assert_eq!(only(&events, "turn.ended")["data"]["text"], "Hello to you.");
    assert_eq!(only(&events, "turn.ended")["at"], "2025-06-01T10:00:00.000Z");
    assert_taken_over(&site, &session, "Codex");
}
