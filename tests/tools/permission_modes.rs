//! `--permission-mode`: what each mode answers in advance, with and without a terminal, in a conversation and for
//! subagents.

use std::path::Path;
use std::sync::LazyLock;

use common::{Site, all, bash, call, end, says, script, skipped};
use leftfold_sandbox::{Backend, Profile, probe};
use serde_json::{Value, json};

const CTRL_D: &str = "\x04";

fn write(path: &str) -> Value {
    call("write", json!({ "filePath": path, "content": "x\n" }))
}

/// A site whose rules ask about edits and commands, and whose commands run in the sandbox.
fn site(calls: &[Value]) -> Site {
    let replies: Vec<Value> = calls.iter().cloned().chain([says("So be it.")]).collect();
    let site = Site::scripted(&script(json!(replies))).sandboxed();
    site.setting("/permission", json!({ "edit": "ask", "bash": "ask" }))
}

/// Whether this machine has a sandbox that holds commands. Without, the mode `sandbox` allows nothing.
fn has_namespaces() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let found = probe(&common::program(), &Profile::new(Backend::Namespaces));
        found.ready.is_some_and(|ready| ready.backend.has_namespaces())
    });
    if !*HAS {
        skipped("this machine has no namespaces, so the mode `sandbox` allows nothing");
    }
    *HAS
}

fn ruled(events: &[Value]) -> Vec<&str> {
    let ruled = all(events, "permission.ruled");
    ruled.iter().map(|event| event["data"]["action"].as_str().unwrap()).collect()
}

#[test]
fn without_a_terminal_a_mode_allows_its_part_and_the_rest_is_denied() {
    let calls = [
        write("a.txt"),
        bash("echo x > b.txt"),
        write("AGENTS.md"),
        write("../outside.txt"),
        call("bash", json!({ "command": "echo c", "network": true })),
        call("bash", json!({ "command": "echo d", "unsandboxed": true })),
    ];
    let nothing = ["deny"; 6];
    let edits = ["allow", "deny", "deny", "deny", "deny", "deny"];
    let commands = ["deny", "allow", "deny", "deny", "deny", "deny"];
    for (mode, expected) in [
        (&[][..], nothing),
        (&["--permission-mode", "deny"], nothing),
        (&["--permission-mode", "accept-edits"], edits),
        (&["--permission-mode", "sandbox"], commands),
        (&["--yes"], ["allow"; 6]),
    ] {
        if expected == commands && !has_namespaces() {
            continue;
        }
        let site = site(&calls);
        let ran = site.run(&[&["run", "--format", "json", "go"], mode].concat()).ok();
        let events = ran.events();
        assert_eq!(ruled(&events), expected, "{mode:?}");
        let has = |path: &Path| path.exists();
        let made = [has(&site.project().join("a.txt")), has(&site.project().join("b.txt"))];
        assert_eq!(made, [expected[0] == "allow", expected[1] == "allow"], "{mode:?}");
        assert_eq!(has(&site.path("outside.txt")), expected[3] == "allow", "{mode:?}");
        assert!(all(&events, "permission.asked").is_empty());
        site.assert_sound();
    }
}

#[test]
fn without_a_terminal_the_mode_ask_leaves_the_question_to_other_clients() {
    let site = site(&[write("a.txt")]);
    let mut live = site.start(&common::ASK);
    let seq = live.until("permission.asked")["seq"].to_string();
    site.run(&["permission", "answer", "last", &seq, "once"]).ok();
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
    assert_eq!(site.text("a.txt"), "x\n");
}

#[test]
fn on_a_terminal_a_mode_asks_about_the_rest() {
    for (mode, asked, made) in [
        (&[][..], &["edit", "bash"][..], ["", ""]),
        (&["--permission-mode", "ask"], &["edit", "bash"], ["", ""]),
        (&["--permission-mode", "deny"], &[], ["", ""]),
        (&["--permission-mode", "accept-edits"], &["bash"], ["x\n", ""]),
        (&["--permission-mode", "sandbox"], &["edit"], ["", "x\n"]),
        (&["--yes"], &[], ["x\n", "x\n"]),
    ] {
        if mode.contains(&"sandbox") && !has_namespaces() {
            continue;
        }
        let site = site(&[write("a.txt"), bash("echo x > b.txt")]);
        let mut terminal = site.terminal(&[&["run", "go"], mode].concat(), 100);
        for count in 1..=asked.len() {
            let is_shown = |screen: &vt100::Screen| screen.contents().matches("[o]nce").count();
            terminal.until_so("the question", |screen| is_shown(screen) == count);
            terminal.press("later\r");
        }
        assert_eq!(terminal.wait(), 0, "{mode:?}: {}", terminal.shown());
        let events = site.exported();
        let found = all(&events, "permission.asked");
        let found: Vec<&str> =
            found.iter().map(|it| it["data"]["permission"].as_str().unwrap()).collect();
        assert_eq!(found, asked, "{mode:?}");
        assert_eq!([site.text("a.txt"), site.text("b.txt")], made, "{mode:?}");
    }
}

#[test]
fn a_conversation_has_the_modes_too() {
    for (mode, made) in [("accept-edits", ["x\n", ""]), ("sandbox", ["", "x\n"])] {
        if mode == "sandbox" && !has_namespaces() {
            continue;
        }
        let calls = if mode == "sandbox" { bash("echo x > b.txt") } else { write("a.txt") };
        let site = site(&[calls]);
        let mut terminal = site.terminal(&["--permission-mode", mode], 100);
        terminal.until_prompt().press("go\r").until("So be it.").until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        assert!(all(&site.exported(), "permission.asked").is_empty());
        assert_eq!([site.text("a.txt"), site.text("b.txt")], made, "{mode}");
    }
}

#[test]
fn a_subagent_has_the_mode_of_its_parent() {
    let task = json!({ "description": "d", "prompt": "do it", "subagentType": "general" });
    for (mode, of_child, made) in [
        ("accept-edits", write("a.txt"), ["x\n", ""]),
        ("sandbox", bash("echo x > b.txt"), ["", "x\n"]),
        ("deny", write("a.txt"), ["", ""]),
    ] {
        if mode == "sandbox" && !has_namespaces() {
            continue;
        }
        let site = site(&[call("task", &task), of_child, says("Done.")]);
        site.run(&["run", "--permission-mode", mode, "go"]).ok();
        assert_eq!([site.text("a.txt"), site.text("b.txt")], made, "{mode}");
    }
}

#[test]
fn the_mode_sandbox_says_that_it_allows_nothing_without_a_sandbox() {
    for sandbox in ["off", "external"] {
        let site = site(&[bash("echo x > b.txt")]).env("LEFTFOLD_SANDBOX", sandbox);
        let ran = site.run(&["run", "--permission-mode", "sandbox", "--format", "json", "go"]).ok();
        assert_eq!(ruled(&ran.events()), ["deny"]);
        assert_eq!(ran.stderr.matches("it needs a sandbox with namespaces").count(), 1);
    }
}

#[test]
fn a_rule_with_a_pattern_of_its_own_still_asks() {
    let calls = [write("a.txt"), write("src/b.txt"), bash("echo x"), bash("git push")];
    let rules = json!({ "edit": { "*": "ask", "src/*": "ask" }, "bash": { "*": "ask", "git push *": "ask" } });
    for (mode, expected) in [
        ("accept-edits", ["allow", "deny", "deny", "deny"]),
        ("sandbox", ["deny", "deny", "allow", "deny"]),
    ] {
        if mode == "sandbox" && !has_namespaces() {
            continue;
        }
        let site = site(&calls).setting("/permission", rules.clone());
        let ran = site.run(&["run", "--format", "json", "--permission-mode", mode, "go"]).ok();
        assert_eq!(ruled(&ran.events()), expected, "{mode}");
    }
}
