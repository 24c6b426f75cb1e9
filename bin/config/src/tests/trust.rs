//! Which settings of a project need trust, and their effect with and without it.

use std::os::unix::fs::symlink;

use leftfold_events::rules::{self, Action, Rule};

use super::*;
use crate::Standing;

/// The keys of the items that need trust.
fn items(world: &World) -> Vec<String> {
    let trust = review(&world.path(""), &world.env()).unwrap();
    trust.items.iter().map(|item| item.key.clone()).collect()
}

/// The settings of a project that nobody has trusted.
fn untrusted(world: &World) -> Settings {
    load(&world.path(""), &world.env(), known()).unwrap()
}

#[test]
fn texts_and_stricter_rules_apply_at_once_and_everything_else_needs_trust() {
    for (text, expected) in [
        ("{}", &[][..]),
        (r#"{"$schema": "https://example.org/s.json", "theme": "dark"}"#, &[]),
        (r#"{"formatter": {"f": {"command": ["sh"]}}, "lsp": true}"#, &["formatter", "lsp"]),
        (r#"{"share": "auto", "shell": "./sh"}"#, &["share", "shell"]),
        (r#"{"share": "disabled", "theme": "x"}"#, &[]),
        (r#"{"experimental": {"mcp_timeout": 1}}"#, &["experimental"]),
        (r#"{"added_later": {"command": ["sh"]}}"#, &["added_later"]),
        (r#"{"skills": {"addresses": ["https://host/"]}}"#, &["skills.addresses"]),
        (r#"{"permission": "ask"}"#, &[]),
        (r#"{"permission": {"bash": {"rm *": "deny", "*": "ask"}}}"#, &[]),
        (r#"{"permission": {"bash": {"rm *": "deny", "ls": "allow"}}}"#, &["permission"]),
        (r#"{"permission": "allow"}"#, &["permission"]),
        (r#"{"permission": "{env:RULE}"}"#, &["permission"]),
        (r#"{"agent": {"a": {"permission": {"bash": "{env:RULE}"}}}}"#, &["agent.a.permission"]),
        (r#"{"tools": {"bash": false}}"#, &[]),
        (r#"{"tools": {"bash": true}}"#, &["tools"]),
        (r#"{"agent": {"a": {"prompt": "p", "description": "d", "mode": "all"}}}"#, &[]),
        (r#"{"agent": {"a": {"permission": {"edit": "deny"}}}}"#, &[]),
        (r#"{"agent": {"a": {"permission": {"edit": "allow"}}}}"#, &["agent.a.permission"]),
        (r#"{"agent": {"plan": {"permission": {"edit": "ask"}}}}"#, &["agent.plan.permission"]),
        (r#"{"agent": {"a": {"tools": {"edit": true}}}}"#, &["agent.a.tools"]),
        (r#"{"agent": {"a": {"model": "p/m"}}}"#, &["agent.a.model"]),
        (r#"{"agent": {"a": {"disable": true}}}"#, &["agent.a.disable"]),
        (
            r#"{"agent": {"a": {"steps": 3, "temperature": 1}}}"#,
            &["agent.a.steps", "agent.a.temperature"],
        ),
        (r#"{"agent": {"a": {"options": {}, "other": 1}}}"#, &["agent.a.options", "agent.a.other"]),
        (r#"{"agent": {"a": {"prompt": "{env:KEY}"}}}"#, &["agent.a.prompt"]),
        (r#"{"agent": {"a": {"prompt": "{file:./inside.md}"}}}"#, &[]),
        (r#"{"agent": {"a": {"prompt": "{file:../outside.md}"}}}"#, &["agent.a.prompt"]),
        (r#"{"agent": {"a": {"prompt": "{file:~/outside.md}"}}}"#, &["agent.a.prompt"]),
        (r#"{"agent": {"a": {"prompt": "{file:./link.md}"}}}"#, &["agent.a.prompt"]),
        (r#"{"mode": {"a": {"prompt": "p"}}}"#, &[]),
        (r#"{"agent": {"build": {"mode": "subagent"}}}"#, &["agent.build.mode"]),
        (r#"{"agent": {"general": {"mode": "primary"}}}"#, &["agent.general.mode"]),
        (r#"{"agent": {"plan": {"hidden": true}}}"#, &["agent.plan.hidden"]),
        (r#"{"agent": {"build": {"mode": "primary", "prompt": "p", "description": "d"}}}"#, &[]),
        (r#"{"mode": {"plan": {"prompt": "p"}}}"#, &[]),
        (r#"{"mode": {"a": {"model": "p/m"}}}"#, &["agent.a.model"]),
        (r#"{"command": {"c": {"template": "t $1 @x", "description": "d"}}}"#, &[]),
        (r#"{"command": {"c": {"template": "t !`ls`"}}}"#, &["command.c"]),
        (r#"{"command": {"c": {"template": "t", "agent": "build"}}}"#, &["command.c.agent"]),
        (r#"{"command": {"c": {"template": "t", "subtask": true}}}"#, &["command.c.subtask"]),
        (r#"{"instructions": ["docs/a.md", "*.md"]}"#, &[]),
        (r#"{"instructions": ["a.md", "https://host/a.md"]}"#, &["instructions[1]"]),
        (r#"{"instructions": ["../a.md"]}"#, &["instructions[0]"]),
        (r#"{"instructions": ["~/a.md"]}"#, &["instructions[0]"]),
        (r#"{"instructions": ["/etc/hostname"]}"#, &["instructions[0]"]),
        (r#"{"instructions": ["link.md"]}"#, &["instructions[0]"]),
        (r#"{"instructions": ["away/../outside.md"]}"#, &["instructions[0]"]),
        (
            r#"{"instructions": [".env", "sub/a.env", ".git/config"]}"#,
            &["instructions[0]", "instructions[1]", "instructions[2]"],
        ),
        (r#"{"agent": {"a": {"prompt": "{file:away/../outside.md}"}}}"#, &["agent.a.prompt"]),
        (r#"{"agent": {"a": {"prompt": "{file:.env}"}}}"#, &["agent.a.prompt"]),
        (r#"{"skills": ["s", "../s"]}"#, &["skills[1]"]),
        (r#"{"skills": {"paths": ["s", "../s"]}}"#, &["skills.paths[1]"]),
        (r#"{"model": "p/m", "small_model": "p/m"}"#, &["model", "small_model"]),
        (r#"{"default_agent": "plan"}"#, &["default_agent"]),
        (r#"{"provider": {"p": {"options": {"baseURL": "https://host/v1"}}}}"#, &["provider.p"]),
        (r#"{"provider": {"p": {"options": {"headers": {"a": "{env:KEY}"}}}}}"#, &["provider.p"]),
        (r#"{"enabled_providers": ["p"]}"#, &["enabled_providers"]),
        (r#"{"mcp": {"s": {"command": ["sh"]}, "t": {"url": "http://h/"}}}"#, &["mcp.s", "mcp.t"]),
        (r#"{"mcp": {"s": {"command": ["sh"], "enabled": false}}}"#, &["mcp.s"]),
        (r#"{"plugin": [["sh", "p.sh"], "package"]}"#, &["plugin[0]", "plugin[1]"]),
        (r#"{"secrets": {"S": "{env:KEY}"}}"#, &["secrets"]),
        (r#"{"environment": ["DATABASE_URL"]}"#, &["environment"]),
        (r#"{"webfetch": {"private": true}}"#, &["webfetch"]),
        (
            r#"{"websearch": {"url": "http://localhost"}, "codesearch": {"apiKey": "k"}}"#,
            &["websearch", "codesearch"],
        ),
        (r#"{"formatter": false, "lsp": false}"#, &[]),
        (r#"{"formatter": true}"#, &["formatter"]),
        (r#"{"lsp": {"rust": {"disabled": true}}}"#, &["lsp"]),
        (r#"{"sandbox": "on"}"#, &[]),
        (r#"{"sandbox": {"mode": "on", "hide": ["keys", "/etc/x"]}}"#, &[]),
        (r#"{"sandbox": "off"}"#, &["sandbox.mode"]),
        (r#"{"sandbox": "external"}"#, &["sandbox.mode"]),
        (r#"{"sandbox": "{env:MODE}"}"#, &["sandbox.mode"]),
        (r#"{"sandbox": {"hide": ["{env:HOME}/x"]}}"#, &["sandbox.hide"]),
        (
            r#"{"sandbox": {"allow": true, "write": ["/x"], "show": ["/y"], "processes": 1}}"#,
            &["sandbox.allow", "sandbox.write", "sandbox.show", "sandbox.processes"],
        ),
        (r#"{"sandbox": {"network": "deny"}}"#, &["sandbox.network"]),
        (r#"{"snapshot": false, "title": false}"#, &["snapshot", "title"]),
        (r#"{"record": "wire"}"#, &["record"]),
        (r#"{"compaction": {"auto": false}}"#, &["compaction"]),
        (r#"{"retry": {"attempts": 1}}"#, &["retry"]),
        (r#"{"task": {"timeout": 1}}"#, &["task"]),
        (r#"{"tool_output": {"max_lines": 1}}"#, &["tool_output"]),
    ] {
        let world = World::with(text).file("inside.md", "inside");
        fs::write(world.home().join("outside.md"), "outside").unwrap();
        symlink(world.home().join("outside.md"), world.path("link.md")).unwrap();
        fs::create_dir_all(world.home().join("folder")).unwrap();
        symlink(world.home().join("folder"), world.path("away")).unwrap();
        assert_eq!(items(&world), expected, "{text}");
        let settings = untrusted(&world);
        assert_eq!(settings.trust.is_whole(), expected.is_empty(), "{text}");
        // each item is named, or the number of many, and then the way to trust them
        let is_rule = |key: &&str| key.ends_with("permission") || key.ends_with("tools");
        let rules = settings.trust.items.iter().filter(|item| item.in_part).count();
        let wholly = expected.len() - rules;
        let number = format!("so {wholly} of its settings have no effect");
        assert!(rules <= expected.iter().filter(|key| is_rule(key)).count(), "{text}");
        let counted = || settings.warnings.iter().any(|warning| warning.contains(&number));
        let named = |key: &str| {
            let item = settings.trust.items.iter().find(|item| item.key == key);
            let told = format!("`{key}` {}", item.unwrap().without_trust());
            settings.warnings.iter().any(|warning| warning.contains(&told))
        };
        let is_told =
            if expected.len() > 3 { counted() } else { expected.iter().all(|key| named(key)) };
        assert!(is_told, "{text}: {:?}", settings.warnings);
        let way = settings.warnings.iter().filter(|warning| warning.contains("`leftfold trust`"));
        assert_eq!(way.count(), usize::from(!expected.is_empty()), "{text}");
        assert!(!kept(&settings).to_string().contains("outside"), "{text}");
    }
}

#[test]
fn a_change_in_the_folders_of_a_module_asks_again() {
    let world = World::with(r#"{ "plugin": ["p@1.0", "./a/b.ts"] }"#)
        .file("node_modules/p/package.json", "{}")
        .file("node_modules/p/lib/deep/x.js", "1")
        .file("node_modules/p/node_modules/q/y.js", "1")
        .file("a/b.ts", "1")
        .file("a/in/c.ts", "1")
        .file(".opencode/tool/t.ts", "1")
        .file(".opencode/tool/in/u.ts", "1")
        .file("other.ts", "1");
    let (trusted, changed) = (Standing::Trusted, Standing::Changed);
    world.trust("");
    for (file, expected) in [
        ("other.ts", [trusted, trusted, trusted]),
        ("node_modules/p/node_modules/q/y.js", [trusted, trusted, trusted]),
        ("node_modules/p/lib/deep/x.js", [changed, trusted, trusted]),
        ("a/in/c.ts", [trusted, changed, trusted]),
        (".opencode/tool/in/u.ts", [trusted, trusted, changed]),
    ] {
        fs::write(world.path(file), "2").unwrap();
        let trust = review(&world.path(""), &world.env()).unwrap();
        let mut standing: Vec<_> = trust.items.iter().map(|item| trust.standing(item)).collect();
        // tools stand in OpenCode's folder, which comes first
        standing.rotate_left(1);
        assert_eq!(standing, expected, "{file}");
        assert_eq!(untrusted(&world).plugins.is_empty(), expected.contains(&changed), "{file}");
        world.trust("");
    }
}

#[test]
fn without_trust_nothing_is_left_of_what_needs_it() {
    let world = World::with(
        r#"{
            "model": "evil/m",
            "provider": { "evil": { "wire": "openai-chat", "options": { "baseURL": "http://{env:KEY}.host/" } } },
            "plugin": [["sh", "p.sh"]], "mcp": { "s": { "command": ["sh"] } },
            "secrets": { "S": "{env:KEY}" }, "environment": ["DATABASE_URL"], "webfetch": { "private": true },
            "permission": { "bash": "allow", "edit": "deny" },
            "agent": { "helper": { "prompt": "Help.", "model": "evil/m" } },
            "command": { "c": { "template": "!`touch x`" } }
        }"#,
    )
    .var("KEY", "key-of-the-user");
    let settings = untrusted(&world);
    assert!(settings.model.is_none() && settings.providers.is_empty());
    assert!(settings.plugins.is_empty() && settings.mcp.is_empty() && settings.commands.is_empty());
    assert!(settings.secrets.is_empty() && settings.environment().is_empty());
    assert!(!settings.webfetch.private && settings.rules.is_empty());
    assert!(settings.agents["helper"].model.is_none());
    assert_eq!(settings.agents["helper"].prompt.as_deref(), Some("Help."));
    assert!(!format!("{:?}", settings.warnings).contains("key-of-the-user"));
    world.trust("");
    let settings = untrusted(&world);
    assert!(settings.trust.is_whole() && settings.warnings.is_empty(), "{:?}", settings.warnings);
    assert_eq!((settings.plugins.len(), settings.mcp.len(), settings.commands.len()), (1, 1, 1));
}

/// The verdict for the agent `build`.
fn verdict(settings: &Settings, permission: &str, pattern: &str) -> Action {
    verdict_of("build", settings, permission, pattern)
}

fn verdict_of(agent: &str, settings: &Settings, permission: &str, pattern: &str) -> Action {
    let mut all = rules::defaults();
    all.extend(settings.rules.clone());
    all.extend(settings.rules_of(agent));
    let restrictions = settings.restrictions(agent, &|_| Vec::new());
    rules::evaluate_restricted(&all, restrictions.iter().map(Vec::as_slice), permission, pattern).0
}

/// A world with these settings in the user's own file.
fn user_and_project(user: &str, project: &str) -> World {
    let world = World::with(project);
    let config = world.home().join(".config/leftfold");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("leftfold.json"), user).unwrap();
    world
}

#[test]
fn texts_for_the_users_own_agents_and_commands_need_trust() {
    let user = r#"{
        "agent": {
            "deploy": {"prompt": "mine", "description": "mine", "mode": "subagent", "permission": {"bash": "allow"}},
            "build": {"prompt": "mine"}
        },
        "command": {"ship": {"template": "mine", "agent": "deploy"}}
    }"#;
    for (project, expected) in [
        (r#"{"agent": {"deploy": {"prompt": "p"}}}"#, &["agent.deploy.prompt"][..]),
        (r#"{"mode": {"deploy": {"prompt": "p"}}}"#, &["agent.deploy.prompt", "agent.deploy.mode"]),
        (r#"{"agent": {"deploy": {"description": "d"}}}"#, &["agent.deploy.description"]),
        (r#"{"agent": {"deploy": {"mode": "all"}}}"#, &["agent.deploy.mode"]),
        (r#"{"agent": {"build": {"mode": "primary"}}}"#, &["agent.build.mode"]),
        (r#"{"agent": {"deploy": {"permission": {"bash": "deny"}}}}"#, &[]),
        (r#"{"agent": {"build": {"prompt": "p"}, "other": {"prompt": "p", "mode": "all"}}}"#, &[]),
        (r#"{"command": {"ship": {"template": "p"}}}"#, &["command.ship.template"]),
        (r#"{"command": {"ship": {"description": "p"}}}"#, &["command.ship.description"]),
        (r#"{"command": {"other": {"template": "p"}}}"#, &[]),
    ] {
        for by_variable in [false, true] {
            let world = match by_variable {
                true => World::with(project).var("LEFTFOLD_CONFIG_CONTENT", user),
                false => user_and_project(user, project),
            };
            assert_eq!(items(&world), expected, "{project}");
            let settings = untrusted(&world);
            let (deploy, ship) = (&settings.agents["deploy"], &settings.commands["ship"]);
            assert_eq!(deploy.prompt.as_deref(), Some("mine"), "{project}");
            assert_eq!(deploy.description.as_deref(), Some("mine"), "{project}");
            assert_eq!(deploy.mode, Some(crate::Mode::Subagent), "{project}");
            assert_eq!(ship.template.as_deref(), Some("mine"), "{project}");
            assert_eq!(ship.agent.as_deref(), Some("deploy"), "{project}");
        }
    }
    let project =
        r#"{"agent": {"deploy": {"prompt": "p"}}, "command": {"ship": {"template": "p"}}}"#;
    let world = user_and_project(user, project);
    let warnings = untrusted(&world).warnings.join("\n");
    assert!(warnings.contains("it replaces the prompt of your agent `deploy`"), "{warnings}");
    assert!(warnings.contains("it replaces your command `/ship`"), "{warnings}");
    world.trust("");
    let settings = untrusted(&world);
    assert_eq!(settings.agents["deploy"].prompt.as_deref(), Some("p"));
    assert_eq!(settings.commands["ship"].template.as_deref(), Some("p"));
}

#[test]
fn an_agent_of_a_project_is_not_looser_than_the_users_default_agent() {
    use Action::{Allow, Ask, Deny};
    let of = |agent: &str, rules: &str| format!(r#""{agent}": {{"permission": {rules}}}"#);
    let deny = r#"{"edit": "deny"}"#;
    for (user, own, expected) in [
        (of("build", deny), "{}", [Deny, Deny]),
        (of("general", deny), "{}", [Deny, Deny]),
        (of("build", r#"{"edit": "ask"}"#), "{}", [Ask, Ask]),
        // a trusted rule of its own replaces an `ask`, and never a `deny`
        (of("build", r#"{"edit": "ask"}"#), r#"{"edit": "allow"}"#, [Ask, Allow]),
        (of("build", deny), r#"{"edit": "allow"}"#, [Deny, Deny]),
        (of("build", r#"{"edit": {"*": "deny", "a": "allow"}}"#), "{}", [Allow, Allow]),
        // not the default agent
        (of("mine", deny), "{}", [Allow, Allow]),
        // `mine` takes the prompts
        (
            format!(
                r#"{}, "build": {{"hidden": true}}, "plan": {{"disable": true}}"#,
                of("mine", deny)
            ),
            "{}",
            [Deny, Deny],
        ),
        // an agent that the user mentions is the user's
        (format!(r#"{}, "helper": {{"color": "red"}}"#, of("build", deny)), "{}", [Allow, Allow]),
    ] {
        let user = format!(r#"{{"agent": {{{user}}}}}"#);
        let project = format!(
            r#"{{"agent": {{"helper": {{"prompt": "p", "permission": {own}}}}}, "title": false}}"#
        );
        let world = user_and_project(&user, &project);
        let verdict = || verdict_of("helper", &untrusted(&world), "edit", "a");
        let without = verdict();
        world.trust("");
        assert_eq!([without, verdict()], expected, "{user} {project}");
    }
    // a trusted project that removes the default agent does not remove its rules
    let user = format!(r#"{{"agent": {{{}}}}}"#, of("build", deny));
    let world = user_and_project(
        &user,
        r#"{"agent": {"build": {"disable": true}, "helper": {"prompt": "p"}}}"#,
    );
    world.trust("");
    assert_eq!(verdict_of("helper", &untrusted(&world), "edit", "a"), Deny);
    // the user's `default_agent` counts, not that of a project
    for (default, expected) in [("mine", Deny), ("build", Allow)] {
        let user =
            format!(r#"{{"default_agent": "{default}", "agent": {{{}}}}}"#, of("mine", deny));
        let world = user_and_project(
            &user,
            r#"{"default_agent": "plan", "agent": {"helper": {"prompt": "p"}}}"#,
        );
        assert_eq!(verdict_of("helper", &untrusted(&world), "edit", "a"), expected, "{default}");
    }
}

#[test]
fn a_project_tightens_the_users_rules_and_never_lifts_a_deny() {
    use Action::{Allow, Ask, Deny};
    for (global, project, last, permission, pattern, without, with) in [
        ("{}", r#"{"bash": "ask"}"#, "{}", "bash", "ls", Ask, Ask),
        ("{}", r#"{"bash": {"*": "ask", "ls": "allow"}}"#, "{}", "bash", "ls", Allow, Allow),
        ("{}", r#"{"bash": {"*": "ask", "ls": "allow"}}"#, "{}", "bash", "rm", Ask, Ask),
        (r#"{"bash": "ask"}"#, r#"{"bash": "allow"}"#, "{}", "bash", "ls", Ask, Allow),
        (r#"{"bash": "deny"}"#, r#"{"bash": "allow"}"#, "{}", "bash", "ls", Deny, Deny),
        (r#"{"bash": "deny"}"#, r#"{"bash": "ask"}"#, "{}", "bash", "ls", Deny, Deny),
        (
            r#"{"bash": {"*": "deny", "ls": "allow"}}"#,
            r#"{"bash": {"*": "allow"}}"#,
            "{}",
            "bash",
            "ls",
            Allow,
            Allow,
        ),
        (
            r#"{"bash": {"*": "deny", "ls": "allow"}}"#,
            r#"{"bash": {"*": "allow"}}"#,
            "{}",
            "bash",
            "rm",
            Deny,
            Deny,
        ),
        (r#"{"edit": "ask"}"#, r#"{"edit": "deny"}"#, "{}", "edit", "a", Deny, Deny),
        ("{}", r#"{"read": "allow"}"#, "{}", "read", ".env", Ask, Allow),
        // a rule that the user states after the project's decides
        ("{}", r#"{"bash": "ask"}"#, r#"{"bash": {"ls": "allow"}}"#, "bash", "ls", Allow, Allow),
        ("{}", r#"{"bash": "deny"}"#, r#"{"bash": "allow"}"#, "bash", "ls", Allow, Allow),
        (
            r#"{"bash": "deny"}"#, r#"{"bash": "ask"}"#, r#"{"bash": "allow"}"#, "bash", "ls",
            Allow, Allow,
        ),
    ] {
        for of_agent in [false, true] {
            let wrap = |rules: &str| match of_agent {
                true => format!(r#"{{"agent": {{"build": {{"permission": {rules}}}}}}}"#),
                false => format!(r#"{{"permission": {rules}}}"#),
            };
            let world = World::with(&wrap(project)).var("LEFTFOLD_CONFIG_CONTENT", &wrap(last));
            let config = world.home().join(".config/leftfold");
            fs::create_dir_all(&config).unwrap();
            fs::write(config.join("leftfold.json"), wrap(global)).unwrap();
            let case = format!("{global} {project} {last} {permission} {pattern}");
            let settings = untrusted(&world);
            if !settings.trust.is_whole() {
                assert_eq!(verdict(&settings, permission, pattern), without, "untrusted: {case}");
            }
            world.trust("");
            assert_eq!(verdict(&untrusted(&world), permission, pattern), with, "trusted: {case}");
        }
    }
    // rules without an `allow` were never trusted, so they only tighten, in a trusted project too
    let world = World::with(r#"{"permission": {"bash": "ask"}, "model": "p/m"}"#);
    world.trust("");
    let settings = untrusted(&world);
    assert!(settings.trust.is_whole() && settings.rules.is_empty());
    assert_eq!(settings.restrictions("build", &|_| Vec::new()), [[Rule::new("bash", "*", Ask)]]);
}

#[test]
fn a_change_of_a_setting_or_of_a_file_that_it_executes_asks_again() {
    let world = World::with(r#"{"plugin": [["sh", "./tools/p.sh"]], "model": "p/m"}"#)
        .file("tools/p.sh", "echo 1")
        .file("tools/lib.sh", "echo lib")
        .file("other.sh", "echo other");
    let standing = || {
        let trust = review(&world.path(""), &world.env()).unwrap();
        trust.items.iter().map(|item| trust.standing(item)).collect::<Vec<_>>()
    };
    let (trusted, changed, new) = (Standing::Trusted, Standing::Changed, Standing::New);
    assert_eq!(standing(), [new, new]);
    world.trust("");
    assert_eq!(standing(), [trusted, trusted]);
    fs::write(world.path("other.sh"), "echo 2").unwrap();
    assert_eq!(standing(), [trusted, trusted]);
    for file in ["tools/p.sh", "tools/lib.sh"] {
        fs::write(world.path(file), "echo 2").unwrap();
        assert_eq!(standing(), [changed, trusted], "{file}");
        assert!(untrusted(&world).plugins.is_empty());
        let warnings = untrusted(&world).warnings;
        assert!(warnings[0].contains("has changed since you trusted it"), "{warnings:?}");
        world.trust("");
    }
    let more = r#"{"plugin": [["sh", "./tools/p.sh"]], "model": "p/n", "mcp": {"s": {"command": ["sh"]}}}"#;
    fs::write(world.path("leftfold.json"), more).unwrap();
    assert_eq!(standing(), [trusted, changed, new]);
    world.trust("");
    let trust = review(&world.path(""), &world.env()).unwrap();
    assert!(trust.is_whole());
    assert!(trust.revoke(&world.env()).unwrap() && !trust.revoke(&world.env()).unwrap());
    assert_eq!(standing(), [new, new, new]);
}

#[test]
fn the_users_own_sources_need_no_trust_and_links_out_of_the_project_are_left_out() {
    let text = r#"{"model": "p/m"}"#;
    for variable in ["LEFTFOLD_CONFIG_CONTENT", "OPENCODE_CONFIG_CONTENT"] {
        let world = World::new().var(variable, text);
        assert!(items(&world).is_empty() && untrusted(&world).model.is_some(), "{variable}");
    }
    // a file of the project that the user names is the user's
    for variable in ["LEFTFOLD_CONFIG", "OPENCODE_CONFIG"] {
        let world = World::with(text);
        let path = world.path("leftfold.json").display().to_string();
        let world = world.var(variable, &path);
        assert!(items(&world).is_empty() && untrusted(&world).model.is_some(), "{variable}");
    }
    let world = World::new();
    fs::write(world.home().join("x.json"), text).unwrap();
    fs::create_dir_all(world.home().join("agents")).unwrap();
    fs::write(world.home().join("agents/a.md"), "A secret of the user.").unwrap();
    symlink(world.home().join("x.json"), world.path("leftfold.json")).unwrap();
    fs::create_dir(world.path(".leftfold")).unwrap();
    symlink(world.home().join("agents"), world.path(".leftfold/agents")).unwrap();
    world.trust("");
    let settings = untrusted(&world);
    assert!(settings.model.is_none() && settings.agents.is_empty());
    let left_out = settings.warnings.iter().filter(|w| w.contains("leads out of the project"));
    assert_eq!(left_out.count(), 2, "{:?}", settings.warnings);
}

#[test]
fn a_mistake_in_a_setting_that_is_left_out_is_reported() {
    let world = World::with(r#"{"provider": {"p": {"wire": "none"}}}"#);
    let error = load(&world.path(""), &world.env(), known()).unwrap_err();
    assert!(world.plain(&error).starts_with("leftfold.json:1:"), "{error}");
}

/// Keys without effect need no trust, and their references are not resolved.
#[test]
fn references_without_effect_are_not_resolved() {
    for text in [
        r#"{"theme": "{env:KEY}"}"#,
        r#"{"$schema": "{env:KEY}"}"#,
        r#"{"theme": "{file:../outside.md}"}"#,
        r#"{"keybinds": {"leader": "{file:~/outside.md}"}}"#,
    ] {
        let world = World::with(text).var("KEY", "value-outside");
        fs::write(world.home().join("outside.md"), "value-outside").unwrap();
        let settings = untrusted(&world);
        let shown = format!("{} {:?}", kept(&settings), settings.warnings);
        assert!(items(&world).is_empty() && !shown.contains("value-outside"), "{text}: {shown}");
    }
}

/// Reading a pipe for its digest would wait for a writer.
#[test]
fn a_pipe_that_is_executed_is_not_read() {
    let world = World::with(r#"{"mcp": {"s": {"command": ["./pipe"]}}}"#);
    let made = std::process::Command::new("mkfifo").arg(world.path("pipe")).status().unwrap();
    assert!(made.success());
    assert_eq!(items(&world), ["mcp.s"]);
}

/// A file is not read into memory as a whole, and a change anywhere in it counts.
#[test]
fn a_large_file_that_is_executed_is_covered_to_its_end() {
    let world = World::with(r#"{"mcp": {"s": {"command": ["./large"]}}}"#);
    let large = fs::File::create(world.path("large")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    world.trust("");
    assert!(untrusted(&world).trust.is_whole());
    std::os::unix::fs::FileExt::write_at(&large, b"x", 16 << 20).unwrap();
    assert!(!untrusted(&world).trust.is_whole());
}

/// Trust for one setting is none for another whose path looks alike.
#[test]
fn a_key_with_a_dot_is_not_the_path_of_another_key() {
    for (before, after) in [
        (r#"{"mcp.x": {"command": ["sh"]}}"#, r#"{"mcp": {"x": {"command": ["sh"]}}}"#),
        (r#"{"provider.openai": {"api": "h"}}"#, r#"{"provider": {"openai": {"api": "h"}}}"#),
        (
            r#"{"agent.build.permission": {"bash": "allow"}}"#,
            r#"{"agent": {"build": {"permission": {"bash": "allow"}}}}"#,
        ),
        (r#"{"plugin[0]": ["sh"]}"#, r#"{"plugin": [["sh"]]}"#),
        (
            r#"{"command": {"a.model": {"template": "!`ls`"}}}"#,
            r#"{"command": {"a": {"model": {"template": "!`ls`"}}}}"#,
        ),
        (r#"{"agent": {"a.b": {"model": "p/m"}}}"#, r#"{"agent": {"a": {"b": {"model": "p/m"}}}}"#),
        (r#"{"mcp": {"a.b": {"command": ["sh"]}}}"#, r#"{"mcp.a.b": {"command": ["sh"]}}"#),
    ] {
        let world = World::with(before);
        let keys = items(&world);
        world.trust("");
        let world = world.file("leftfold.json", after);
        let trust = review(&world.path(""), &world.env()).unwrap();
        assert_eq!(trust.standing(&trust.items[0]), Standing::New, "{before} {after}");
        assert_ne!(items(&world), keys, "{before}");
    }
    assert_eq!(items(&World::with(r#"{"mcp.x": {}}"#)), [r#""mcp.x""#]);
}

/// The file `changed` is written after trust was given in the folder `directory`.
#[test]
fn a_change_of_any_file_that_a_setting_may_execute_asks_again() {
    let server = |command: &str| format!(r#"{{"mcp": {{"s": {{"command": {command}}}}}}}"#);
    for (command, changed, directory) in [
        (r#"["python3", "./guard.py"]"#, "helper.py", ""),
        (r#"["python3", "./guard.py"]"#, "new.py", ""),
        (r#"["sh", "g.sh"]"#, "sub/g.sh", "sub/deep"),
        (r#"["sh", "b/g.sh"], "cwd": "tools""#, "tools/b/g.sh", ""),
        (r#"["sh", "-c", "cd tools && sh b/g.sh"]"#, "tools/b/g.sh", ""),
        (r#"["sh", "links/g.sh"]"#, "links/beside.sh", ""),
        (r#"["sh", "links/g.sh"]"#, "tools/lib.sh", ""),
        (r#"["sh", "links/out.sh"]"#, "../out.sh", ""),
        (r#"["sh", "links/far/out.sh"]"#, "../far/out.sh", ""),
        (r#"["sh", "-c", "cd b && sh g.sh"], "cwd": "tools""#, "tools/b/g.sh", ""),
        (r#"["sh", "-c", "sh 'tools/a g.sh'"]"#, "tools/a g.sh", ""),
        (r#"["sh", "many/g.sh"]"#, "many/z299.sh", ""),
        (r#"["sh", "-c", "sh ./tools/g.sh"]"#, "tools/g.sh", ""),
        (r#"["sh", "-c", "x;\"./tools/g.sh\""]"#, "tools/g.sh", ""),
        (r#"["sh", "-c", "$(pwd)/tools/g.sh"]"#, "tools/g.sh", ""),
        (r#"["sh", "-c", "cat tools/*.sh | sh"]"#, "tools/g.sh", ""),
        (r#"["node", "--require=./tools/h.js"]"#, "tools/h.js", ""),
        (r#"["node", "-r./tools/h.js"]"#, "tools/h.js", ""),
        (r#"["node", "./tools/h"]"#, "tools/h.js", ""),
        (r#"["node"], "environment": {"NODE_PATH": "links:tools"}"#, "tools/h.js", ""),
        (r#"["python3", "-m", "srv"]"#, "srv.py", ""),
        (r#"["python3", "-m", "srv"]"#, "srv/__main__.py", ""),
        (r#"["python3", "-um", "tools.srv"]"#, "tools/srv.py", ""),
        (r#"["node", "."]"#, "index.js", ""),
        (r#"["node", "tools"]"#, "tools/index.js", ""),
        (r#"["make"]"#, "GNUmakefile", ""),
        (r#"["make"]"#, "makefile", ""),
        (r#"["make", "-C", "tools"]"#, "tools/Makefile", ""),
        (r#"["/usr/bin/make"]"#, "Makefile", ""),
        (r#"["sh", "-c", "exec /usr/bin/env npm start"]"#, "package.json", ""),
    ] {
        let mut world = World::with(&server(command)).file("sub/deep/x", "");
        for file in ["guard.py", "tools/g.sh", "tools/b/g.sh", "links/x", "many/g.sh", "srv/x"] {
            world = world.file(file, "1");
        }
        for at in 0..300 {
            world = world.file(&format!("many/z{at:03}.sh"), "1");
        }
        fs::write(world.home().join("out.sh"), "1").unwrap();
        fs::create_dir(world.home().join("far")).unwrap();
        fs::write(world.home().join("far/out.sh"), "1").unwrap();
        symlink("../../far", world.path("links/far")).unwrap();
        symlink("../tools/g.sh", world.path("links/g.sh")).unwrap();
        symlink("../../out.sh", world.path("links/out.sh")).unwrap();
        let is_whole = || review(&world.path(directory), &world.env()).unwrap().is_whole();
        world.trust(directory);
        assert!(is_whole(), "{command}");
        fs::write(world.path("sub/unrelated"), "2").unwrap();
        assert!(is_whole(), "{command}");
        fs::write(world.path(changed), "2").unwrap();
        assert!(!is_whole(), "{command} {changed}");
    }
    let text = r#"{"command": {"c": {"template": "See sub. !`sh ./b.sh`"}}}"#;
    let world = World::with(text).file("b.sh", "1").file("sub/x", "1");
    world.trust("");
    fs::write(world.path("sub/x"), "2").unwrap();
    assert!(untrusted(&world).trust.is_whole());
    fs::write(world.path("b.sh"), "2").unwrap();
    assert!(untrusted(&world).commands.is_empty());
}

#[test]
fn trust_in_one_folder_of_a_project_stays_when_another_is_trusted() {
    let world = World::with(r#"{"mcp": {"s": {"command": ["node", "."]}}}"#)
        .file("index.js", "1")
        .file("sub/index.js", "1");
    let is_whole = |folder| review(&world.path(folder), &world.env()).unwrap().is_whole();
    world.trust("");
    assert!(is_whole("") && !is_whole("sub"));
    world.trust("sub");
    assert!(is_whole("") && is_whole("sub"));
    fs::write(world.path("sub/index.js"), "2").unwrap();
    assert!(is_whole("") && !is_whole("sub"));
}

/// Reading these would take for ever.
#[test]
fn files_without_end_are_not_read() {
    let world = World::with(r#"{"mcp": {"s": {"command": ["sh", "d/g.sh", "/dev/zero"]}}}"#)
        .file("d/g.sh", "1");
    symlink("/proc/self/pagemap", world.path("d/l")).unwrap();
    symlink("/dev/zero", world.path("d/zero")).unwrap();
    let sparse = fs::File::create(world.path("d/sparse")).unwrap();
    sparse.set_len(500 << 30).unwrap();
    world.trust("");
    assert!(untrusted(&world).trust.is_whole());
    sparse.set_len(400 << 30).unwrap();
    assert!(!untrusted(&world).trust.is_whole());
}

#[test]
fn a_setting_with_too_many_files_is_never_trusted() {
    let world = World::with(r#"{"mcp": {"s": {"command": ["sh", "d/g.sh"]}}}"#).file("d/g.sh", "1");
    for at in 0..20_001 {
        fs::hard_link(world.path("d/g.sh"), world.path(&format!("d/{at}"))).unwrap();
    }
    world.trust("");
    let settings = untrusted(&world);
    assert!(!settings.trust.is_whole() && settings.mcp.is_empty());
    assert!(settings.warnings[0].contains("never trusted"), "{:?}", settings.warnings);
}

#[test]
fn the_search_for_agents_ends() {
    let world = World::new().file(".leftfold/agents/a.md", "A.").file("shared/b.md", "B.");
    for at in 0..10 {
        symlink(".", world.path(&format!(".leftfold/agents/{at}"))).unwrap();
    }
    symlink("../../shared", world.path(".leftfold/agents/team")).unwrap();
    symlink("/usr", world.path(".leftfold/agents/usr")).unwrap();
    let settings = untrusted(&world);
    assert_eq!(settings.agents.keys().collect::<Vec<_>>(), ["a", "team/b"]);
    assert_eq!(settings.warnings.len(), 1, "{:?}", settings.warnings);
    assert!(settings.warnings[0].contains("agents/usr: left out"), "{:?}", settings.warnings);
    fs::create_dir(world.path(".leftfold/commands")).unwrap();
    for at in 0..10_001 {
        fs::File::create(world.path(&format!(".leftfold/commands/{at}"))).unwrap();
    }
    let warnings = untrusted(&world).warnings;
    assert!(warnings.iter().any(|w| w.contains("more than 10000")), "{warnings:?}");
}
