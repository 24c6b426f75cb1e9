//! Runs that went wrong, each in its own way: `leftfold why` and `replay` name the place to look at.

use common::plugin::{double, serve_if_asked};
use common::{Site, bash, call, says, script};
use serde_json::{Value, json};

/// A run with a planted cause, and the words that name it.
struct Row {
    name: &'static str,
    replies: Value,
    settings: &'static [(&'static str, &'static str)],
    finding: &'static str,
}

fn edit(file: &str, old: &str, new: &str) -> Value {
    call("edit", json!({ "filePath": file, "oldString": old, "newString": new }))
}

fn rows() -> Vec<Row> {
    let write = |text: &str| json!({ "call": { "name": "write", "input": { "filePath": "new.txt", "content": text } } });
    let task =
        json!({ "description": "typo", "prompt": "Mend notes.md.", "subagent_type": "explore" });
    vec![
        Row {
            name: "a rule that denied",
            replies: json!([bash("git push"), says("Pushed.")]),
            settings: &[("permission", r#"{"bash":{"*":"allow","git push*":"deny"}}"#)],
            finding: "bash git push was denied: deny bash `git push*` (",
        },
        Row {
            name: "a reply cut off at the output limit",
            replies: json!([{ "finish": "length", "parts": [{ "text": "One, two" }] }, says("three.")]),
            settings: &[],
            finding: "the reply was cut off at the output limit",
        },
        Row {
            name: "output that was too long",
            replies: json!([bash("seq 1 9000"), says("All well.")]),
            settings: &[],
            finding: "the model got a part of the output of bash seq 1 9000: ",
        },
        Row {
            name: "a command that failed",
            replies: json!([bash("exit 3"), says("All well.")]),
            settings: &[],
            finding: "bash exit 3 ended with exit code 3",
        },
        Row {
            name: "a reply that failed after some words",
            replies: json!([{ "faults": [{ "class": "overloaded", "message": "busy", "retry_after": 1, "parts": [{ "text": "I do both." }] }], "parts": [{ "text": "I did one." }] }]),
            settings: &[],
            finding: "the request failed: busy; its reply so far does not count",
        },
        Row {
            name: "a formatter",
            replies: json!([edit("notes.md", "teh", "\tthe"), says("Done.")]),
            settings: &[(
                "formatter",
                r#"{"spaces":{"command":["sed","-i","s/\t/    /g","$FILE"],"extensions":[".md"]}}"#,
            )],
            finding: "the formatter spaces changed the text that edit notes.md wrote",
        },
        Row {
            name: "two writes of one reply",
            replies: json!([{ "parts": [write("alpha\n"), write("beta\n")] }, says("Both are there.")]),
            settings: &[],
            finding: "write new.txt replaced what call ",
        },
        Row {
            name: "the limit of steps",
            replies: json!([bash("echo 1"), says("That is all.")]),
            settings: &[("agent", r#"{"build":{"steps":2}}"#)],
            finding: "the last request of the 2 steps that the turn may take (",
        },
        Row {
            name: "a refused edit that was done with a command",
            replies: json!([
                call("read", json!({ "filePath": "notes.md" })),
                bash("echo theirs >> notes.md"),
                edit("notes.md", "teh", "the"),
                bash("echo the plan > notes.md"),
                says("Done."),
            ]),
            settings: &[],
            finding: "bash echo the plan > notes.md wrote notes.md, whose edit was refused at ",
        },
        Row {
            name: "tests that were made to pass",
            replies: json!([
                bash("sh tests/all.sh"),
                edit("tests/all.sh", "exit 1", "exit 0"),
                bash("sh tests/all.sh"),
                says("All tests pass."),
            ]),
            settings: &[],
            finding: "and succeeds after tests were changed: tests/all.sh",
        },
        Row {
            name: "instructions beside a file",
            replies: json!([call("read", json!({ "filePath": "src/a.txt" })), says("Done.")]),
            settings: &[],
            finding: "src/AGENTS.md with read src/a.txt",
        },
        Row {
            name: "a subagent that may not edit",
            replies: json!([
                { "match": { "prompt": "Mend notes.md.", "answers": 0 }, "parts": [
                    { "call": { "name": "edit", "input": { "filePath": "notes.md", "oldString": "teh", "newString": "the" } } },
                ] },
                { "match": { "prompt": "Mend notes.md.", "answers": 1 }, "parts": [{ "text": "Mended." }] },
                { "match": { "prompt": "go", "answers": 0 }, "parts": [{ "call": { "name": "task", "input": task } }] },
                { "match": { "prompt": "go", "answers": 1 }, "parts": [{ "text": "It is mended." }] },
            ]),
            settings: &[],
            finding: "edit notes.md was denied: deny * `*` (built-in agent explore)",
        },
    ]
}

#[test]
fn why_names_what_was_out_of_the_ordinary() {
    for Row { name, replies, settings, finding } in rows() {
        let mut site = Site::scripted(&script(replies));
        for (setting, value) in settings {
            site = site.setting(setting, serde_json::from_str::<Value>(value).unwrap());
        }
        site.file("notes.md", "teh plan\n");
        site.file("tests/all.sh", "exit 1\n");
        site.file("src/a.txt", "a\n");
        site.file("src/AGENTS.md", "Be brief.\n");
        site.run(&["run", "--yes", "go"]).ok();
        let why = site.run(&["why", "last"]).ok().stdout;
        assert!(why.contains(finding), "{name}: {why}");
        let report: Value =
            serde_json::from_str(&site.run(&["why", "last", "--format", "json"]).ok().stdout)
                .unwrap();
        let found = report["findings"].as_array().unwrap();
        assert!(
            found.iter().any(|one| one["what"].as_str().unwrap().contains(finding)),
            "{name}: {report}"
        );
        if !why.contains("subagent") {
            let replay = site.run(&["replay", "last"]).ok().stdout;
            assert!(replay.contains(finding), "{name}: {replay}");
        }
    }
}

/// Two subagents write a file, and the one that ends later began before the other one had written.
#[test]
fn why_names_a_file_that_two_subagents_wrote_at_the_same_time() {
    let task = |prompt: &str| json!({ "call": { "name": "task", "input": { "description": prompt, "prompt": prompt, "subagent_type": "general" } } });
    let reply = |prompt: &str, answers: u32, parts: Value| json!({ "match": { "prompt": prompt, "answers": answers }, "parts": parts });
    let bash =
        |command: &str| json!([{ "call": { "name": "bash", "input": { "command": command } } }]);
    let site = Site::scripted(&script(json!([
        reply("go", 0, json!([task("add one"), task("add two")])),
        reply("go", 1, json!([{ "text": "Both are in." }])),
        reply(
            "add one",
            0,
            bash(
                "cp notes.md copy; touch copied; while ! test -e ended; do sleep 0.05; done; echo one >> copy; mv copy notes.md"
            )
        ),
        reply("add one", 1, json!([{ "text": "One is in." }])),
        reply(
            "add two",
            0,
            bash("while ! test -e copied; do sleep 0.05; done; echo two >> notes.md")
        ),
        reply("add two", 1, bash("touch ended")),
        reply("add two", 2, json!([{ "text": "Two is in." }])),
    ])));
    site.file("notes.md", "zero\n");
    site.run(&["run", "--yes", "go"]).ok();
    assert_eq!(site.text("notes.md"), "zero\none\n");
    let why = site.run(&["why", "last"]).ok().stdout;
    let finding = "notes.md was written while bash while ! test -e copied";
    assert!(why.contains(finding) && why.contains("one may have undone the other"), "{why}");
}

/// A plugin's answer is told with what it changed.
#[test]
fn why_names_the_argument_that_a_plugin_changed() {
    let handshake = json!({ "name": "p", "hooks": ["tool.execute.before"] });
    let changed = json!({ "tool.execute.before": { "args": { "command": "echo two" } } });
    let plugin = double("findings::the_plugin_answers", handshake, changed);
    let site = Site::scripted(&script(json!([bash("echo one"), says("Done.")])))
        .setting("/plugin", json!([plugin]));
    site.prompt("go").ok();
    let why = site.run(&["why", "last"]).ok().stdout;
    let finding = r#"the plugin p changed bash echo one: command from "echo one" to "echo two""#;
    assert!(why.contains(finding), "{why}");
}

#[test]
fn the_plugin_answers() {
    serve_if_asked();
}

/// A model that follows another one, and the summary that its smaller window forced.
#[test]
fn why_names_what_earlier_turns_have_left() {
    let full = |prompt: &str, text: &str| json!({ "match": { "prompt": prompt }, "parts": [{ "text": text }], "usage": { "input": 14_990, "output": 5 } });
    let summary =
        json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Half is done." }] });
    let site = Site::scripted(&script(json!([
        summary,
        full("begin", "Begun."),
        full("more", "All is done.")
    ])))
    .setting(
        "/provider/double/models/small",
        json!({ "limit": { "context": 16_000, "output": 2_000 } }),
    );
    site.run(&["run", "begin"]).ok();
    site.run(&["run", "--continue", "--model", "double/small", "more"]).ok();
    let why = site.run(&["why", "last"]).ok().stdout;
    for finding in [
        "the model changed from double/m to double/small, which takes 16000 tokens",
        "a summary replaced the conversation so far",
    ] {
        assert!(why.contains(finding), "{finding}: {why}");
    }
    assert!(!why.contains("left out of the request"), "{why}");
}

#[test]
fn why_names_each_call_that_an_earlier_always_allowed() {
    let site = Site::scripted(&script(json!([
        bash("git status"),
        bash("git log"),
        bash("git clean -fdx"),
        says("Clean.")
    ])))
    .setting("permission", json!({ "bash": "ask" }));
    let mut live = site.start(&common::ASK);
    let seq = live.until("permission.asked")["seq"].to_string();
    site.run(&["permission", "answer", "last", &seq, "always", "--pattern", "git *"]).ok();
    live.wait();
    let why = site.run(&["why", "last"]).ok().stdout;
    for call in ["git log", "git clean -fdx"] {
        let finding = format!("bash {call} ran without a question: “always” at ");
        assert!(why.contains(&finding), "{finding}: {why}");
    }
}

#[test]
fn a_turn_without_trouble_has_no_findings() {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([
        read,
        bash("true"),
        edit("a.txt", "a", "b"),
        says("Done.")
    ])));
    site.file("a.txt", "a\n");
    site.run(&["run", "--yes", "go"]).ok();
    let why = site.run(&["why", "last"]).ok().stdout;
    assert!(why.contains("completed") && why.lines().count() == 1, "{why}");
}

#[test]
fn explain_names_reverted_prompts_and_shows_all_of_an_event() {
    let long = format!("{}END", "word ".repeat(100));
    let site = Site::scripted(&script(json!([says(&long), says("Again.")])));
    let events = site.prompt("first prompt").ok().events();
    let prompted = common::all(&events, "turn.prompted")[0]["seq"].to_string();
    let ended = common::all(&events, "turn.ended")[0]["seq"].to_string();
    let explained = site.run(&["explain", "last", &ended]).ok().stdout;
    assert!(explained.contains("content:\n") && explained.contains("word END"), "{explained}");
    site.run(&["revert", "last", "--to", &prompted]).ok();
    let events = site.run(&["run", "--continue", "--format", "json", "more"]).ok().events();
    let request = common::all(&events, "model.requested")[0]["seq"].to_string();
    let explained = site.run(&["explain", "last", &request]).ok().stdout;
    let left_out = format!("  {prompted}: this and everything up to ");
    assert!(explained.contains(&left_out) && explained.contains("reverted by"), "{explained}");
}
