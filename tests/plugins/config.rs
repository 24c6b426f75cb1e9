//! Plugins that add to settings: their answer is one more source of settings.

use common::plugin::{self, asked_for, double, example, hasty};
use common::{Editor, Live, Site, all, bash, call, end, mcp, says, script, wait_until};
use serde_json::{Value, json};

const PLUGIN: &str = "config::the_plugin_answers";

#[test]
fn the_plugin_answers() {
    plugin::serve_if_asked();
    let site = site(&[], &adding(&json!({})));
    let listed = site.run(&["plugins"]).ok().stdout;
    assert!(listed.contains("d  running") && listed.contains("hook config"), "{listed}");
}

/// The test plugin that answers `config` with `settings`, or in that manner.
fn adding(settings: &Value) -> Value {
    double(PLUGIN, json!({ "name": "d", "hooks": ["config"] }), json!({ "config": settings }))
}

/// A site with that plugin, and a model that gives these replies.
fn site(replies: &[Value], plugin: &Value) -> Site {
    let replies = [replies, &[says("So be it.")]].concat();
    Site::scripted(&script(json!(replies))).setting("/plugin", json!([plugin]))
}

/// How often it was started, and asked for settings.
fn times(site: &Site) -> (usize, usize) {
    let count = |method| asked_for(&site.project(), method).len();
    (count("initialize"), count("config"))
}

#[test]
fn what_a_plugin_adds_is_in_force_and_a_replay_needs_no_plugin() {
    let added = json!({
        "agent": {
            "scout": { "description": "Looks.", "prompt": "You look.", "mode": "primary" },
            "digger": { "description": "Digs.", "prompt": "You dig.", "mode": "subagent" },
        },
        "command": { "greet": { "template": "Say hello to $ARGUMENTS." } },
        "permission": { "bash": { "touch *": "deny" } },
    });
    let dig = json!({ "description": "d", "prompt": "p", "subagentType": "digger" });
    let replies = [bash("touch denied"), bash("touch wanted"), call("task", dig), says("Dug.")];
    // inline settings of the caller win
    let site = site(&replies, &adding(&added))
        .setting("/permission", json!({ "bash": { "touch wanted": "allow" } }));
    let ran = site.run(&["run", "--format", "json", "--agent", "scout", "/greet Ann"]).ok();
    let events = ran.events();
    assert_eq!(all(&events, "session.created")[0]["data"]["agent"], "scout");
    let prompted = all(&events, "turn.prompted");
    assert_eq!(prompted[0]["data"]["parts"][0]["text"], "Say hello to Ann.");
    assert!(!site.project().join("denied").exists() && site.project().join("wanted").exists());
    let denied = &end(&events)["permission_denials"];
    assert_eq!((&denied[0]["permission"], &denied[1]), (&json!("bash"), &Value::Null));
    let child = all(&events, "session.created")[1];
    assert_eq!(child["data"]["agent"], "digger");
    assert_eq!(times(&site), (1, 1));
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
    site.run(&["replay", "last", "--state"]).ok();
    assert_eq!(times(&site), (1, 1));
}

#[test]
fn what_a_plugin_adds_is_shown_with_its_place() {
    let added = json!({
        "agent": { "scout": { "description": "Looks." } },
        "permission": { "webfetch": "deny" },
        "retry": { "attempts": 3 },
    });
    let site = site(&[], &adding(&added));
    let shown = site.run(&["config", "--format", "json"]).ok().stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let sources = shown["sources"].as_array().unwrap();
    assert_eq!(sources[0], json!({ "plugin": "d" }), "{sources:?}");
    let values = shown["values"].as_array().unwrap();
    let at = |key: &str| values.iter().rfind(|value| value["key"] == key).unwrap();
    for key in ["retry.attempts", "agent.scout.description", "permission.webfetch"] {
        assert_eq!(at(key)["source"], json!({ "plugin": "d" }), "{key}");
    }
    let text = site.run(&["config", "retry"]).ok().stdout;
    assert!(
        text.lines().any(|line| line.starts_with("retry.attempts") && line.ends_with("plugin d")),
        "{text}"
    );
    assert!(site.run(&["agents"]).ok().stdout.contains("scout"));
    let rules = site.run(&["permission", "check", "webfetch", "https://example.com"]);
    assert!(rules.stdout.contains("deny"), "{rules:?}");
    let found = site.run(&["doctor"]).stdout;
    assert!(found.contains("plugin d"), "{found}");
}

#[test]
fn a_wrong_answer_is_told_by_its_field_and_breaks_nothing() {
    for (answer, told) in [
        (json!({ "permission": { "bash": "sometimes" } }), "plugin d: `permission.bash`: expected"),
        (json!({ "modell": "a/b" }), "plugin d: `modell` is not a setting of Leftfold"),
        (json!([]), "plugin d: the settings as a whole: expected an object, found a list"),
        (json!({ "plugin": [["sh"]] }), "plugin d: plugins cannot set `plugin`"),
        (json!("refuse"), "plugin `d`: I will not"),
        (json!("crash"), "plugin `d`: it has ended"),
    ] {
        let scout = json!({ "scout": { "description": "Looks." } });
        let mut answer = answer;
        if let Some(answer) = answer.as_object_mut().filter(|said| !said.contains_key("plugin")) {
            answer.insert("agent".to_owned(), scout);
        }
        let site = site(&[], &adding(&answer));
        let ran = site.prompt("go").ok().saying(&[told]);
        assert_eq!(ran.stderr.matches(told).count(), 1, "{ran:?}");
        assert_eq!(end(&ran.events())["text"], "So be it.");
        // nothing of the answer counts
        let agents = site.run(&["agents"]).ok().saying(&[told]);
        assert!(!agents.stdout.contains("scout"), "{agents:?}");
    }
}

#[test]
fn one_that_does_not_say_in_time_is_left_out() {
    let handshake = json!({ "name": "slow", "hooks": ["config", "tool.execute.before"] });
    let slow = hasty(PLUGIN, handshake, json!({ "config": "silent" }), 5_000);
    let site = site(&[bash("echo done > done")], &slow);
    let running: Live = site.start(&["run", "--format", "json", "go"]);
    let node = running.id();
    let ran = running.wait().ok().saying(&["it did not answer config within 5000 ms"]);
    assert_eq!(end(&ran.events())["text"], "So be it.");
    assert_eq!(site.text("done"), "done\n");
    assert!(all(&ran.events(), "hook.called").is_empty());
    assert_eq!(mcp::servers_of(node), [0; 0]);
    site.assert_sound();
}

#[test]
fn no_plugin_is_told_a_secret() {
    let env = json!({ "PLAIN": "mcp-plain-value" });
    let server = json!({ "type": "local", "command": ["s", "--token", "flag-value"],
        "enabled": false, "environment": env });
    let other = json!({ "wire": "openai-chat", "options": {
        "baseURL": "http://me:pass-value@host/v1", "apiKey": "sk-very-secret-key-0123",
        "headers": { "x-mine": "header-value", "user-agent": "shown-value" } } });
    let site = site(&[], &adding(&json!({})))
        .setting("/secrets", json!({ "DEPLOY": "deploy-value-0123" }))
        .setting("/mcp", json!({ "m": server }))
        .setting("/provider/other", other)
        .setting("/instructions", json!(["{env:NOTES}", "plain.md"]))
        .env("NOTES", "notes-value");
    site.prompt("go").ok();
    let told = &asked_for(&site.project(), "config")[0]["settings"];
    assert_eq!((&told["model"], &told["title"]), (&json!("double/m"), &json!(false)));
    assert_eq!(
        told["provider"]["other"]["options"]["headers"],
        json!({ "user-agent": "shown-value" })
    );
    assert_eq!(told["mcp"]["m"], json!({ "type": "local", "enabled": false, "environment": {} }));
    assert_eq!(told["instructions"], json!(["{env:NOTES}", "plain.md"]));
    let told = told.to_string();
    for value in [
        "mcp-plain", "flag-value", "pass-value", "sk-very", "header-value", "deploy-value",
        "notes-value", "LEFTFOLD_TEST_PLUGIN",
    ] {
        assert!(!told.contains(value), "{value}: {told}");
    }
}

#[test]
fn an_editor_is_offered_what_a_plugin_adds_and_shown_what_it_makes_of_results() {
    let handshake = json!({ "name": "d", "hooks": ["config", "tool.execute.after"] });
    let answers = json!({
        "config": {
            "agent": { "scout": { "description": "Looks.", "mode": "primary" } },
            "command": { "greet": { "template": "Say hello." } },
        },
        "tool.execute.after": { "title": "Renamed", "metadata": { "mine": { "a": 1 } } },
    });
    let site = site(&[bash("true"), says("Hello.")], &double(PLUGIN, handshake, answers));
    let mut editor = Editor::start(&site, &[]);
    let node = editor.live.id();
    let new = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
    let new = editor.result(new);
    let modes = new["modes"]["availableModes"].to_string();
    assert!(modes.contains("scout"), "{modes}");
    let session = new["sessionId"].as_str().unwrap();
    for prompt in ["/greet", "go"] {
        let prompt = editor.prompt(session, prompt);
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    let updates = editor.got.iter().map(|message| &message["params"]["update"]);
    let renamed: Vec<&Value> = updates.filter(|update| update["title"] == "Renamed").collect();
    assert_eq!(renamed.len(), 1, "{renamed:?}");
    assert_eq!(renamed[0]["rawOutput"]["mine"], json!({ "a": 1 }));
    // one process since the first request
    assert_eq!(times(&site), (1, 1));
    drop(editor);
    wait_until("the plugin has ended", || mcp::servers_of(node).is_empty());
    site.assert_sound();
}

#[test]
fn the_guard_adds_a_command_where_its_name_is_free() {
    if !plugin::has_python() {
        return;
    }
    let site = site(&[], &example("python3", "guard.py"));
    let shown = site.run(&["config", "command"]).ok().stdout;
    assert!(shown.contains("plugin guard"), "{shown}");
    let events = site.prompt("/words a.txt").ok().events();
    let prompted = all(&events, "turn.prompted")[0]["data"]["parts"][0]["text"].clone();
    assert!(prompted.as_str().unwrap().starts_with("How many words has a.txt?"), "{prompted}");
    let site = site.setting("/command", json!({ "words": { "template": "Mine." } }));
    let shown = site.run(&["config", "command"]).ok().stdout;
    assert!(!shown.contains("plugin guard"), "{shown}");
}
