use leftfold_config::Mode;

use super::*;

/// Reads the agents from one settings text.
fn read(text: &str) -> (Settings, Agents) {
    let folder = tempfile::tempdir().unwrap();
    let text = text.to_owned();
    let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| text.clone());
    let settings = settings::load(folder.path(), &env, leftfold_providers::known()).unwrap();
    let agents = Agents::from_settings(&settings);
    (settings, agents)
}

#[test]
fn settings_change_add_and_remove() {
    let (_, agents) = read(
        r#"{ "agent": {
            "build": { "model": "a/b", "steps": 3, "reasoningEffort": "high" },
            "plan": { "disable": true },
            "mine": { "description": "About", "prompt": "P", "options": { "x": 1 }, "y": [2],
                      "temperature": 0.5, "topP": 0.1, "color": "red", "variant": "v" },
            "sub": { "mode": "subagent", "maxSteps": 7, "hidden": true }
        } }"#,
    );
    let names: Vec<&str> = agents.iter().map(|known| known.agent.name.as_str()).collect();
    let rest = ["general", "explore", "compaction", "title", "summary", "mine", "sub"];
    assert_eq!(names, [&["build"][..], &rest].concat());
    let build = agents.find("build").unwrap();
    assert_eq!((build.model.as_deref(), build.steps), (Some("a/b"), Some(3)));
    assert_eq!((build.native, &build.rules), (true, &Agent::build().rules));
    assert_eq!(build.options.as_str(), r#"{"reasoningEffort":"high"}"#);
    let mine = agents.find("mine").unwrap();
    assert_eq!((mine.mode, mine.native, mine.temperature), (Mode::All, false, Some(0.5)));
    assert_eq!((mine.top_p, mine.color.as_deref()), (Some(0.1), Some("red")));
    assert_eq!(mine.options.as_str(), r#"{"x":1,"y":[2]}"#);
    let sub = agents.find("sub").unwrap();
    assert_eq!((sub.mode, sub.steps, sub.hidden), (Mode::Subagent, Some(7), true));
    assert!(agents.find("mien").unwrap_err().0.contains("did you mean `mine`"));
    assert!(agents.to_prompt("sub").unwrap_err().0.contains("choose one of `build`, `mine`"));
}

#[test]
fn who_is_built_to_read_edits_only_if_rules_of_its_own_let_it() {
    use Action::{Allow, Ask, Deny};
    let plan = ".leftfold/plans/a.md";
    for (text, agent, pattern, action) in [
        ("{}", "plan", "a", Deny),
        ("{}", "plan", plan, Allow),
        (r#"{"permission": {"edit": "allow"}}"#, "plan", "a", Deny),
        (r#"{"permission": {"edit": "allow"}}"#, "plan", plan, Allow),
        (r#"{"permission": {"edit": "allow"}}"#, "explore", "a", Deny),
        (r#"{"permission": {"edit": "allow"}}"#, "build", "a", Allow),
        (r#"{"permission": {"edit": "allow"}}"#, "general", "a", Allow),
        (r#"{"permission": {"edit": "ask"}}"#, "plan", "a", Deny),
        (r#"{"permission": {"edit": "ask"}}"#, "plan", plan, Ask),
        (r#"{"permission": {"edit": "deny"}}"#, "plan", plan, Deny),
        (r#"{"permission": "allow"}"#, "plan", "a", Deny),
        (r#"{"permission": "allow"}"#, "title", "a", Deny),
        (r#"{"permission": {"edit": {"*": "deny", "docs/*": "allow"}}}"#, "plan", "docs/a", Deny),
        (r#"{"permission": {"edit": {"*": "deny", "docs/*": "allow"}}}"#, "plan", plan, Deny),
        (r#"{"tools": {"write": true}}"#, "plan", "a", Deny),
        (r#"{"agent": {"plan": {"permission": {"edit": "allow"}}}}"#, "plan", "a", Allow),
        (
            r#"{"permission": {"edit": "deny"}, "agent": {"plan": {"permission": {"edit": {"docs/*": "ask"}}}}}"#,
            "plan",
            "docs/a",
            Ask,
        ),
        (
            r#"{"permission": {"edit": "allow"}, "agent": {"m": {"permission": {"edit": "deny"}}}}"#,
            "m",
            "a",
            Deny,
        ),
        (r#"{"permission": {"edit": "allow"}, "agent": {"m": {}}}"#, "m", "a", Allow),
    ] {
        let (settings, agents) = read(text);
        let agent = agents.find(agent).unwrap();
        let all = [rules::defaults(), agent.rules.clone(), super::rules(&settings, agent, &[])];
        let all = all.concat();
        let rule = rules::evaluate(&all, "edit", pattern).unwrap();
        assert_eq!(rule.action, action, "{text} {} {pattern}", agent.name);
    }
    // A plan that lies outside the project works too.
    let (settings, agents) = read(r#"{"permission": {"edit": "allow"}}"#);
    let outside = [Rule::new("edit", "/data/plans/a.md", Allow)];
    let agent = agents.find("plan").unwrap();
    let all = [agent.rules.clone(), outside.to_vec(), super::rules(&settings, agent, &outside)];
    let rule = |pattern: &str| rules::evaluate(&all.concat(), "edit", pattern).unwrap().action;
    assert_eq!((rule("/data/plans/a.md"), rule("/data/plans/b.md")), (Allow, Deny));
}

#[test]
fn the_default_agent_has_to_be_one_that_people_can_prompt() {
    for (text, expected) in [
        ("{}", Ok("build")),
        (r#"{"default_agent": "plan"}"#, Ok("plan")),
        (r#"{"agent": {"build": {"disable": true}}}"#, Ok("plan")),
        (r#"{"agent": {"build": {"mode": "subagent"}}}"#, Ok("plan")),
        (r#"{"default_agent": "m", "agent": {"m": {}}}"#, Ok("m")),
        (r#"{"default_agent": "none"}"#, Err("does not exist: choose one of `build`, `plan`")),
        (r#"{"default_agent": "explore"}"#, Err("is a subagent")),
        (
            r#"{"default_agent": "title"}"#,
            Err("CONTENT:1:19: `default_agent`: the agent `title` is hidden"),
        ),
        (r#"{"agent": {"build": {"disable": true}, "plan": {"hidden": true}}}"#, Err("turned off")),
    ] {
        let (settings, agents) = read(text);
        let found = agents.default(&settings).map(|agent| agent.name.clone());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(error), Err(expected)) => assert!(error.0.contains(expected), "{error}"),
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn the_settings_know_the_names_of_the_built_in_agents() {
    let names: Vec<String> = agent::builtins().into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, settings::BUILT_IN_AGENTS);
}

#[test]
fn an_agent_of_an_untrusted_project_is_not_the_default() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("leftfold.json"),
        r#"{"agent": {"aaa": {"mode": "primary"}}}"#,
    )
    .unwrap();
    for (user, expected) in [
        (r#"{"agent": {"build": {"disable": true}}}"#, Some("plan")),
        (
            r#"{"agent": {"build": {"disable": true}, "plan": {"disable": true}, "z": {}}}"#,
            Some("z"),
        ),
        (r#"{"agent": {"build": {"disable": true}, "plan": {"disable": true}}}"#, None),
    ] {
        let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| user.to_owned());
        let settings = settings::load(folder.path(), &env, leftfold_providers::known()).unwrap();
        let agents = Agents::from_settings(&settings);
        let name = agents.default(&settings).ok().map(|agent| agent.name.as_str());
        assert_eq!(name, expected, "{user}");
    }
}

#[test]
fn an_agent_of_a_project_edits_nothing_if_the_users_default_agent_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let project = r#"{"agent": {"aaa": {"prompt": "p"}}}"#;
    std::fs::write(folder.path().join("leftfold.json"), project).unwrap();
    let own = r#"{"default_agent": "plan", "agent": {"plan": {"permission": {"edit": "allow"}}}}"#;
    for (user, edits) in [
        (r#"{"default_agent": "plan"}"#, false),
        (r#"{"agent": {"build": {"disable": true}}}"#, false),
        (own, true),
        (r#"{"default_agent": "plan", "agent": {"aaa": {"color": "red"}}}"#, true),
        ("{}", true),
    ] {
        let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| user.to_owned());
        let settings = settings::load(folder.path(), &env, leftfold_providers::known()).unwrap();
        let agents = Agents::from_settings(&settings);
        let agent = agents.find("aaa").unwrap();
        let all = [rules::defaults(), super::rules(&settings, agent, &[])].concat();
        let lists = agents.restrictions(&settings, agent);
        for (pattern, expected) in [("a", edits), (".leftfold/plans/a.md", true)] {
            let action =
                rules::evaluate_restricted(&all, lists.iter().map(Vec::as_slice), "edit", pattern)
                    .0;
            assert_eq!(action != Action::Deny, expected, "{user} {pattern}");
        }
    }
}
