//! Tests of the sources, their merging, and the replacement of `{env:X}` and `{file:X}`.

use super::*;
use crate::Script;

#[test]
fn nothing_at_all_gives_the_defaults() {
    let settings = load(&World::new().path(""), nothing(), known()).unwrap();
    let mut defaults = Settings::default();
    defaults.trust.worktree.clone_from(&settings.trust.worktree);
    defaults.trust.directory.clone_from(&settings.trust.directory);
    defaults.known = Some(known());
    assert_eq!(settings, defaults);
    assert!(settings.title() && settings.snapshot() && settings.compaction.auto);
    assert_eq!(settings.tool_output.max_bytes, 51_200);
    assert_eq!(settings.retry.attempts, 10);
}

#[test]
fn later_sources_win() {
    // Removes one source after the other, strongest first.
    let order = [
        "LEFTFOLD_CONFIG_CONTENT", "LEFTFOLD_CONFIG", "sub/.leftfold/leftfold.jsonc",
        "sub/.leftfold/leftfold.json", "sub/leftfold.jsonc", "sub/leftfold.json",
        "sub/.opencode/opencode.jsonc", "sub/.opencode/opencode.json", "sub/opencode.jsonc",
        "sub/opencode.json", ".leftfold/leftfold.json", "leftfold.json", "opencode.json",
        "../.config/leftfold/leftfold.jsonc", "../.config/leftfold/leftfold.json",
        "../.config/opencode/opencode.json",
    ];
    for first in 0..order.len() {
        let mut world = World::new().file("sub/x", "");
        for (i, name) in order.iter().enumerate().skip(first) {
            let text = format!(r#"{{ "username": "{i}", "command": {{ "c{i}": {{}} }} }}"#);
            world = match *name {
                "LEFTFOLD_CONFIG_CONTENT" => world.var(name, &text),
                "LEFTFOLD_CONFIG" => world.file("../more.json", &text).var(name, "~/more.json"),
                name => world.file(name, &text),
            };
        }
        let settings = world.load_in("sub").unwrap();
        assert_eq!(kept(&settings)["username"], first.to_string(), "{}", order[first]);
        assert_eq!(kept(&settings)["command"].as_object().unwrap().len(), order.len() - first);
        assert_eq!(settings.sources.len(), order.len() - first);
    }
}

#[test]
fn what_lies_above_the_worktree_or_in_siblings_does_not_count() {
    let world = World::new()
        .file("../leftfold.json", r#"{ "title": false }"#)
        .file("sub/leftfold.json", r#"{ "snapshot": false }"#);
    let settings = world.load();
    assert!(settings.title() && settings.snapshot());
}

#[test]
fn the_configuration_folder_can_be_elsewhere() {
    let world = World::new()
        .file("../.config/leftfold/leftfold.json", r#"{ "title": false }"#)
        .file("../xdg/leftfold/leftfold.json", r#"{ "snapshot": false }"#);
    let xdg = world.home().join("xdg").display().to_string();
    for (value, title, snapshot) in
        [(xdg.as_str(), true, false), ("relative", false, true), ("", false, true)]
    {
        let mut variables = world.variables.clone();
        variables.push(("XDG_CONFIG_HOME".to_owned(), value.to_owned()));
        let env = |name: &str| {
            variables.iter().rev().find(|(known, _)| known == name).map(|(_, v)| v.clone())
        };
        let settings = load(&world.path(""), &env, known()).unwrap();
        assert_eq!((settings.title(), settings.snapshot()), (title, snapshot), "{value:?}");
    }
}

#[test]
fn a_file_that_is_found_twice_counts_once() {
    let world =
        World::new().file("../.config/leftfold/leftfold.json", r#"{ "permission": "ask" }"#);
    let settings = world.load_in("../.config/leftfold").unwrap();
    assert_eq!(rules(&settings), ["* * Ask"]);
}

#[test]
fn objects_merge_and_lists_of_two_keys_join() {
    let world = World::new()
        .file(
            "opencode.json",
            r#"{ "instructions": ["a.md", "b.md"], "plugin": ["p", ["q", {"x": 1}]],
                 "mcp": { "m": { "type": "local", "command": ["a"] } },
                 "compaction": { "reserved": 5, "auto": false },
                 "provider": { "l": { "npm": "@ai-sdk/openai-compatible",
                   "options": { "baseURL": "http://one", "headers": { "a": "1", "b": "2" } } } } }"#,
        )
        .file(
            ".leftfold/leftfold.json",
            r#"{ "instructions": ["b.md"], "plugin": ["p"],
                 "mcp": { "m": { "command": ["b"] }, "n": {} },
                 "compaction": { "auto": true },
                 "provider": { "l": { "options": { "baseURL": "http://two", "headers": { "b": "3" } } } } }"#,
        );
    let settings = world.load();
    let instructions: Vec<_> = settings
        .instructions
        .iter()
        .map(|item| item.place().source.base.join(item.as_str()))
        .collect();
    let paths = ["a.md", "b.md", ".leftfold/b.md"].map(|path| world.path(path));
    assert_eq!(instructions, paths);
    assert_eq!(settings.plugins.len(), 3);
    assert_eq!(
        kept(&settings)["mcp"].to_string(),
        r#"{"m":{"type":"local","command":["b"]},"n":{}}"#
    );
    assert_eq!((settings.compaction.auto, settings.compaction.reserved), (true, Some(5)));
    let provider = settings.provider("l").unwrap();
    assert_eq!(provider.base_url(), Some("http://two"));
    let headers: Vec<_> =
        provider.options.headers.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(headers, [("a", "1"), ("b", "3")]);
}

#[test]
fn rules_keep_the_order_of_the_file() {
    for (text, expected) in [
        (r#""allow""#, &["* * Allow"][..]),
        (r#"{ "edit": "deny" }"#, &["edit * Deny"]),
        (
            r#"{ "bash": { "git *": "allow", "*": "ask", "a": "deny" }, "edit": "allow", "*": "ask" }"#,
            &["bash git * Allow", "bash * Ask", "bash a Deny", "edit * Allow", "* * Ask"],
        ),
        (r#"{ "bash": {} }"#, &[]),
    ] {
        let settings = World::with(&format!(r#"{{ "permission": {text} }}"#)).load();
        assert_eq!(rules(&settings), expected, "{text}");
    }
}

#[test]
fn rules_of_later_sources_come_after_earlier_ones() {
    let world = World::new()
        .file("opencode.json", r#"{ "permission": { "bash": { "*": "ask", "ls": "allow" } } }"#)
        .file("leftfold.json", r#"{ "permission": { "edit": "ask", "bash": { "*": "deny" } } }"#)
        .var("LEFTFOLD_CONFIG_CONTENT", r#"{ "permission": "allow" }"#);
    assert_eq!(
        rules(&world.load()),
        ["bash * Ask", "bash ls Allow", "edit * Ask", "bash * Deny", "* * Allow"]
    );
}

#[test]
fn older_tools_keys_and_agents_give_rules_too() {
    let world = World::new()
        .file(
            "opencode.json",
            r#"{ "permission": { "bash": "ask" }, "tools": { "write": false, "bash": true },
                 "agent": { "a": { "permission": { "edit": "deny" }, "mode": "subagent" } } }"#,
        )
        .file(
            "leftfold.json",
            r#"{ "agent": { "b": {}, "a": { "permission": { "edit": { "~/x/*": "allow" } } } } }"#,
        );
    let settings = world.load();
    assert_eq!(rules(&settings), ["edit * Deny", "bash * Allow", "bash * Ask"]);
    let agent = &settings.agent_placed_rules["a"];
    assert_eq!(agent.len(), 2);
    assert_eq!(agent[1].rule.pattern, format!("{}/x/*", world.home().display()));
    assert!(settings.rules_of("b").is_empty() && settings.rules_of("c").is_empty());
    assert_eq!(kept(&settings)["agent"]["a"]["mode"], "subagent");
}

#[test]
fn comments_trailing_commas_and_byte_order_marks_are_read() {
    for text in [
        "\u{feff}{\"title\": false}",
        "// first\n{ /* second */ \"title\": false, // third\n}\n// last",
        "{\"title\":\r\nfalse,\r\n\"plugin\": [\"a\",],}\r\n",
    ] {
        assert!(!World::with(text).load().title(), "{text:?}");
    }
    for text in ["", " \n", "// nothing yet\n", "{}", "{,}"] {
        let read = World::with(text).load_in("");
        assert_eq!(read.is_ok(), text != "{,}", "{text:?}");
    }
}

#[test]
fn references_are_replaced_in_strings_only() {
    let world = World::with(
        r#"{ // {env:COMMENT} {file:nowhere}
            "username": "<{env:USER}|{env:NONE}|{env:EMPTY}>",
            "shell": "{file:./.leftfold/shell.txt}",
            "theme": "{file:~/theme}",
            "layout": "{env: USER } {env:} {other:x} {env:USER",
            "$schema": "{env:TRICK}",
            "secrets": { "A": "{env:USER}", "B": "{env:NONE}" },
            "command": { "{env:USER}": { "list": ["{env:USER}"] } } }"#,
    )
    .file(".leftfold/shell.txt", "\n  fish {env:USER}\n\n")
    .file("../theme", "dark\n")
    .var("USER", "ann")
    .var("EMPTY", "")
    .var("TRICK", "{env:USER}");
    let settings = world.load();
    for (key, expected) in [
        ("username", "<ann||>"),
        ("shell", "fish {env:USER}"),
        ("theme", "dark"),
        ("layout", "ann {env:} {other:x} {env:USER"),
        ("$schema", "{env:USER}"),
    ] {
        assert_eq!(kept(&settings)[key], expected, "{key}");
    }
    let secrets: Vec<_> = settings.secrets.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(secrets, [("A", "ann")]);
    assert_eq!(kept(&settings)["command"].to_string(), r#"{"{env:USER}":{"list":["ann"]}}"#);
}

#[test]
fn paths_start_at_the_file_they_stand_in() {
    let world = World::new()
        .file("../.config/leftfold/leftfold.json", r#"{ "theme": "{file:t}" }"#)
        .file("../.config/leftfold/t", "global")
        .file(
            ".leftfold/leftfold.json",
            r#"{ "provider": {
                "a": { "wire": "scripted", "options": { "script": "s.json" } },
                "b": { "wire": "scripted", "options": { "script": "~/s.json" } },
                "c": { "wire": "scripted", "options": { "script": [{ "text": "hi" }] } },
                "d": { "wire": "scripted", "options": { "script": " {\"steps\": []}" } },
                "e": { "wire": "scripted", "options": { "script": "/s.json" } } } }"#,
        );
    let settings = world.load();
    assert_eq!(kept(&settings)["theme"], "global");
    for (name, script) in [
        ("a", Script::Path(world.path(".leftfold/s.json"))),
        ("b", Script::Path(world.home().join("s.json"))),
        ("c", Script::Inline(r#"[{"text":"hi"}]"#.into())),
        ("d", Script::Inline(" {\"steps\": []}".into())),
        ("e", Script::Path("/s.json".into())),
    ] {
        let provider = settings.provider(name).unwrap();
        assert_eq!(provider.wire.as_ref().map(|wire| wire.text()), Some("scripted"));
        assert_eq!(provider.script(), Some(script), "{name}");
    }
}

#[test]
fn keys_of_other_programs_are_left_out_of_their_files_only() {
    let world = World::new().file(
        "opencode.json",
        r#"{ "brand_new": 1, "title": false, "title": true,
             "tool_output": { "max_lines": 5, "max_words": 1 },
             "provider": { "p": { "later": 1, "models": { "m": { "soon": 1 } } } } }"#,
    );
    let settings = world.load();
    assert_eq!(settings.tool_output.max_lines, 5);
    assert!(settings.title());
    assert!(kept(&settings).get("brand_new").is_none());
    assert_eq!(settings.provider("p").unwrap().models.len(), 1);
}

#[test]
fn debug_output_has_no_secrets() {
    let world = World::with(
        r#"{ "secrets": { "T": "hidden" }, "mcp": { "m": { "environment": { "K": "hidden" } } },
             "model": "p/m",
             "provider": { "p": { "wire": "gemini", "options": {
               "baseURL": "http://me:hidden@host", "secretAccessKey": "hidden",
               "apiKey": "hidden", "headers": { "authorization": "hidden" } } } } }"#,
    );
    let settings = world.load();
    let chosen = settings.resolve_model(None, nothing()).unwrap();
    let text = format!("{settings:?} {:?} {chosen:?}", settings.provider("p"));
    assert!(text.contains("\"p\"") && !text.contains("hidden"), "{text}");
}

#[test]
fn of_an_older_key_and_its_new_name_the_later_one_counts() {
    let agent = |world: World| {
        let agent = world.load().agents["a"].clone();
        (agent.steps.map(u32::from), agent.top_p)
    };
    let both = r#"{ "agent": { "a": { "steps": 1, "maxSteps": 2, "topP": 0.1, "top_p": 0.2 } } }"#;
    assert_eq!(agent(World::with(both)), (Some(2), Some(0.2)));
    let (older, newer) = [r#""maxSteps": 3, "topP": 0.3"#, r#""steps": 4, "top_p": 0.4"#].into();
    for (weak, strong, expected) in
        [(older, newer, (Some(4), Some(0.4))), (newer, older, (Some(3), Some(0.3)))]
    {
        let text = |keys| format!(r#"{{ "agent": {{ "a": {{ {keys} }} }} }}"#);
        let world = World::new()
            .file("../.config/leftfold/leftfold.json", &text(strong))
            .file("opencode.json", &text(weak));
        assert_eq!(agent(world.file("leftfold.json", &text(strong))), expected);
    }
}

#[test]
fn references_of_a_project_insert_only_so_much() {
    let many = |reference: &str, count: usize| {
        World::with(&format!("{{\"username\":\n\"{}\"}}", reference.repeat(count)))
            .file("big", &"x".repeat(1_000_000))
            .file("empty", "")
            .var("NAME", "x")
    };
    for (reference, fits) in [("{file:big}", 16), ("{file:empty}", 2_048), ("{env:NAME}", 4_096)] {
        assert!(many(reference, fits).load_in("").is_ok(), "{reference}");
        assert_eq!(
            many(reference, fits + 1).error(),
            "leftfold.json:2:1: `username`: `{file:…}` and `{env:…}` in this file insert more than 16 MiB"
        );
    }
}

#[test]
fn hostile_sizes_of_settings_end_soon() {
    let list = |item: &dyn Fn(usize) -> String, count: usize| -> String {
        (0..count).map(item).collect::<Vec<_>>().join(",")
    };
    let keys = |count| format!("{{{}}}", list(&|n| format!("\"k{n}\":1"), count));
    let error = World::new().file("opencode.json", &keys(20_001)).error();
    assert!(error.ends_with("more than 20000 values in one file"), "{error}");
    let start = std::time::Instant::now();
    let items = |count| format!("{{\"instructions\":[{}]}}", list(&|n| format!("\"k{n}\""), count));
    let world = World::new()
        .file("opencode.json", &keys(19_000))
        .file("opencode.jsonc", &keys(2_000))
        .file(".opencode/opencode.json", &items(19_000))
        .file(".opencode/opencode.jsonc", &items(2_000));
    assert!(load(&world.path(""), &world.env(), known()).is_ok());
    let mut world = World::new();
    for n in 0..40 {
        world = world.file(&format!(".leftfold/commands/c{n:02}.md"), &"x".repeat(1_000_000));
    }
    let settings = load(&world.path(""), &world.env(), known()).unwrap();
    assert_eq!(settings.commands.len(), 16);
    let warnings = settings.warnings.join("\n");
    assert!(
        warnings.ends_with(
            ".leftfold/commands/c16.md and 23 more: left out, because the agents and commands of a \
             project may have 16 MiB together"
        ),
        "{warnings}"
    );
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
