//! Settings of Claude Code, read as settings of the project or of the user.

use leftfold_events::rules::{self, Action};

use super::*;
use crate::{Layers, diagnose};

const RULES: &str = ".claude/settings.json";
const LOCAL: &str = ".claude/settings.local.json";
const SERVERS: &str = ".mcp.json";

/// A world with one rule of Claude Code in the project.
fn ruled(list: &str, rule: &str) -> World {
    let rule = serde_json::to_string(rule).unwrap();
    World::new().file(RULES, &format!(r#"{{"permissions": {{"{list}": [{rule}]}}}}"#))
}

fn verdict(settings: &Settings, permission: &str, pattern: &str) -> Action {
    let mut all = rules::defaults();
    all.extend(settings.rules.clone());
    let restrictions = settings.restrictions("build", &|_| Vec::new());
    rules::evaluate_restricted(&all, restrictions.iter().map(Vec::as_slice), permission, pattern).0
}

/// A rule without its whole meaning has a warning, and never allows more.
#[test]
fn rules_keep_their_meaning_or_become_stricter() {
    for (list, rule, expected, is_told) in [
        ("allow", "Bash", "bash *", false),
        ("allow", "Bash(*)", "bash *", false),
        ("allow", "Bash(npm run test)", "bash npm run test", false),
        ("allow", "Bash(npm run test:*)", "bash npm run test *", false),
        ("allow", "Bash(git * main)", "bash git * main", false),
        ("allow", "Bash(ls*)", "bash ls*", false),
        ("allow", "Bash(curl http://h/?a)", "", true),
        ("allow", "Bash()", "", true),
        ("deny", "Bash(rm \"a b\")", "bash rm \"a b\"|bash rm a b", false),
        ("deny", "Bash(curl * | sh)", "bash curl * | sh", true),
        ("deny", "Bash(run_in_background:true)", "bash run_in_background:true", true),
        ("ask", "Bash(a?:*)", "bash a? *", false),
        ("allow", "Read(./.env)", "read .env|read .env/*", false),
        ("allow", "Read(.env)", "read .env|read .env/*", true),
        ("ask", "Read(./a/b)", "read a/b|read a/b/*|read */a/b|read */a/b/*", false),
        ("deny", "Read(/secrets/**)", "read secrets/*|edit secrets/*", false),
        ("allow", "Edit(src/**)", "edit src/*", false),
        ("deny", "Edit(src/**)", "edit src/*|edit */src/*", false),
        ("allow", "Edit(src/*)", "edit src/*", false),
        ("allow", "Edit(src/*.ts)", "", true),
        ("deny", "Edit(/src/*.ts)", "edit src/*.ts|edit src/*.ts/*", true),
        ("allow", "Edit(*.md)", "", true),
        ("deny", "Edit(*.md)", "edit *.md|edit *.md/*", false),
        ("allow", "Edit(src/**/*.ts)", "edit src/*.ts|edit src/*.ts/*", false),
        ("allow", "Edit(/a/**/b)", "edit a/b|edit a/b/*|edit a/*/b|edit a/*/b/*", false),
        ("allow", "Edit(**)", "", true),
        ("ask", "Edit(**)", "edit *", false),
        ("allow", "Edit(/docs/[ab].md)", "", true),
        ("deny", "Edit(/docs/[ab].md)", "edit docs/?.md|edit docs/?.md/*", true),
        ("allow", "Edit(/a/../b)", "", true),
        ("allow", "Edit(!a)", "", true),
        ("allow", "Read(//etc/hosts)", "read /etc/hosts|read /etc/hosts/*", false),
        ("allow", "Read(~/notes/**)", "read HOME/notes/*", false),
        ("ask", "Edit(~/notes/**)", "edit HOME/notes/*", false),
        // the project lies in the home folder
        ("ask", "Edit(~/**)", "edit HOME/*|edit *", true),
        (
            "ask",
            "Edit(//**/key)",
            "edit /key|edit /key/*|edit /*/key|edit /*/key/*|edit key|edit key/*|edit */key|edit */key/*",
            false,
        ),
        (
            "ask",
            "Edit(~/*/key)",
            "edit HOME/*/key|edit HOME/*/key/*|edit key|edit key/*|edit */key|edit */key/*",
            true,
        ),
        ("allow", "Write(a)", "", true),
        ("deny", "Write(/a)", "edit a|edit a/*", true),
        ("ask", "Write", "edit *", true),
        ("allow", "WebFetch(domain:example.com)", "host example.com", false),
        ("deny", "WebFetch(domain:example.com)", "host example.com:*", false),
        ("deny", "WebFetch(domain:*.example.com)", "host *.example.com:*", false),
        ("allow", "WebFetch", "webfetch *|host *", false),
        ("deny", "WebFetch", "webfetch *", false),
        ("allow", "WebFetch(https://h/)", "", true),
        ("deny", "WebFetch(https://h/)", "webfetch *", true),
        ("allow", "mcp__github", "github_* *", false),
        ("allow", "mcp__github__*", "github_* *", false),
        ("allow", "mcp__github__get_*", "github_get_* *", false),
        ("allow", "mcp__my.hub__get", "my_hub_get *", false),
        ("allow", "mcp__*", "", true),
        ("allow", "mcp__git*__get", "", true),
        ("deny", "mcp__*", "*_* *", true),
        ("deny", "mcp__github__*_all", "github_* *", true),
        ("deny", "Agent(Explore)", "task Explore|task explore", false),
        ("allow", "Task(helper)", "task helper", false),
        ("allow", "Agent(*)", "", true),
        ("allow", "Skill(deploy:*)", "skill deploy *", false),
        ("deny", "*", "* *", false),
        ("allow", "*", "", true),
        ("deny", "Web*", "webfetch *|websearch *", false),
        ("deny", "Grep(secrets/**)", "", true),
        ("deny", "NotebookEdit", "", true),
        ("allow", "Bash(ls", "", true),
    ] {
        let world = ruled(list, rule);
        let settings = world.load();
        let home = world.home().display().to_string();
        let action = list[..1].to_uppercase() + &list[1..];
        let found: Vec<String> = super::rules(&settings)
            .iter()
            .map(|rule| rule.trim_end_matches(&format!(" {action}")).replace(&home, "HOME"))
            .collect();
        assert_eq!(found.join("|"), expected, "{list} {rule}");
        let of_rule = |warning: &&String| warning.contains(":1:") && warning.contains("the rule `");
        let told = settings.warnings.iter().filter(of_rule).count();
        assert_eq!(told, usize::from(is_told), "{list} {rule}: {:?}", settings.warnings);
    }
}

/// The names of tools that are taken have a deny of their own.
#[test]
fn a_denied_tool_of_a_server_has_no_second_name() {
    let settings = ruled("deny", "mcp__github__get").load();
    let second = leftfold_tools::external::tool_name("github", "get", |_| true);
    for name in ["github_get", &second] {
        assert_eq!(verdict(&settings, name, "*"), Action::Deny, "{name}");
    }
}

#[test]
fn order_counts_for_nothing_within_a_folder_and_settings_of_leftfold_win() {
    let world = World::new()
        .file(RULES, r#"{"permissions": {"deny": ["Bash(rm *)", "Bash(a)"], "ask": ["Bash(b)"], "allow": ["Bash(c)"]}}"#)
        .file(LOCAL, r#"{"permissions": {"allow": ["Bash", "Bash(a)"], "ask": ["Bash(c)"]}}"#)
        .file("sub/leftfold.json", r#"{"permission": {"bash": {"b": "allow", "c": "deny"}}}"#)
        .file("sub/.claude/settings.json", r#"{"permissions": {"allow": ["Bash(c)", "Bash(b)"]}}"#);
    for (folder, command, expected) in [
        ("", "ls", Action::Allow),
        ("", "rm x", Action::Deny),
        ("", "a", Action::Deny),
        ("", "b", Action::Ask),
        ("", "c", Action::Ask),
        ("sub", "a", Action::Deny),
        ("sub", "b", Action::Allow),
        ("sub", "c", Action::Deny),
    ] {
        let settings = world.load_in(folder).unwrap();
        assert_eq!(verdict(&settings, "bash", command), expected, "{folder} {command}");
    }
}

#[test]
fn without_trust_only_stricter_rules_count() {
    let text = r#"{"permissions": {"deny": ["Read(./key)"], "ask": ["Bash(git push:*)"], "allow": ["WebFetch", "mcp__s__t"]},
        "hooks": {"PreToolUse": [{"hooks": [{"command": "touch hooked"}]}]}, "env": {"A": "b"}}"#;
    let world = World::new()
        .file(RULES, text)
        .file(SERVERS, r#"{"mcpServers": {"s": {"command": "${HOME}/x"}, "t": {"type": "http", "url": "https://h.example/"}}}"#);
    let items = |world: &World| {
        let trust = review(&world.path(""), &world.env()).unwrap();
        let item = |item: &crate::TrustItem| {
            assert!(item.place.source.of_project && item.place.line == 1, "{item:?}");
            (item.key.clone(), item.effect.clone())
        };
        trust.items.iter().map(item).collect::<Vec<_>>()
    };
    let found = items(&world);
    let expected = [
        ("mcp.s", "starts `/x` as an MCP server"),
        ("mcp.t", "connects to the MCP server at h.example"),
        ("permission", "allows calls without asking"),
    ];
    assert_eq!(found, expected.map(|(key, effect)| (key.to_owned(), effect.to_owned())));
    let untrusted = load(&world.path(""), &world.env(), known()).unwrap();
    assert!(untrusted.mcp.is_empty() && untrusted.rules.is_empty());
    for (permission, pattern, before, after) in [
        ("read", "key", Action::Deny, Action::Deny),
        ("edit", "key", Action::Deny, Action::Deny),
        ("bash", "git push x", Action::Ask, Action::Ask),
        ("host", "https://h/", Action::Ask, Action::Allow),
    ] {
        assert_eq!(verdict(&untrusted, permission, pattern), before, "{permission}");
        assert_eq!(verdict(&world.load(), permission, pattern), after, "{permission}");
    }
    assert_eq!(world.load().mcp.len(), 2);
    // another rule is another question
    let world = world.file(RULES, &text.replace("mcp__s__t", "Bash"));
    let changed = load(&world.path(""), &world.env(), known()).unwrap();
    assert!(changed.rules.is_empty() && changed.mcp.is_empty());
}

#[test]
fn rules_of_the_user_need_no_trust_and_lie_below_settings_of_leftfold() {
    let world = World::new()
        .file("../.claude/settings.json", r#"{"permissions": {"allow": ["Edit(docs/**)"], "deny": ["Bash(rm *)", "Bash(ls *)"]}, "model": "x"}"#)
        .file("../.config/leftfold/leftfold.json", r#"{"permission": {"edit": "ask", "bash": {"ls *": "allow"}}}"#)
        .file(RULES, r#"{"permissions": {"allow": ["Bash"]}}"#);
    let settings = world.load();
    for (permission, pattern, expected) in [
        ("bash", "rm x", Action::Deny),
        ("bash", "ls x", Action::Allow),
        ("edit", "docs/a.md", Action::Ask),
    ] {
        assert_eq!(verdict(&settings, permission, pattern), expected, "{permission} {pattern}");
    }
    let own = World::new()
        .file("sub/x", "")
        .file("../.claude/settings.json", r#"{"permissions": {"allow": ["Read(./.env)"]}}"#);
    // relative paths start in the folder in which Leftfold does
    let settings = own.load_in("sub").unwrap();
    assert_eq!(verdict(&settings, "read", "sub/.env"), Action::Allow);
    assert_eq!(verdict(&settings, "read", ".env"), Action::Ask);
}

#[test]
fn servers_become_those_of_settings() {
    let text = r#"{"mcpServers": {
        "files": {"command": "${BIN:-npx}", "args": ["-y", "${PACKAGE}", "{env:PACKAGE}"], "env": {"A": "x${TOKEN}y", "B": "${NONE:-}"},
            "alwaysLoad": true},
        "far": {"type": "sse", "url": "https://${HOST:-h.example}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
            "headersHelper": "touch helped", "oauth": {"clientId": "c", "scopes": "s"}},
        "socket": {"type": "ws", "url": "wss://h/"},
        "unset": {"command": "${NONE}"}
    }, "inputs": []}"#;
    let world = World::new()
        .file(SERVERS, text)
        .file("opencode.json", r#"{"mcp": {"files": {"enabled": false}}}"#)
        .var("TOKEN", "canary")
        .var("PACKAGE", "p");
    let settings = world.load();
    let files = &settings.mcp["files"];
    assert_eq!(files.command().unwrap(), ["npx", "-y", "p", "{env:PACKAGE}"]);
    let variables = [("A", "xcanaryy"), ("B", "")];
    assert_eq!(
        files.environment(),
        variables.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert!(files.is_of_project() && !files.is_enabled());
    let far = &settings.mcp["far"];
    assert_eq!((far.url(), far.kind_name()), (Some("https://h.example/mcp"), "remote"));
    assert_eq!(far.headers(), [("Authorization".to_owned(), "Bearer canary".to_owned())]);
    assert!(!settings.mcp.contains_key("socket"));
    let why = ".mcp.json:6:20: `mcpServers.socket` is left out: Leftfold does not speak `ws`";
    assert!(settings.warnings.iter().any(|told| told.ends_with(why)), "{:?}", settings.warnings);
    let unset = crate::Mcp::unset(&settings.mcp["unset"]);
    let unset: Vec<String> = unset.map(|error| error.to_string()).collect();
    assert!(unset[0].contains("NONE, which is not set"), "{unset:?}");
    let diagnosis = diagnose(&world.path(""), &world.env(), &Layers::new(known()));
    let unread: Vec<(usize, &str)> =
        diagnosis.idle.iter().map(|(place, key)| (place.line, key.as_str())).collect();
    let expected = [
        (3, "mcpServers.files.alwaysLoad"),
        (5, "mcpServers.far.headersHelper"),
        (5, "mcpServers.far.oauth.scopes"),
        (8, "inputs"),
    ];
    assert_eq!(unread, expected);
}

#[test]
fn what_is_wrong_has_its_place() {
    for (name, text, expected) in [
        (
            RULES,
            r#"{"permissions": []}"#,
            ".claude/settings.json:1:2: `permissions`: expected an object",
        ),
        (
            RULES,
            r#"{"permissions": {"deny": "Bash"}}"#,
            ":1:26: `permissions.deny`: expected a list of rules",
        ),
        (
            RULES,
            r#"{"permissions": {"deny": [1]}}"#,
            ":1:27: `permissions.deny[0]`: expected a rule",
        ),
        (RULES, r#"{"permissions""#, ".claude/settings.json:1:"),
        (SERVERS, r#"{"mcpServers": 1}"#, ".mcp.json:1:16: `mcp`: expected an object"),
        (
            SERVERS,
            r#"{"mcpServers": {"s": {"command": "x", "args": [1]}}}"#,
            ".mcp.json:1:48: `mcp.s.command[1]`",
        ),
    ] {
        let error = World::new().file(name, text).error();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // of many, one warning has all lines
    let rules: Vec<String> = (0..5).map(|at| format!("\"Tool{at}(x)\"")).collect();
    let text = format!("{{\"permissions\": {{\"allow\": [\n{}\n]}}}}", rules.join(",\n"));
    let settings = World::new().file(RULES, &text).load();
    let [told] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
    assert!(told.contains("5 rules") && told.contains("`Tool4(x) (line 6)`"), "{told}");
    let key = "Bash(curl -H 'Authorization: Bearer sk-0123456789abcdef' ?)";
    let settings = ruled("allow", key).load();
    assert!(!format!("{:?}", settings.warnings).contains("0123456789"), "{:?}", settings.warnings);
}
