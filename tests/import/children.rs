//! Subagents in the sessions of other agents, imported as child sessions.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use common::foreign::{anthropic, as_lines, assert_taken_over, events, import, outline};
use common::{Site, all, only};
use serde_json::{Value, json};

fn record(kind: &str, id: &str, parent: &str, second: u64, message: Value) -> Value {
    json!({
        "type": kind, "uuid": id, "parentUuid": Some(parent).filter(|id| !id.is_empty()),
        "isSidechain": false, "sessionId": "5e55-10", "version": "2.1.0",
        "timestamp": format!("2026-03-01T10:00:{second:02}.000Z"), "message": message,
    })
}

fn user(id: &str, parent: &str, second: u64, content: Value) -> Value {
    record("user", id, parent, second, json!({ "role": "user", "content": content }))
}

fn result(id: &str, parent: &str, second: u64, call: &str, text: &str) -> Value {
    let block = json!({ "type": "tool_result", "tool_use_id": call, "content": text });
    user(id, parent, second, json!([block]))
}

fn reply(id: &str, parent: &str, second: u64, block: Value) -> Value {
    let usage = json!({ "input_tokens": 10, "output_tokens": 2 });
    let message = json!({ "id": format!("msg_{id}"), "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [block], "usage": usage });
    record("assistant", id, parent, second, message)
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn task(call: &str, prompt: &str) -> Value {
    let input = json!({ "description": format!("To {call}"), "prompt": prompt, "subagent_type": "Explore" });
    json!({ "type": "tool_use", "id": call, "name": "Task", "input": input })
}

fn sidechain(mut record: Value) -> Value {
    record["isSidechain"] = true.into();
    record
}

/// A session with a subagent's records among the others.
fn session(directory: &str) -> Vec<Value> {
    let mut first = user("u1", "", 0, json!("What is here?"));
    first["cwd"] = directory.into();
    vec![
        first,
        reply("a1", "u1", 1, task("t1", "Look around.")),
        sidechain(user("s1", "", 2, json!("Look around."))),
        sidechain(reply(
            "s2",
            "s1",
            3,
            json!({ "type": "tool_use", "id": "t9", "name": "Glob", "input": {} }),
        )),
        sidechain(result("s3", "s2", 4, "t9", "a.rs")),
        sidechain(reply("s4", "s3", 5, text("There is a.rs."))),
        result("r1", "a1", 6, "t1", "There is a.rs."),
        reply("a2", "r1", 7, text("One file.")),
    ]
}

#[test]
fn a_subagent_among_the_records_is_a_child() {
    let (server, site) = anthropic(&["Indeed."]);
    site.file("theirs.jsonl", as_lines(&session(&site.project().display().to_string())));
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(!said.contains("left out"), "{said}");
    assert_taken_over(&site, &session, "Claude Code");
    let events = events(&site, &session);
    let spawned = &only(&events, "subagent.spawned")["data"];
    assert_eq!((&spawned["call"], &spawned["agent"]), (&json!("t1"), &json!("Explore")));
    let child = spawned["session"].as_str().unwrap();
    let ended = &only(&events, "subagent.ended")["data"];
    assert_eq!(
        (&ended["answer"], &ended["reason"]),
        (&json!("There is a.rs."), &json!("completed"))
    );
    assert_eq!(ended["usage"]["input"], 20);
    let own = common::foreign::events(&site, &session);
    let of_child = |kind: &str| {
        let all = all(&own, kind).into_iter().filter(|event| event["session"] == child);
        all.cloned().collect::<Vec<Value>>()
    };
    assert_eq!(of_child("session.created")[0]["data"]["parent"], json!(session));
    assert_eq!(of_child("session.titled")[0]["data"]["title"], "To t1");
    assert_eq!(of_child("turn.prompted")[0]["data"]["parts"][0]["text"], "Look around.");
    assert_eq!(of_child("tool.finished")[0]["data"]["output"], "a.rs");
    assert_eq!(of_child("turn.ended")[0]["data"]["text"], "There is a.rs.");
    // the parent continues, with only the result of the subagent
    site.run(&["run", "--session", &session, "Sure?"]).ok();
    let asked = outline(&server.requests()[0].body);
    assert!(asked.contains(&"u: = There is a.rs.".to_owned()), "{asked:?}");
    assert!(!asked.iter().any(|line| line.contains("Glob")), "{asked:?}");
    // an export can be imported again
    let exported = site.run(&["export", "--unmasked", &session]).ok().stdout;
    site.run(&["sessions", "rm", &session]).ok();
    site.file("ours.jsonl", &exported);
    let (again, _) = import(&site, "ours.jsonl");
    assert_eq!(site.run(&["export", "--unmasked", &again]).ok().stdout, exported);
}

#[test]
fn a_subagent_with_a_file_of_its_own_is_found_by_its_result() {
    let site = Site::bare();
    let mut records = session("/nowhere");
    records.retain(|record| record["isSidechain"] == false);
    records[2]["toolUseResult"] = json!({ "agentId": "a1b2", "status": "completed" });
    let mut own = vec![
        sidechain(user("s1", "", 2, json!("Look around."))),
        sidechain(reply("s2", "s1", 3, task("t7", "Look deeper."))),
        sidechain(result("s3", "s2", 4, "t7", "Deep.")),
        sidechain(reply("s4", "s3", 5, text("There is a.rs."))),
    ];
    own[2]["toolUseResult"] = json!({ "agentId": "c3d4" });
    let mut deeper = vec![
        sidechain(user("d1", "", 3, json!("Look deeper."))),
        sidechain(reply("d2", "d1", 3, text("Deep."))),
    ];
    // a subagent that refers to itself is read once
    deeper.push(sidechain(result("d3", "d2", 4, "t0", "x")));
    deeper[2]["toolUseResult"] = json!({ "agentId": "c3d4" });
    site.file("theirs.jsonl", as_lines(&records));
    site.file("theirs/subagents/agent-a1b2.jsonl", as_lines(&own));
    site.file("theirs/subagents/agent-c3d4.jsonl", as_lines(&deeper));
    let (session, _) = import(&site, "theirs.jsonl");
    site.run(&["check", &session]).ok();
    site.run(&["verify", &session]).ok();
    let events = events(&site, &session);
    let spawned = all(&events, "subagent.spawned");
    assert_eq!(spawned.len(), 2);
    assert_eq!(spawned[1]["session"], spawned[0]["data"]["session"]);
    let ended = all(&events, "subagent.ended");
    let used: Vec<&Value> = ended.iter().map(|event| &event["data"]["usage"]["input"]).collect();
    assert!(used.contains(&&json!(30)) && used.contains(&&json!(10)), "{used:?}");
}

#[test]
fn subagents_that_are_nested_too_deeply_are_left_out() {
    let site = Site::bare();
    let mut records = session("/nowhere");
    records.retain(|record| record["isSidechain"] == false);
    records[2]["toolUseResult"] = json!({ "agentId": "0" });
    site.file("theirs.jsonl", as_lines(&records));
    for at in 0..3_000 {
        let mut own = vec![
            sidechain(user("s1", "", 2, json!("Look around."))),
            sidechain(reply("s2", "s1", 3, task("t7", "Look deeper."))),
            sidechain(result("s3", "s2", 4, "t7", "Deep.")),
            sidechain(reply("s4", "s3", 5, text("There is a.rs."))),
        ];
        own[2]["toolUseResult"] = json!({ "agentId": (at + 1).to_string() });
        site.file(&format!("theirs/subagents/agent-{at}.jsonl"), as_lines(&own));
    }
    let (session, _) = import(&site, "theirs.jsonl");
    site.run(&["check", &session]).ok();
    assert_eq!(all(&events(&site, &session), "subagent.spawned").len(), 64);
}

#[test]
fn one_of_which_nobody_says_which_call_has_started_it_is_counted() {
    let site = Site::bare();
    let mut records = session("/nowhere");
    // two calls with equal prompts
    records.insert(2, reply("a9", "a1", 1, task("t2", "Look around.")));
    records[2]["message"]["id"] = "msg_a1".into();
    site.file("theirs.jsonl", as_lines(&records));
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(said.contains("record of a subagent (4)"), "{said}");
    assert!(all(&events(&site, &session), "subagent.spawned").is_empty());
    // and a subagent whose call has no result
    let mut records = self::session("/nowhere");
    records.truncate(6);
    site.file("other.jsonl", as_lines(&records));
    let (session, said) = import(&site, "other.jsonl");
    assert!(said.contains("session of a subagent whose call has no result (1)"), "{said}");
    let events = events(&site, &session);
    assert_eq!(only(&events, "tool.lost")["data"]["call"], "t1");
}

#[test]
fn opencodes_storage_has_them_beside_the_session() {
    let site = Site::bare();
    let storage = |path: &str, value: Value| {
        site.file(&format!("storage/{path}"), value.to_string());
    };
    let message = |id: &str, role: &str, second: u64| {
        json!({ "id": id, "role": role, "providerID": "p", "modelID": "m",
            "time": { "created": 1_772_359_200_000_u64 + second * 1000 } })
    };
    for (session, prompt) in [("ses_1", "What is here?"), ("ses_2", "Look around.")] {
        storage(
            &format!("session/p/{session}.json"),
            json!({ "id": session, "directory": "/nowhere" }),
        );
        let (first, second) = (format!("msg_{session}1"), format!("msg_{session}2"));
        storage(&format!("message/{session}/{first}.json"), message(&first, "user", 0));
        storage(&format!("part/{first}/prt_1.json"), text(prompt));
        storage(&format!("message/{session}/{second}.json"), message(&second, "assistant", 1));
        storage(&format!("part/{second}/prt_3.json"), text("There is a.rs."));
    }
    let state = json!({ "status": "completed", "output": "There is a.rs.",
        "input": { "description": "Look", "prompt": "Look around.", "subagent_type": "explore" },
        "metadata": { "sessionId": "ses_2" } });
    let part = json!({ "type": "tool", "callID": "t1", "tool": "task", "state": state });
    storage("part/msg_ses_12/prt_1.json", part.clone());
    let mut lost = part;
    lost["callID"] = "t2".into();
    lost["state"]["metadata"]["sessionId"] = "ses_3".into();
    storage("part/msg_ses_12/prt_2.json", lost);
    let (session, said) = import(&site, "storage/session/p/ses_1.json");
    assert!(said.contains("session of a subagent (1)"), "{said}");
    site.run(&["check", &session]).ok();
    let events = events(&site, &session);
    let spawned = &only(&events, "subagent.spawned")["data"];
    assert_eq!((&spawned["call"], &spawned["agent"]), (&json!("t1"), &json!("explore")));
    let asked: Vec<&Value> = all(&events, "turn.prompted")
        .into_iter()
        .map(|event| &event["data"]["parts"][0]["text"])
        .collect();
    assert_eq!(asked, ["What is here?", "Look around."]);
}
