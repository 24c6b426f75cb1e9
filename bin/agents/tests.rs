use leftfold_actors::equip::agent::Mode;

use super::*;

/// What one settings text makes of the agents.
fn read(text: &str) -> (Settings, Agents) {
    let folder = tempfile::tempdir().unwrap();
    let text = text.to_owned();
    let env = |name: &str| (name == "LEFTFOLD_CONFIG_CONTENT").then(|| text.clone());
    let settings = settings::load(folder.path(), &env).unwrap();
    let agents = Agents::of(&settings);
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
    assert!(agents.to_prompt("sub").unwrap_err().0.contains("take one of `build`, `mine`"));
}

#[test]
fn the_default_agent_has_to_be_one_that_people_can_prompt() {
    for (text, expected) in [
        ("{}", Ok("build")),
        (r#"{"default_agent": "plan"}"#, Ok("plan")),
        (r#"{"agent": {"build": {"disable": true}}}"#, Ok("plan")),
        (r#"{"agent": {"build": {"mode": "subagent"}}}"#, Ok("plan")),
        (r#"{"default_agent": "m", "agent": {"m": {}}}"#, Ok("m")),
        (r#"{"default_agent": "none"}"#, Err("does not exist: take one of `build`, `plan`")),
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
