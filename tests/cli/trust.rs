//! A hostile repository: whichever way it is opened, nothing of it runs, connects or reads outside before the user
//! trusts it, and the messages say what was left out. `tests/http/hostile.rs` opens it in a server.

use std::process::Command;

use common::hostile::{CANARY, IN_PATH, site, untouched};
use common::{Editor, Site, call, says, script};
use serde_json::{Value, json};

/// The traps of the hostile repository do work: whoever takes a program from `PATH` there runs them.
#[test]
fn the_hostile_repository_is_hostile() {
    let (site, _) = site();
    let path = site
        .command(&[])
        .get_envs()
        .find_map(|(name, value)| (name == "PATH").then(|| value.unwrap().to_owned()));
    for line in
        [&["git", "status"][..], &["own-server"], &["python3", "-m", "srv"], &["sh", "./m.sh"]]
    {
        let mut command = Command::new("/usr/bin/env");
        command.args(line).current_dir(site.project()).env("PATH", path.as_ref().unwrap());
        command.output().unwrap();
    }
    for name in ["git", "own-server", "python3", "sh"] {
        assert!(common::exists(&site.path(&format!("ran-{name}"))), "{name}");
    }
}

/// The words about a setting that is left out. Denials of rules count without trust.
fn left_out(key: &str) -> String {
    match key.ends_with("permission") {
        true => format!("`{key}` counts only where it is stricter than your own rules"),
        false => format!("`{key}` is left out"),
    }
}

#[test]
fn a_strangers_repository_does_nothing_before_it_is_trusted() {
    let (site, listener) = site();
    for args in [
        &["doctor", "--online"][..],
        &["config"],
        &["config", "permission"],
        &["agents"],
        &["models"],
        &["mcp"],
        &["plugins"],
        &["permission", "check", "bash", "ls"],
        &["trust", "--show"],
        &["run", "--yes", "Hello"],
        &["run", "Hello"],
    ] {
        let ran = site.run(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.code == 0, "{args:?}: {said}");
        untouched(&site, &listener, &said);
    }
    // the folders of `PATH` that are left out are listed
    let found = site.run(&["doctor"]).ok().stdout;
    for folder in IN_PATH {
        let folder = if folder == "." { ".".into() } else { site.project().join(folder) };
        let said = format!("of your settings start from {folder:?}");
        assert!(found.contains(&said), "{folder:?}: {found}");
    }
    // a run says how many settings it leaves out, and commands that look at them name each, with the way to trust them
    let ran = site.run(&["run", "Hello"]).ok();
    let counted = "so 28 of its settings have no effect, and 5 only where they are stricter than your own rules";
    assert!(ran.stderr.contains(counted), "{}", ran.stderr);
    let named = site.run(&["agents"]).ok().stderr;
    for key in [
        "model", "provider.evil", "provider.anthropic", "plugin[0]", "plugin[1]", "mcp.local",
        "mcp.remote", "mcp.of-claude", "mcp.far", "instructions[0]", "instructions[1]",
        "instructions[2]", "agent.build.model", "agent.build.permission", "agent.build.prompt",
        "agent.helper.prompt", "agent.helper.options", "command.init", "permission", "secrets",
        "environment", "webfetch", "skills.paths[0]", "snapshot", "compaction", "default_agent",
        "retry", "agent.review.model", "agent.review.permission",
    ] {
        assert!(named.contains(&left_out(key)), "{key}: {named}");
    }
    assert!(ran.stderr.contains("`leftfold trust`"), "{}", ran.stderr);
    let log = site.run(&["export", "last", "--unmasked"]).ok().stdout;
    assert!(log.contains("Be kind.") && !log.contains(CANARY));
    // nobody is there to be asked
    let ran = site.run(&["trust"]).with(2);
    assert!(ran.stderr.contains("leftfold trust --yes"), "{}", ran.stderr);
    untouched(&site, &listener, &ran.stdout);
}

#[test]
fn every_inspecting_command_says_once_what_it_leaves_out() {
    let (site, listener) = site();
    let settings = site.project().join("opencode.json");
    for args in [
        &["agents"][..],
        &["agents", "--format", "json"],
        &["models"],
        &["mcp"],
        &["mcp", "--format", "json"],
        &["plugins"],
        &["config"],
        &["config", "mcp"],
        &["config", "--format", "json"],
        &["permission", "check", "bash", "ls"],
    ] {
        let ran = site.run(args).ok();
        for key in ["mcp.local", "plugin[0]", "agent.build.permission"] {
            let said = left_out(key);
            let lines: Vec<&str> = ran.stderr.lines().filter(|l| l.contains(&said)).collect();
            assert_eq!(lines.len(), 1, "{args:?}: {}", ran.stderr);
            let place = format!("leftfold: {}:1:", settings.display());
            assert!(lines[0].starts_with(&place), "{args:?}: {}", lines[0]);
        }
        assert_eq!(ran.stderr.matches("`leftfold trust`").count(), 1, "{args:?}: {}", ran.stderr);
        untouched(&site, &listener, &(ran.stdout + &ran.stderr));
    }
    // it is a finding among the others
    let found = site.run(&["doctor"]).ok().stdout;
    assert!(found.contains("`mcp.local` of the project is left out"), "{found}");
    assert!(found.contains("`leftfold trust` lets you trust the project"), "{found}");
    // nothing is left out of a project that is trusted
    site.trust(&site.project());
    let ran = site.run(&["config", "retry"]);
    assert!(!ran.stderr.contains("is left out"), "{}", ran.stderr);
}

#[test]
fn a_conversation_asks_and_takes_no_keys_that_were_pressed_before() {
    let (site, listener) = site();
    let mut terminal = site.terminal(&[], 100);
    // type-ahead
    terminal.press("y\r");
    terminal.until("Trust these settings? [y/N]");
    assert!(site.run(&["trust", "--show"]).ok().stdout.contains("new "), "typed ahead");
    terminal.press("n\r").until("/help");
    untouched(&site, &listener, &terminal.shown());
    // what was typed after the question was printed and before keys counted is a draft for the prompt
    terminal
        .press("\u{15}")
        .until_prompt()
        .press("Hello\r")
        .until("Hello.")
        .until_prompt()
        .press("\u{4}");
    terminal.wait();
    untouched(&site, &listener, "");
    let mut terminal = site.terminal(&[], 100);
    terminal.until("Trust these settings? [y/N]");
    terminal.press("y\r").until("/help").until_prompt().press("\u{4}");
    terminal.wait();
    let shown = site.run(&["trust", "--show"]).ok().stdout;
    assert!(shown.lines().all(|line| line.starts_with("trusted ")), "{shown}");
    // it has asked for what it now runs
    let ran = |name: &str| common::exists(&site.path(&format!("ran-{name}")));
    assert!(ran("plugin") || ran("mcp") || ran("sh"));
}

#[test]
fn an_editor_is_asked_before_the_first_prompt() {
    let (site, listener) = site();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "Hello");
    let question = editor.question(&session);
    let text = question.to_string();
    assert!(text.contains("mcp.local") && text.contains("plugin[0]"), "{text}");
    editor.choose(&question, "reject_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    untouched(&site, &listener, &text);
    // the same settings are not asked about twice
    let prompt = editor.prompt(&session, "And again");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    untouched(&site, &listener, "");
    editor.leave();
}

#[test]
fn trust_is_given_shown_and_taken_back() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    let says = |args: &[&str], text: &str| {
        let ran = site.run(args).ok();
        assert!(ran.stdout.contains(text), "{args:?}: {}", ran.stdout);
    };
    says(&["trust"], "has no settings that need trust");
    site.file_of_stranger(
        "leftfold.json",
        r#"{ "retry": { "attempts": 3 }, "permission": { "bash": "deny" } }"#,
    );
    let value = |key: &str| -> Value {
        let ran = site.run(&["config", "--format", "json", key]).ok();
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["values"][0]["value"].clone()
    };
    assert_eq!(value("retry.attempts"), 10);
    says(&["trust", "--show"], "new /");
    says(&["trust", "--yes"], "is trusted");
    assert_eq!(value("retry.attempts"), 3);
    site.file_of_stranger("leftfold.json", r#"{ "retry": { "attempts": 4 } }"#);
    assert_eq!(value("retry.attempts"), 10);
    says(&["trust", "--show"], "CHANGED /");
    says(&["trust", "--yes"], "is trusted");
    says(&["trust", "--revoke"], "is no longer trusted");
    assert_eq!(value("retry.attempts"), 10);
}

/// Neither the `mode` of known agents nor a new agent leads around the user's rules.
#[test]
fn agents_of_a_strangers_repository_do_not_lift_the_users_rules() {
    let write = call("write", json!({ "filePath": "made.txt", "content": "x" }));
    let site = Site::scripted(&script(json!([write, says("Done.")])));
    std::fs::create_dir_all(site.path("config/leftfold")).unwrap();
    let rules = json!({ "permission": { "bash": "deny", "edit": "deny" } });
    let user = json!({ "agent": { "build": rules, "general": rules } });
    std::fs::write(site.path("config/leftfold/leftfold.json"), user.to_string()).unwrap();
    for name in ["build", "plan"] {
        let path = format!(".leftfold/agents/{name}.md");
        site.file_of_stranger(&path, "---\nmode: subagent\n---\nText.");
    }
    site.file_of_stranger(".leftfold/agents/aaa.md", "---\nmode: primary\n---\nText.");
    site.file_of_stranger(".leftfold/agents/helper.md", "---\nmode: subagent\n---\nText.");
    for agent in [&[][..], &["--agent", "aaa"], &["--agent", "helper"]] {
        let args = [&["permission", "check", "bash", "rm -rf x"], agent].concat();
        let ran = site.run(&args);
        assert!(ran.stdout.contains("deny"), "{agent:?}: {}{}", ran.stdout, ran.stderr);
    }
    let ran = site.run(&["agents"]).ok();
    for key in ["agent.build.mode", "agent.plan.mode"] {
        assert!(ran.stderr.contains(&format!("`{key}` is left out")), "{key}: {}", ran.stderr);
    }
    let ran = site.run(&["run", "--yes", "--agent", "aaa", "Hello"]);
    assert!(ran.stdout.contains("Done."), "{}{}", ran.stdout, ran.stderr);
    assert!(!site.project().join("made.txt").exists());
}
