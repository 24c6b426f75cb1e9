//! Tests of the errors about wrong settings: file, line, column, key, expectation.

use super::*;
use crate::KeyAction;

fn assert_errors(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(World::with(text).error(), *expected, "{text}");
    }
}

#[test]
fn errors_name_place_key_and_what_is_right() {
    assert_errors(&[
        (
            "{\n  \"permissions\": {}\n}",
            "leftfold.json:2:3: `permissions` is not a setting of Leftfold; did you mean `permission`?",
        ),
        (
            "{ \"tool_output\": {\n\t\"maxLines\": 1 } }",
            "leftfold.json:2:2: `tool_output.maxLines` is not a setting of Leftfold; did you mean `max_lines`? Valid names are `max_lines`, `max_bytes`",
        ),
        (
            r#"{"retry": {"zzz": 1}}"#,
            "leftfold.json:1:12: `retry.zzz` is not a setting of Leftfold; valid names are `attempts`, `max_wait`",
        ),
        (
            r#"{"provider": {"p": {"models": {"m": {"limits": {}}}}}}"#,
            "leftfold.json:1:38: `provider.p.models.m.limits` is not a setting of Leftfold; did you mean `limit`?",
        ),
        (r#"{"title": "yes"}"#, "leftfold.json:1:11: `title`: expected a boolean, found a string"),
        (
            "/* é€𝄞 */ {\"title\": 1}",
            "leftfold.json:1:21: `title`: expected a boolean, found a number",
        ),
        (
            r#"{"model": "gpt"}"#,
            r#"leftfold.json:1:11: `model`: expected "PROVIDER/MODEL", found "gpt""#,
        ),
        (r#"{"model": ["a/b"]}"#, "leftfold.json:1:11: `model`: expected a string, found a list"),
        (
            r#"{"permission": {"bash": {"git *": "alow"}}}"#,
            r#"leftfold.json:1:35: `permission.bash["git *"]`: expected "allow", "ask" or "deny", found "alow"; did you mean `allow`?"#,
        ),
        (
            r#"{"permission": {"bash": true}}"#,
            r#"leftfold.json:1:25: `permission.bash`: expected "allow", "ask" or "deny", found a boolean"#,
        ),
        (
            r#"{"permission": "never"}"#,
            r#"leftfold.json:1:16: `permission`: expected "allow", "ask" or "deny", found "never""#,
        ),
        (
            r#"{"agent": {"plan": {"permission": {"edit": "no"}}}}"#,
            r#"leftfold.json:1:44: `agent.plan.permission.edit`: expected "allow", "ask" or "deny", found "no""#,
        ),
        (
            r#"{"tools": {"bash": "no"}}"#,
            "leftfold.json:1:20: `tools.bash`: expected a boolean, found a string",
        ),
        (
            r#"{"provider": {"p": {"wire": "openai"}}}"#,
            r#"leftfold.json:1:29: `provider.p.wire`: expected "anthropic", "openai-chat", "openai-responses", "gemini" or "scripted", found "openai"; did you mean `openai-chat`?"#,
        ),
        (
            r#"{"provider": {"p": {"wire": "scriptd"}}}"#,
            r#"leftfold.json:1:29: `provider.p.wire`: expected "anthropic", "openai-chat", "openai-responses", "gemini" or "scripted", found "scriptd"; did you mean `scripted`?"#,
        ),
    ]);
}

#[test]
fn all_errors_of_all_sources_are_reported_at_once() {
    let world = World::with(
        r#"{"sandbox": {"mode": "of"}, "terminal": {"theme": "x"}, "model": 5, "tols": {},
            "agent": {"a": {"permission": {"bash": "no"}, "steps": "x"}, "b": {"mode": "z"}}}"#,
    )
    .file("../.config/leftfold/leftfold.json", r#"{"title": 1}"#);
    let found = world.error();
    let places: Vec<&str> = found.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(
        places,
        [
            "`title`",
            "`sandbox.mode`",
            "`terminal.theme`",
            "`model`",
            "`tols` is not a setting of Leftfold; did you mean `tools`?",
            "`agent.a.permission.bash`",
            "`agent.a.steps`",
            "`agent.b.mode`",
        ],
        "{found}"
    );
    // a value that lacks what was wrong in it is no further error
    for (text, count) in [
        (r#"{"mcp": {"s": {"type": "local", "command": 5}}}"#, 1),
        (r#"{"command": {"c": {"template": 5}}}"#, 1),
        (r#"{"instructions": [1, "a", 2], "title": 3}"#, 2),
        (r#"[]"#, 1),
    ] {
        let found = World::with(text).error();
        assert_eq!(found.lines().count(), count, "{text}: {found}");
    }
}

#[test]
fn errors_say_what_was_expected_and_what_was_found() {
    assert_errors(&[
        (
            r#"{"provider": {"p": {"options": {"timeout": true}}}}"#,
            "leftfold.json:1:44: `provider.p.options.timeout`: expected milliseconds (a whole number above 0), or false for no limit, found a boolean",
        ),
        (
            r#"{"provider": {"p": {"options": {"apiKey": {"secret": 1}}}}}"#,
            "leftfold.json:1:43: `provider.p.options.apiKey`: expected a string, found an object",
        ),
        (
            r#"{"provider": {"p": {"options": {"script": 7}}}}"#,
            "leftfold.json:1:43: `provider.p.options.script`: expected the path of a script, or a script, found a number",
        ),
        (
            r#"{"provider": {"p": {"models": {"a/b": {"limit": {"context": -1}}}}}}"#,
            r#"leftfold.json:1:61: `provider.p.models["a/b"].limit.context`: expected a whole number that is not negative, found a negative number"#,
        ),
        (
            r#"{"tool_output": {"max_bytes": 0}}"#,
            "leftfold.json:1:31: `tool_output.max_bytes`: expected a whole number above 0, found 0",
        ),
        (
            r#"{"tool_output": {"max_lines": 1.5}}"#,
            "leftfold.json:1:31: `tool_output.max_lines`: expected a whole number above 0, found a number that is not whole",
        ),
        (
            r#"{"environment": ["PORT", "NPM_TOKEN"]}"#,
            "leftfold.json:1:26: `environment[1]`: expected a variable that is not a key, token or password (commands never get those), found \"NPM_TOKEN\"",
        ),
        (
            r#"{"instructions": ["a", 2]}"#,
            "leftfold.json:1:24: `instructions[1]`: expected a string, found a number",
        ),
        (r#"{"tui": null}"#, "leftfold.json:1:9: `tui`: expected an object, found null"),
        (
            r#"{"provider": {"p": {"wire": ["a"]}}}"#,
            r#"leftfold.json:1:29: `provider.p.wire`: expected "anthropic", "openai-chat", "openai-responses", "gemini" or "scripted", found a list"#,
        ),
        (
            r#"{"agent": {"a": {"maxSteps": "x"}}}"#,
            "leftfold.json:1:30: `agent.a.maxSteps`: expected a whole number from 1 to 4294967295, found a string",
        ),
        (
            r#"{"plugin": [["a", 1]]}"#,
            "leftfold.json:1:19: `plugin[0][1]`: expected a string, found a number",
        ),
        (r#"{"mcp": null}"#, "leftfold.json:1:9: `mcp`: expected an object, found null"),
        (
            r#"{"formatter": "x"}"#,
            "leftfold.json:1:15: `formatter`: expected an object or a boolean, found a string",
        ),
        (
            r#"{"autoupdate": 1}"#,
            "leftfold.json:1:16: `autoupdate`: expected a string or a boolean, found a number",
        ),
        ("[]", "leftfold.json:1:1: the settings as a whole: expected an object, found a list"),
        (
            "{\"title\": true,\n \"title\": false}",
            "leftfold.json:2:2: `title` is set twice: first in line 1",
        ),
        (
            "{\"title\": true\n \"snapshot\": false}",
            "leftfold.json:1:15: not valid JSON: expected comma",
        ),
        ("{title: true}", "leftfold.json:1:2: not valid JSON: expected string for object property"),
        (
            "{\"title\": 'x'}",
            "leftfold.json:1:11: not valid JSON: single-quoted strings are not allowed",
        ),
        (
            "{\"retry\": {\"attempts\": 1e999}}",
            "leftfold.json:1:24: not valid JSON: 1e999 is no number to JSON",
        ),
        (
            "{\"username\":\n\"{file:gone.txt}\"}",
            "leftfold.json:2:1: `username`: the file gone.txt cannot be read: No such file or directory (os error 2)",
        ),
    ]);
}

#[test]
fn errors_name_the_right_source() {
    let wrong = r#"{ "title": 0 }"#;
    let tail = "`title`: expected a boolean, found 0";
    let config = |text: &str| World::new().file("more/set.json", text);
    for (world, expected) in [
        (World::new().file("opencode.jsonc", wrong), format!("opencode.jsonc:1:12: {tail}")),
        (
            World::new().file("../.config/opencode/opencode.json", wrong),
            format!("~/.config/opencode/opencode.json:1:12: {tail}"),
        ),
        (
            config(wrong).var("LEFTFOLD_CONFIG", "more/set.json"),
            format!("more/set.json:1:12: {tail}"),
        ),
        (
            World::new().var("LEFTFOLD_CONFIG_CONTENT", wrong),
            format!("LEFTFOLD_CONFIG_CONTENT:1:12: {tail}"),
        ),
        (
            World::new().var("LEFTFOLD_CONFIG", "gone.json"),
            "LEFTFOLD_CONFIG names gone.json, which cannot be read: No such file or directory (os error 2)".into(),
        ),
        // An error is reported even if a stronger source overrides it.
        (
            World::with(wrong).var("LEFTFOLD_CONFIG_CONTENT", r#"{ "title": true }"#),
            format!("leftfold.json:1:12: {tail}"),
        ),
    ] {
        assert_eq!(world.error(), expected);
    }
}

#[test]
fn unreadable_files_are_named() {
    let world = World::new().file("leftfold.json/inside", "");
    assert_eq!(world.error(), "leftfold.json: cannot be read: it is a directory, not a file");

    let world = World::new();
    fs::write(world.path("leftfold.json"), b"{\n\"username\": \"\xff\"}").unwrap();
    assert_eq!(world.error(), "leftfold.json:2:14: not UTF-8 text");

    let world = World::with(&" ".repeat(1024 * 1024 + 1));
    assert_eq!(world.error(), "leftfold.json: cannot be read: it is larger than 1048576 bytes");

    // A file in place of a folder of settings is ignored.
    assert!(World::new().file(".leftfold", "").load_in("").is_ok());

    let world = World::new();
    let error = world.plain(&world.load_in("gone").unwrap_err());
    assert_eq!(
        error,
        "the working directory gone cannot be used: No such file or directory (os error 2)"
    );
}

#[test]
fn deep_nesting_is_refused() {
    for depth in [101, 400, 100_000] {
        let text =
            format!("{{\"command\": {{\"x\": {}{}}}}}", "[".repeat(depth), "]".repeat(depth));
        let error = World::with(&text).error();
        assert!(error.contains("not valid JSON") && error.contains("nest"), "{depth}: {error}");
    }
}

#[test]
fn damaged_text_gives_an_error_and_never_a_panic() {
    let text = r#"{ /* é */ "model": "a/b", // x
        "permission": { "bash": { "*": "ask", }, "edit": "allow" },
        "retry": { "attempts": 1.5e1 }, "plugin": ["\u00e9\n", ["a", "b"], {"command": ["c"],},], }"#;
    assert!(World::with(text).load_in("").is_ok());
    let world = World::new();
    let read = |text: &str| {
        let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| text.to_owned());
        load(&world.path(""), &env, known())
    };
    let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).filter(|at| *at > 0).collect();
    for cut in &cuts {
        // A cut text is right only if nothing but blanks is missing.
        assert!(read(&text[..*cut]).is_err(), "cut at {cut}");
        for other in ["\"", "{", "}", "]", ",", "\\", "-", "\u{0}", "€"] {
            let changed = format!("{}{other}{}", &text[..*cut], &text[*cut..]);
            if let Err(error) = read(&changed) {
                let error = error.to_string();
                assert!(error.starts_with("LEFTFOLD_CONFIG_CONTENT:"), "{error}");
            }
        }
    }
}

#[test]
fn errors_about_servers_name_place_and_key() {
    assert_errors(&[
        (
            r#"{"mcp": {"m": {"comand": ["a"]}}}"#,
            "leftfold.json:1:16: `mcp.m.comand` is not a setting of Leftfold; did you mean `command`? Valid names are `type`, `command`, `environment`, `cwd`, `url`, `headers`, `enabled`, `timeout`, `oauth`, `sandbox`",
        ),
        (
            "{\"mcp\": {\n \"m\": {\"type\": \"stdio\"}}}",
            r#"leftfold.json:2:16: `mcp.m.type`: expected "local" or "remote", found "stdio""#,
        ),
        (
            r#"{"mcp": {"m": {"command": "npx x"}}}"#,
            "leftfold.json:1:27: `mcp.m.command`: expected a list of the program and its arguments, found a string",
        ),
        (
            r#"{"mcp": {"m": {"command": []}}}"#,
            "leftfold.json:1:27: `mcp.m.command`: expected a list of the program and its arguments, found nothing in it",
        ),
        (
            r#"{"mcp": {"m": {"timeout": 0}}}"#,
            "leftfold.json:1:27: `mcp.m.timeout`: expected a whole number above 0, found 0",
        ),
        (
            r#"{"mcp": {"m": {"headers": {"a": 1}}}}"#,
            "leftfold.json:1:33: `mcp.m.headers.a`: expected a string, found a number",
        ),
    ]);
}

#[test]
fn keys_of_the_conversation_are_checked() {
    assert_errors(&[
        (
            "{\"terminal\": {\"keys\": {\n  \"editr\": \"ctrl+x\"}}}",
            "leftfold.json:2:3: `terminal.keys.editr` is not a setting of Leftfold; did you mean `editor`?",
        ),
        (
            r#"{"terminal": {"keys": {"editor": "ctrl+foo"}}}"#,
            r#"leftfold.json:1:34: `terminal.keys.editor`: expected a key such as "ctrl+g", "alt+enter" or "f5", found "ctrl+foo""#,
        ),
        (
            r#"{"terminal": {"keys": {"editor": ["ctrl+x", "x"]}}}"#,
            r#"leftfold.json:1:45: `terminal.keys.editor[1]`: expected a key that types nothing, such as "ctrl+g", found "x""#,
        ),
        (
            r#"{"terminal": {"keys": {"editor": "ctrl+i"}}}"#,
            r#"leftfold.json:1:34: `terminal.keys.editor`: expected "tab", because most terminals send the same for both, found "ctrl+i""#,
        ),
        (
            r#"{"terminal": {"keys": {"editor": 1}}}"#,
            r#"leftfold.json:1:34: `terminal.keys.editor`: expected a key such as "ctrl+g", a list of keys, or "none", found a number"#,
        ),
        (
            r#"{"terminal": {"keys": {"editor": "alt+x", "expand": "alt+x"}}}"#,
            r#"leftfold.json:1:53: `terminal.keys.expand`: expected a key of no other action, found "alt+x", which `editor` has too (leftfold.json:1:34)"#,
        ),
        (
            r#"{"terminal": {"keys": {"send": "none"}}}"#,
            "leftfold.json:1:32: `terminal.keys.send`: expected a key, because nothing else sends a prompt, found none",
        ),
        (
            r#"{"terminal": {"keys": {"newline": "enter"}}}"#,
            r#"leftfold.json:1:35: `terminal.keys.newline`: expected another key, or one more for `terminal.keys.send`, found "enter", the only key of `send`"#,
        ),
    ]);
    let unknown = World::with(r#"{"terminal": {"keys": {"zzzz": "f5"}}}"#).error();
    assert!(unknown.contains("valid names are `send`, `newline`") && unknown.contains("`undo`"));
}

#[test]
fn an_action_that_loses_its_only_key_is_told() {
    let world = World::with(
        r#"{"terminal": {"keys": {"editor": "ctrl+o", "send": ["enter", "alt+s"], "leave": "alt+d"}}}"#,
    );
    let settings = world.load();
    let warnings = settings.warnings.join("\n").replace(&world.path("").display().to_string(), "");
    assert_eq!(
        warnings,
        "leftfold.json:1:34: ctrl+o is the key of `editor` now, so `expand` has none"
    );
    let (keys, _) = settings.terminal.keys.keymap().unwrap();
    let action = |text: &str, is_empty| keys.action(text.parse().unwrap(), is_empty);
    assert_eq!(action("ctrl+o", true), Some(KeyAction::Editor));
    assert_eq!(action("ctrl+g", true), None);
    assert_eq!(action("alt+s", false), Some(KeyAction::Send));
    // the key has its default action where there is text
    assert_eq!(action("alt+d", true), Some(KeyAction::Leave));
    assert_eq!(action("ctrl+d", false), Some(KeyAction::DeleteRight));
}
