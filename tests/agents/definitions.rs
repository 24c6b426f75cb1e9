//! Agents: built-in, from settings and from Markdown; and which agent takes a prompt, with which
//! rules and model.

use common::{
    Answer, Block, Editor, Server, Site, Split, all, bash, end, message, only, says, script,
};
use serde_json::{Value, json};

fn agents(site: &Site) -> Vec<Value> {
    let listed = site.run(&["agents", "--format", "json"]).ok();
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn named<'a>(agents: &'a [Value], name: &str) -> &'a Value {
    agents.iter().find(|agent| agent["name"] == name).unwrap()
}

fn place(site: &Site, name: &str, text: &str) {
    let path = site.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The action of the rules for an agent's permission.
fn action(site: &Site, agent: &str, permission: &str, pattern: &str) -> String {
    let ran = site.run(&["permission", "check", "--agent", agent, permission, pattern]).ok();
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    said["action"].as_str().unwrap().to_owned()
}

#[test]
fn agents_are_found_everywhere_and_the_nearer_wins() {
    let site = Site::bare().setting("agent", json!({ "inline": { "mode": "primary" } }));
    let agent = |about: &str| format!("---\ndescription: {about}\n---\n{about} prompt\n");
    for (path, about) in [
        ("config/opencode/agent/a.md", "global"),
        ("config/leftfold/agents/b.md", "global"),
        ("project/.git/HEAD", "none"),
        ("project/.opencode/agent/c.md", "code"),
        ("project/agents/notes.md", "other"),
        ("project/sub/agents/x.md", "other\nmode: all"),
        ("project/agents/c.md", "root\nmode: all"),
        ("project/agents/r.md", "root\nmode: all"),
        ("project/agents/README.md", ": [broken"),
        ("project/.opencode/agents/deep/d.md", "code"),
        ("project/.opencode/agents/e.md", "code"),
        ("project/.leftfold/agents/e.md", "own"),
        ("project/.leftfold/agents/f.md", "own"),
        ("project/sub/.opencode/agents/f.md", "near"),
        ("project/sub/.leftfold/agent/a.md", "near"),
    ] {
        place(&site, path, &agent(about));
    }
    place(
        &site,
        "project/leftfold.json",
        r#"{"agent": {"f": {"steps": 3, "description": "json"}}}"#,
    );
    site.trust(&site.path("project/sub"));
    let mut command = site.command(&["agents", "--format", "json"]);
    let output = command.current_dir(site.path("project/sub")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (name, about, file) in [
        ("a", "near", "project/sub/.leftfold/agent/a.md"),
        ("b", "global", "config/leftfold/agents/b.md"),
        ("c", "code", "project/.opencode/agent/c.md"),
        ("r", "root", "project/agents/r.md"),
        ("deep/d", "code", "project/.opencode/agents/deep/d.md"),
        ("e", "own", "project/.leftfold/agents/e.md"),
        ("f", "near", "project/sub/.opencode/agents/f.md"),
    ] {
        let agent = named(&found, name);
        let file = site.path(file).display().to_string();
        assert_eq!(
            (&agent["description"], &agent["mode"]),
            (&json!(about), &json!("all")),
            "{name}"
        );
        assert_eq!(agent["source"]["file"], json!(file), "{name}");
    }
    // fields that the nearer file leaves out keep their values
    assert_eq!(named(&found, "f")["steps"], 3);
    assert_eq!(named(&found, "inline")["source"]["file"], "LEFTFOLD_CONFIG_CONTENT");
    let build = named(&found, "build");
    assert_eq!((&build["native"], &build["source"]), (&json!(true), &Value::Null));
    let other = ["notes", "x", "README"];
    assert!(found.iter().all(|agent| !other.contains(&agent["name"].as_str().unwrap())));
    let hidden = found.iter().filter(|agent| agent["hidden"] == true).count();
    assert_eq!(hidden, 3);
}

#[test]
fn what_is_broken_names_file_and_line() {
    for (text, said) in [
        (
            "---\nmode: boss\n---\n",
            ":2:1: `agent.x.mode`: expected \"primary\", \"subagent\" or \"all\"",
        ),
        ("---\ndescription: a\n", ":1:1: the front matter cannot be read"),
        ("---\nmode: all\nsteps: [\n---\n", ":3:1: the front matter"),
        (
            "---\npermission:\n  bash:\n    ls: allow\n    rm: maybe\n---\n",
            ":5:1: `agent.x.permission.bash.rm`",
        ),
        ("---\nmodel: small\n---\n", ":2:1: `agent.x.model`: expected \"PROVIDER/MODEL\""),
        ("---\ntemperature: hot\n---\n", ":2:1: `agent.x.temperature`: expected a number"),
        ("---\npermision:\n  bash: deny\n---\n", "did you mean `permission`"),
    ] {
        let site = Site::bare();
        let file = site.file(".leftfold/agents/x.md", text);
        let ran = site.run(&["agents"]);
        assert_eq!(ran.code, 2, "{text}: {ran:?}");
        assert!(ran.stderr.contains(&format!("{}:", file.display())), "{ran:?}");
        assert!(ran.stderr.contains(said), "{text}: {ran:?}");
    }
}

#[test]
fn an_agents_rules_come_last() {
    let site = Site::bare().setting("permission", json!({ "edit": "ask" }));
    let text = "---\ntools:\n  webfetch: false\npermission:\n  bash:\n    \"*\": deny\n    git log *: allow\n---\n";
    site.file(".leftfold/agents/mine.md", text);
    for (agent, permission, pattern, expected) in [
        ("mine", "bash", "git log x", "allow"),
        ("mine", "bash", "git push", "deny"),
        ("mine", "webfetch", "http://x/", "deny"),
        ("mine", "edit", "a", "ask"),
        ("mine", "question", "*", "deny"),
        ("build", "question", "*", "allow"),
        ("build", "bash", "git push", "allow"),
        // the user's rules follow an agent's built-in ones, but do not let a reading agent write
        ("plan", "edit", "a", "deny"),
        ("plan", "edit", ".leftfold/plans/a.md", "ask"),
        ("explore", "edit", "a", "deny"),
        ("explore", "bash", "rm x", "deny"),
        ("title", "read", "x", "deny"),
    ] {
        assert_eq!(action(&site, agent, permission, pattern), expected, "{agent} {permission}");
    }
    let ran = site.run(&["permission", "check", "--agent", "mien", "bash", "x"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("did you mean `mine`"), "{ran:?}");
}

#[test]
fn an_agent_takes_the_prompt_and_keeps_the_session() {
    let write = common::call("write", json!({ "filePath": "a", "content": "x" }));
    let site =
        Site::scripted(&script(json!([write, says("Planned."), says("On."), says("Built.")])));
    let run =
        |args: &[&str]| site.run(&[&["run", "--format", "json"], args].concat()).ok().events();
    let events = run(&["--agent", "plan", "go"]);
    assert_eq!(only(&events, "session.created")["data"]["agent"], "plan");
    assert_eq!(only(&events, "turn.prompted")["data"]["agent"], "plan");
    assert_eq!(only(&events, "turn.configured")["data"]["prompt"], "agent:plan");
    assert_eq!(end(&events)["permission_denials"][0]["permission"], "edit");
    assert_eq!(end(&events)["permission_denials"][0]["class"], "rule");
    assert_eq!(site.text("a"), "");
    assert_eq!(only(&run(&["-c", "on"]), "turn.prompted")["data"]["agent"], "plan");
    let switched = run(&["-c", "--agent", "build", "on"]);
    assert_eq!(only(&switched, "turn.prompted")["data"]["agent"], "build");
    site.assert_sound();
}

#[test]
fn steps_model_and_options_are_the_agents() {
    let answer = || Answer::Stream(message(&[Block::Text("Fine.")]), Split::Whole);
    let server = Server::start(vec![answer(), answer(), answer()]);
    let site = Site::served(&server)
        .setting("provider/local/models/other", json!({
            "options": { "metadata": { "user_id": "u" }, "top_k": 5 },
            "variants": { "high": { "top_k": 7 } },
            "limit": { "context": 9000, "output": 1000 }, "temperature": true,
        }))
        .setting("provider/local/models/m/temperature", true.into())
        .setting("agent", json!({ "mine": {
            "prompt": "You are mine.", "model": "local/other", "variant": "high", "temperature": 0.25,
            "metadata": { "user_id": "me" }, "top_p": 0.5, "top_k": 6,
        } }));
    for args in
        [&["run", "--agent", "mine", "a"][..], &["run", "--agent", "mine", "-m", "local/m", "b"]]
    {
        site.run(args).ok();
    }
    let requests = server.requests();
    let (own, given) = (&requests[0].body, &requests[1].body);
    assert_eq!((&own["model"], &given["model"]), (&json!("other"), &json!("m")));
    assert!(own["system"][0]["text"].as_str().unwrap().starts_with("You are mine."), "{own}");
    assert_eq!((&own["top_k"], &own["metadata"]), (&json!(7), &json!({ "user_id": "me" })));
    for body in [own, given] {
        assert_eq!((&body["temperature"], &body["top_p"]), (&json!(0.25), &json!(0.5)), "{body}");
    }

    let turns = json!([bash("true"), bash("echo 1"), says("Never.")]);
    let site = Site::scripted(&script(&turns)).setting("agent", json!({ "build": { "steps": 1 } }));
    let ran = site.prompt("go");
    assert_eq!((ran.code, end(&ran.events())["reason"].as_str()), (4, Some("max_steps")));
    let ran = site.run(&["run", "--format", "json", "--max-steps", "9", "go"]).ok();
    assert_eq!(all(&ran.events(), "model.requested").len(), 3);
}

#[test]
fn wrong_agents_are_named() {
    let site = Site::scripted(&script(json!([says("Fine.")]))).setting(
        "agent",
        json!({ "lost": { "model": "double/none" }, "plan": { "disable": true } }),
    );
    let file =
        site.file(".leftfold/agents/gone.md", "---\ndescription: d\nmodel: double/nine\n---\n");
    let gone = format!("{}:3:1: agent `gone`: model `double/nine`", file.display());
    for (args, said) in [
        (
            &["run", "--agent", "biuld", "go"][..],
            "there is no agent `biuld`; did you mean `build`?",
        ),
        (&["run", "--agent", "plan", "go"], "there is no agent `plan`"),
        (&["run", "--agent", "explore", "go"], "choose one of `build`, "),
        (&["run", "--agent", "gone", "go"], &gone),
        (&["run", "--agent", "lost", "go"], "agent `lost`: model `double/none`"),
    ] {
        let ran = site.run(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(said), "{said}: {ran:?}");
    }
    assert_eq!(site.sessions().len(), 0);
    for (name, said) in [("explore", "is a subagent"), ("none", "does not exist")] {
        let site = Site::scripted(&script(json!([]))).setting("default_agent", json!(name));
        let ran = site.prompt("go");
        assert_eq!(ran.code, 2);
        assert!(
            ran.stderr
                .contains(&format!("the agent `{name}` {said}: choose one of `build`, `plan`")),
            "{ran:?}"
        );
    }
}

#[test]
fn the_default_agent_of_the_settings_takes_prompts_everywhere() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])))
        .setting("default_agent", json!("plan"));
    assert_eq!(only(&site.prompt("go").ok().events(), "turn.prompted")["data"]["agent"], "plan");
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = site.run(&["export", &session]).ok().events();
    assert_eq!(only(&events, "turn.prompted")["data"]["agent"], "plan");
}

#[test]
fn a_conversation_changes_its_agent() {
    let site = Site::scripted(&script(json!([says("Planned."), says("Still.")])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("/agent nobody\r").until("there is no agent `nobody`");
    terminal.until_prompt().press("/agent plan\r").until("agent: plan");
    terminal.until_prompt().press("go\r").until("Planned.");
    terminal.until_prompt().press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(only(&site.exported(), "turn.prompted")["data"]["agent"], "plan");
    // the choice is in the log, and so it is everybody's
    let configured = only(&site.exported(), "session.configured")["data"].clone();
    assert_eq!(
        (&configured["choices"]["agent"], &configured["by"]),
        (&json!("plan"), &json!("terminal"))
    );
    let mut terminal = site.terminal(&["--continue"], 80);
    terminal.until_prompt().press("/agent build\r").until("agent: build").until_prompt();
    terminal.press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    site.run(&["run", "--continue", "on"]).ok();
    let events = site.exported();
    let agents =
        |kind| all(&events, kind).into_iter().map(|e| e["data"].clone()).collect::<Vec<_>>();
    assert_eq!(agents("session.configured")[1]["choices"]["agent"], "build");
    assert_eq!(agents("turn.prompted")[1]["agent"], "build");
    site.assert_sound();
}

#[test]
fn the_plans_of_the_project_can_be_written_by_the_planner() {
    let write = |path: &str| common::call("write", json!({ "filePath": path, "content": "x" }));
    let site = Site::scripted(&script(json!([
        write(".leftfold/plans/a.md"),
        write("src/a.md"),
        says("Done.")
    ])));
    let ran = site.run(&["run", "--agent", "plan", "--format", "json", "go"]).ok();
    assert_eq!(all(&ran.events(), "permission.ruled").len(), 2);
    assert_eq!(
        (site.text(".leftfold/plans/a.md").as_str(), site.text("src/a.md").as_str()),
        ("x", "")
    );
    assert_eq!(agents(&site).len(), 7);
}
