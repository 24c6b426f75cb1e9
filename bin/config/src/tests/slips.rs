//! Tests of misspelt names at every level, and of the suggested right names.

use super::*;

fn assert_told(text: &str, place: &str, key: &str, right: &str) {
    let error = World::with(text).error();
    let expected = format!(
        "leftfold.json:{place}: `{key}` is not a setting of Leftfold; did you mean `{right}`?"
    );
    assert!(error.starts_with(&expected), "{text}\n{error}\n{expected}");
    // Files of other programs may have keys of other programs.
    assert!(World::new().file("opencode.json", text).load_in("").is_ok(), "{text}");
}

#[test]
fn a_misspelt_key_is_told_the_right_one_of_its_own_place() {
    for (text, place, key, right) in [
        (r#"{"modle": "a/b"}"#, "1:2", "modle", "model"),
        (r#"{"mdoel": "a/b"}"#, "1:2", "mdoel", "model"),
        (r#"{"models": "a/b"}"#, "1:2", "models", "model"),
        (r#"{"mod": {}}"#, "1:2", "mod", "mode"),
        (r#"{"smallModel": "a/b"}"#, "1:2", "smallModel", "small_model"),
        (r#"{"agents": {}}"#, "1:2", "agents", "agent"),
        (r#"{"commands": {}}"#, "1:2", "commands", "command"),
        (r#"{"providers": {}}"#, "1:2", "providers", "provider"),
        (r#"{"plugins": []}"#, "1:2", "plugins", "plugin"),
        (r#"{"instruction": []}"#, "1:2", "instruction", "instructions"),
        (r#"{"secret": {}}"#, "1:2", "secret", "secrets"),
        (r#"{"retrys": {}}"#, "1:2", "retrys", "retry"),
        (r#"{"toolOutput": {}}"#, "1:2", "toolOutput", "tool_output"),
    ] {
        assert_told(text, place, key, right);
    }
}

#[test]
fn a_misspelt_key_within_a_setting_likewise() {
    for (text, place, key, right) in [
        ("{\n \"retry\": {\"attemps\": 1}}", "2:12", "retry.attemps", "attempts"),
        (r#"{"compaction": {"atuo": true}}"#, "1:17", "compaction.atuo", "auto"),
        (r#"{"compaction": {"reserve": 1}}"#, "1:17", "compaction.reserve", "reserved"),
        (r#"{"tool_output": {"maxbytes": 1}}"#, "1:18", "tool_output.maxbytes", "max_bytes"),
        (r#"{"provider": {"p": {"wires": "x"}}}"#, "1:21", "provider.p.wires", "wire"),
        (r#"{"provider": {"p": {"option": {}}}}"#, "1:21", "provider.p.option", "options"),
        (
            r#"{"provider": {"p": {"options": {"baseUrl": "x"}}}}"#,
            "1:33",
            "provider.p.options.baseUrl",
            "baseURL",
        ),
        (
            r#"{"provider": {"p": {"options": {"api_key": "x"}}}}"#,
            "1:33",
            "provider.p.options.api_key",
            "apiKey",
        ),
        (
            r#"{"provider": {"p": {"options": {"timout": 1}}}}"#,
            "1:33",
            "provider.p.options.timout",
            "timeout",
        ),
        (
            r#"{"provider": {"p": {"models": {"m": {"costs": {}}}}}}"#,
            "1:38",
            "provider.p.models.m.costs",
            "cost",
        ),
        (
            r#"{"provider": {"p": {"models": {"m": {"limit": {"contxt": 1}}}}}}"#,
            "1:48",
            "provider.p.models.m.limit.contxt",
            "context",
        ),
        (
            r#"{"provider": {"p": {"models": {"m": {"cost": {"cacheRead": 1}}}}}}"#,
            "1:47",
            "provider.p.models.m.cost.cacheRead",
            "cache_read",
        ),
        (
            r#"{"agent": {"plan": {"permision": {"edit": "deny"}}}}"#,
            "1:21",
            "agent.plan.permision",
            "permission",
        ),
    ] {
        assert_told(text, place, key, right);
    }
}

#[test]
fn options_of_a_provider_that_are_its_own_are_passed_on() {
    let world = World::with(
        r#"{ "provider": { "p": { "wire": "gemini", "options": {
             "project": "x", "setCacheKey": true, "organization": "o", "region": "r" } } } }"#,
    );
    assert_eq!(world.load().provider("p").unwrap().own_options().len(), 4);
}

#[test]
fn text_that_is_no_json_is_told_line_and_column() {
    for (text, place, part) in [
        ("{\"title\": true} x", "1:17", "more than one JSON value"),
        ("{\"title\": true}\n{}", "2:1", "more than one JSON value"),
        ("{\"title\": true}}", "1:16", "more than one JSON value"),
        ("{\"title\": true,,}", "1:16", "unexpected token"),
        ("{\"title\": tru}", "1:11", "unexpected token"),
        ("{\"title\": \"yes", "1:11", "unterminated string"),
        ("{\"title\": true", "1:1", "unterminated object"),
        ("{\"plugin\": [1", "1:12", "unterminated array"),
        ("{ /* never closed", "1:3", "comment"),
        ("{\"username\": \"\\q\"}", "1:15", "escape"),
        // Columns count characters, and all kinds of line ends count as lines.
        ("{\"username\": \"é𝄞\", x}", "1:20", "unexpected token"),
        ("{\r\n  \"title\": true,\r\n  x}", "3:3", "unexpected token"),
        ("\u{feff}{x}", "1:2", "unexpected token"),
        ("\u{feff}{\r\n\u{feff}}", "2:1", "unexpected"),
    ] {
        let error = World::with(text).error();
        let expected = format!("leftfold.json:{place}: not valid JSON: ");
        assert!(error.starts_with(&expected) && error.contains(part), "{text:?}\n{error}");
    }
}

#[test]
fn keys_that_are_set_twice_are_told_at_every_level() {
    for (text, place, key, first) in [
        ("{\"model\": \"a/b\",\n\"model\": \"a/b\"}", "2:1", "model", 1),
        ("{\"retry\": {\n\"attempts\": 1,\n\"attempts\": 2}}", "3:1", "retry.attempts", 2),
        (
            "{\"permission\": {\"bash\": {\"*\": \"ask\",\r\n \"*\": \"deny\"}}}",
            "2:2",
            "permission.bash[\"*\"]",
            1,
        ),
        ("{\"plugin\": [{\"x\": 1, \"\\u0078\": 2}]}", "1:22", "plugin[0].x", 1),
    ] {
        let expected =
            format!("leftfold.json:{place}: `{key}` is set twice: first in line {first}");
        assert_eq!(World::with(text).error(), expected);
    }
}

#[test]
fn bytes_that_are_no_text_are_told_line_and_column() {
    let world = World::new();
    for (bytes, expected) in [
        (&b"\xff\xfe{\0}\0"[..], "leftfold.json:1:1: not UTF-8 text"),
        (b"{\r\n\"username\": \"\xc3\xa9\xe9\"}", "leftfold.json:2:15: not UTF-8 text"),
        (b"\xef\xbb\xbf{\xff}", "leftfold.json:1:2: not UTF-8 text"),
    ] {
        fs::write(world.path("leftfold.json"), bytes).unwrap();
        assert_eq!(world.error(), expected);
    }
    let world = World::new().var("LEFTFOLD_CONFIG", "named.json");
    fs::write(world.path("named.json"), b"{\n \xff}").unwrap();
    assert_eq!(world.error(), "named.json:2:2: not UTF-8 text");
    let world = World::with("{\"username\": \"{file:name}\"}");
    fs::write(world.path("name"), b"\n\n a\xff").unwrap();
    assert_eq!(
        world.error(),
        "leftfold.json:1:14: `username`: the file name cannot be read: line 3, column 3 is not UTF-8"
    );
}

#[test]
fn files_that_cannot_be_read_are_told_by_name() {
    for path in ["leftfold.json", ".leftfold/leftfold.jsonc", "../.config/leftfold/leftfold.json"] {
        let world = World::new().file(&format!("{path}/x"), "");
        let shown = path.replace("../", "~/");
        let expected = format!("{shown}: cannot be read: it is a directory, not a file");
        assert_eq!(world.error(), expected);
    }
    let world = World::new().file("folder/x", "").var("LEFTFOLD_CONFIG", "folder");
    let expected =
        "LEFTFOLD_CONFIG names folder, which cannot be read: Is a directory (os error 21)";
    assert_eq!(world.error(), expected);
    // a pipe would never end
    for (text, error) in [
        (None, "leftfold.json: cannot be read: it is a pipe, socket or device, not a regular file"),
        (
            Some("{ \"agent\": { \"a\": { \"prompt\": \"{file:pipe}\" } } }"),
            "leftfold.json:1:31: `agent.a.prompt`: the file pipe cannot be read: it is a pipe, socket or device, not a regular file",
        ),
    ] {
        let world = text.map_or_else(World::new, World::with);
        let pipe = world.path(if text.is_some() { "pipe" } else { "leftfold.json" });
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(world.error(), error);
    }
    // A link to itself is unreadable even for root.
    let world = World::new();
    std::os::unix::fs::symlink("leftfold.json", world.path("leftfold.json")).unwrap();
    let error = world.error();
    assert!(error.starts_with("leftfold.json: cannot be read: Too many"), "{error}");
    let world = World::with("{\n\"shell\": \"{file:folder}\"}").file("folder/x", "");
    let expected = "leftfold.json:2:10: `shell`: the file folder cannot be read: it is a directory, not a file";
    assert_eq!(world.error(), expected);
}

#[test]
fn a_variable_that_is_not_set_is_named_where_one_of_some_words_is_expected() {
    for (text, place, key) in [
        (r#"{"provider": {"p": {"wire": "{env:GONE}"}}}"#, "1:29", "provider.p.wire"),
        (r#"{"permission": "{env:GONE}"}"#, "1:16", "permission"),
        (r#"{"permission": {"bash": {"*": "{env:GONE}"}}}"#, "1:31", "permission.bash[\"*\"]"),
    ] {
        let expected = format!(
            "leftfold.json:{place}: `{key}` needs the environment variable GONE, which is not set: \
             set it, or write the value itself"
        );
        assert_eq!(World::with(text).error(), expected);
        assert!(World::with(text).var("GONE", "never").load_in("").is_err());
    }
    let world = World::with(r#"{"permission": "{env:RULE}"}"#).var("RULE", "deny");
    assert_eq!(rules(&world.load()), ["* * Deny"]);
}

#[test]
fn rules_keep_their_order_through_every_merge() {
    let world = World::new()
        .file(
            "../.config/opencode/opencode.json",
            r#"{ "permission": { "z": "ask", "bash": { "a": "ask", "*": "ask" } } }"#,
        )
        .file(
            "../.config/leftfold/leftfold.json",
            r#"{ "permission": { "bash": { "b": "deny", "a": "deny" }, "z": "allow" } }"#,
        )
        .file("leftfold.json", r#"{ "permission": { "bash": { "*": "allow", "b": "allow" } } }"#)
        .file("sub/leftfold.json", r#"{ "permission": { "edit": "ask", "bash": "deny" } }"#)
        .file("more.json", r#"{ "permission": { "bash": { "c": "ask", "*": "allow" } } }"#)
        .var("LEFTFOLD_CONFIG", "../more.json")
        .var(
            "LEFTFOLD_CONFIG_CONTENT",
            r#"{ "permission": { "edit": { "x": "deny" }, "z": "deny" } }"#,
        );
    assert_eq!(
        rules(&world.load_in("sub").unwrap()),
        [
            "z * Ask", "bash a Ask", "bash * Ask", // global, of OpenCode
            "bash b Deny", "bash a Deny", "z * Allow", // global
            "bash * Allow", "bash b Allow", // project
            "edit * Ask", "bash * Deny", // nearer
            "bash c Ask", "bash * Allow", // LEFTFOLD_CONFIG
            "edit x Deny", "z * Deny", // LEFTFOLD_CONFIG_CONTENT
        ]
    );
}

/// A permission may be the name of a tool that only a server or a plugin brings.
#[test]
fn a_misspelt_permission_is_told_the_right_one_and_an_unknown_one_warns() {
    let error = World::with(r#"{"permission": {"bsh": "ask"}}"#).error();
    assert!(
        error.contains("`permission.bsh` is not a setting of Leftfold; did you mean `bash`?"),
        "{error}"
    );
    for (text, warning) in [
        (r#"{"permission": {"frobnicate": "ask"}}"#, Some("needs the permission `frobnicate`")),
        (
            r#"{"agent": {"a": {"permission": {"frobnicate": "ask"}}}}"#,
            Some("`agent.a.permission.frobnicate`"),
        ),
        (r#"{"permission": {"frobnicate": "ask"}, "plugin": [["p"]]}"#, None),
        (r#"{"permission": {"bsh": "ask"}, "plugin": [["p"]]}"#, Some("did you mean `bash`?")),
        (
            r#"{"permission": {"db_query": "ask"}, "mcp": {"db": {"type": "local", "command": ["x"]}}}"#,
            None,
        ),
        (
            r#"{"permission": {"d*": "ask", "doom_loop": "ask", "list": "deny", "unreadable": "allow"}}"#,
            None,
        ),
    ] {
        let settings = World::with(text).load_in("").unwrap();
        match warning {
            Some(words) => {
                assert!(
                    settings.warnings.iter().any(|said| said.contains(words)),
                    "{text}: {:?}",
                    settings.warnings
                );
            }
            None => assert_eq!(settings.warnings, Vec::<String>::new(), "{text}"),
        }
    }
    let foreign = World::new().file("opencode.json", r#"{"permission": {"bsh": "ask"}}"#);
    assert!(
        foreign
            .load_in("")
            .unwrap()
            .warnings
            .iter()
            .any(|said| said.contains("did you mean `bash`?"))
    );
}

/// Another program's file may have many keys of its own: one line says so.
#[test]
fn many_keys_without_meaning_are_one_warning() {
    for (text, count) in [
        (r#"{"a1": 1, "b1": 1, "c1": 1}"#, 3),
        (r#"{"a1": 1, "b1": 1, "c1": 1, "d1": {"e": 1}}"#, 1),
    ] {
        let settings = World::new().file("opencode.json", text).load_in("").unwrap();
        assert_eq!(settings.warnings.len(), count, "{:?}", settings.warnings);
        let all = settings.warnings.join("\n");
        assert!(["a1", "b1", "c1"].iter().all(|key| all.contains(&format!("`{key}`"))), "{all}");
    }
}
