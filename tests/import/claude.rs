//! A session of Claude Code, imported and continued.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use common::foreign::{anthropic, as_lines, assert_taken_over, events, import, outline};
use common::{Site, all, kinds, only, says, script};
use serde_json::{Value, json};

const MODEL: &str = "claude-sonnet-4-5";

/// A record `id` after `parent`, at `second` seconds.
fn record(kind: &str, id: &str, parent: Value, second: u64, message: Value) -> Value {
    json!({
        "type": kind, "uuid": id, "parentUuid": parent, "isSidechain": false, "sessionId": "0b1c-22",
        "version": "2.0.76", "timestamp": format!("2026-03-01T10:00:{second:02}.000Z"),
        "message": message,
    })
}

fn user(id: &str, parent: &str, second: u64, content: Value) -> Value {
    let message = json!({ "role": "user", "content": content });
    record("user", id, Some(parent).filter(|id| !id.is_empty()).into(), second, message)
}

/// One block of the reply `reply`.
fn block(id: &str, parent: &str, second: u64, reply: &str, block: Value) -> Value {
    let usage = json!({ "input_tokens": 10, "output_tokens": 40, "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 7 });
    let message = json!({ "id": reply, "role": "assistant", "model": MODEL, "content": [block],
        "stop_reason": null, "usage": usage });
    record("assistant", id, parent.into(), second, message)
}

fn says_(id: &str, parent: &str, second: u64, reply: &str, text: &str) -> Value {
    block(id, parent, second, reply, json!({ "type": "text", "text": text }))
}

fn calls(id: &str, parent: &str, second: u64, reply: &str, call: &str, tool: &str) -> Value {
    let input = json!({ "command": call });
    block(
        id,
        parent,
        second,
        reply,
        json!({ "type": "tool_use", "id": call, "name": tool, "input": input }),
    )
}

fn result(id: &str, parent: &str, second: u64, call: &str, text: &str) -> Value {
    let result = json!({ "type": "tool_result", "tool_use_id": call, "content": text });
    user(id, parent, second, json!([result]))
}

/// Two calls at once, each with a branch of its own, a subagent, and a call without a result.
fn broken() -> Vec<Value> {
    let mut sidechain = user("s1", "", 6, json!("Words for a subagent"));
    sidechain["isSidechain"] = true.into();
    let think = json!({ "type": "thinking", "thinking": "Look first.", "signature": "c2ln" });
    let mut first = user("u1", "", 0, json!("Repair slug.sh"));
    first["cwd"] = "/nowhere/at/all".into();
    vec![
        json!({ "type": "summary", "summary": "Repair the slug", "leafUuid": "a6" }),
        first,
        block("a1", "u1", 2, "msg_1", think),
        says_("a2", "a1", 3, "msg_1", "I look at both."),
        calls("a3", "a2", 4, "msg_1", "t1", "Read"),
        result("r1", "a3", 5, "t1", "echo slug"),
        calls("a4", "a3", 4, "msg_1", "t2", "Bash"),
        sidechain,
        result("r2", "a4", 6, "t2", "slug.sh test.sh"),
        says_("x1", "r2", 7, "msg_x", "An answer that was taken back."),
        says_("a5", "r2", 8, "msg_3", "I run it."),
        calls("a6", "a5", 9, "msg_3", "t3", "Bash"),
    ]
}

#[test]
fn a_broken_session_is_told_as_if_it_had_run_here() {
    let site = Site::bare();
    let text = as_lines(&broken()).replacen("\n", "\nthis is no JSON\n", 1);
    site.file("theirs.jsonl", text);
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(said.contains("theirs.jsonl, line 2: not JSON"), "{said}");
    assert!(said.contains("1 of its lines cannot be read; the rest is imported"), "{said}");
    assert!(said.contains("record of a branch that was given up (1)"), "{said}");
    assert!(said.contains("record of a subagent (1)"), "{said}");
    assert!(said.contains("/nowhere/at/all does not exist"), "{said}");
    assert_taken_over(&site, &session, "Claude Code");
    let events = events(&site, &session);
    let imported = &only(&events, "session.imported")["data"];
    assert_eq!(imported["id"], "0b1c-22");
    assert_eq!(imported["version"], "2.0.76");
    assert_eq!(imported["through"], events.last().unwrap()["seq"]);
    assert_eq!(only(&events, "session.titled")["data"]["title"], "Repair the slug");
    assert_eq!(only(&events, "session.created")["data"]["directory"], "/nowhere/at/all");
    // one reply with its two calls, whose usage counts once
    let replied = all(&events, "model.finished");
    assert_eq!(replied.len(), 2);
    let usage =
        json!({ "input": 10, "output": 40, "reasoning": 0, "cache_read": 5, "cache_write": 7 });
    assert_eq!(replied[0]["data"]["usage"], usage);
    assert_eq!(replied[0]["at"], "2026-03-01T10:00:02.000Z");
    assert_eq!(all(&events, "tool.finished").len(), 2);
    // the call without a result
    assert_eq!(only(&events, "tool.lost")["data"]["call"], "t3");
    assert_eq!(kinds(&events).last(), Some(&"model.requested"));
    let stats = site.run(&["stats", "--format", "json"]).ok().stdout;
    assert!(stats.contains("Bash") && stats.contains("anthropic/claude-sonnet-4-5"), "{stats}");
    // importing the file again finds the existing session
    let again = site.run(&["import", "theirs.jsonl"]).with(2);
    assert!(again.stderr.contains(&format!("{session} already exists")), "{}", again.stderr);
}

#[test]
fn it_is_gone_on_with_and_the_model_is_told_all_of_it() {
    let (server, site) = anthropic(&["It works.", "Indeed."]);
    let mut records = broken();
    records[1]["cwd"] = site.project().display().to_string().into();
    site.file("theirs.jsonl", as_lines(&records));
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(!said.contains("does not exist"), "{said}");
    // the step that was due
    site.run(&["resume", &session]).ok();
    site.run(&["run", "--session", &session, "Is that so?"]).ok();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body["model"], MODEL);
    let first = outline(&requests[0].body);
    let lost = "u: = The outcome of this call is unknown";
    assert_eq!(
        &first[..8],
        [
            "u: Repair slug.sh", "a: <Look first. \"c2ln\">", "a: I look at both.",
            "a: Read{\"command\":\"t1\"}", "a: Bash{\"command\":\"t2\"}", "u: = echo slug",
            "u: = slug.sh test.sh", "a: I run it.",
        ]
    );
    assert!(first[9].starts_with(lost), "{first:?}");
    assert_eq!(outline(&requests[1].body).last().map(String::as_str), Some("u: Is that so?"));
    site.run(&["check", &session]).ok();
    let verified = site.run(&["verify", &session]).ok().stdout;
    assert!(!verified.contains("; 0 decisions since"), "{verified}");
    let explained = site.run(&["explain", &session, "6"]);
    assert!(
        explained.stderr.contains("Claude Code sent a prompt and tools of its own"),
        "{}",
        explained.stderr
    );
    // a fork at any event counts as imported too
    let forked = site.run(&["fork", &session, "--at", "16"]).ok();
    site.run(&["check", forked.stdout.trim()]).ok();
}

#[test]
fn another_model_goes_on_with_it_in_its_own_way() {
    // the script counts the imported replies too
    let site = Site::scripted(&script(json!([says(""), says(""), says("Done.")])));
    let mut records = broken();
    records[1]["cwd"] = site.project().display().to_string().into();
    site.file("theirs.jsonl", as_lines(&records));
    let (session, _) = import(&site, "theirs.jsonl");
    let ran =
        site.run(&["run", "--session", &session, "-m", "double/m", "--format", "json", "Go on."]);
    let reasons = |events: &[Value]| -> Vec<Value> {
        all(events, "turn.ended").iter().map(|event| event["data"]["reason"].clone()).collect()
    };
    assert_eq!(reasons(&ran.ok().events()), ["completed"]);
    // the interrupted turn is closed first, in the log alone
    let log = site.run(&["export", "--unmasked", &session]).ok().events();
    assert_eq!(reasons(&log)[..], ["aborted", "completed"]);
}

#[test]
fn summaries_interrupts_and_failures_are_what_they_were() {
    let site = Site::bare();
    let boundary = json!({ "type": "system", "subtype": "compact_boundary", "uuid": "b1",
        "parentUuid": null, "logicalParentUuid": "a2", "timestamp": "2026-03-01T10:00:10.000Z",
        "compactMetadata": { "trigger": "manual" } });
    let mut summary = user("c1", "b1", 11, json!("We have counted to three."));
    summary["isCompactSummary"] = true.into();
    let mut failed = says_("a4", "u3", 31, "msg_f", "API Error: 529 overloaded");
    failed["isApiErrorMessage"] = true.into();
    failed["message"]["model"] = "<synthetic>".into();
    let image = json!({ "type": "image",
        "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } });
    site.file(
        "theirs.jsonl",
        as_lines(&[
            user("u1", "", 0, json!("Count.")),
            says_("a1", "u1", 1, "msg_1", "One, two."),
            says_("a2", "a1", 2, "msg_2", "Three."),
            boundary,
            summary,
            user("u2", "c1", 20, json!([{ "type": "text", "text": "And now?" }, image])),
            calls("a3", "u2", 21, "msg_3", "t1", "Bash"),
            user(
                "i1",
                "a3",
                22,
                json!([{ "type": "text", "text": "[Request interrupted by user]" }]),
            ),
            user("u3", "i1", 30, json!("Once more.")),
            failed,
        ]),
    );
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(!said.contains("left out"), "{said}");
    assert_taken_over(&site, &session, "Claude Code");
    let events = events(&site, &session);
    assert_eq!(
        only(&events, "compaction.finished")["data"]["summary"],
        "We have counted to three."
    );
    let ends: Vec<&str> = all(&events, "turn.ended")
        .iter()
        .map(|end| end["data"]["reason"].as_str().unwrap())
        .collect();
    // the turn, the one for the summary, the one that was stopped, the one that failed
    assert_eq!(ends, ["completed", "completed", "aborted", "error"]);
    let error = all(&events, "turn.ended")[3]["data"]["error"].as_str().unwrap();
    assert!(error.contains("529 overloaded"), "{error}");
    let prompted = all(&events, "turn.prompted");
    assert_eq!(prompted[1]["data"]["parts"][1]["mime"], "image/png");
    let state = site.run(&["replay", &session, "--state"]).ok().stdout;
    let state: Value = serde_json::from_str(&state).unwrap();
    assert!(state["messages"][0]["summary"]["text"].is_string(), "{}", state["messages"]);
}

#[test]
fn known_secrets_come_into_no_log() {
    let secret = "tk-0123456789-very-secret";
    let site = Site::bare().setting("secrets", json!({ "TOKEN": secret }));
    site.file(
        "theirs.jsonl",
        as_lines(&[
            user("u1", "", 0, json!(format!("Use {secret}"))),
            says_("a1", "u1", 1, "msg_1", "I do."),
        ]),
    );
    let (session, _) = import(&site, "theirs.jsonl");
    let exported = site.run(&["export", "--unmasked", &session]).ok().stdout;
    assert!(!exported.contains(secret) && exported.contains("{{secret:TOKEN}}"), "{exported}");
}

#[test]
fn what_is_no_session_is_refused_with_a_word_on_what_to_do() {
    let site = Site::bare();
    site.file("data.db", b"SQLite format 3\0rest");
    site.file("empty.jsonl", "");
    site.file(
        "theirs.jsonl",
        as_lines(&[json!({ "type": "summary", "summary": "x", "leafUuid": "y" })]),
    );
    for (args, parts) in [
        (&["import", "data.db"][..], &["is a database", "opencode export"][..]),
        (&["import", "."], &["is a folder", ".claude/projects"]),
        (&["import", "theirs.jsonl"], &["no conversation of Claude Code"]),
        (&["import", "--from", "codex", "empty.jsonl"], &["no conversation of Codex"]),
        (&["import", "--from", "cursor", "empty.jsonl"], &["claude", "codex", "opencode"]),
        (&["import", "nothing.jsonl"], &["nothing.jsonl"]),
    ] {
        let ran = site.run(args).with(2);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn half_a_character_and_a_byte_order_mark_keep_nothing_out() {
    let site = Site::bare();
    let text = as_lines(&broken()).replacen("Repair slug.sh", "Repair \\ud83d slug.sh", 1);
    site.file("theirs.jsonl", format!("\u{feff}{text}"));
    let (session, said) = import(&site, "theirs.jsonl");
    assert!(!said.contains("can not be read"), "{said}");
    let events = events(&site, &session);
    let prompted = &all(&events, "turn.prompted")[0]["data"]["parts"][0]["text"];
    assert_eq!(prompted, "Repair \u{fffd} slug.sh");
}
