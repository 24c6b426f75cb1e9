//! `leftfold config`: the settings in force and their sources.

use common::Site;
use serde_json::{Value, json};

fn config(site: &Site, args: &[&str]) -> Value {
    let ran = site.run(&[&["config", "--format", "json"], args].concat()).ok();
    assert!(ran.stderr.is_empty() && ran.stdout.ends_with("}\n"), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The only value of a key.
fn value<'a>(config: &'a Value, key: &str) -> &'a Value {
    let values = config["values"].as_array().unwrap();
    let found: Vec<&Value> = values.iter().filter(|value| value["key"] == key).collect();
    assert_eq!(found.len(), 1, "{key}: {found:?}");
    found[0]
}

fn keys(config: &Value) -> Vec<&str> {
    config["values"].as_array().unwrap().iter().map(|v| v["key"].as_str().unwrap()).collect()
}

/// Writes the global settings.
fn global(site: &Site, text: &str) {
    std::fs::create_dir_all(site.path("config/leftfold")).unwrap();
    std::fs::write(site.path("config/leftfold/leftfold.json"), text).unwrap();
}

#[test]
fn without_any_settings_the_defaults_are_in_force() {
    let site = Site::bare().env("LEFTFOLD_SANDBOX", "");
    let config = config(&site, &[]);
    assert_eq!(config["sources"], json!([]));
    for (key, expected) in [
        ("default_agent", json!("build")),
        ("title", json!(true)),
        ("snapshot", json!(true)),
        ("tool_output.max_lines", json!(2000)),
        ("tool_output.max_bytes", json!(51200)),
        ("compaction.auto", json!(true)),
        ("compaction.prune", json!(true)),
        ("compaction.reserved", json!(null)),
        ("retry.attempts", json!(10)),
        ("permission[\"*\"]", json!("allow")),
        ("permission.doom_loop", json!("ask")),
        ("permission.external_directory", json!("ask")),
        ("permission.plan_exit", json!("deny")),
        ("permission.read[\"*.env\"]", json!("ask")),
        ("permission.read[\"*.env.example\"]", json!("allow")),
    ] {
        let value = value(&config, key);
        assert_eq!((&value["value"], &value["source"]), (&expected, &json!("default")), "{key}");
    }
    assert!(config["problem"].as_str().unwrap().contains("no provider has a key"), "{config}");
    assert!(!keys(&config).contains(&"model"));
    let text = site.run(&["config"]).ok().stdout;
    for part in
        ["built-in defaults", "Leftfold reads leftfold.json", "A run cannot start: no model"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn each_value_names_the_source_that_won() {
    let site = Site::bare()
        .setting("retry", json!({ "attempts": 4 }))
        .env("LEFTFOLD_CONFIG", "more.json")
        .env("LEFTFOLD_SANDBOX", "");
    global(&site, "{\n  \"title\": false, \"snapshot\": false,\n  \"instructions\": [\"a.md\"] }");
    site.file(
        "more.json",
        "\u{feff}{ \"compaction\": { \"reserved\": 5 },\n\"retry\": { \"attempts\": 3 } }",
    );
    site.file(
        "opencode.json",
        r#"{ "username": "ann", "unheard_of": 1, "retry": {"attempts": 2} }"#,
    );
    site.file("leftfold.json", "{ \"snapshot\": true, \"instructions\": [\"b.md\", \"b.md\"],\r\n \"theme\": \"é\", \"layout\": \"x\" }");
    let config = config(&site, &[]);
    let file = |path: &str| site.path(path).display().to_string();
    let (global, near) = (file("config/leftfold/leftfold.json"), file("project/leftfold.json"));
    let (code, more) = (file("project/opencode.json"), file("project/more.json"));
    let inline = "LEFTFOLD_CONFIG_CONTENT";
    assert_eq!(
        config["sources"],
        json!([{ "file": global }, { "file": code }, { "file": near }, { "file": more }, { "env": inline }])
    );
    for (key, expected, source) in [
        ("title", json!(false), json!({ "file": global, "line": 2, "column": 12 })),
        ("snapshot", json!(true), json!({ "file": near, "line": 1, "column": 15 })),
        ("instructions[0]", json!("a.md"), json!({ "file": global, "line": 3, "column": 20 })),
        ("instructions[1]", json!("b.md"), json!({ "file": near, "line": 1, "column": 38 })),
        ("username", json!("ann"), json!({ "file": code, "line": 1, "column": 15 })),
        ("theme", json!("é"), json!({ "file": near, "line": 2, "column": 11 })),
        ("layout", json!("x"), json!({ "file": near, "line": 2, "column": 26 })),
        ("compaction.reserved", json!(5), json!({ "file": more, "line": 1, "column": 31 })),
        ("compaction.auto", json!(true), json!("default")),
        ("retry.attempts", json!(4), json!({ "env": inline, "line": 1, "column": 22 })),
    ] {
        let value = value(&config, key);
        assert_eq!((&value["value"], &value["source"]), (&expected, &source), "{key}");
    }
    // each entry of a list once, and no keys without a meaning
    assert!(!keys(&config).contains(&"instructions[2]") && !keys(&config).contains(&"unheard_of"));
}

#[test]
fn the_model_that_would_be_used_and_why() {
    let listed = json!({ "x": { "wire": "gemini", "models": { "only": {} } } });
    for (site, name, why) in [
        (
            Site::bare().env("ANTHROPIC_API_KEY", "k"),
            "anthropic/claude-sonnet-5-5",
            "anthropic has a key",
        ),
        (Site::bare().setting("provider", listed.clone()), "x/only", "no other is listed"),
    ] {
        let config = config(&site, &[]);
        let model = value(&config, "model");
        assert_eq!((&model["value"], &model["source"]), (&json!(name), &json!("default")));
        assert_eq!((&model["note"], &config["problem"]), (&json!(why), &Value::Null));
        let text = site.run(&["config", "model"]).ok().stdout;
        assert_eq!(text, format!("model  \"{name}\" ({why})  default\n"));
    }
    // a name from a variable counts too, and an unavailable model does not stop the search
    let site = Site::bare().setting("provider", listed).env("WHICH", "x/onyl");
    site.file("leftfold.json", r#"{ "model": "{env:WHICH}" }"#);
    let text = site.run(&["config", "model"]).ok().stdout;
    assert!(
        text.starts_with("model  \"x/onyl\"  leftfold.json:1:12\nA run cannot start: "),
        "{text}"
    );
    assert!(text.contains("did you mean `only`?"), "{text}");
}

#[test]
fn rules_are_listed_in_the_order_in_which_the_last_match_wins() {
    let inline = json!({ "edit": "deny", "bash": { "ls *": "allow" } });
    let site = Site::bare().setting("permission", inline).env("LEFTFOLD_CONFIG", "more.json");
    global(&site, r#"{ "permission": { "bash": { "git *": "allow", "*": "ask" } } }"#);
    site.file("more.json", r#"{ "permission": "ask" }"#);
    site.file(
        "leftfold.json",
        r#"{ "permission": { "bash": "deny", "edit": "ask" }, "tools": { "write": true },
        "agent": { "plan": { "permission": { "edit": { "~/plans/*": "allow" } } } } }"#,
    );
    let config = config(&site, &["permission"]);
    let own: Vec<String> = config["values"]
        .as_array()
        .unwrap()
        .iter()
        .skip_while(|value| value["source"] == "default")
        .map(|value| {
            format!("{} {}", value["key"].as_str().unwrap(), value["value"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        own,
        [
            "permission.bash[\"git *\"] allow", "permission.bash[\"*\"] ask",
            "permission.bash deny", "permission.edit ask", "permission ask",
            "permission.edit deny", "permission.bash[\"ls *\"] allow",
        ]
    );
    assert_eq!(
        config["values"].as_array().unwrap().len(),
        own.len() + leftfold_events::rules::defaults().len()
    );
    // `permission check` decides by the same rules
    let rules: Vec<&Value> =
        config["values"].as_array().unwrap().iter().map(|v| &v["rule"]).collect();
    let rules = serde_json::to_string(&rules).unwrap();
    for (permission, pattern) in
        [("bash", "git status"), ("bash", "ls -l"), ("edit", "x"), ("read", ".env")]
    {
        let decided = site.run(&["permission", "check", permission, pattern]).ok().stdout;
        let listed =
            site.run(&["permission", "check", "--rules", &rules, permission, pattern]).ok();
        let said = |text: &str| {
            let said: Value = serde_json::from_str(text).unwrap();
            (said["action"].clone(), said["rule"].clone())
        };
        assert_eq!(said(&decided), said(&listed.stdout));
    }
    let agent = self::config(&site, &["agent.plan"]);
    let pattern = format!("{}/plans/*", site.path("user").display());
    let rule = json!({ "permission": "edit", "pattern": pattern, "action": "allow" });
    assert_eq!(value(&agent, "agent.plan.permission.edit[\"~/plans/*\"]")["rule"], rule);
    let tools = self::config(&site, &["tools"]);
    assert_eq!(value(&tools, "tools.write")["rule"]["permission"], "edit");
}

#[test]
fn a_key_shows_what_is_under_it() {
    let site = Site::bare();
    site.file("leftfold.json", r#"{ "retry": { "attempts": 3 }, "plugin": ["a", ["b", { "c d": 1 }]],
        "provider": { "p": { "wire": "gemini", "models": { "m-4.1": { "limit": { "context": 5 } }, "m-4": {} } } } }"#);
    for (key, expected) in [
        ("retry", &["retry.attempts", "retry.max_wait"][..]),
        ("retry.attempts", &["retry.attempts"]),
        ("plugin", &["plugin[0]", "plugin[1][0]", "plugin[1][1][\"c d\"]"]),
        ("plugin[1]", &["plugin[1][0]", "plugin[1][1][\"c d\"]"]),
        ("plugin.1.1", &["plugin[1][1][\"c d\"]"]),
        ("plugin[1][1][\"c d\"]", &["plugin[1][1][\"c d\"]"]),
        ("provider.p.models[\"m-4.1\"]", &["provider.p.models[\"m-4.1\"].limit.context"]),
        ("provider.p.models.m-4.1", &["provider.p.models[\"m-4.1\"].limit.context"]),
        ("provider.p.models.m-4", &["provider.p.models.m-4"]),
        ("tool_output", &["tool_output.max_lines", "tool_output.max_bytes"]),
        ("small_model", &[]),
        ("compaction.tail_turns", &[]),
        ("provider.p.options.baseURL", &[]),
    ] {
        assert_eq!(keys(&config(&site, &[key])), expected, "{key}");
    }
    assert_eq!(site.run(&["config", "small_model"]).ok().stdout, "small_model is not set\n");
}

#[test]
fn a_key_that_is_none_is_told_the_nearest() {
    let site = Site::bare();
    site.file("leftfold.json", r#"{ "provider": { "local": { "wire": "gemini" } } }"#);
    for (key, right) in [
        ("modle", "model"),
        ("retry.attemps", "retry.attempts"),
        ("attempts", "retry.attempts"),
        ("comp", "compaction"),
        ("provider.locla", "provider.local"),
        ("provider.local.wires", "provider.local.wire"),
        ("provider.local.options.baseUrl", "provider.local.options.baseURL"),
        ("permission.raed", "permission.read"),
        ("tool-output.max_lines", "tool_output"),
    ] {
        for format in ["text", "json"] {
            let ran = site.run(&["config", "--format", format, key]).with(2);
            assert_eq!(ran.stdout, "");
            let expected = format!("leftfold: `{key}` is not a setting; did you mean `{right}`?\n");
            assert!(ran.stderr == expected, "{ran:?}");
        }
    }
    site.run(&["config", "zzzzzz"]).with(2).saying(&["valid names are `model`"]);
    site.run(&["config", "mcp.nothing"]).with(2).saying(&["`mcp.nothing` is not a setting"]);
}

#[test]
fn broken_settings_are_told_as_a_run_tells_them() {
    for (text, place) in [
        (
            "{\n  \"modle\": \"a/b\" }",
            ":2:3: `modle` is not a setting of Leftfold; did you mean `model`?",
        ),
        ("{\"retry\": {\"attempts\": \"x\"}}", ":1:24: `retry.attempts`: expected a whole number"),
        ("{\"title\": true}\r\n}", ":2:1: not valid JSON"),
        ("{\"permission\": {\"bash\": \"alow\"}}", ":1:25: `permission.bash`: expected"),
        ("{\"shell\": \"{file:gone}\"}", ":1:11: `shell`: the file"),
    ] {
        let site = Site::bare();
        let path = site.file("leftfold.json", text);
        let run = site.run(&["run", "hello"]).with(2).stderr;
        let expected = format!("leftfold: {}{place}", path.display());
        assert!(run.starts_with(&expected), "{run}");
        for args in [&["config"][..], &["config", "--format", "json"], &["config", "retry"]] {
            let ran = site.run(args).with(2);
            assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", run.as_str()));
        }
    }
}

#[test]
fn text_is_in_columns_and_fits_the_terminal() {
    let site = Site::bare();
    site.file(
        "leftfold.json",
        format!(
            "{{ \"username\": \"{}\", \"theme\": \"漢\\u001b[31m\u{9b}\u{202e}\" }}",
            "long ".repeat(60)
        ),
    );
    let piped = site.run(&["config"]).ok().stdout;
    assert!(piped.contains(&"long ".repeat(60)) && !piped.contains('\u{1b}'), "{piped}");
    let place = |key: &str| {
        let line = piped.lines().find(|line| line.starts_with(key)).unwrap();
        line.find("  default").unwrap()
    };
    assert_eq!(place("title "), place("permission.read "), "{piped}");
    let theme = piped.lines().find(|line| line.starts_with("theme")).unwrap();
    assert!(theme.contains("\"漢\\u001b[31m\\u{9b}\\u{202e}\""), "{theme}");
    for columns in [40, 100] {
        let mut terminal = site.terminal(&["config"], columns);
        assert_eq!(terminal.wait(), 0);
        let table = terminal.raw.lines().skip_while(|line| !line.is_empty());
        let table: Vec<&str> = table.skip(1).take_while(|line| !line.is_empty()).collect();
        assert!(table.len() > 20, "{}", terminal.raw);
        assert!(table.iter().all(|line| line.chars().count() <= columns.into()), "{table:#?}");
        assert!(table.iter().any(|line| line.contains('…')), "{table:#?}");
        assert!(table.iter().any(|line| line.ends_with("leftfold.json:1:15")), "{table:#?}");
        assert!(!terminal.raw.contains('\u{1b}'));
    }
}

#[test]
fn the_schema_knows_every_key_and_needs_no_settings() {
    let site = Site::bare();
    std::fs::write(site.project().join("leftfold.json"), "{ broken").unwrap();
    let schema: Value =
        serde_json::from_str(&site.run(&["config", "--schema"]).ok().stdout).unwrap();
    let key = |name: &str| &schema["properties"][name];
    assert_eq!(key("title")["type"], "boolean");
    assert_eq!(key("retry")["properties"]["attempts"]["default"], 10);
    assert_eq!(key("theme")["deprecated"], true);
    assert_eq!(schema["additionalProperties"], false);
    site.run(&["config", "--schema", "retry"]).with(2);
}
