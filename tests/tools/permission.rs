//! Without anybody to ask, `ask` becomes deny: the model is told, the turn continues, and its end
//! lists the denials.

use common::{
    Answer, Block, Server, Site, Split, all, bash, call, end, message, only, says, script,
};
use serde_json::{Value, json};

/// A turn of one call, and its events.
fn turn(site: &Site, args: &[&str]) -> Vec<Value> {
    let events = site.run(&[&["run", "--format", "json", "go"], args].concat()).ok().events();
    assert_eq!(end(&events)["reason"], "completed");
    site.assert_sound();
    events
}

fn reading(path: &str) -> Site {
    let site = Site::scripted(&script(json!([
        call("read", json!({ "filePath": path })),
        says("So be it.")
    ])));
    site.file(".env", "PASSWORD=very-secret\n");
    site.file(".env.example", "PASSWORD=example\n");
    std::fs::write(site.path("outside.txt"), "very-secret\n").unwrap();
    site
}

fn ruled(events: &[Value]) -> &str {
    only(events, "permission.ruled")["data"]["action"].as_str().unwrap()
}

#[test]
fn what_would_be_asked_is_denied_and_listed() {
    for (path, permission) in [(".env", "read"), ("../outside.txt", "external_directory")] {
        let site = reading(path);
        let events = turn(&site, &[]);
        assert_eq!(ruled(&events), "deny");
        assert!(all(&events, "permission.asked").is_empty());
        assert!(all(&events, "tool.started").is_empty());
        let denials = end(&events)["permission_denials"].as_array().unwrap();
        assert_eq!(denials.len(), 1);
        assert_eq!(
            (&denials[0]["tool"], &denials[0]["permission"]),
            (&json!("read"), &json!(permission))
        );
        assert_eq!(denials[0]["class"], "no_terminal");
        assert!(!site.run(&["export", "last"]).ok().stdout.contains("very-secret"));
    }
}

#[test]
fn an_example_of_an_env_file_is_no_secret() {
    let events = turn(&reading(".env.example"), &[]);
    assert_eq!(ruled(&events), "allow");
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn yes_allows_what_would_be_asked() {
    for path in [".env", "../outside.txt"] {
        let events = turn(&reading(path), &["--yes"]);
        let output = &only(&events, "tool.finished")["data"]["output"];
        assert!(output.as_str().unwrap().contains("very-secret"), "{output}");
    }
}

#[test]
fn a_link_that_leads_outside_is_judged_by_where_it_leads() {
    let site = reading("link");
    std::os::unix::fs::symlink(site.path("outside.txt"), site.project().join("link")).unwrap();
    let events = turn(&site, &[]);
    assert_eq!(end(&events)["permission_denials"][0]["permission"], "external_directory");
}

#[test]
fn the_model_is_told_in_the_result_of_the_call() {
    let input = json!({ "filePath": ".env" }).to_string();
    let server = Server::start(vec![
        Answer::Stream(message(&[Block::Call("toolu_1", "read", input)]), Split::Whole),
        Answer::Stream(message(&[Block::Text("So be it.")]), Split::Whole),
    ]);
    let site = Site::served(&server);
    site.file(".env", "PASSWORD=very-secret\n");
    turn(&site, &[]);
    let result = server.requests()[1].body["messages"][2]["content"][0].clone();
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("toolu_1"), &json!(true)));
    assert!(result.to_string().contains("Permission denied"), "{result}");
}

#[test]
fn rules_of_the_settings_decide_and_the_last_match_wins() {
    for (rules, command, action) in [
        (json!({ "bash": "deny" }), "echo ran >> ran", "deny"),
        (json!({ "bash": { "*": "deny", "echo *": "allow" } }), "echo ran >> ran", "allow"),
        (json!({ "bash": { "echo *": "allow", "*": "deny" } }), "echo ran >> ran", "deny"),
        (json!({ "bash": { "git *": "deny" } }), "echo ran >> ran", "allow"),
        (json!({ "bash": "ask" }), "echo ran >> ran", "deny"),
        (json!({ "*": "deny", "bash": "allow" }), "echo ran >> ran", "allow"),
    ] {
        let site = Site::scripted(&script(json!([bash(command), says("So be it.")])))
            .setting("permission", rules.clone());
        let events = turn(&site, &[]);
        assert_eq!(ruled(&events), action, "{rules}");
        assert_eq!(site.text("ran") == "ran\n", action == "allow", "{rules}");
        assert_eq!(all(&events, "tool.started").len(), usize::from(action == "allow"));
    }
}

/// Each command of a line is judged; a wrapper, quotes or a substitution hide none.
#[test]
fn no_command_of_a_line_escapes_its_rule() {
    let rules = json!({ "bash": { "*": "allow", "touch *": "deny" } });
    let narrow = json!({ "bash": { "*": "deny", "echo *": "allow" } });
    for (rules, command, action) in [
        (&rules, "echo x && touch ran", "deny"),
        (&rules, "echo $(touch ran)", "deny"),
        (&rules, "env A=1 touch ran", "deny"),
        (&rules, "bash -c 'nice \"touch\" ran'", "deny"),
        (&rules, "t\\ouch ran", "deny"),
        (&rules, "A=1 /usr/bin/touch ran", "deny"),
        (&rules, "find . -maxdepth 0 -exec touch ran \\;", "deny"),
        (&rules, "echo touch >> ran", "allow"),
        (&narrow, "$(echo echo) x >> ran", "deny"),
        (&narrow, "X=echo; $X x >> ran", "deny"),
        (&narrow, "LANG=C 'echo' x >> ran", "allow"),
        (&narrow, "A=1 echo x >> ran", "deny"),
        (&narrow, "if echo x; then echo y; fi >> ran", "allow"),
        (&narrow, "echo x >> ../ran", "deny"),
    ] {
        let site = Site::scripted(&script(json!([bash(command), says("So be it.")])))
            .setting("permission", rules.clone());
        let events = turn(&site, &[]);
        assert_eq!(ruled(&events), action, "{command}");
        assert_eq!(site.project().join("ran").exists(), action == "allow", "{command}");
    }
}

#[test]
fn check_tells_what_the_rules_say() {
    let rules = json!([
        { "permission": "bash", "pattern": "*", "action": "ask" },
        { "permission": "bash", "pattern": "git *", "action": "allow" },
        { "permission": "bash", "pattern": "git push *", "action": "deny" },
        { "permission": "edit", "pattern": "src/*", "action": "allow" },
        { "permission": "m?p_*", "pattern": "[a]\\*", "action": "allow" },
    ]);
    let site = Site::scripted(&script(json!([])));
    for (permission, pattern, action, rule) in [
        ("bash", "ls", "ask", Some(0)),
        ("bash", "git", "allow", Some(1)),
        ("bash", "git log\n-1", "ask", Some(0)),
        ("bash", "gitk", "ask", Some(0)),
        ("bash", "git push", "deny", Some(2)),
        ("bash", "git push -f", "deny", Some(2)),
        ("bash", "Git log", "ask", Some(0)),
        ("bash", "<dynamic>", "ask", Some(0)),
        ("edit", "src/a/b.rs", "allow", Some(3)),
        ("edit", "lib/a.rs", "ask", None),
        ("edits", "src/a", "ask", None),
        ("mcp_x", "[a]\\x", "allow", Some(4)),
        ("mcp_x", "a\\x", "ask", None),
        ("mp_x", "[a]\\x", "ask", None),
        ("read", "x", "ask", None),
        ("", "", "ask", None),
    ] {
        let given = rules.to_string();
        let said = site.run(&["permission", "check", "--rules", &given, permission, pattern]).ok();
        let said: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(said["action"], action, "{permission} {pattern:?}");
        assert_eq!(said["rule"], rule.map_or(Value::Null, |at: usize| rules[at].clone()));
    }
}

#[test]
fn check_knows_the_defaults_and_the_settings() {
    let site = Site::scripted(&script(json!([]))).setting(
        "permission",
        json!({ "bash": { "*": "ask", "ls *": "allow" }, "webfetch": "deny" }),
    );
    for (permission, pattern, action) in [
        ("read", "src/x", "allow"),
        ("read", ".env", "ask"),
        ("read", "a/.env.example", "allow"),
        ("external_directory", "/etc/*", "ask"),
        ("doom_loop", "x", "ask"),
        ("question", "*", "deny"),
        ("plan_enter", "*", "deny"),
        ("plan_exit", "*", "deny"),
        ("edit", "src/x", "allow"),
        ("edit", ".env", "allow"),
        ("glob", "**", "allow"),
        ("grep", "password", "allow"),
        ("task", "general", "allow"),
        ("skill", "any", "allow"),
        ("todowrite", "*", "allow"),
        ("todoread", "*", "allow"),
        ("files_read", "*", "allow"),
        ("bash", "rm x", "ask"),
        ("bash", "ls", "allow"),
        ("webfetch", "http://x/", "deny"),
    ] {
        let said = site.run(&["permission", "check", permission, pattern]).ok();
        let said: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(said["action"], action, "{permission} {pattern}");
    }
}

#[test]
fn yes_does_not_turn_a_no_into_a_yes() {
    let site = Site::scripted(&script(json!([bash("echo ran >> ran"), says("So be it.")])))
        .setting("permission", json!({ "bash": { "echo *": "deny" } }));
    let events = turn(&site, &["--yes"]);
    assert_eq!(ruled(&events), "deny");
    assert_eq!(site.text("ran"), "");
}

#[test]
fn a_tool_that_is_denied_altogether_is_not_offered() {
    let server =
        Server::start(vec![Answer::Stream(message(&[Block::Text("Fine.")]), Split::Whole)]);
    let site = Site::served(&server).setting("permission", json!({ "edit": "deny" }));
    turn(&site, &[]);
    let tools = server.requests()[0].body["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"read") && names.contains(&"bash"), "{names:?}");
    assert!(!names.contains(&"edit") && !names.contains(&"write"), "{names:?}");
}

#[test]
fn the_files_of_the_project_set_rules_too_and_those_nearer_come_later() {
    let site = Site::scripted(&script(json!([bash("echo ran >> ran"), says("So be it.")])));
    std::fs::create_dir_all(site.path("config/leftfold")).unwrap();
    let global = r#"{ "permission": { "bash": "deny" } } // for all projects"#;
    std::fs::write(site.path("config/leftfold/leftfold.json"), global).unwrap();
    assert_eq!(ruled(&turn(&site, &[])), "deny");
    // the user's own deny stands, whatever a project says, trusted or not
    site.file("leftfold.json", r#"{ "permission": { "bash": { "echo *": "allow" } } }"#);
    assert_eq!(ruled(&turn(&site, &[])), "deny");
    std::fs::write(site.path("config/leftfold/leftfold.json"), global.replace("deny", "ask"))
        .unwrap();
    assert_eq!(ruled(&turn(&site, &[])), "allow");
    site.file_of_stranger("leftfold.json", r#"{ "permission": { "bash": { "e* *": "allow" } } }"#);
    // nobody is there to be asked
    assert_eq!(ruled(&turn(&site, &[])), "deny");
}
