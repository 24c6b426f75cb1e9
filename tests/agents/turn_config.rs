//! Golden turn configurations: system prompt, tools, rules, model and options as the log has them,
//! for every way in which a session gets its configuration.
//!
//! `LEFTFOLD_GOLDEN=write cargo test --test agents turn_config` rewrites the golden file. Use it
//! only for an intended change of configurations, and read the difference before you commit it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "a situation hands over the settings it has just made"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::plugin::{self, double};
use common::{ASK, Editor, Live, Site, all, bash, call, exists, mcp, says, script};
use leftfold_events::Sha256;
use rustix::process::Signal;
use serde_json::{Map, Value, json};

const GOLDEN: &str = "tests/golden/turn_config.json";
const FIELDS: [&str; 5] = ["system", "tools", "rules", "model", "options"];

const PLUGIN: &str = "turn_config::a_plugin";
const SERVER: &str = "turn_config::a_server";

#[test]
fn a_plugin() {
    plugin::serve_if_asked();
}

#[test]
fn a_server() {
    mcp::serve_if_asked();
}

/// A site whose model gives these replies, with these settings in addition to the model's.
fn site(replies: &[Value], settings: Value) -> Site {
    let replies = [replies, &[says("Done."), says("Done."), says("Done.")]].concat();
    // the options of a sandbox depend on the machine
    let mut site = Site::scripted(&script(json!(replies))).unsandboxed().setting(
        "/provider/double/models/n",
        json!({
            "limit": { "context": 50_000, "output": 4_000 },
            "cost": { "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75 },
            "options": { "topK": 5, "thinking": { "budget": 1 } },
            "variants": { "low": { "thinking": { "budget": 2 } }, "high": { "effort": "high" } },
        }),
    );
    for (key, value) in settings.as_object().unwrap() {
        site = site.setting(&format!("/{key}"), value.clone());
    }
    site
}

fn in_git(site: Site) -> Site {
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    site
}

fn run(site: &Site, args: &[&str]) {
    site.run(&[&["run", "--format", "json"], args].concat());
}

fn task(agent: &str) -> Value {
    call("task", json!({ "description": "d", "prompt": "p", "subagentType": agent }))
}

fn answer(site: &Site, live: &mut Live, words: &[&str]) {
    let seq = live.until("permission.asked")["seq"].to_string();
    site.run(&[&["permission", "answer", "last", &seq][..], words].concat()).ok();
}

/// A turn that is killed while its first command runs.
fn killed(site: &Site, args: &[&str]) {
    let mut live = site.start(&[&["run", "--format", "json"], args, &["go"]].concat());
    live.until("tool.started");
    live.signal(Signal::KILL);
    live.wait();
}

fn sleeps() -> Value {
    bash("sleep 1000")
}

/// One prompt, with these arguments.
fn prompt(settings: Value, files: &[(&str, &str)], args: &[&str]) -> Site {
    let site = site(&[], settings);
    for (name, text) in files {
        site.file(name, text);
    }
    run(&site, &[args, &["go"]].concat());
    site
}

/// One prompt whose model calls this agent.
fn child(settings: Value, agent: &str, args: &[&str]) -> Site {
    let site = site(&[task(agent)], settings);
    run(&site, &[args, &["go"]].concat());
    site
}

/// One prompt through an editor, after the requests that `choose` makes in the session.
fn edited(settings: Value, servers: Value, choose: &[(&str, Value)]) -> Site {
    let site = in_git(site(&[], settings));
    let mut editor = Editor::start(&site, &[]);
    let new = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": servers }));
    let session = editor.result(new)["sessionId"].as_str().unwrap().to_owned();
    for (method, params) in choose {
        let mut params = params.clone();
        params["sessionId"] = json!(session);
        let asked = editor.ask(method, params);
        editor.result(asked);
    }
    let prompt = editor.prompt(&session, "go");
    editor.stop_reason(prompt);
    editor.leave();
    site
}

fn option(id: &str, value: &str) -> (&'static str, Value) {
    ("session/set_config_option", json!({ "configId": id, "value": value }))
}

/// A provider of a known kind with an unreachable endpoint: the request fails, but its
/// configuration is logged.
fn wired(wire: &str, model: &str, args: &[&str]) -> Site {
    let provider = json!({ "p": { "wire": wire, "models": { model: {} },
        "options": { "baseURL": "http://127.0.0.1:1/v1", "apiKey": "sk-test-0123456789" } } });
    let site = Site::bare()
        .unsandboxed()
        .setting("/provider", provider)
        .setting("/model", json!(format!("p/{model}")))
        .setting("/retry", json!({ "attempts": 0 }))
        .setting("/snapshot", json!(false));
    run(&site, &[args, &["go"]].concat());
    site
}

const AGENT: &str = "---\ndescription: Reviews.\nmode: all\nmodel: double/n\nvariant: low\nsteps: 4\ntemperature: 0.2\ntop_p: 0.9\npermission:\n  edit: deny\n  bash:\n    \"git *\": allow\n    \"*\": ask\nverbosity: short\n---\nYou review.\n";

fn situations() -> Vec<(&'static str, Site)> {
    let none = || json!({});
    [
        built_in(none),
        custom(none),
        subagents(none),
        limits_and_options(none),
        sources(none),
        ways(none),
        editors(none),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn built_in(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let planner = |settings: Value| in_git(site(&[], settings));
    let plan = planner(none());
    run(&plan, &["--agent", "plan", "go"]);
    let loosened = planner(json!({ "permission": { "edit": "allow", "bash": "ask" } }));
    run(&loosened, &["--agent", "plan", "go"]);
    let own = planner(
        json!({ "agent": { "plan": { "permission": { "edit": { "docs/*": "allow" } } } } }),
    );
    run(&own, &["--agent", "plan", "go"]);
    let build = planner(none());
    run(&build, &["go"]);
    vec![
        ("build", prompt(none(), &[], &[])),
        ("build in a repository", build),
        (
            "build with a title and snapshots",
            prompt(json!({ "title": true, "snapshot": true }), &[], &[]),
        ),
        ("plan in a repository", plan),
        ("plan without a repository", prompt(none(), &[], &["--agent", "plan"])),
        ("plan under rules for all", loosened),
        ("plan with rules of its own", own),
        ("plan is disabled", prompt(json!({ "agent": { "plan": { "disable": true } } }), &[], &[])),
        (
            "build is disabled",
            prompt(json!({ "agent": { "build": { "disable": true } } }), &[], &[]),
        ),
        ("claude", wired("anthropic", "claude-opus-5", &[])),
        ("claude, variant high", wired("anthropic", "claude-opus-5", &["--variant", "high"])),
        ("gpt-5", wired("openai-responses", "gpt-5.1", &[])),
        ("gpt-4", wired("openai-chat", "gpt-4.1", &[])),
        ("o3, variant low", wired("openai-responses", "o3", &["--variant", "low"])),
        ("gemini", wired("gemini", "gemini-3-pro", &[])),
        ("a model of no known family", wired("openai-chat", "some-model", &[])),
    ]
}

fn custom(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let scout = json!({ "agent": { "scout": { "description": "Looks.", "prompt": "You look.", "mode": "primary",
        "model": "double/n", "variant": "high", "temperature": 0.3, "steps": 7, "color": "#ff0000",
        "options": { "a": { "b": 1 } }, "topK": 9, "permission": { "edit": "deny", "bash": { "ls *": "allow" } } } } });
    vec![
        ("agent from settings", prompt(scout.clone(), &[], &["--agent", "scout"])),
        (
            "agent from settings with another model",
            prompt(scout.clone(), &[], &["--agent", "scout", "--model", "double/m"]),
        ),
        (
            "agent from settings with another variant",
            prompt(scout, &[], &["--agent", "scout", "--variant", "low"]),
        ),
        (
            "agent from Markdown",
            prompt(none(), &[(".leftfold/agents/review.md", AGENT)], &["--agent", "review"]),
        ),
        (
            "agent from OpenCode's folder",
            prompt(
                none(),
                &[(
                    ".opencode/agent/review.md",
                    "---\ndescription: Old.\ntools:\n  write: false\n  bash: false\n---\nYou are old.\n",
                )],
                &["--agent", "review"],
            ),
        ),
        ("default agent", prompt(json!({ "default_agent": "plan" }), &[], &[])),
        (
            "built-in agent changed",
            prompt(
                json!({ "agent": { "build": { "prompt": "You build.", "steps": 3, "top_p": 0.5,
            "model": "double/n" } } }),
                &[],
                &[],
            ),
        ),
        (
            "agent's tools are hidden",
            prompt(
                json!({ "agent": { "build": { "permission": { "bash": "deny", "webfetch": "deny",
            "edit": "deny" } } } }),
                &[],
                &[],
            ),
        ),
        (
            "older modes and tools",
            prompt(
                json!({ "mode": { "build": { "tools": { "bash": false } } },
            "tools": { "webfetch": false } }),
                &[],
                &[],
            ),
        ),
    ]
}

fn subagents(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let digger = |more: Value| {
        let mut digger =
            json!({ "description": "Digs.", "prompt": "You dig.", "mode": "subagent" });
        digger.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "agent": { "digger": digger } })
    };
    let nested = site(
        &[task("digger"), task("explore")],
        digger(json!({ "permission": { "task": { "*": "deny", "explore": "allow" } } })),
    );
    run(&nested, &["go"]);
    let planned = in_git(site(&[task("explore")], none()));
    run(&planned, &["--agent", "plan", "go"]);
    let again = site(&[task("general")], none());
    run(&again, &["go"]);
    run(&again, &["--continue", "more"]);
    vec![
        ("general", child(none(), "general", &[])),
        ("explore", child(none(), "explore", &[])),
        ("explore of plan", planned),
        ("child of a custom kind", child(digger(json!({})), "digger", &[])),
        (
            "child with a model and a variant",
            child(
                digger(json!({ "model": "double/n", "variant": "low", "steps": 2 })),
                "digger",
                &[],
            ),
        ),
        (
            "child with its own to-do list",
            child(
                digger(json!({ "permission": { "todowrite": "allow", "todoread": "allow" } })),
                "digger",
                &[],
            ),
        ),
        (
            "child of a parent with limits",
            child(
                none(),
                "general",
                &[
                    "--max-cost", "5", "--max-steps", "9", "--timeout", "5m", "--system",
                    "Be kind.", "--yes",
                ],
            ),
        ),
        (
            "child of a parent with another model",
            child(none(), "general", &["--model", "double/n", "--variant", "high"]),
        ),
        (
            "child under rules",
            child(
                json!({ "permission": { "edit": "allow", "bash": { "rm *": "deny" } } }),
                "explore",
                &[],
            ),
        ),
        ("child of a child", nested),
        ("a second prompt after a child", again),
    ]
}

fn limits_and_options(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let kept = site(&[sleeps()], none());
    killed(
        &kept,
        &[
            "--max-steps", "5", "--max-cost", "2", "--timeout", "9m", "--system", "Be brief.",
            "--model", "double/n", "--variant", "low",
        ],
    );
    kept.run(&["resume", "last", "--format", "json"]);
    let over = site(&[sleeps()], none());
    killed(&over, &["--max-steps", "5", "--model", "double/n", "--variant", "low", "--yes"]);
    over.run(&[
        "resume", "last", "--format", "json", "--max-steps", "8", "--variant", "high",
        "--permission-mode", "deny",
    ]);
    let other = site(&[sleeps()], none());
    killed(&other, &["--agent", "plan", "--max-steps", "5", "--yes"]);
    run(&other, &["--continue", "more"]);
    vec![
        (
            "limits",
            prompt(
                none(),
                &[],
                &[
                    "--max-steps", "5", "--max-cost", "0.5", "--timeout", "90s", "--system",
                    "Be brief.",
                ],
            ),
        ),
        ("variant", prompt(none(), &[], &["--model", "double/n", "--variant", "high"])),
        ("yes", prompt(none(), &[], &["--yes"])),
        ("permission mode ask", prompt(none(), &[], &["--permission-mode", "ask"])),
        (
            "tool output, compaction, retry",
            prompt(
                json!({ "tool_output": { "max_lines": 7, "max_bytes": 900 },
            "compaction": { "auto": false, "prune": false, "reserved": 123 }, "retry": { "attempts": 2 } }),
                &[],
                &[],
            ),
        ),
        ("small model", prompt(json!({ "title": true, "small_model": "double/n" }), &[], &[])),
        (
            "title and compaction agents",
            prompt(
                json!({ "title": true, "agent": {
            "title": { "model": "double/n", "variant": "low", "temperature": 0.1, "prompt": "Name it." },
            "compaction": { "model": "double/n", "variant": "high", "top_p": 0.4, "prompt": "Sum up." } } }),
                &[],
                &[],
            ),
        ),
        (
            "options of model and agent",
            prompt(
                json!({ "model": "double/n", "agent": { "build": { "variant": "low",
            "options": { "thinking": { "extra": true } } } } }),
                &[],
                &[],
            ),
        ),
        ("resumed with what it was given", kept),
        ("resumed with something else", over),
        ("prompted after a crash", other),
    ]
}

fn sources(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let servers = site(&[task("general")], json!({ "mcp": { "files": mcp::local(SERVER, "") } }));
    run(&servers, &["go"]);
    let added = json!({ "agent": { "scout": { "description": "Looks.", "prompt": "You look.", "mode": "primary" } },
        "permission": { "bash": { "touch *": "deny" } } });
    let tools =
        json!([{ "name": "count", "description": "Counts.", "inputSchema": { "type": "object" } }]);
    let plugin = double(
        PLUGIN,
        json!({ "name": "d", "hooks": ["config", "chat.params"], "tools": tools }),
        json!({ "config": added }),
    );
    let plugged = site(&[task("explore")], json!({ "plugin": [plugin] }));
    run(&plugged, &["--agent", "scout", "go"]);
    let nested = site(&[], none());
    for (name, text) in [
        ("AGENTS.md", "Above.\n"),
        ("sub/AGENTS.md", "Below.\n"),
        ("CLAUDE.md", "Not read.\n"),
        ("more/one.md", "One.\n"),
    ] {
        nested.file(name, text);
    }
    std::fs::create_dir_all(nested.path("config/leftfold")).unwrap();
    std::fs::write(nested.path("config/leftfold/AGENTS.md"), "For all.\n").unwrap();
    let nested = nested.setting("/instructions", json!(["more/*.md"]));
    let mut command = nested.command(&["run", "--format", "json", "go"]);
    command.current_dir(nested.path("project/sub")).output().unwrap();
    let skills = [
        (
            ".leftfold/skills/dance/SKILL.md",
            "---\nname: dance\ndescription: How to dance.\n---\nStep.\n",
        ),
        (".claude/skills/sing/SKILL.md", "---\nname: sing\ndescription: How to sing.\n---\nLa.\n"),
    ];
    let global = site(&[], none());
    std::fs::create_dir_all(global.path("config/leftfold")).unwrap();
    std::fs::write(global.path("config/leftfold/leftfold.json"), r#"{ "permission": { "bash": "deny", "edit": { "*": "ask" } }, "retry": { "attempts": 3 } }"#).unwrap();
    global.file("leftfold.json", r#"{ "permission": { "bash": { "ls *": "allow" } } }"#);
    run(&global, &["go"]);
    let greet =
        json!({ "greet": { "template": "Hello $1", "agent": "plan", "model": "double/n" } });
    let greeted = site(&[], json!({ "command": greet }));
    run(&greeted, &["/greet Ann"]);
    run(&greeted, &["--continue", "more"]);
    vec![
        ("MCP tools, for a child too", servers),
        ("a plugin's tools, hooks and settings", plugged),
        ("instructions of folders, of settings and for all", nested),
        ("skills", prompt(none(), &skills, &[])),
        (
            "settings of OpenCode",
            prompt(
                none(),
                &[
                    (
                        "opencode.json",
                        r#"{ "$schema": "https://opencode.ai/config.json",
            "instructions": ["CONTRIBUTING.md"], "permission": { "bash": { "npm *": "allow" }, "webfetch": "ask" },
            "agent": { "build": { "temperature": 0.7 } }, "small_model": "double/n" }"#,
                    ),
                    ("CONTRIBUTING.md", "Contribute.\n"),
                ],
                &[],
            ),
        ),
        ("settings of several files", global),
        ("a command with an agent and a model", greeted),
        (
            "secrets, environment, web pages",
            prompt(
                json!({ "secrets": { "TOKEN": "secret-value-12345" }, "environment": ["A"],
            "webfetch": { "private": true }, "task": { "timeout": 5000 } }),
                &[],
                &[],
            ),
        ),
    ]
}

fn ways(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let exit = |words: &[&str], settings: Value, args: &[&str]| {
        let site = in_git(site(&[call("plan_exit", json!({})), says("Built.")], settings));
        let args = [&ASK[..5], &["--agent", "plan"], args, &["go"]].concat();
        let mut live = site.start(&args);
        answer(&site, &mut live, words);
        live.wait();
        run(&site, &["--continue", "more"]);
        site
    };
    let enter = in_git(site(&[call("plan_enter", json!({})), says("I plan.")], none()));
    let mut live = enter.start(&ASK);
    answer(&enter, &mut live, &["once", "--feedback", "Yes"]);
    live.wait();
    let own = json!({ "agent": { "build": { "model": "double/n", "steps": 6 }, "plan": { "steps": 4 } } });
    let prompted = in_git(site(&[], none()));
    run(&prompted, &["go"]);
    run(&prompted, &["--continue", "--agent", "plan", "more"]);
    run(&prompted, &["--continue", "--model", "double/n", "--variant", "low", "and more"]);
    run(&prompted, &["--continue", "the last"]);
    let forked = site(&[], none());
    run(&forked, &["--model", "double/n", "--agent", "plan", "go"]);
    run(&forked, &["--continue", "--fork", "more"]);
    forked.run(&["fork", "last", "--agent", "build", "--format", "json", "and more"]);
    let always =
        site(&[bash("touch a"), says("Done.")], json!({ "permission": { "bash": "ask" } }));
    let mut live = always.start(&ASK);
    answer(&always, &mut live, &["always"]);
    live.wait();
    run(&always, &["--continue", "more"]);
    let compacted = site(&[], none());
    run(&compacted, &["go"]);
    compacted.run(&["compact", "last", "--format", "json"]);
    compacted.run(&["revert", "last", "--to", "3", "--format", "json"]);
    let shared = site(&[bash("true"), says("Done.")], json!({ "permission": { "bash": "ask" } }));
    let mut live = shared.start(&[&ASK[..5], &["--max-steps", "9", "go"]].concat());
    let asked = live.until("permission.asked")["seq"].to_string();
    let mut second = shared.start(&["run", "--continue", "--format", "json", "me too"]);
    second.until("turn.prompted");
    shared.run(&["permission", "answer", "last", &asked, "once"]).ok();
    live.wait();
    second.wait();
    let demo = Site::bare().unsandboxed();
    demo.run(&["demo", "--format", "json", "--directory", "tour"]).ok();
    vec![
        (
            "plan hands over to build",
            exit(&["once", "--feedback", "Yes"], none(), &["--max-steps", "9", "--max-cost", "3"]),
        ),
        (
            "plan hands over to a build of its own",
            exit(
                &["once", "--feedback", "Yes"],
                own,
                &["--model", "double/n", "--variant", "high"],
            ),
        ),
        ("build hands over to plan", enter),
        ("agents and models from prompt to prompt", prompted),
        ("forks", forked),
        ("an approval that was remembered", always),
        ("a summary and a revert", compacted),
        ("a prompt through the socket", shared),
        ("the demo", demo),
    ]
}

fn editors(none: fn() -> Value) -> Vec<(&'static str, Site)> {
    let server = mcp::local(SERVER, "");
    let words = server["command"].as_array().unwrap();
    let variables = server["environment"].as_object().unwrap();
    let variables: Vec<Value> =
        variables.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let server =
        json!([{ "name": "handed", "command": words[0], "args": words[1..], "env": variables }]);
    vec![
        ("an editor's prompt", edited(none(), json!([]), &[])),
        (
            "an editor's mode",
            edited(none(), json!([]), &[("session/set_mode", json!({ "modeId": "plan" }))]),
        ),
        (
            "an editor's model and variant",
            edited(
                none(),
                json!([]),
                &[option("model", "double/n"), option("thought_level", "low")],
            ),
        ),
        ("an editor's servers", edited(none(), server, &[])),
    ]
}

fn exported(site: &Site, session: &str) -> Vec<Value> {
    let exported = site.run(&["export", session]).ok();
    exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn session(line: &Value) -> Option<String> {
    Some(line["session"].as_str()?.to_owned())
}

/// The sessions in a store, in order of creation.
fn heads(store: &Path) -> Vec<String> {
    let heads = std::fs::read_dir(store.join("heads")).unwrap();
    let mut ids: Vec<String> =
        heads.map(|head| head.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// The configurations of a site's sessions, in order, with their contents.
fn configurations(site: &Site, texts: &mut BTreeMap<String, Value>) -> Value {
    let shared = site.path("home/store");
    let mut stores = site.sessions();
    stores.sort();
    let root = |store: &PathBuf| {
        // an editor's session, whose forks are in the same store
        if *store == shared { heads(store).remove(0) } else { store.to_str().unwrap().to_owned() }
    };
    let roots: Vec<(String, PathBuf)> =
        stores.into_iter().map(|store| (root(&store), store)).collect();
    let mut found = Vec::new();
    for (number, (root, store)) in roots.iter().enumerate() {
        let mut lines = exported(site, root);
        let known: Vec<String> = lines.iter().filter_map(session).collect();
        let forks = heads(store).into_iter().filter(|id| !known.contains(id));
        lines.extend(forks.flat_map(|fork| exported(site, &fork)).collect::<Vec<_>>());
        let payloads: BTreeMap<&str, &str> = lines
            .iter()
            .filter_map(|line| Some((line["payload"].as_str()?, line["text"].as_str()?)))
            .collect();
        let mut agents: BTreeMap<&str, &str> = BTreeMap::new();
        for created in all(&lines, "session.created") {
            agents.insert(
                created["session"].as_str().unwrap(),
                created["data"]["agent"].as_str().unwrap(),
            );
        }
        for line in &lines {
            let data = &line["data"];
            match line["type"].as_str() {
                Some("turn.configured") => {
                    let mut config = Map::new();
                    config.insert(
                        "session".into(),
                        json!(format!(
                            "{number} {}",
                            agents.get(line["session"].as_str().unwrap()).unwrap_or(&"fork")
                        )),
                    );
                    config.insert("prompt".into(), data["prompt"].clone());
                    for field in FIELDS {
                        let Some(hash) = data[field].as_str() else { continue };
                        let text =
                            payloads.get(hash).unwrap_or_else(|| panic!("no payload for {field}"));
                        let value = plain(text, site, line["at"].as_str().unwrap());
                        let mut value: Value = serde_json::from_str(&value).unwrap();
                        if let ("options", Some(options)) = (field, value.as_object_mut()) {
                            // its positions depend on the length of paths: `sessions::explain` checks them
                            assert!(options.remove("sources").is_some(), "{options:?}");
                        }
                        let key = Sha256::digest(value.to_string().as_bytes()).to_string()[..12]
                            .to_owned();
                        texts.insert(key.clone(), value);
                        config.insert(field.into(), json!(key));
                    }
                    found.push(Value::Object(config));
                }
                Some("turn.prompted" | "turn.switched") => {
                    found.push(json!({ "for": format!("{} as {}", line["type"].as_str().unwrap(), data["agent"].as_str().unwrap()), "model": data["model"] }));
                }
                _ => {}
            }
        }
    }
    Value::Array(found)
}

/// A text without parts that differ between runs: paths, dates and session ids.
fn plain(text: &str, site: &Site, at: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let mut text = text
        .replace(&site.path("").display().to_string(), "{site}/")
        .replace(program.to_str().unwrap(), "{test}")
        .replace(&at[..10], "{date}");
    // the name of a plan contains its session's time and a few letters of its id
    while let Some(at) = text.find(PLANS).filter(|_| text.contains(PLANS)) {
        let start = at + PLANS.len();
        let end = text[start..].find(".md").map(|end| start + end);
        let Some(end) = end.filter(|end| !text[start..*end].contains(['*', '"', ' '])) else {
            text.replace_range(at..start, "{plans}");
            continue;
        };
        text.replace_range(at..end, "{plan}");
    }
    text
}

const PLANS: &str = "plans/";

#[test]
fn configurations_are_as_recorded() {
    let mut texts = BTreeMap::new();
    let mut situations = Map::new();
    for (name, site) in self::situations() {
        let found = configurations(&site, &mut texts);
        assert!(found.as_array().unwrap().len() > 1, "{name}: nothing was configured");
        assert!(situations.insert(name.to_owned(), found).is_none(), "{name} stands twice");
    }
    let found = json!({ "situations": situations, "texts": texts });
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var("LEFTFOLD_GOLDEN").is_ok_and(|mode| mode == "write") || !exists(&golden) {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
        panic!("{GOLDEN} was written: look at the difference, and run the test again");
    }
    let recorded: Value = serde_json::from_slice(&std::fs::read(&golden).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (name, before) in recorded["situations"].as_object().unwrap() {
        differences(
            name, before, &found["situations"][name], &recorded["texts"], &found["texts"],
            &mut wrong,
        );
    }
    assert!(wrong.is_empty(), "configurations have changed:\n{}", wrong.join("\n"));
    assert_eq!(
        recorded["situations"].as_object().unwrap().len(),
        situations_in(&found),
        "situations without a record"
    );
}

fn situations_in(found: &Value) -> usize {
    found["situations"].as_object().unwrap().len()
}

/// Names each field that differs, with both contents.
fn differences(
    name: &str,
    before: &Value,
    now: &Value,
    then_texts: &Value,
    now_texts: &Value,
    wrong: &mut Vec<String>,
) {
    let empty = Vec::new();
    let (before, now) = (before.as_array().unwrap_or(&empty), now.as_array().unwrap_or(&empty));
    if before.len() != now.len() {
        wrong.push(format!(
            "{name}: {} entries were recorded, {} were found:\n  {before:?}\n  {now:?}",
            before.len(),
            now.len()
        ));
        return;
    }
    for (number, (before, now)) in before.iter().zip(now).enumerate() {
        let keys = before.as_object().unwrap().keys().chain(now.as_object().unwrap().keys());
        let mut keys: Vec<&String> = keys.collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            if before[key] != now[key] {
                let was = before[key].as_str().map_or(&before[key], |hash| &then_texts[hash]);
                let is = now[key].as_str().map_or(&now[key], |hash| &now_texts[hash]);
                wrong.push(format!("{name}, entry {number}: {key}\n  was {was}\n  is  {is}"));
            }
        }
    }
}
