//! The sandbox in settings: its forms, its merging, and a project that only makes it stricter.

use leftfold_events::rules::{self, Action};

use super::*;
use crate::{ProgramSandbox, SandboxMode, SandboxSettings};

const USERS: &str = "../.config/leftfold/leftfold.json";

fn sandbox(world: &World) -> SandboxSettings {
    load(&world.path(""), &world.env(), known()).unwrap().sandbox()
}

#[test]
fn it_is_a_mode_or_an_object() {
    use SandboxMode::{External, Off, On};
    let with = |mode| SandboxSettings { mode, ..SandboxSettings::default() };
    for (text, expected) in [
        ("{}", with(None)),
        (r#"{"sandbox": {}}"#, with(None)),
        (r#"{"sandbox": "on"}"#, with(Some(On))),
        (r#"{"sandbox": "off"}"#, with(Some(Off))),
        (r#"{"sandbox": "external"}"#, with(Some(External))),
        (r#"{"sandbox": {"mode": "off"}}"#, with(Some(Off))),
        (
            r#"{"sandbox": {"allow": true, "processes": 9}}"#,
            SandboxSettings { allow: true, processes: Some(9), ..with(None) },
        ),
    ] {
        assert_eq!(sandbox(&World::new().file(USERS, text)), expected, "{text}");
    }
    let world = World::new();
    let text = r#"{"sandbox": {"write": ["~/.m2", "../x", "~/.m2"], "hide": ["/k"], "show": ["~/.npmrc"]}}"#;
    let found = sandbox(&world.file(USERS, text));
    let home = |paths: &[PathBuf]| -> Vec<String> {
        let under =
            |path: &PathBuf| path.to_string_lossy().rsplit_once("/home/").unwrap().1.to_owned();
        paths.iter().map(under).collect()
    };
    assert_eq!(home(&found.write), [".m2", ".config/x"]);
    assert_eq!((found.hide, home(&found.show)), (vec!["/k".into()], vec![".npmrc".to_owned()]));
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        (
            r#"{"sandbox": "of"}"#,
            r#"`sandbox.mode`: expected "on", "off" or "external", found "of""#,
        ),
        (
            r#"{"sandbox": true}"#,
            r#"`sandbox`: expected "on", "off", "external" or an object, found a boolean"#,
        ),
        (r#"{"sandbox": {"hidden": []}}"#, "sandbox.hidden"),
        (r#"{"sandbox": {"hide": ["{env:NOTHING}"]}}"#, "NOTHING"),
        (r#"{"sandbox": {"hide": [" "]}}"#, "`sandbox.hide[0]`: expected a path"),
        (r#"{"sandbox": {"processes": 0}}"#, "a whole number above 0"),
        (r#"{"sandbox": {"network": "yes"}}"#, r#""allow", "ask" or "deny""#),
    ] {
        let world = World::new().file(USERS, text);
        let error = load(&world.path(""), &world.env(), known()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn sources_are_merged_member_by_member_and_every_source_hides() {
    let world = World::new()
        .file(
            USERS,
            r#"{"sandbox": {"mode": "off", "hide": ["/a"], "write": ["/w"], "allow": true}}"#,
        )
        .var("LEFTFOLD_CONFIG_CONTENT", r#"{"sandbox": {"hide": ["/b"], "write": ["/v"]}}"#);
    let found = sandbox(&world);
    assert_eq!((found.mode, found.allow), (Some(SandboxMode::Off), true));
    assert_eq!((found.hide, found.write), (vec!["/a".into(), "/b".into()], vec!["/v".into()]));
    let world = world.var("LEFTFOLD_CONFIG_CONTENT", r#"{"sandbox": "external"}"#);
    let found = sandbox(&world);
    assert_eq!(found.mode, Some(SandboxMode::External));
    assert_eq!((found.hide, found.write), (vec!["/a".into()], vec!["/w".into()]));
}

#[test]
fn the_users_variable_decides_the_mode() {
    let world = World::new()
        .file(USERS, r#"{"sandbox": {"mode": "off", "hide": ["/a"]}}"#)
        .file("leftfold.json", r#"{"sandbox": "on"}"#);
    assert_eq!(sandbox(&world).mode, Some(SandboxMode::On));
    let world = world.var("LEFTFOLD_SANDBOX", "external");
    let found = sandbox(&world);
    assert_eq!((found.mode, found.hide), (Some(SandboxMode::External), vec!["/a".into()]));
    assert_eq!(sandbox(&world.var("LEFTFOLD_SANDBOX", " ")).mode, Some(SandboxMode::On));
    let world = World::new().var("LEFTFOLD_SANDBOX", "no");
    let error = load(&world.path(""), &world.env(), known()).unwrap_err().to_string();
    assert!(error.starts_with("LEFTFOLD_SANDBOX:"), "{error}");
}

#[test]
fn a_project_only_makes_it_stricter() {
    let looser = r#"{"sandbox": {"mode": "off", "allow": true, "write": ["/etc"], "show": ["~/.ssh"],
        "hide": ["keys", "~/work"], "processes": 1, "network": "allow"}}"#;
    let world = World::new()
        .file(USERS, r#"{"sandbox": {"hide": ["/a"], "show": ["/b"]}}"#)
        .file("leftfold.json", looser);
    let found = sandbox(&world);
    let expected = SandboxSettings {
        hide: vec!["/a".into(), world.path("keys"), world.home().join("work")],
        show: vec!["/b".into()],
        ..SandboxSettings::default()
    };
    assert_eq!(found, expected);
    world.trust("");
    let found = sandbox(&world);
    assert_eq!((found.mode, found.allow), (Some(SandboxMode::Off), true));
    assert_eq!(found.write, [PathBuf::from("/etc")]);
    assert_eq!(found.hide, expected.hide);
}

#[test]
fn the_network_is_a_rule_before_the_rules_of_its_source() {
    let verdict = |world: &World, pattern: &str| {
        let settings = load(&world.path(""), &world.env(), known()).unwrap();
        let restrictions = settings.restrictions("build", &|_| Vec::new());
        rules::evaluate_restricted(
            &settings.rules,
            restrictions.iter().map(Vec::as_slice),
            "network",
            pattern,
        )
        .0
    };
    let users = |text: &str| World::new().file(USERS, text);
    let world = users(r#"{"sandbox": {"network": "deny"}}"#);
    assert_eq!(verdict(&world, "npm ci"), Action::Deny);
    let world = users(
        r#"{"permission": {"network": {"npm ci": "allow"}}, "sandbox": {"network": "deny"}}"#,
    );
    assert_eq!(verdict(&world, "npm ci"), Action::Allow);
    assert_eq!(verdict(&world, "npm i"), Action::Deny);
    // of a project it counts with the user's trust, and never lifts a denial
    let world = users("{}").file("leftfold.json", r#"{"sandbox": {"network": "allow"}}"#);
    assert_eq!(verdict(&world, "npm ci"), Action::Ask);
    world.trust("");
    assert_eq!(verdict(&world, "npm ci"), Action::Allow);
    let world = users(r#"{"sandbox": {"network": "deny"}}"#)
        .file("leftfold.json", r#"{"sandbox": {"network": "allow"}}"#);
    world.trust("");
    assert_eq!(verdict(&world, "npm ci"), Action::Deny);
}

#[test]
fn each_server_and_plugin_has_a_sandbox_of_its_own() {
    let off = ProgramSandbox { is_off: true, ..ProgramSandbox::default() };
    for (text, expected) in [
        (r#""on""#, ProgramSandbox::default()),
        (r#""off""#, off.clone()),
        (r#"{"mode": "off"}"#, off.clone()),
        (
            r#"{"show": ["/a"], "write": ["/b/../c"]}"#,
            ProgramSandbox {
                show: vec!["/a".into()],
                write: vec!["/c".into()],
                ..ProgramSandbox::default()
            },
        ),
    ] {
        let text = format!(r#"{{"mcp": {{"m": {{"command": ["x"], "sandbox": {text}}}}}}}"#);
        let world = World::new().file(USERS, &text);
        let settings = load(&world.path(""), &world.env(), known()).unwrap();
        assert_eq!(settings.mcp["m"].sandbox(), expected, "{text}");
        assert!(!settings.mcp["m"].is_of_project());
    }
    let plugins = r#"{"plugin": [["x"], {"command": ["x"], "sandbox": "off"}]}"#;
    let world = World::new().file(USERS, plugins);
    let settings = load(&world.path(""), &world.env(), known()).unwrap();
    let sandboxes =
        settings.plugins.iter().map(|plugin| plugin.program().unwrap().unwrap().sandbox);
    assert_eq!(sandboxes.collect::<Vec<_>>(), [ProgramSandbox::default(), off]);
    for (text, expected) in [
        (
            r#"{"mcp": {"m": {"sandbox": "external"}}}"#,
            r#"`mcp.m.sandbox`: expected "on" or "off""#,
        ),
        (r#"{"mcp": {"m": {"sandbox": {"hide": []}}}}"#, "mcp.m.sandbox.hide"),
        (
            r#"{"mcp": {"m": {"sandbox": {"show": [""]}}}}"#,
            "`mcp.m.sandbox.show[0]`: expected a path",
        ),
        (r#"{"plugin": [{"command": ["x"], "sandbox": "of"}]}"#, r#""on" or "off""#),
    ] {
        let world = World::new().file(USERS, text);
        let error = load(&world.path(""), &world.env(), known()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_project_takes_a_server_out_of_the_sandbox_only_with_trust() {
    let theirs = r#"{"mcp": {"own": {"sandbox": "off"}, "x": {"command": ["x"], "sandbox": {"show": ["~/.ssh"]}}},
        "plugin": [{"command": ["p"], "sandbox": "off"}]}"#;
    let world = World::new()
        .file(USERS, r#"{"mcp": {"own": {"command": ["own"]}}}"#)
        .file("leftfold.json", theirs);
    let settings = load(&world.path(""), &world.env(), known()).unwrap();
    assert!(!settings.mcp["own"].sandbox().is_off);
    assert_eq!((settings.mcp.len(), settings.plugins.len()), (1, 0));
    let told = settings.trust.warnings().join("\n");
    for effect in [
        "changes an MCP server, outside the sandbox",
        "starts `x` as an MCP server, with more paths than the sandbox opens",
        "starts `p` as a plugin, outside the sandbox, which takes part in every decision",
    ] {
        assert!(told.contains(effect), "{effect}\n{told}");
    }
    world.trust("");
    let settings = load(&world.path(""), &world.env(), known()).unwrap();
    assert!(settings.mcp["own"].sandbox().is_off && !settings.mcp["own"].is_of_project());
    assert!(settings.mcp["x"].is_of_project());
}
